#include "formats/model_config.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <limits>

#include "core/error.h"
#include "core/json.h"

namespace sparkx {
namespace {

constexpr json::ParseOptions kJsonOptions{.max_depth = 32, .max_bytes = std::size_t{16} << 20};

// A value as it stands in a message; long ones are cut.
std::string shown(const json::Value& value) {
  constexpr std::size_t kLongest = 80;
  std::string text = json::print(value);
  if (text.size() <= kLongest) return text;
  std::size_t end = kLongest;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;  // not inside a character
  return text.substr(0, end) + "…";
}

// Typed access to the members of a JSON object; null counts as absent. `prefix` stands before keys in messages.
class Fields {
 public:
  Fields(const json::Value& object, std::string_view file, std::string prefix = "")
      : object_(object), file_(file), prefix_(std::move(prefix)) {}

  std::string name(std::string_view key) const { return prefix_ + std::string(key); }

  const json::Value* find(std::string_view key) const {
    const json::Value* value = object_.find(key);
    return value == nullptr || value->is_null() ? nullptr : value;
  }

  const json::Value& require(std::string_view key, std::string_view expected) const {
    const json::Value* value = find(key);
    if (value == nullptr) throw_error(ErrorCode::corrupt, "{}: {} is missing; expected {}", file_, name(key), expected);
    return *value;
  }

  [[noreturn]] void wrong(std::string_view key, const json::Value& found, std::string_view expected) const {
    throw_error(ErrorCode::corrupt, "{}: {} is {}; expected {}", file_, name(key), shown(found), expected);
  }
  [[noreturn]] void unsupported(std::string_view key, const json::Value& found, std::string_view supported) const {
    throw_error(ErrorCode::unsupported, "{}: {} is {}; sparkx supports {} only", file_, name(key), shown(found),
                supported);
  }

  // A field that decides what is computed and has one supported value.
  void require_value(std::string_view key, const json::Value& supported, std::string_view remark = "") const {
    const std::string text = json::print(supported) + std::string(remark);
    const json::Value& found = require(key, text);
    if (!(found == supported)) unsupported(key, found, text);
  }

  std::int64_t integer(std::string_view key, std::int64_t low, std::int64_t high) const {
    const std::string expected = fmt::format("an integer from {} to {}", low, high);
    return integer_in(key, require(key, expected), low, high);
  }

  bool boolean(std::string_view key, bool otherwise) const {
    const json::Value* value = find(key);
    if (value == nullptr) return otherwise;
    if (!value->is_bool()) wrong(key, *value, "true or false");
    return value->as_bool();
  }

  // A number for which `valid` holds; absent when the key is.
  template <typename Valid>
  std::optional<double> number(std::string_view key, std::string_view expected, Valid valid) const {
    const json::Value* value = find(key);
    if (value == nullptr) return std::nullopt;
    const std::optional<double> number = finite(*value);
    if (!number || !valid(*number)) wrong(key, *value, expected);
    return number;
  }

  std::optional<std::int64_t> optional_integer(std::string_view key, std::int64_t low, std::int64_t high) const {
    const json::Value* value = find(key);
    return value == nullptr ? std::nullopt : std::optional(integer_in(key, *value, low, high));
  }

  // -1, which some tools write for "none", counts as absent.
  std::optional<TokenId> token(std::string_view key) const {
    const std::optional<std::int64_t> id = optional_integer(key, -1, kMaxVocabulary - 1);
    if (!id || *id == -1) return std::nullopt;
    return static_cast<TokenId>(*id);
  }

  // One id or a list of them.
  std::optional<std::vector<TokenId>> tokens(std::string_view key) const {
    const json::Value* value = find(key);
    if (value == nullptr) return std::nullopt;
    std::vector<TokenId> ids;
    const auto add = [&](const json::Value& id) {
      ids.push_back(static_cast<TokenId>(integer_in(key, id, 0, kMaxVocabulary - 1)));
    };
    if (value->is_array()) {
      std::for_each(value->as_array().begin(), value->as_array().end(), add);
    } else {
      add(*value);
    }
    return ids;
  }

