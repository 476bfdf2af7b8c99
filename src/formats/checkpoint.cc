#include "formats/checkpoint.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <numeric>
#include <utility>

#include <fmt/ranges.h>

#include "core/error.h"
#include "core/json.h"
#include "core/printable.h"
#include "formats/compressed_tensors.h"
#include "formats/gguf_blocks.h"
#include "formats/gguf_model.h"
#include "formats/mlx_quantization.h"
#include "formats/safetensors.h"

namespace sparkx {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMaxConfigBytes = std::uint64_t{16} << 20;
constexpr std::uint64_t kMaxTextBytes = std::uint64_t{256} << 20;
constexpr const char* kConfigFile = "config.json";
constexpr std::size_t kShownKeys = 16;  // of those that the config should not have; each is shortened, too
constexpr const char* kSingleFile = "model.safetensors";
constexpr const char* kIndexFile = "model.safetensors.index.json";
constexpr const char* kEmbedding = "model.embedding.weight";
constexpr const char* kHead = "lm_head.weight";
constexpr std::string_view kWeightSuffix = ".weight";

// A tensor that the model has, with the meaning of its shape for messages.
struct Expected {
  std::string name;
  std::vector<std::int64_t> shape;
  const char* meaning;
  const char* reason = "";  // why it must be there, when not every model has it
};

// docs/model.md, Checkpoint tensors, in that order.
std::vector<Expected> expected_tensors(const ModelConfig& c) {
  std::vector<Expected> all;
  all.push_back({kEmbedding, {c.vocab_size, c.hidden_size}, "vocab_size, hidden_size"});
  for (std::int64_t layer = 0; layer < c.num_hidden_layers; ++layer) {
    const std::string prefix = fmt::format("model.layers.{}.", layer);
    const auto norm = [&](const char* name) {
      all.push_back({prefix + name + ".weight", {c.hidden_size}, "hidden_size"});
    };
    const auto linear = [&](const char* name, std::int64_t rows, std::int64_t columns, const char* meaning,
                            const char* bias_meaning, const char* bias_reason) {
      all.push_back({prefix + name + ".weight", {rows, columns}, meaning});
      if (*bias_reason != '\0') all.push_back({prefix + name + ".bias", {rows}, bias_meaning, bias_reason});
    };
    const char* attention_bias = c.attention_bias ? "attention_bias is true" : "";
    const char* mlp_bias = c.mlp_bias ? "mlp_bias is true" : "";
    norm("input_layernorm");
    linear("self_attn.q_k_v_proj", c.q_k_v_rows(), c.hidden_size,
           "(num_attention_heads + 2 * num_key_value_heads) * head_dim, hidden_size",
           "(num_attention_heads + 2 * num_key_value_heads) * head_dim", attention_bias);
    linear("self_attn.g_proj", c.num_attention_heads, c.hidden_size, "num_attention_heads, hidden_size",
           "num_attention_heads", attention_bias);
    linear("self_attn.out_proj", c.hidden_size, c.attention_width(), "hidden_size, num_attention_heads * head_dim",
           "hidden_size", attention_bias);
    norm("post_attention_layernorm");
    linear("mlp.gate_proj", c.intermediate_size, c.hidden_size, "intermediate_size, hidden_size", "intermediate_size",
           mlp_bias);
    linear("mlp.up_proj", c.intermediate_size, c.hidden_size, "intermediate_size, hidden_size", "intermediate_size",
           mlp_bias);
    linear("mlp.down_proj", c.hidden_size, c.intermediate_size, "hidden_size, intermediate_size", "hidden_size",
           mlp_bias);
  }
  all.push_back({"model.norm.weight", {c.hidden_size}, "hidden_size"});
  if (!c.tie_word_embeddings) {
    all.push_back({kHead, {c.vocab_size, c.hidden_size}, "vocab_size, hidden_size", "tie_word_embeddings is false"});
  }
  return all;
}

// The shards of an index in the order of their names, each with the tensors that it should have, ordered too.
std::vector<std::pair<std::string, std::vector<std::string>>> parse_index(std::string_view text,
                                                                          const std::string& file) {
  const json::Value root = json::parse(text, file, {.max_depth = 16, .max_bytes = kMaxTextBytes});
  const json::Value* weight_map = root.find("weight_map");
  if (weight_map == nullptr || !weight_map->is_object()) {
    throw_error(ErrorCode::corrupt, "{}: has no weight_map from tensor names to files", file);
  }
  std::vector<std::pair<std::string, std::string>> placed;  // file, tensor
  for (const auto& [tensor, value] : weight_map->as_object()) {
    if (!value.is_string()) {
      throw_error(ErrorCode::corrupt, "{}: tensor {} is placed in a JSON {}, not in a file name", file,
                  printable(tensor), value.type_name());
    }
    const std::string& shard = value.as_string();
    const bool control = std::any_of(shard.begin(), shard.end(), [](unsigned char c) { return c < ' '; });
    if (control || shard.find_first_of("/\\") != shard.npos || shard.starts_with('.')) {
      throw_error(ErrorCode::corrupt, "{}: tensor {} is placed in {}; expected a file in the same folder", file,
                  printable(tensor), printable(shard));
    }
    if (!shard.ends_with(".safetensors")) {
      throw_error(ErrorCode::unsupported, "{}: tensor {} is placed in {}; sparkx reads .safetensors files only", file,
                  printable(tensor), printable(shard));
    }
    placed.emplace_back(shard, tensor);
  }
  std::sort(placed.begin(), placed.end());
  std::vector<std::pair<std::string, std::vector<std::string>>> shards;
  for (auto& [shard, tensor] : placed) {
    if (shards.empty() || shards.back().first != shard) shards.push_back({shard, {}});
    shards.back().second.push_back(std::move(tensor));
  }
  return shards;
}

// Whether an index places all tensors in this one file.
bool is_index_of(const ByteSource& index, std::string_view file) {
  try {
    const auto shards = parse_index(index.read_all(kMaxTextBytes), index.name());
    return shards.size() == 1 && shards[0].first == file;
  } catch (const Error&) {
    return false;
  }
}

// A shard has exactly the tensors that the index places in it.
void check_against_index(const std::string& shard, const std::string& index, const SafetensorsHeader& header,
                         const std::vector<std::string>& indexed) {
  std::vector<std::string> found;
  for (const SafetensorsTensor& tensor : header.tensors) found.push_back(tensor.name);
  std::sort(found.begin(), found.end());
  std::vector<std::string> difference;
  std::set_difference(indexed.begin(), indexed.end(), found.begin(), found.end(), std::back_inserter(difference));
  if (!difference.empty()) {
    throw_error(ErrorCode::corrupt, "{}: tensor {} is missing; {} places it in this file", shard,
                printable(difference[0]), index);
  }
  std::set_difference(found.begin(), found.end(), indexed.begin(), indexed.end(), std::back_inserter(difference));
  if (!difference.empty()) {
    throw_error(ErrorCode::corrupt, "{}: tensor {} is in this file, but {} does not place it here", shard,
                printable(difference[0]), index);
  }
}

// MLX calls the embedding otherwise.
std::string checkpoint_name(const std::string& file_name) {
  constexpr std::string_view kAlias = "model.embed_tokens.", kName = "model.embedding.";
  return file_name.starts_with(kAlias) ? std::string(kName) + file_name.substr(kAlias.size()) : file_name;
}

// There may be tensors that say nothing new: buffers of the rotary embedding, and the head of a tied checkpoint.
bool is_ignored(const std::string& name, const ModelConfig& config) {
  return name.ends_with("rotary_emb.inv_freq") || (config.tie_word_embeddings && name == kHead);
}

// What weights made of codes are called: by their scales, or with those of 8 bits as MLX decodes them.
Dtype decoded_dtype(const QuantizationSpec& spec) {
  return dtype_size(spec.scale_dtype) == 1 ? Dtype::bfloat16 : spec.scale_dtype;
}

// Elements of a synthetic tensor from byte `offset` of the checkpoint on. Norms, the tensors of one dimension, are 1.
// Matrices have values of magnitude 1/64 to 1/32 and either sign, four from one word of splitmix64 (Steele, Lea, Flood:
// "Fast splittable pseudorandom number generators", 2014): with thousands of columns an output is about as large as its
// input.
std::uint64_t make_word(bool matrix, std::uint64_t index) {
  constexpr std::uint64_t kOnes = 0x3f803f803f803f80;
  constexpr std::uint64_t kMagnitude = 0x3c803c803c803c80;   // 1/64
  constexpr std::uint64_t kRandomBits = 0x807f807f807f807f;  // sign and fraction
  if (!matrix) return kOnes;
  std::uint64_t word = index * 0x9e3779b97f4a7c15;
  word = (word ^ word >> 30) * 0xbf58476d1ce4e5b9;
  word = (word ^ word >> 27) * 0x94d049bb133111eb;
  return ((word ^ word >> 31) & kRandomBits) | kMagnitude;
}

void make_elements(bool matrix, std::uint64_t offset, std::span<std::byte> out) {
  constexpr std::size_t kWord = sizeof(std::uint64_t);
  for (std::size_t done = 0; done < out.size();) {
    const std::uint64_t word = make_word(matrix, (offset + done) / kWord);
    const std::size_t skip = (offset + done) % kWord;
    if (skip == 0 && out.size() - done >= kWord) {  // by far most of them
      std::memcpy(out.data() + done, &word, kWord);
      done += kWord;
    } else {
      const std::size_t count = std::min(kWord - skip, out.size() - done);
      std::memcpy(out.data() + done, reinterpret_cast<const std::byte*>(&word) + skip, count);
      done += count;
    }
  }
}

}  // namespace

