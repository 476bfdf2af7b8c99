#include "formats/gguf_model.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "core/error.h"
#include "core/json.h"
#include "core/printable.h"

namespace sparkx {
namespace {

// docs/model.md, Tokenizer, Splitting.
constexpr const char* kSparkPatterns[] = {
    R"(\p{N}{1,3})",
    R"([一-龥぀-ゟ゠-ヿ]+)",
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+|[\r\n]|\s+(?!\S)|\s+)",
};

constexpr std::int64_t kMaxParts = 65535;

// Names of tensors: in GGUF files, in checkpoints; and those of a layer, without what stands before.
constexpr std::pair<std::string_view, std::string_view> kWhole[] = {
    {"token_embd.weight", "model.embedding.weight"},
    {"output_norm.weight", "model.norm.weight"},
    {"output.weight", "lm_head.weight"},
};
constexpr std::pair<std::string_view, std::string_view> kOfLayer[] = {
    {"attn_norm.weight", "input_layernorm.weight"},
    {"ffn_norm.weight", "post_attention_layernorm.weight"},
    {"attn_qkv.weight", "self_attn.q_k_v_proj.weight"},
    {"attn_gate.weight", "self_attn.g_proj.weight"},
    {"attn_output.weight", "self_attn.out_proj.weight"},
    {"ffn_gate.weight", "mlp.gate_proj.weight"},
    {"ffn_up.weight", "mlp.up_proj.weight"},
    {"ffn_down.weight", "mlp.down_proj.weight"},
};
constexpr std::string_view kGgufLayer = "blk.";
constexpr std::string_view kLayer = "model.layers.";

// A key below the architecture.
std::string key(std::string_view name) {
  return fmt::format("{}.{}", kGgufArchitecture, name);
}

[[noreturn]] void missing(const GgufMetadata& metadata, const std::string& key) {
  throw_error(ErrorCode::corrupt, "{}: {} is missing", metadata.file(), key);
}

std::int64_t required_integer(const GgufMetadata& metadata, std::string_view name) {
  const std::optional<std::int64_t> value = metadata.integer(key(name));
  if (!value) missing(metadata, key(name));
  return *value;
}

double required_number(const GgufMetadata& metadata, std::string_view name) {
  const std::optional<double> value = metadata.number(key(name));
  if (!value) missing(metadata, key(name));
  if (!std::isfinite(*value)) throw_error(ErrorCode::corrupt, "{}: {} is {}", metadata.file(), key(name), *value);
  return *value;
}

void check_architecture(const GgufMetadata& metadata) {
  const std::string* architecture = metadata.text("general.architecture");
  if (architecture == nullptr) missing(metadata, "general.architecture");
  if (*architecture != kGgufArchitecture) {
    throw_error(ErrorCode::unsupported, "{}: general.architecture is {}; sparkx runs \"{}\" only", metadata.file(),
                in_quotes(*architecture), kGgufArchitecture);
  }
}

// Keys that say the same for every model of this kind, or nothing about its numbers.
constexpr std::string_view kKnownKeys[] = {
    "context_length",
    "embedding_length",
    "block_count",
    "feed_forward_length",
    "attention.head_count",
    "attention.head_count_kv",
    "attention.key_length",
    "attention.value_length",
    "attention.layer_norm_rms_epsilon",
    "attention.sliding_window",
    "attention.sliding_window_pattern",
    "rope.freq_base",
    "rope.freq_base_swa",
    "rope.dimension_count",
    "rope.dimension_count_swa",
    "vocab_size",
};

// Keys that would change the result, with the one value that does not.
struct NeutralKey {
  std::string_view name;
  double value;
};
constexpr NeutralKey kNeutralKeys[] = {
    {"expert_count", 0},
    {"expert_used_count", 0},
    {"nextn_predict_layers", 0},
    {"rope.scaling.factor", 1},
    {"logit_scale", 1},
    {"residual_scale", 1},
    {"embedding_scale", 1},
    {"attention.scale", 0},
    {"attn_logit_softcapping", 0},
    {"final_logit_softcapping", 0},
};

// Returns the keys of the architecture that sparkx does not know.
std::vector<std::string> check_keys(const GgufMetadata& metadata) {
  std::vector<std::string> unknown;
  const std::string prefix = key("");
  for (const auto& [name, value] : metadata.entries()) {
    if (!name.starts_with(prefix)) continue;
    const std::string_view rest = std::string_view(name).substr(prefix.size());
    if (std::find(std::begin(kKnownKeys), std::end(kKnownKeys), rest) != std::end(kKnownKeys)) continue;
    if (rest == "rope.scaling.type") {
      if (const std::string& type = *metadata.text(name); type != "none") {
        throw_error(ErrorCode::unsupported, "{}: {} is {}; sparkx supports \"none\"", metadata.file(), name,
                    in_quotes(type));
      }
      continue;
    }
    const auto neutral = std::find_if(std::begin(kNeutralKeys), std::end(kNeutralKeys),
                                      [rest](const NeutralKey& k) { return k.name == rest; });
    if (neutral == std::end(kNeutralKeys)) {
      unknown.push_back(name);
    } else if (const double found = *metadata.number(name); found != neutral->value) {
      throw_error(ErrorCode::unsupported, "{}: {} is {}; sparkx supports {}", metadata.file(), name, found,
                  neutral->value);
    }
  }
  return unknown;
}

// The fraction whose product with head_dim, cut to an integer, is `rotary_dims`.
double rotary_factor(std::int64_t rotary_dims, std::int64_t head_dim) {
  double factor = static_cast<double>(rotary_dims) / static_cast<double>(head_dim);
  if (static_cast<std::int64_t>(static_cast<double>(head_dim) * factor) < rotary_dims)
    factor = std::nextafter(factor, 2);
  return factor;
}

json::Object rope_parameters(const GgufMetadata& metadata, std::int64_t head_dim) {
  const auto parameters = [&](double theta, std::int64_t rotary_dims) {
    return json::Object{{"rope_theta", theta}, {"partial_rotary_factor", rotary_factor(rotary_dims, head_dim)}};
  };
  const auto checked = [&](std::optional<std::int64_t> dims, std::string_view name, std::int64_t otherwise) {
    const std::int64_t value = dims.value_or(otherwise);
    if (value < 1 || value > head_dim) {
      throw_error(ErrorCode::corrupt, "{}: {} is {}; expected 1 to attention.key_length, {}", metadata.file(),
                  key(name), value, head_dim);
    }
    return value;
  };
  const auto finite = [&](std::string_view name, double otherwise) {
    return metadata.find(key(name)) != nullptr ? required_number(metadata, name) : otherwise;
  };
  const double theta = finite("rope.freq_base", 10000.0);
  const std::int64_t dims = checked(metadata.integer(key("rope.dimension_count")), "rope.dimension_count", head_dim);
  const double sliding_theta = finite("rope.freq_base_swa", theta);
  const std::int64_t sliding_dims =
      checked(metadata.integer(key("rope.dimension_count_swa")), "rope.dimension_count_swa", dims);
  return json::Object{{"full_attention", parameters(theta, dims)},
                      {"sliding_attention", parameters(sliding_theta, sliding_dims)}};
}

}  // namespace

