#include "formats/published_shapes.h"

#include <fmt/core.h>

namespace sparkx {
namespace {

struct Shape {
  const char* name;
  int layers;
  int hidden_size;
  int intermediate_size;
  int heads;
  int kv_heads;
};

constexpr Shape kShapes[] = {{"1.7b", 28, 2048, 6656, 8, 2}, {"4b", 36, 2560, 10240, 16, 4}};

// Without layer_types: the published pattern is the default one.
constexpr const char* kConfig = R"({{
  "model_type": "spark2_5", "hidden_act": "gelu", "gate_attn_act_mode": "sigmoid", "headwise_attn_output_gate": true,
  "attention_bias": false, "mlp_bias": false, "tie_word_embeddings": true, "rms_norm_eps": 1e-6,
  "vocab_size": 131072, "max_position_embeddings": 1048576, "sliding_window": 512, "head_dim": 256,
  "num_hidden_layers": {}, "hidden_size": {}, "intermediate_size": {},
  "num_attention_heads": {}, "num_key_value_heads": {},
  "rope_parameters": {{
    "sliding_attention": {{"rope_theta": 10000.0, "partial_rotary_factor": 1.0}},
    "full_attention": {{"rope_theta": 5000000.0, "partial_rotary_factor": 0.25}}
  }}
}})";

}  // namespace

std::optional<std::string> published_config(std::string_view shape) {
  for (const Shape& s : kShapes) {
    if (shape == s.name) {
      return fmt::format(kConfig, s.layers, s.hidden_size, s.intermediate_size, s.heads, s.kv_heads);
    }
  }
  return std::nullopt;
}

}  // namespace sparkx