Checkpoint Checkpoint::open(const fs::path& path, CheckpointFacts* facts) {
  CheckpointFacts unwanted;
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (status.type() == fs::file_type::not_found) {
    throw_error(ErrorCode::not_found, "{}: no such file or folder", path.string());
  }
  Checkpoint checkpoint;
  if (status.type() == fs::file_type::directory) {
    checkpoint.name_ = path.string();
    checkpoint.folder_ = path;
    checkpoint.load_folder(facts != nullptr ? *facts : unwanted);
  } else {
    checkpoint.name_ = path.parent_path().string();
    checkpoint.folder_ = path.parent_path();
    checkpoint.load_gguf(path.filename().string(), facts != nullptr ? *facts : unwanted);
  }
  return checkpoint;
}

Checkpoint Checkpoint::open(std::string_view name, std::span<const MemoryFile> files, CheckpointFacts* facts) {
  CheckpointFacts unwanted;
  Checkpoint checkpoint;
  checkpoint.name_ = name;
  checkpoint.memory_files_.assign(files.begin(), files.end());
  const auto has_name = [](const auto& predicate) {
    return [predicate](const MemoryFile& f) { return predicate(f.name); };
  };
  const bool folder = std::any_of(files.begin(), files.end(), has_name([](auto n) { return n == kConfigFile; }));
  const auto gguf = std::find_if(files.begin(), files.end(), has_name([](auto n) { return n.ends_with(".gguf"); }));
  if (folder || gguf == files.end()) {
    checkpoint.load_folder(facts != nullptr ? *facts : unwanted);
  } else {
    checkpoint.load_gguf(std::string(gguf->name), facts != nullptr ? *facts : unwanted);
  }
  return checkpoint;
}