  static std::optional<double> finite(const json::Value& value) {
    if (!value.is_number()) return std::nullopt;
    try {
      return value.as_double();
    } catch (const Error&) {  // beyond the largest double
      return std::nullopt;
    }
  }

 private:
  std::int64_t integer_in(std::string_view key, const json::Value& value, std::int64_t low, std::int64_t high) const {
    if (value.is_integer()) {
      try {
        const std::int64_t number = value.as_int64();
        if (number >= low && number <= high) return number;
      } catch (const Error&) {  // more than 64 bits
      }
    }
    wrong(key, value, fmt::format("an integer from {} to {}", low, high));
  }

  const json::Value& object_;
  std::string_view file_;
  std::string prefix_;
};

// Options of other models that would change the result: accepted only when they are switched off, and null always is.
enum class Neutral { null, false_value, zero, one, head_dim, default_type };
struct Option {
  std::string_view key;
  Neutral neutral;
};
constexpr Option kOptions[] = {
    {"use_q_gate", Neutral::false_value},
    {"use_qk_norm", Neutral::false_value},
    {"attention_sinks", Neutral::false_value},
    {"attn_logit_softcapping", Neutral::null},
    {"final_logit_softcapping", Neutral::null},
    {"rope_scaling", Neutral::null},
    {"scale_query_by", Neutral::one},
    {"embedding_multiplier", Neutral::one},
    {"residual_multiplier", Neutral::one},
    {"logits_scaling", Neutral::one},
    {"query_pre_attn_scalar", Neutral::head_dim},
    {"rope_type", Neutral::default_type},
    {"num_experts", Neutral::zero},
    {"num_local_experts", Neutral::zero},
    {"num_nextn_predict_layers", Neutral::zero},
};

bool is_option(std::string_view key) {
  return std::any_of(std::begin(kOptions), std::end(kOptions), [&](const Option& option) { return option.key == key; });
}

void refuse_options(const Fields& fields, std::int64_t head_dim) {
  for (const Option& option : kOptions) {
    const json::Value* value = fields.find(option.key);
    if (value == nullptr) continue;
    const auto require = [&](bool neutral, std::string_view supported) {
      if (!neutral) fields.unsupported(option.key, *value, supported);
    };
    switch (option.neutral) {
      case Neutral::null:
        require(false, "null");
        break;
      case Neutral::false_value:
        require(*value == json::Value(false), "false");
        break;
      case Neutral::zero:
        require(Fields::finite(*value) == 0.0, "0");
        break;
      case Neutral::one:
        require(Fields::finite(*value) == 1.0, "1.0");
        break;
      case Neutral::head_dim:
        require(Fields::finite(*value) == static_cast<double>(head_dim), fmt::format("{} (head_dim)", head_dim));
        break;
      case Neutral::default_type:
        require(*value == json::Value("default"), "\"default\"");
        break;
    }
  }
}

bool contains(std::initializer_list<std::string_view> names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool is_known(std::string_view key) {
  return is_option(key) || key.ends_with("_token_id") ||
         contains(
             {// Read here.
              "model_type", "hidden_act", "gate_attn_act_mode", "headwise_attn_output_gate", "layer_types",
              "rope_parameters", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads",
              "num_key_value_heads", "head_dim", "vocab_size", "max_position_embeddings", "sliding_window",
              "rms_norm_eps", "tie_word_embeddings", "attention_bias", "mlp_bias",
              // Read with the tensors (mlx_quantization.h, compressed_tensors.h).
              "quantization", "quantization_config",
              // Without influence.
              "architectures", "auto_map", "torch_dtype", "dtype", "transformers_version", "use_cache",
              "initializer_range", "attention_dropout", "hidden_dropout"},
             key);
}

std::vector<LayerType> parse_layer_types(const Fields& fields, std::string_view file, std::int64_t num_hidden_layers) {
  std::vector<LayerType> types;
  const json::Value* list = fields.find("layer_types");
  if (list == nullptr) {  // three sliding layers, one full layer, over and over
    for (std::int64_t i = 0; i < num_hidden_layers; ++i) {
      types.push_back(i % 4 == 3 ? LayerType::full_attention : LayerType::sliding_attention);
    }
    return types;
  }
  if (!list->is_array()) fields.wrong("layer_types", *list, "a list with one entry for each layer");
  const json::Array& entries = list->as_array();
  if (static_cast<std::int64_t>(entries.size()) != num_hidden_layers) {
    throw_error(ErrorCode::corrupt, "{}: layer_types has {} entries; expected {} (num_hidden_layers)", file,
                entries.size(), num_hidden_layers);
  }
  for (const json::Value& entry : entries) {
    if (entry == json::Value("sliding_attention")) {
      types.push_back(LayerType::sliding_attention);
    } else if (entry == json::Value("full_attention")) {
      types.push_back(LayerType::full_attention);
    } else {
      fields.unsupported(fmt::format("layer_types[{}]", types.size()), entry,
                         "\"sliding_attention\" and \"full_attention\"");
    }
  }
  return types;
}

void parse_rope(const Fields& fields, std::string_view file, ModelConfig& config) {
  const json::Value& all = fields.require("rope_parameters", "an object with an entry for each layer type");
  if (!all.is_object()) fields.wrong("rope_parameters", all, "an object with an entry for each layer type");
  const Fields by_type(all, file, "rope_parameters.");
  for (const LayerType type : {LayerType::sliding_attention, LayerType::full_attention}) {
    if (std::find(config.layer_types.begin(), config.layer_types.end(), type) == config.layer_types.end()) continue;
    const char* key = layer_type_name(type);
    const json::Value& entry = by_type.require(key, "the rotary parameters of this layer type, which the model has");
    if (!entry.is_object()) by_type.wrong(key, entry, "an object");
    const Fields rope(entry, file, by_type.name(key) + ".");
    refuse_options(rope, config.head_dim);

    RopeParameters& parameters = config.rope_parameters[static_cast<int>(type)];
    parameters.rope_theta =
        rope.number("rope_theta", "a number above 0", [](double x) { return x > 0; }).value_or(10000.0);
    const double factor =
        rope.number("partial_rotary_factor", "a number above 0, at most 1", [](double x) { return x > 0 && x <= 1; })
            .value_or(1.0);
    parameters.rotary_dims = static_cast<std::int64_t>(static_cast<double>(config.head_dim) * factor);
    if (parameters.rotary_dims == 0 || parameters.rotary_dims % 2 != 0) {
      throw_error(
          ErrorCode::unsupported,
          "{}: {} is {}, which makes {} of {} (head_dim) channels rotate; sparkx supports an even number above 0 only",
          file, rope.name("partial_rotary_factor"), json::repr(factor), parameters.rotary_dims, config.head_dim);
    }
    for (const json::Member& member : entry.as_object()) {
      if (!is_option(member.first) && !contains({"rope_theta", "partial_rotary_factor"}, member.first)) {
        config.unknown_keys.push_back(rope.name(member.first));
      }
    }
  }
  for (const json::Member& member : all.as_object()) {
    if (!contains({"sliding_attention", "full_attention"}, member.first)) {
      config.unknown_keys.push_back(by_type.name(member.first));
    }
  }
}

}  // namespace

const char* layer_type_name(LayerType type) {
  return type == LayerType::sliding_attention ? "sliding_attention" : "full_attention";
}

json::Value parse_config(std::string_view text, std::string_view file) {
  json::Value root = json::parse(text, file, kJsonOptions);
  if (!root.is_object())
    throw_error(ErrorCode::corrupt, "{}: expected a JSON object, found {}", file, root.type_name());
  return root;
}

ModelConfig read_model_config(const json::Value& root, std::string_view file) {
  const Fields fields(root, file);
  // Another model's config is told so before its missing fields are.
  fields.require_value("model_type", "spark2_5");
  fields.require_value("hidden_act", "gelu", " (exact)");
  fields.require_value("gate_attn_act_mode", "sigmoid");
  fields.require_value("headwise_attn_output_gate", true);

  ModelConfig config;
  config.hidden_size = fields.integer("hidden_size", 1, kMaxWidth);
  config.intermediate_size = fields.integer("intermediate_size", 1, kMaxWidth);
  config.num_hidden_layers = fields.integer("num_hidden_layers", 1, kMaxLayers);
  config.num_attention_heads = fields.integer("num_attention_heads", 1, kMaxHeads);
  config.num_key_value_heads = fields.integer("num_key_value_heads", 1, kMaxHeads);
  config.head_dim = fields.integer("head_dim", 1, kMaxHeadDim);
  config.vocab_size = fields.integer("vocab_size", 1, kMaxVocabulary);
  config.max_position_embeddings = fields.integer("max_position_embeddings", 1, kMaxPositions);
  if (config.num_attention_heads % config.num_key_value_heads != 0) {
    throw_error(ErrorCode::corrupt, "{}: num_attention_heads is {}; expected a multiple of {} (num_key_value_heads)",
                file, config.num_attention_heads, config.num_key_value_heads);
  }
  if (config.head_dim % 2 != 0) fields.unsupported("head_dim", config.head_dim, "even numbers");
  if (config.attention_width() > kMaxWidth) {
    throw_error(ErrorCode::corrupt, "{}: num_attention_heads * head_dim is {}; expected at most {}", file,
                config.attention_width(), kMaxWidth);
  }

  constexpr std::string_view kEpsilon = "a number above 0, below 1";
  fields.require("rms_norm_eps", kEpsilon);
  config.rms_norm_eps = *fields.number("rms_norm_eps", kEpsilon, [](double x) { return x > 0 && x < 1; });
  config.tie_word_embeddings = fields.boolean("tie_word_embeddings", true);  // the reference's default
  config.attention_bias = fields.boolean("attention_bias", false);
  config.mlp_bias = fields.boolean("mlp_bias", false);

  config.layer_types = parse_layer_types(fields, file, config.num_hidden_layers);
  if (std::find(config.layer_types.begin(), config.layer_types.end(), LayerType::sliding_attention) !=
      config.layer_types.end()) {
    config.sliding_window = fields.integer("sliding_window", 1, kMaxPositions);
  }
  for (const json::Member& member : root.as_object()) {
    if (!is_known(member.first)) config.unknown_keys.push_back(member.first);
  }
  refuse_options(fields, config.head_dim);
  parse_rope(fields, file, config);

  config.bos_token_id = fields.token("bos_token_id");
  config.pad_token_id = fields.token("pad_token_id");
  config.eos_token_ids = fields.tokens("eos_token_id").value_or(std::vector<TokenId>());
  return config;
}

GenerationConfig parse_generation_config(std::string_view text, std::string_view file) {
  const json::Value root = parse_config(text, file);
  const Fields fields(root, file);
  const auto probability = [](double x) { return x >= 0 && x <= 1; };
  GenerationConfig config;
  if (fields.find("do_sample") != nullptr) config.do_sample = fields.boolean("do_sample", false);
  config.temperature = fields.number("temperature", "a number from 0", [](double x) { return x >= 0; });
  config.top_p = fields.number("top_p", "a number from 0 to 1", probability);
  config.top_k = fields.optional_integer("top_k", -1, std::numeric_limits<std::int32_t>::max());
  config.min_p = fields.number("min_p", "a number from 0 to 1", probability);
  config.repetition_penalty = fields.number("repetition_penalty", "a number above 0", [](double x) { return x > 0; });
  config.max_new_tokens = fields.optional_integer("max_new_tokens", 1, kMaxPositions);
  config.bos_token_id = fields.token("bos_token_id");
  config.pad_token_id = fields.token("pad_token_id");
  config.eos_token_ids = fields.tokens("eos_token_id");
  return config;
}

}  // namespace sparkx
