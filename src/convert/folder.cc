#include "convert/folder.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <tuple>
#include <utility>

#include "convert/gguf_source.h"
#include "convert/source.h"
#include "core/error.h"
#include "formats/safetensors.h"

namespace sparkx {
namespace {

// Parts of a layer's names in order of its modules, norms last.
constexpr std::string_view kModules[] = {
    "self_attn.q_k_v_proj", "self_attn.g_proj", "self_attn.out_proj", "mlp.gate_proj",
    "mlp.up_proj",          "mlp.down_proj",    "input_layernorm",    "post_attention_layernorm"};

// "model.layers.12.mlp.up_proj.bias" → (1, 12, 4, 1); weights come before biases.
std::tuple<int, std::int64_t, std::ptrdiff_t, bool> parameter_order(const TensorInfo& tensor) {
  constexpr std::string_view kLayers = "model.layers.";
  const std::string_view name = tensor.name;
  if (!name.starts_with(kLayers))
    return {name.starts_with("lm_head") ? 3 : name.starts_with("model.norm") ? 2 : 0, 0, 0, false};
  const std::size_t dot = name.find('.', kLayers.size());
  const std::string_view rest = name.substr(dot + 1);
  const auto module = std::find_if(std::begin(kModules), std::end(kModules),
                                   [&](std::string_view known) { return rest.starts_with(known); });
  return {1, std::stoll(std::string(name.substr(kLayers.size(), dot - kLayers.size()))), module - std::begin(kModules),
          rest.ends_with(".bias")};
}

// Python reads a float and prints its repr.
void print_floats_as_python(json::Value& value) {
  if (value.is_array()) {
    for (json::Value& element : value.as_array()) print_floats_as_python(element);
  } else if (value.is_object()) {
    for (auto& [key, member] : value.as_object()) print_floats_as_python(member);
  } else if (value.is_number() && !value.is_integer()) {
    value = json::Value(value.as_double());
  }
}

std::optional<Dtype> float_dtype(std::string_view name) {
  for (Dtype dtype : {Dtype::float32, Dtype::float16, Dtype::bfloat16}) {
    if (name == dtype_name(dtype)) return dtype;
  }
  return std::nullopt;
}

}  // namespace

std::vector<const TensorInfo*> in_parameter_order(const Checkpoint& checkpoint) {
  std::vector<const TensorInfo*> tensors;
  for (const TensorInfo& tensor : checkpoint.tensors()) tensors.push_back(&tensor);
  std::stable_sort(tensors.begin(), tensors.end(),
                   [](const TensorInfo* a, const TensorInfo* b) { return parameter_order(*a) < parameter_order(*b); });
  return tensors;
}

OutputPart array_part(std::string name, Dtype dtype, const TensorInfo& tensor, std::int64_t columns) {
  std::vector<std::int64_t> shape{tensor.rows()};
  if (tensor.shape.size() == 2) shape.push_back(columns);
  return {std::move(name), dtype_name(dtype), std::move(shape), static_cast<std::uint64_t>(columns) * dtype_size(dtype),
          dtype};
}

TensorPlan dense_plan(const Checkpoint& checkpoint, const TensorInfo& tensor, Dtype type) {
  TensorPlan plan;
  plan.tensor = &tensor;
  plan.source = storage_name(checkpoint, tensor);
  plan.target = dtype_name(type);
  plan.parts = {array_part(tensor.name, type, tensor, tensor.columns())};
  plan.encode = [&checkpoint, &tensor, type](std::int64_t begin, std::int64_t end, std::span<std::byte* const> out) {
    read_elements(checkpoint, tensor, begin, end, type, out[0]);
    return 0.0;
  };
  return plan;
}

void place_in_shards(Target& target, std::uint64_t shard_bytes, std::string_view format) {
  if (shard_bytes == 0) throw_error(ErrorCode::invalid_argument, "files of no bytes");
  std::vector<std::vector<SafetensorsTensor>> shards;
  std::uint64_t size = 0;
  for (TensorPlan& plan : target.tensors) {
    for (OutputPart& part : plan.parts) {
      const std::uint64_t bytes = part.row_bytes * static_cast<std::uint64_t>(plan.tensor->rows());
      if (shards.empty() || size > shard_bytes || bytes > shard_bytes - size) {
        shards.emplace_back();
        size = 0;
      }
      shards.back().push_back({part.name, part.dtype.value(), part.shape});
      part.file = shards.size() - 1;
      part.offset = size;  // in the data so far
      size += bytes;
    }
  }
  for (std::size_t i = 0; i < shards.size(); ++i) {
    std::string name = shards.size() == 1 ? "model.safetensors"
                                          : fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, shards.size());
    std::string head = safetensors_head(name, shards[i], {{"format", std::string(format)}});
    target.files.push_back({std::move(name), std::move(head), 0});
    target.files.back().bytes = target.files.back().head.size();
  }
  for (TensorPlan& plan : target.tensors) {
    for (OutputPart& part : plan.parts) {
      TensorFile& file = target.files[part.file];
      part.offset += file.head.size();
      file.bytes += part.row_bytes * static_cast<std::uint64_t>(plan.tensor->rows());
    }
  }
}