Checkpoint Checkpoint::synthetic(std::string_view name, std::string_view config) {
  Checkpoint checkpoint;
  checkpoint.name_ = name;
  const std::string file = checkpoint.display_name(kConfigFile);
  checkpoint.config_ = read_model_config(parse_config(config, file), file);
  std::vector<TensorInfo> tensors;
  std::uint64_t offset = 0;
  for (Expected& expected : expected_tensors(checkpoint.config_)) {
    TensorInfo tensor{std::move(expected.name), Dtype::bfloat16, std::move(expected.shape), nullptr, offset};
    offset += tensor.bytes();
    tensors.push_back(std::move(tensor));
  }
  checkpoint.set_tensors(std::move(tensors));
  return checkpoint;
}

std::string Checkpoint::display_name(std::string_view name) const {
  return (fs::path(name_) / name).string();
}

std::optional<ByteSource> Checkpoint::find_file(std::string_view name) const {
  if (!folder_) {
    for (const MemoryFile& file : memory_files_) {
      if (file.name == name) return ByteSource::memory(display_name(name), file.bytes);
    }
    return std::nullopt;
  }
  try {
    return ByteSource::open(*folder_ / name);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::not_found) return std::nullopt;
    throw;
  }
}

std::optional<std::string> Checkpoint::text_file(std::string_view name) const {
  if (gguf_metadata_) return std::nullopt;
  const std::optional<ByteSource> file = find_file(name);
  return file ? std::optional(file->read_all(kMaxTextBytes)) : std::nullopt;
}

