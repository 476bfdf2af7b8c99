#include "convert/gguf_metadata.h"

#include <algorithm>
#include <filesystem>
#include <limits>
#include <optional>
#include <set>
#include <utility>

#include "core/error.h"
#include "core/json.h"
#include "core/printable.h"
#include "formats/gguf_model.h"
#include "text/chat_template.h"
#include "text/tokenizer_json.h"

namespace sparkx {
namespace {

constexpr std::string_view kTokenizerFile = "tokenizer.json";
constexpr std::string_view kTokenizerConfigFile = "tokenizer_config.json";
constexpr std::string_view kTemplateFile = "chat_template.jinja";
constexpr std::uint32_t kQuantizationVersion = 2;

std::string key(std::string_view name) {
  return fmt::format("{}.{}", kGgufArchitecture, name);
}

// Sizes are at most kMaxPositions (formats/model_config.h).
std::uint32_t size(std::int64_t value) {
  return static_cast<std::uint32_t>(value);
}

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool is_lower(char c) {
  return c >= 'a' && c <= 'z';
}
bool is_upper(char c) {
  return c >= 'A' && c <= 'Z';
}

// Python's word.title() of a word that has lower case letters only, unless it is a number or a version.
std::string title(std::string word) {
  const bool has_lower = std::any_of(word.begin(), word.end(), is_lower);
  const bool version = word.size() > 1 && word[0] == 'v' &&
                       std::all_of(word.begin() + 1, word.end(), [](char c) { return is_digit(c) || c == '.'; });
  if (!has_lower || std::any_of(word.begin(), word.end(), is_upper) || version || is_digit(word[0])) return word;
  bool inside = false;
  for (char& c : word) {
    if (is_lower(c) && !inside) c = static_cast<char>(c - 'a' + 'A');
    inside = is_lower(c) || is_upper(c);
  }
  return word;
}

void add_sampling(const GenerationConfig& generation, GgufWriter& writer) {
  const auto number = [&writer](const char* name, std::optional<double> value) {
    if (value) writer.add(std::string("general.sampling.") + name, static_cast<float>(*value));
  };
  if (generation.top_k) writer.add("general.sampling.top_k", static_cast<std::int32_t>(*generation.top_k));
  number("top_p", generation.top_p);
  number("min_p", generation.min_p);
  // Not to sample has no key of its own; llama.cpp's converter loses it.
  number("temp", generation.do_sample.value_or(true) ? generation.temperature : 0.0);
  number("penalty_repeat", generation.repetition_penalty);
}

double parameters(const Checkpoint& checkpoint) {
  double sum = 0;
  for (const TensorInfo& tensor : checkpoint.tensors()) {
    sum += static_cast<double>(tensor.rows()) * static_cast<double>(tensor.columns());
  }
  return sum;
}

// Of a GGUF source, what it says about itself; only the numbers of its weights are no longer the same.
void copy_general(const GgufMetadata& source, GgufWriter& writer) {
  static const std::set<std::string, std::less<>> kOwn = {"general.architecture", "general.type", "general.file_type",
                                                          "general.quantization_version", "general.alignment"};
  for (const auto& [name, value] : source.entries()) {
    if (!name.starts_with("general.") || kOwn.contains(name)) continue;
    if (const auto* text = std::get_if<std::string>(&value)) {
      writer.add(name, *text);
    } else if (const auto* flag = std::get_if<bool>(&value)) {
      writer.add(name, *flag);
    } else if (const auto* number = std::get_if<double>(&value)) {
      writer.add(name, static_cast<float>(*number));
    } else if (const auto* integer = std::get_if<std::int64_t>(&value)) {
      // Counts are 32 bits without a sign, the settings of samplers with one; readers look at that.
      if (name.starts_with("general.sampling.")) {
        writer.add(name, static_cast<std::int32_t>(*integer));
      } else {
        writer.add(name, static_cast<std::uint32_t>(*integer));
      }
    } else if (const auto* texts = std::get_if<std::vector<std::string>>(&std::get<GgufArray>(value))) {
      writer.add(name, *texts);
    }
  }
}

void add_general(const Checkpoint& checkpoint, GgufWriter& writer) {
  writer.add("general.architecture", std::string(kGgufArchitecture));
  writer.add("general.type", std::string("model"));
  if (checkpoint.gguf_metadata() != nullptr) {
    copy_general(*checkpoint.gguf_metadata(), writer);
    return;
  }
  add_sampling(checkpoint.generation_config(), writer);
  std::filesystem::path folder = std::filesystem::path(checkpoint.display_name("config.json")).parent_path();
  if (folder.filename() == "." || folder.filename() == "..")
    folder = std::filesystem::absolute(folder).lexically_normal();
  if (!folder.has_filename()) folder = folder.parent_path();
  writer.add("general.name", gguf_model_name(folder.filename().string()));
  writer.add("general.size_label", gguf_size_label(parameters(checkpoint)));
}

// A float32, told about where that is another number.
void add_number(const std::string& name, double value, GgufWriter& writer, std::vector<std::string>& notes) {
  const auto stored = static_cast<float>(value);
  writer.add(name, stored);
  // A decimal fraction is none in binary; what counts is what the model computes with, and that is float32, too, but
  // for the base of RoPE.
  if (static_cast<double>(stored) != value && name.find("rope") != name.npos) {
    notes.push_back(fmt::format("{} is {}, not {}: GGUF has it as a float32", name, stored, value));
  }
}

void add_configuration(const ModelConfig& config, std::uint32_t file_type, GgufWriter& writer,
                       std::vector<std::string>& notes) {
  std::vector<bool> sliding;
  for (const LayerType type : config.layer_types) sliding.push_back(type == LayerType::sliding_attention);
  // A kind of layer that there is not has no parameters, but readers want some.
  const auto rope = [&config](LayerType type, LayerType other) {
    return config.rope(config.rope(type).rotary_dims > 0 ? type : other);
  };
  const RopeParameters full = rope(LayerType::full_attention, LayerType::sliding_attention);
  const RopeParameters slides = rope(LayerType::sliding_attention, LayerType::full_attention);

  writer.add(key("block_count"), size(config.num_hidden_layers));
  writer.add(key("context_length"), size(config.max_position_embeddings));
  writer.add(key("embedding_length"), size(config.hidden_size));
  writer.add(key("feed_forward_length"), size(config.intermediate_size));
  writer.add(key("attention.head_count"), size(config.num_attention_heads));
  writer.add(key("attention.head_count_kv"), size(config.num_key_value_heads));
  add_number(key("rope.freq_base"), full.rope_theta, writer, notes);
  add_number(key("rope.freq_base_swa"), slides.rope_theta, writer, notes);
  add_number(key("attention.layer_norm_rms_epsilon"), config.rms_norm_eps, writer, notes);
  writer.add(key("attention.key_length"), size(config.head_dim));
  writer.add(key("attention.value_length"), size(config.head_dim));
  writer.add("general.file_type", file_type);
  writer.add(key("vocab_size"), size(config.vocab_size));
  // Without a sliding layer a window as long as the context, which hides nothing.
  const std::int64_t window = config.sliding_window > 0 ? config.sliding_window : config.max_position_embeddings;
  writer.add(key("attention.sliding_window"), size(window));
  writer.add(key("attention.sliding_window_pattern"), sliding);
  writer.add(key("rope.dimension_count"), size(full.rotary_dims));
  writer.add(key("rope.dimension_count_swa"), size(slides.rotary_dims));
}

// ---- tokenizer
// ----------------------------------------------------------------------------------------------------------

struct TextParts {
  TokenizerDescription tokenizer;
  std::vector<ChatTemplate> templates;
  std::optional<bool> adds_bos;
  std::optional<bool> adds_eos;
};

std::optional<bool> flag(const json::Value& config, std::string_view name) {
  const json::Value* value = config.find(name);
  return value != nullptr && value->is_bool() ? std::optional(value->as_bool()) : std::nullopt;
}

std::optional<TextParts> read_gguf_text(const GgufMetadata& metadata) {
  std::optional<TokenizerDescription> tokenizer = gguf_tokenizer(metadata);
  if (!tokenizer) return std::nullopt;
  TextParts parts{*std::move(tokenizer), {}, {}, {}};
  for (auto& [name, source] : gguf_chat_templates(metadata)) parts.templates.push_back({name, std::move(source), ""});
  if (const bool* adds = metadata.boolean("tokenizer.ggml.add_bos_token")) parts.adds_bos = *adds;
  if (const bool* adds = metadata.boolean("tokenizer.ggml.add_eos_token")) parts.adds_eos = *adds;
  return parts;
}

std::optional<TextParts> read_text(const Checkpoint& checkpoint) {
  if (checkpoint.gguf_metadata() != nullptr) return read_gguf_text(*checkpoint.gguf_metadata());
  const std::optional<std::string> text = checkpoint.text_file(kTokenizerFile);
  if (!text) return std::nullopt;
  TextParts parts{parse_tokenizer_json(*text, checkpoint.display_name(kTokenizerFile)), {}, {}, {}};
  ChatFormat format;
  if (const std::optional<std::string> config = checkpoint.text_file(kTokenizerConfigFile)) {
    const std::string name = checkpoint.display_name(kTokenizerConfigFile);
    apply_tokenizer_config(parts.tokenizer, *config, name);
    format.read_config(*config, name);
    const json::Value root = json::parse(*config, name);
    parts.adds_bos = flag(root, "add_bos_token");
    parts.adds_eos = flag(root, "add_eos_token");
  }
  if (std::optional<std::string> source = checkpoint.text_file(kTemplateFile)) {
    format.set_template(*std::move(source), checkpoint.display_name(kTemplateFile));
  }
  parts.templates = format.templates();
  return parts;
}

// Patterns are the same whether or not a backslash stands before a character that means nothing special.
std::vector<PreTokenizerStep> without_needless_escapes(std::vector<PreTokenizerStep> steps) {
  constexpr std::string_view kPlain = "\"#%&',/:;<=>@_`!~ ";
  for (PreTokenizerStep& step : steps) {
    std::string plain;
    for (std::size_t i = 0; i < step.pattern.size(); ++i) {
      const bool escape = step.pattern[i] == '\\' && i + 1 < step.pattern.size();
      if (escape && kPlain.find(step.pattern[i + 1]) == kPlain.npos) plain += step.pattern[i];
      if (escape) ++i;
      plain += step.pattern[i];
    }
    step.pattern = std::move(plain);
  }
  return steps;
}

// tokenizer.ggml.pre stands for exactly one way of splitting, and for nothing else that changes ids.
void check_expressible(const TokenizerDescription& tokenizer) {
  const char* found = without_needless_escapes(tokenizer.pre_tokenizer) != gguf_pre_tokenizer()
                          ? "another pre_tokenizer than Spark-X2.5's"
                      : !tokenizer.normalizer.empty() ? "a normalizer"
                      : tokenizer.ignore_merges       ? "ignore_merges"
                      : tokenizer.fuse_unknown        ? "fuse_unk"
                                                      : nullptr;
  if (found == nullptr) return;
  throw_error(ErrorCode::unsupported, "{}: has {}, for which GGUF has no name", tokenizer.source, found);
}

// Whether llama.cpp's converter takes an added token for a control token, whatever the tokenizer says.
bool looks_special(std::string_view text) {
  constexpr std::string_view kBar = "\uFF5C";  // the wide one
  const auto between = [text](std::string_view first, std::string_view last) {
    return text.size() >= first.size() + last.size() && text.starts_with(first) && text.ends_with(last);
  };
  return text == "<pad>" || text == "<mask>" || text == "<2mass>" || text == "[@BOS@]" || between("<|", "|>") ||
         between(std::string("<").append(kBar), std::string(kBar).append(">")) || between("<unused", ">");
}

void add_tokens(const TokenizerDescription& tokenizer, std::int64_t vocab_size, GgufWriter& writer,
                std::vector<std::string>& notes) {
  if (static_cast<std::int64_t>(tokenizer.tokens.size()) > vocab_size) {
    throw_error(ErrorCode::corrupt, "{}: has {} tokens, more than the model, which has {}", tokenizer.source,
                tokenizer.tokens.size(), vocab_size);
  }
  std::vector<std::string> tokens = tokenizer.tokens;
  tokens.resize(static_cast<std::size_t>(vocab_size));
  std::vector<std::int32_t> types(tokens.size(), static_cast<std::int32_t>(GgufTokenType::normal));
  const auto set_type = [&types](std::size_t id, GgufTokenType type) { types[id] = static_cast<std::int32_t>(type); };
  for (std::size_t id = 0; id < tokens.size(); ++id) {
    if (!tokens[id].empty()) continue;
    tokens[id] = fmt::format("[PAD{}]", id);
    set_type(id, GgufTokenType::unused);
  }
  const std::optional<TokenId> named[] = {tokenizer.bos, tokenizer.eos, tokenizer.pad, tokenizer.unknown};
  bool strips = false;
  for (const AddedTokenDescription& added : tokenizer.added_tokens) {
    const auto id = static_cast<std::size_t>(added.id);
    strips |= added.lstrip || added.rstrip || added.single_word || added.normalized;
    const bool has_name = std::find(std::begin(named), std::end(named), added.id) != std::end(named);
    if (added.special || has_name || looks_special(added.content)) {
      set_type(id, GgufTokenType::control);
      continue;
    }
    set_type(id, GgufTokenType::user_defined);
    // The converter does so, for the sake of tokenizers that write blanks like that.
    constexpr std::string_view kBlank = "\u2581";
    std::string& text = tokens[id];
    for (std::size_t at = text.find(kBlank); at != text.npos; at = text.find(kBlank, at)) {
      text.replace(at, kBlank.size(), " ");
    }
  }
  if (strips) {
    notes.push_back(
        "GGUF cannot say that added tokens take the blanks beside them (lstrip, rstrip, single_word, normalized)");
  }
  std::vector<std::string> merges;
  merges.reserve(tokenizer.merges.size());
  for (const auto& [left, right] : tokenizer.merges) {
    merges.push_back(fmt::format("{} {}", tokenizer.tokens[static_cast<std::size_t>(left)],
                                 tokenizer.tokens[static_cast<std::size_t>(right)]));
  }
  writer.add("tokenizer.ggml.tokens", tokens);
  writer.add("tokenizer.ggml.token_type", types);
  writer.add("tokenizer.ggml.merges", merges);
}

void add_special_tokens(const TextParts& parts, const Checkpoint& checkpoint, GgufWriter& writer,
                        std::vector<std::string>& notes) {
  const ModelConfig& config = checkpoint.config();
  const TokenizerDescription& tokenizer = parts.tokenizer;
  std::vector<TokenId> ends = checkpoint.generation_config().eos_token_ids.value_or(config.eos_token_ids);
  std::optional<TokenId> eos = tokenizer.eos;
  if (!eos && !ends.empty()) eos = ends.front();
  const auto add = [&writer](const char* name, std::optional<TokenId> id) {
    if (id) writer.add(fmt::format("tokenizer.ggml.{}_token_id", name), static_cast<std::uint32_t>(*id));
  };
  add("bos", tokenizer.bos ? tokenizer.bos : config.bos_token_id);
  add("eos", eos);
  // A turn may end in another token than a text; there is room for one.
  if (eos) std::erase(ends, *eos);
  if (!ends.empty()) add("eot", ends.front());
  if (ends.size() > 1) {
    notes.push_back(fmt::format("GGUF has room for two tokens that end an answer; {} does not end it", ends[1]));
  }
  add("unknown", tokenizer.unknown);
  add("padding", tokenizer.pad ? tokenizer.pad : config.pad_token_id);
  writer.add("tokenizer.ggml.add_bos_token", parts.adds_bos.value_or(false));
  if (parts.adds_eos) writer.add("tokenizer.ggml.add_eos_token", *parts.adds_eos);
}

void add_templates(const std::vector<ChatTemplate>& templates, GgufWriter& writer) {
  constexpr std::string_view kKey = "tokenizer.chat_template";
  std::vector<std::string> names;
  const ChatTemplate* default_template = nullptr;
  for (const ChatTemplate& chat_template : templates) {
    if (chat_template.name == "default") {
      default_template = &chat_template;
      continue;
    }
    std::string name = chat_template.name;
    std::replace_if(
        name.begin(), name.end(), [](char c) { return !is_lower(c) && !is_upper(c) && !is_digit(c); }, '_');
    if (name.empty() || std::find(names.begin(), names.end(), name) != names.end()) continue;
    writer.add(fmt::format("{}.{}", kKey, name), chat_template.source);
    names.push_back(std::move(name));
  }
  if (!names.empty()) writer.add("tokenizer.chat_templates", names);
  if (default_template != nullptr) writer.add(kKey, default_template->source);
}

}  // namespace

std::string gguf_size_label(double parameters) {
  constexpr std::pair<double, char> kUnits[] = {{1e12, 'T'}, {1e9, 'B'}, {1e6, 'M'}};
  double scaled = parameters * 1e-3;
  char unit = 'K';
  for (const auto& [size, name] : kUnits) {
    if (parameters > size) {
      scaled = parameters / size;
      unit = name;
      break;
    }
  }
  const std::string whole = fmt::format("{:.0f}", scaled);
  const int digits = whole == "0" ? 0 : static_cast<int>(whole.size());
  return fmt::format("{:.{}f}{}", scaled, std::max(2 - digits, 0), unit);  // two digits are the least
}

std::string gguf_model_name(std::string_view folder) {
  std::string name, word;
  const auto end_word = [&] {
    if (word.empty()) return;
    if (!name.empty()) name += ' ';
    name += title(std::exchange(word, {}));
  };
  for (const char c : folder) {
    if (c == '-' || c == ' ') {
      end_word();
    } else {
      word += c;
    }
  }
  end_word();
  return name;
}

void add_gguf_metadata(const Checkpoint& checkpoint, std::uint32_t file_type, GgufWriter& writer,
                       std::vector<std::string>& notes) {
  add_general(checkpoint, writer);
  add_configuration(checkpoint.config(), file_type, writer, notes);
  writer.add("general.quantization_version", kQuantizationVersion);
  const std::optional<TextParts> text = read_text(checkpoint);
  if (!text) {
    notes.push_back("the source has no tokenizer, so the file has none: it knows tokens only by their ids");
    return;
  }
  check_expressible(text->tokenizer);
  writer.add("tokenizer.ggml.model", std::string("gpt2"));
  writer.add("tokenizer.ggml.pre", std::string(kGgufArchitecture));
  add_tokens(text->tokenizer, checkpoint.config().vocab_size, writer, notes);
  add_special_tokens(*text, checkpoint, writer, notes);
  add_templates(text->templates, writer);
}

}  // namespace sparkx
