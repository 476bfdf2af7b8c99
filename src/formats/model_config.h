// config.json and generation_config.json of a checkpoint (docs/model.md, Configuration): read strictly into plain
// structs.
//
// What sparkx does not compute is refused with the field, what was found and what is supported. After parsing, every
// number is within the limits below, so that products of any two sizes fit 64 bits with room to spare.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/json.h"
#include "sparkx/types.hpp"

namespace sparkx {

enum class LayerType { sliding_attention, full_attention };
inline constexpr int kLayerTypes = 2;

const char* layer_type_name(LayerType type);  // "sliding_attention", as in the config

// Rotary position embedding of one layer type.
struct RopeParameters {
  double rope_theta = 10000.0;
  std::int64_t rotary_dims = 0;  // int(head_dim * partial_rotary_factor): even, 0 < rotary_dims <= head_dim
};

// Names as in config.json.
struct ModelConfig {
  std::int64_t hidden_size = 0;
  std::int64_t intermediate_size = 0;
  std::int64_t num_hidden_layers = 0;
  std::int64_t num_attention_heads = 0;
  std::int64_t num_key_value_heads = 0;  // divides num_attention_heads
  std::int64_t head_dim = 0;             // even; num_attention_heads * head_dim need not be hidden_size
  std::int64_t vocab_size = 0;
  std::int64_t max_position_embeddings = 0;
  std::int64_t sliding_window = 0;  // positions a sliding layer sees, the query's own among them; 0: no such layer
  double rms_norm_eps = 0;
  bool tie_word_embeddings = true;
  bool attention_bias = false;         // biases on q_k_v_proj, g_proj, out_proj
  bool mlp_bias = false;               // biases on gate_proj, up_proj, down_proj
  std::vector<LayerType> layer_types;  // [num_hidden_layers]

  // Indexed by LayerType; rotary_dims is 0 for a type that no layer has.
  RopeParameters rope_parameters[kLayerTypes];

  std::optional<TokenId> bos_token_id;
  std::optional<TokenId> pad_token_id;
  std::vector<TokenId> eos_token_ids;

  // Keys that sparkx does not know; they have no influence.
  std::vector<std::string> unknown_keys;

  const RopeParameters& rope(LayerType type) const { return rope_parameters[static_cast<int>(type)]; }
  std::int64_t attention_width() const { return num_attention_heads * head_dim; }
  std::int64_t kv_width() const { return num_key_value_heads * head_dim; }
  std::int64_t q_k_v_rows() const { return attention_width() + 2 * kv_width(); }
};

// Sane upper bounds, far above any model: they keep hostile numbers out of all later arithmetic.
inline constexpr std::int64_t kMaxWidth = std::int64_t{1} << 20;  // hidden_size, intermediate_size, heads * head_dim
inline constexpr std::int64_t kMaxLayers = 4096;
inline constexpr std::int64_t kMaxHeads = 4096;
inline constexpr std::int64_t kMaxHeadDim = 4096;
inline constexpr std::int64_t kMaxVocabulary = std::int64_t{1} << 24;
inline constexpr std::int64_t kMaxPositions = (std::int64_t{1} << 31) - 1;

// `file` names the text in messages ("config.json"). Throws Error{corrupt} for text that is no JSON object.
json::Value parse_config(std::string_view text, std::string_view file);

// Throws Error{corrupt} for an object that is no such config (types, missing fields, contradictions) and
// Error{unsupported} for a well-formed one that sparkx cannot run.
ModelConfig read_model_config(const json::Value& root, std::string_view file);

// What generation_config.json suggests; an absent or null key is an absent value. Keys that sparkx does not use are
// passed over.
struct GenerationConfig {
  std::optional<bool> do_sample;
  std::optional<double> temperature;           // >= 0
  std::optional<double> top_p;                 // 0 … 1
  std::optional<std::int64_t> top_k;           // >= -1; -1 and 0: off
  std::optional<double> min_p;                 // 0 … 1
  std::optional<double> repetition_penalty;    // > 0
  std::optional<std::int64_t> max_new_tokens;  // >= 1
  std::optional<TokenId> bos_token_id;
  std::optional<TokenId> pad_token_id;
  std::optional<std::vector<TokenId>> eos_token_ids;  // from a number or a list
};

// Throws Error{corrupt}.
GenerationConfig parse_generation_config(std::string_view text, std::string_view file);

}  // namespace sparkx