Checkpoint::QuantizedReader Checkpoint::quantization_of(const json::Value& config, const std::string& file,
                                                        std::string& format) {
  const auto given = [&config](const char* key) {
    const json::Value* value = config.find(key);
    return value != nullptr && !value->is_null() ? value : nullptr;
  };
  const json::Value* other = given("quantization_config");
  const json::Value* method = other == nullptr ? nullptr : other->find("quant_method");
  if (given("quantization") != nullptr || (other != nullptr && method == nullptr)) {
    format = "MLX";
    const auto mlx = std::make_shared<const MlxQuantization>(config, file);
    return [mlx](const std::string& path, std::string_view, std::int64_t rows, std::int64_t columns,
                 StoredTensors& tensors) { return mlx->matrix(path, rows, columns, tensors); };
  }
  if (other == nullptr) return {};
  if (!(*method == json::Value("compressed-tensors"))) {
    throw_error(ErrorCode::unsupported,
                "{}: quantization_config.quant_method is {}; sparkx supports \"compressed-tensors\" and MLX's format",
                file, printable(json::print(*method)));
  }
  format = "compressed-tensors";
  const auto compressed = std::make_shared<const CompressedTensors>(*other, file);
  return [compressed](const std::string& path, std::string_view class_name, std::int64_t rows, std::int64_t columns,
                      StoredTensors& tensors) { return compressed->matrix(path, class_name, rows, columns, tensors); };
}

void Checkpoint::load_folder(CheckpointFacts& facts) {
  facts.format = "safetensors";
  const std::optional<ByteSource> config = find_file(kConfigFile);
  if (!config) throw_error(ErrorCode::not_found, "{}: there is no such file", display_name(kConfigFile));
  const json::Value root = parse_config(config->read_all(kMaxConfigBytes), config->name());
  config_ = read_model_config(root, config->name());
  const QuantizedReader quantized = quantization_of(root, config->name(), facts.format);
  warn_of_unknown_keys(config->name());
  if (const std::optional<ByteSource> file = find_file("generation_config.json")) {
    generation_config_ = parse_generation_config(file->read_all(kMaxConfigBytes), file->name());
  }

  std::vector<StoredTensor> stored;
  const auto add_file = [&](ByteSource source, const SafetensorsHeader& header) {
    const auto file = std::make_shared<const ByteSource>(std::move(source));
    facts.files.push_back({file->name(), file->size()});
    const bool mlx = std::find(header.metadata.begin(), header.metadata.end(),
                               std::pair<std::string, std::string>("format", "mlx")) != header.metadata.end();
    if (mlx && !quantized) facts.format = "MLX";
    for (const SafetensorsTensor& tensor : header.tensors) {
      stored.push_back({checkpoint_name(tensor.name), tensor.name, tensor.dtype, dtype_name(tensor.dtype), tensor.shape,
                        file, tensor.offset, tensor.bytes});
    }
  };
  // As the reference's loader does it, a single file wins over an index beside it.
  if (std::optional<ByteSource> single = find_file(kSingleFile)) {
    const SafetensorsHeader header = read_safetensors_header(*single);
    add_file(*std::move(single), header);
    // MLX writes an index for a single file, too.
    if (const std::optional<ByteSource> index = find_file(kIndexFile); index && !is_index_of(*index, kSingleFile)) {
      warnings_.push_back(fmt::format("{}: ignored, because there is {} too", display_name(kIndexFile), kSingleFile));
    }
  } else if (const std::optional<ByteSource> index = find_file(kIndexFile)) {
    for (const auto& [shard, tensors] : parse_index(index->read_all(kMaxTextBytes), index->name())) {
      std::optional<ByteSource> file = find_file(shard);
      if (!file) {
        throw_error(ErrorCode::not_found, "{}: there is no such file, but {} places tensor {} in it",
                    display_name(printable(shard)), kIndexFile, printable(tensors[0]));
      }
      const SafetensorsHeader header = read_safetensors_header(*file);
      check_against_index(file->name(), kIndexFile, header, tensors);
      add_file(*std::move(file), header);
    }
  } else {
    throw_error(ErrorCode::not_found, "{}: there is neither {} nor {}", name_, kSingleFile, kIndexFile);
  }
  facts.tensors = stored;
  resolve(StoredTensors(std::move(stored), name_), quantized, kConfigFile);
}