ModelConfig gguf_model_config(const GgufMetadata& metadata, bool tied, std::int64_t embedding_rows) {
  check_architecture(metadata);
  std::vector<std::string> unknown = check_keys(metadata);
  const std::int64_t hidden_size = required_integer(metadata, "embedding_length");
  const std::int64_t layers = required_integer(metadata, "block_count");
  const std::int64_t heads = required_integer(metadata, "attention.head_count");
  if (heads < 1) throw_error(ErrorCode::corrupt, "{}: {} is {}", metadata.file(), key("attention.head_count"), heads);
  const std::int64_t head_dim = metadata.integer(key("attention.key_length")).value_or(hidden_size / heads);
  const std::int64_t value_dim = metadata.integer(key("attention.value_length")).value_or(head_dim);
  if (head_dim < 1 || head_dim > kMaxHeadDim || value_dim != head_dim) {
    throw_error(ErrorCode::unsupported, "{}: {} is {} and {} is {}; sparkx supports equal ones, from 1 to {}",
                metadata.file(), key("attention.key_length"), head_dim, key("attention.value_length"), value_dim,
                kMaxHeadDim);
  }
  json::Object config{
      {"model_type", kGgufArchitecture},
      {"hidden_act", "gelu"},
      {"gate_attn_act_mode", "sigmoid"},
      {"headwise_attn_output_gate", true},
      {"hidden_size", hidden_size},
      {"intermediate_size", required_integer(metadata, "feed_forward_length")},
      {"num_hidden_layers", layers},
      {"num_attention_heads", heads},
      {"num_key_value_heads", metadata.integer(key("attention.head_count_kv")).value_or(heads)},
      {"head_dim", head_dim},
      {"vocab_size", metadata.integer(key("vocab_size")).value_or(embedding_rows)},
      {"max_position_embeddings", required_integer(metadata, "context_length")},
      {"rms_norm_eps", required_number(metadata, "attention.layer_norm_rms_epsilon")},
      {"tie_word_embeddings", tied},
      {"rope_parameters", rope_parameters(metadata, head_dim)},
  };
  if (const std::optional<std::int64_t> window = metadata.integer(key("attention.sliding_window"))) {
    config.emplace_back("sliding_window", *window);
  }
  if (const auto* pattern = metadata.array<bool>(key("attention.sliding_window_pattern"))) {
    json::Array types;
    for (const bool sliding : *pattern) {
      types.emplace_back(layer_type_name(sliding ? LayerType::sliding_attention : LayerType::full_attention));
    }
    config.emplace_back("layer_types", std::move(types));
  }
  const std::pair<const char*, const char*> tokens[] = {{"bos_token_id", "tokenizer.ggml.bos_token_id"},
                                                        {"pad_token_id", "tokenizer.ggml.padding_token_id"}};
  for (const auto& [field, name] : tokens) {
    if (const std::optional<std::int64_t> id = metadata.integer(name)) config.emplace_back(field, *id);
  }
  // A turn may end in another token than a text.
  json::Array ends;
  for (const char* name : {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id"}) {
    const std::optional<std::int64_t> id = metadata.integer(name);
    if (id && std::find(ends.begin(), ends.end(), json::Value(*id)) == ends.end()) ends.emplace_back(*id);
  }
  if (!ends.empty()) config.emplace_back("eos_token_id", std::move(ends));

  ModelConfig parsed = read_model_config(json::Value(std::move(config)), metadata.file());
  parsed.unknown_keys = std::move(unknown);
  return parsed;
}

GenerationConfig gguf_generation_config(const GgufMetadata& metadata) {
  json::Object config;
  const std::string prefix = "general.sampling.";
  if (const std::optional<std::int64_t> top_k = metadata.integer(prefix + "top_k"))
    config.emplace_back("top_k", *top_k);
  constexpr std::pair<const char*, const char*> kNumbers[] = {
      {"top_p", "top_p"}, {"min_p", "min_p"}, {"temp", "temperature"}, {"penalty_repeat", "repetition_penalty"}};
  for (const auto& [name, field] : kNumbers) {
    const std::optional<double> value = metadata.number(prefix + name);
    if (!value) continue;
    if (!std::isfinite(*value))
      throw_error(ErrorCode::corrupt, "{}: {}{} is {}", metadata.file(), prefix, name, *value);
    config.emplace_back(field, *value);
  }
  return parse_generation_config(json::print(std::move(config)), metadata.file());
}

std::vector<PreTokenizerStep> gguf_pre_tokenizer() {
  std::vector<PreTokenizerStep> steps;
  for (const char* pattern : kSparkPatterns) {
    steps.push_back({.kind = PreTokenizerStep::Kind::split, .pattern = pattern});
  }
  steps.push_back({.kind = PreTokenizerStep::Kind::digits, .pattern = "", .individual_digits = true});
  steps.push_back({.kind = PreTokenizerStep::Kind::byte_level, .pattern = ""});
  return steps;
}

std::optional<TokenizerDescription> gguf_tokenizer(const GgufMetadata& metadata) {
  const std::string* model = metadata.text("tokenizer.ggml.model");
  if (model == nullptr) return std::nullopt;
  const std::string& file = metadata.file();
  const std::string* splitting = metadata.text("tokenizer.ggml.pre");
  if (*model != "gpt2" || splitting == nullptr || *splitting != kGgufArchitecture) {
    throw_error(ErrorCode::unsupported,
                "{}: tokenizer.ggml.model is {} and tokenizer.ggml.pre {}; sparkx supports \"gpt2\" and \"{}\"", file,
                in_quotes(*model), splitting == nullptr ? "is missing" : in_quotes(*splitting), kGgufArchitecture);
  }
  const auto* tokens = metadata.array<std::string>("tokenizer.ggml.tokens");
  if (tokens == nullptr) missing(metadata, "tokenizer.ggml.tokens");
  const auto* types = metadata.array<std::int64_t>("tokenizer.ggml.token_type");
  if (types == nullptr) missing(metadata, "tokenizer.ggml.token_type");
  const auto* merges = metadata.array<std::string>("tokenizer.ggml.merges");
  if (merges == nullptr) missing(metadata, "tokenizer.ggml.merges");
  if (types->size() != tokens->size()) {
    throw_error(ErrorCode::corrupt, "{}: tokenizer.ggml.token_type has {} entries, but there are {} tokens", file,
                types->size(), tokens->size());
  }
  if (tokens->size() > static_cast<std::size_t>(kMaxVocabulary)) {
    throw_error(ErrorCode::corrupt, "{}: {} tokens, more than {}", file, tokens->size(), kMaxVocabulary);
  }

  TokenizerDescription description;
  description.source = file;
  description.tokens = *tokens;
  for (std::size_t id = 0; id < tokens->size(); ++id) {
    std::string& text = description.tokens[id];
    switch (static_cast<GgufTokenType>((*types)[id])) {
      case GgufTokenType::normal:
      case GgufTokenType::unknown:
        break;
      case GgufTokenType::control:
      case GgufTokenType::user_defined:
        if (text.empty()) throw_error(ErrorCode::corrupt, "{}: added token {} is empty", file, id);
        description.added_tokens.push_back(
            {.id = static_cast<TokenId>(id),
             .content = text,
             .special = (*types)[id] == static_cast<std::int64_t>(GgufTokenType::control)});
        break;
      case GgufTokenType::unused:  // fills up the vocabulary; its text is no text
        text.clear();
        break;
      default:
        throw_error(ErrorCode::unsupported, "{}: token {} is of type {}, which no byte-level tokenizer has", file, id,
                    (*types)[id]);
    }
  }

  const TokenIndex index(description.tokens, file);
  for (std::size_t i = 0; i < merges->size(); ++i) {
    const std::string_view merge = (*merges)[i];
    const std::size_t blank = merge.find(' ', 1);  // the first character of a half is never the blank between
    const auto token = [&](std::string_view text) {
      const std::optional<TokenId> id = index.find(text);
      if (!id) {
        throw_error(ErrorCode::corrupt, "{}: tokenizer.ggml.merges[{}] names {}, which is no token", file, i,
                    in_quotes(text));
      }
      return *id;
    };
    if (merge.empty() || blank == merge.npos) {
      throw_error(ErrorCode::corrupt, "{}: tokenizer.ggml.merges[{}] is {}; expected two tokens with a blank between",
                  file, i, in_quotes(merge));
    }
    const TokenId left = token(merge.substr(0, blank));
    description.merges.emplace_back(left, token(merge.substr(blank + 1)));
  }

  description.pre_tokenizer = gguf_pre_tokenizer();

  const std::pair<const char*, std::optional<TokenId>&> special[] = {
      {"tokenizer.ggml.bos_token_id", description.bos},
      {"tokenizer.ggml.eos_token_id", description.eos},
      {"tokenizer.ggml.padding_token_id", description.pad},
      {"tokenizer.ggml.unknown_token_id", description.unknown}};
  for (const auto& [name, id] : special) {
    const std::optional<std::int64_t> value = metadata.integer(name);
    if (!value) continue;
    if (*value < 0 || static_cast<std::size_t>(*value) >= tokens->size()) {
      throw_error(ErrorCode::corrupt, "{}: {} is {}, but there are {} tokens", file, name, *value, tokens->size());
    }
    id = static_cast<TokenId>(*value);
  }
  return description;
}

std::vector<std::pair<std::string, std::string>> gguf_chat_templates(const GgufMetadata& metadata) {
  constexpr std::string_view kKey = "tokenizer.chat_template";
  std::vector<std::pair<std::string, std::string>> templates;
  for (const auto& [name, value] : metadata.entries()) {
    if (name == kKey) {
      templates.emplace_back("default", *metadata.text(name));
    } else if (name.size() > kKey.size() + 1 && name.starts_with(kKey) && name[kKey.size()] == '.') {
      templates.emplace_back(name.substr(kKey.size() + 1), *metadata.text(name));
    }
  }
  return templates;
}

std::vector<std::string> gguf_split_names(const GgufMetadata& metadata, const std::string& file_name) {
  const std::int64_t parts = metadata.integer("split.count").value_or(1);
  if (parts <= 1) return {file_name};
  if (parts > kMaxParts) throw_error(ErrorCode::corrupt, "{}: split.count is {}", metadata.file(), parts);
  const std::int64_t part = metadata.integer("split.no").value_or(-1);
  const std::string ending = fmt::format("-{:05}-of-{:05}.gguf", part + 1, parts);
  if (part < 0 || part >= parts || !file_name.ends_with(ending)) {
    throw_error(ErrorCode::corrupt, "{}: split.no is {} and split.count {}, but the name does not end in {}",
                metadata.file(), part, parts, ending);
  }
  const std::string_view prefix = std::string_view(file_name).substr(0, file_name.size() - ending.size());
  std::vector<std::string> names;
  for (std::int64_t i = 1; i <= parts; ++i) names.push_back(fmt::format("{}-{:05}-of-{:05}.gguf", prefix, i, parts));
  return names;
}

void check_gguf_part(const GgufMetadata& metadata, std::size_t part, std::size_t parts) {
  const std::int64_t number = metadata.integer("split.no").value_or(-1);
  const std::int64_t count = metadata.integer("split.count").value_or(-1);
  if (number != static_cast<std::int64_t>(part) || count != static_cast<std::int64_t>(parts)) {
    throw_error(ErrorCode::corrupt, "{}: split.no is {} and split.count {}; expected {} and {}", metadata.file(),
                number, count, part, parts);
  }
}

std::optional<Dtype> gguf_dtype(const GgufType& type) {
  constexpr std::pair<std::string_view, Dtype> kDtypes[] = {
      {"F32", Dtype::float32}, {"F16", Dtype::float16}, {"BF16", Dtype::bfloat16}, {"F64", Dtype::float64},
      {"I8", Dtype::int8},     {"I16", Dtype::int16},   {"I32", Dtype::int32},     {"I64", Dtype::int64},
  };
  for (const auto& [name, dtype] : kDtypes) {
    if (name == type.name) return dtype;
  }
  return std::nullopt;
}

std::optional<std::string> gguf_tensor_name(std::string_view name) {
  for (const auto& [gguf, checkpoint] : kWhole) {
    if (name == gguf) return std::string(checkpoint);
  }
  if (!name.starts_with(kGgufLayer)) return std::nullopt;
  name.remove_prefix(kGgufLayer.size());
  const std::size_t dot = name.find('.');
  std::uint32_t layer = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + std::min(dot, name.size()), layer);
  // Each tensor has one name: no leading zeros.
  if (error != std::errc() || dot == name.npos || end != name.data() + dot || (name[0] == '0' && dot > 1)) {
    return std::nullopt;
  }
  for (const auto& [gguf, checkpoint] : kOfLayer) {
    if (name.substr(dot + 1) == gguf) return fmt::format("{}{}.{}", kLayer, layer, checkpoint);
  }
  return std::nullopt;
}

std::optional<std::string> to_gguf_tensor_name(std::string_view name) {
  for (const auto& [gguf, checkpoint] : kWhole) {
    if (name == checkpoint) return std::string(gguf);
  }
  if (!name.starts_with(kLayer)) return std::nullopt;
  name.remove_prefix(kLayer.size());
  const std::size_t dot = name.find('.');
  if (dot == name.npos) return std::nullopt;
  for (const auto& [gguf, checkpoint] : kOfLayer) {
    if (name.substr(dot + 1) == checkpoint) return fmt::format("{}{}.{}", kGgufLayer, name.substr(0, dot), gguf);
  }
  return std::nullopt;
}

}  // namespace sparkx