TextFile shard_index(const Target& target, int indent) {
  std::map<std::string, std::string> places;  // sorted
  std::uint64_t bytes = 0;
  std::int64_t parameters = 0;
  for (const TensorPlan& plan : target.tensors) {
    bytes += plan.bytes();
    parameters += plan.tensor->rows() * plan.tensor->columns();
    for (const OutputPart& part : plan.parts) places[part.name] = target.files[part.file].name;
  }
  json::Object map;
  for (auto& [name, file] : places) map.emplace_back(name, file);
  const json::Value index(
      json::Object{{"metadata", json::Object{{"total_size", bytes}, {"total_parameters", parameters}}},
                   {"weight_map", std::move(map)}});
  return {"model.safetensors.index.json", json::print(index, {.indent = indent, .ensure_ascii = true})};
}

json::Value source_config(const Checkpoint& checkpoint) {
  const std::optional<std::string> text = checkpoint.text_file("config.json");
  if (!text) return config_of(checkpoint.config());
  json::Value config = json::parse(*text, checkpoint.display_name("config.json"));
  print_floats_as_python(config);
  return config;
}

TextFile config_file(const json::Value& config, int indent) {
  return {"config.json", json::print(config, {.indent = indent, .ensure_ascii = true})};
}

void set_member(json::Value& object, std::string_view key, json::Value value) {
  for (auto& [name, member] : object.as_object()) {
    if (name != key) continue;
    member = std::move(value);
    return;
  }
  object.as_object().emplace_back(std::string(key), std::move(value));
}

void remove_member(json::Value& object, std::string_view key) {
  std::erase_if(object.as_object(), [key](const json::Member& member) { return member.first == key; });
}

void add_tokenizer_files(const Checkpoint& checkpoint, Target& target) {
  if (checkpoint.gguf_metadata() != nullptr) {
    for (TextFile& file : tokenizer_files_of(checkpoint)) target.texts.push_back(std::move(file));
    return;
  }
  constexpr std::array kFiles = {
      "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json",     "vocab.json",
      "merges.txt",     "chat_template.jinja",   "chat_template.json",      "generation_config.json"};
  for (const char* name : kFiles) {
    if (std::optional<std::string> text = checkpoint.text_file(name)) target.texts.push_back({name, *std::move(text)});
  }
}

std::optional<Dtype> parse_output_dtype(const std::string& name, const json::Value& config) {
  if (name == "auto") {
    const json::Value* type = config.find("torch_dtype");
    return type != nullptr && type->is_string() ? float_dtype(type->as_string()) : std::nullopt;
  }
  const std::optional<Dtype> dtype = float_dtype(name);
  if (!dtype) {
    throw_error(ErrorCode::invalid_argument, "\"{}\" is no type for an output: float32, bfloat16, float16, auto", name);
  }
  return dtype;
}

}  // namespace sparkx