void Checkpoint::load_gguf(const std::string& first_file, CheckpointFacts& facts) {
  std::vector<StoredTensor> stored;
  std::vector<std::string> names{first_file};
  for (std::size_t i = 0; i < names.size(); ++i) {
    std::optional<ByteSource> file = find_file(names[i]);
    if (!file) throw_error(ErrorCode::not_found, "{}: there is no such file", display_name(names[i]));
    if (!is_gguf(*file)) {
      throw_error(ErrorCode::invalid_argument,
                  "{}: is neither a folder with config.json and safetensors nor a GGUF file", file->name());
    }
    facts.format = "GGUF";
    facts.files.push_back({file->name(), file->size()});
    GgufHeader header = read_gguf(*file);
    if (i == 0) {
      names = gguf_split_names(header.metadata, first_file);
      if (names[0] != first_file) {
        throw_error(ErrorCode::invalid_argument, "{}: is a later part of a split file; give the first one, {}",
                    file->name(), display_name(names[0]));
      }
    } else {
      check_gguf_part(header.metadata, i, names.size());
    }
    const auto source = std::make_shared<const ByteSource>(*std::move(file));
    for (const GgufTensor& tensor : header.tensors) {
      const std::optional<Dtype> dtype = gguf_dtype(*tensor.type);
      stored.push_back({gguf_tensor_name(tensor.name).value_or(tensor.name), tensor.name, dtype,
                        dtype ? dtype_name(*dtype) : tensor.type->name, tensor.shape, source, tensor.offset,
                        tensor.bytes});
    }
    if (i == 0) gguf_metadata_ = std::move(header.metadata);
  }

  facts.tensors = stored;
  const auto find = [&stored](std::string_view name) {
    return std::find_if(stored.begin(), stored.end(), [name](const StoredTensor& s) { return s.name == name; });
  };
  const auto embedding = find(kEmbedding);
  config_ = gguf_model_config(*gguf_metadata_, find(kHead) == stored.end(),
                              embedding == stored.end() ? 0 : embedding->shape.front());
  generation_config_ = gguf_generation_config(*gguf_metadata_);
  warn_of_unknown_keys(gguf_metadata_->file());
  // A matrix of one row is a vector to this format.
  for (StoredTensor& tensor : stored) {
    if (tensor.shape.size() == 1 && config_.num_attention_heads == 1 && tensor.name.ends_with("g_proj.weight")) {
      tensor.shape.insert(tensor.shape.begin(), 1);
    }
  }
  const auto quantized = [](const std::string& path, std::string_view, std::int64_t rows, std::int64_t columns,
                            StoredTensors& tensors) { return gguf_matrix(path, rows, columns, tensors); };
  resolve(StoredTensors(std::move(stored), gguf_metadata_->file()), quantized, "the metadata");
}

void Checkpoint::warn_of_unknown_keys(const std::string& file) {
  if (config_.unknown_keys.empty()) return;
  std::vector<std::string> keys;
  const std::size_t shown = std::min(config_.unknown_keys.size(), kShownKeys);
  for (std::size_t i = 0; i < shown; ++i) keys.push_back(printable(config_.unknown_keys[i]));
  const std::size_t more = config_.unknown_keys.size() - shown;
  warnings_.push_back(fmt::format("{}: keys that sparkx does not know, and ignores: {}{}", file, fmt::join(keys, ", "),
                                  more == 0 ? "" : fmt::format(" and {} more", more)));
}

void Checkpoint::resolve(StoredTensors stored, const QuantizedReader& quantized, std::string_view described_by) {
  // A dense head says nothing new in a tied model; a quantized one is its own.
  for (const char* part : {"lm_head.scales", "lm_head.weight_scale"}) {
    if (stored.find(part) != nullptr) config_.tie_word_embeddings = false;
  }
  std::vector<TensorInfo> tensors;
  std::vector<std::pair<std::string, QuantizedMatrix>> matrices;
  for (Expected& expected : expected_tensors(config_)) {
    const std::uint64_t taken = stored.taken_bytes();
    const StoredTensor* of_this_name = stored.find(expected.name);
    const std::string stored_type = of_this_name == nullptr ? "" : of_this_name->type_name;
    if (quantized && expected.shape.size() == 2) {
      const std::string path = expected.name.substr(0, expected.name.size() - kWeightSuffix.size());
      const char* class_name = expected.name == kEmbedding ? "Embedding" : "Linear";
      if (auto matrix = quantized(path, class_name, expected.shape[0], expected.shape[1], stored)) {
        tensors.push_back({expected.name, decoded_dtype(matrix->spec), expected.shape, nullptr, 0, stored_type,
                           stored.taken_bytes() - taken});
        matrices.emplace_back(std::move(expected.name), *std::move(matrix));
        continue;
      }
    }
    const StoredTensor* found = stored.take(expected.name);
    if (found == nullptr) {
      const std::string reason = *expected.reason == '\0' ? "" : fmt::format("; {}", expected.reason);
      throw_error(ErrorCode::not_found, "{}: tensor {} is missing{}", gguf_metadata_ ? gguf_metadata_->file() : name_,
                  expected.name, reason);
    }
    expect_shape(*found, expected.shape, expected.meaning);
    const std::optional<Dtype> dtype = found->dtype;
    if (dtype != Dtype::float32 && dtype != Dtype::float16 && dtype != Dtype::bfloat16) {
      throw_error(ErrorCode::unsupported,
                  "{}: tensor {} is {}; sparkx supports float32, bfloat16 and float16 weights only",
                  found->file->name(), printable(found->file_name), found->type_name);
    }
    tensors.push_back({std::move(expected.name), *dtype, std::move(expected.shape), found->file, found->offset,
                       stored_type, found->bytes});
  }
  const auto ignored = [this](const std::string& name) { return is_ignored(name, config_); };
  if (const StoredTensor* unused = stored.find_unused(ignored)) {
    throw_error(ErrorCode::corrupt, "{}: tensor {} is no part of the model that {} describes", unused->file->name(),
                printable(unused->file_name), described_by);
  }
  set_tensors(std::move(tensors));
  for (auto& [name, matrix] : matrices) set_quantized(name, std::move(matrix));
}

void Checkpoint::set_tensors(std::vector<TensorInfo> tensors) {
  tensors_ = std::move(tensors);
  by_name_.resize(tensors_.size());
  std::iota(by_name_.begin(), by_name_.end(), 0u);
  std::sort(by_name_.begin(), by_name_.end(),
            [&](std::uint32_t a, std::uint32_t b) { return tensors_[a].name < tensors_[b].name; });
}

const TensorInfo* Checkpoint::find_tensor(std::string_view name) const {
  const auto found =
      std::lower_bound(by_name_.begin(), by_name_.end(), name,
                       [&](std::uint32_t i, std::string_view wanted) { return tensors_[i].name < wanted; });
  return found != by_name_.end() && tensors_[*found].name == name ? &tensors_[*found] : nullptr;
}

const TensorInfo& Checkpoint::tensor(std::string_view name) const {
  const TensorInfo* found = find_tensor(name);
  if (found == nullptr) throw_error(ErrorCode::not_found, "{}: the model has no tensor {}", name_, printable(name));
  return *found;
}

void Checkpoint::set_quantized(std::string_view name, QuantizedMatrix matrix) {
  const TensorInfo& info = tensor(name);
  if (info.shape.size() != 2) throw_error(ErrorCode::unsupported, "{}: only a matrix can be quantized", info.name);
  check_quantization(matrix.spec, info.columns(), info.name);
  quantized_.insert_or_assign(info.name, std::move(matrix));
}

const QuantizedMatrix* Checkpoint::find_quantized(std::string_view name) const {
  const auto found = quantized_.find(name);
  return found == quantized_.end() ? nullptr : &found->second;
}

void Checkpoint::read(const TensorInfo& tensor, std::int64_t row_begin, std::int64_t row_end,
                      std::span<std::byte> out) const {
  if (row_begin < 0 || row_begin > row_end || row_end > tensor.rows() ||
      out.size() != static_cast<std::uint64_t>(row_end - row_begin) * tensor.row_bytes()) {
    throw_error(ErrorCode::invalid_argument, "{}: rows {} to {} do not fit the tensor of {} rows or the {} bytes given",
                tensor.name, row_begin, row_end, tensor.rows(), out.size());
  }
  const std::uint64_t offset = tensor.offset + static_cast<std::uint64_t>(row_begin) * tensor.row_bytes();
  if (tensor.file != nullptr) {
    tensor.file->read(offset, out);
  } else if (find_quantized(tensor.name) != nullptr) {
    throw_error(ErrorCode::invalid_argument, "{}: is stored as codes", tensor.name);
  } else {
    make_elements(tensor.shape.size() == 2, offset, out);
  }
}

std::uint64_t Checkpoint::weight_bytes() const {
  std::uint64_t bytes = 0;
  for (const TensorInfo& tensor : tensors_) bytes += tensor.bytes();
  return bytes;
}

}  // namespace sparkx
