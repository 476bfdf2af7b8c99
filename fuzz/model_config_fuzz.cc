// formats/model_config: what is accepted keeps the promises of the header.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "core/error.h"
#include "expect.h"
#include "formats/model_config.h"

namespace {

using namespace sparkx;
using fuzz::require;
using fuzz::run;

constexpr std::initializer_list<ErrorCode> kRefusals = {ErrorCode::corrupt, ErrorCode::unsupported};

bool within(std::int64_t value, std::int64_t high) {
  return value >= 1 && value <= high;
}

void check(const ModelConfig& c) {
  require(within(c.hidden_size, kMaxWidth) && within(c.intermediate_size, kMaxWidth) &&
          within(c.attention_width(), kMaxWidth));
  require(within(c.num_hidden_layers, kMaxLayers) && within(c.vocab_size, kMaxVocabulary));
  require(within(c.max_position_embeddings, kMaxPositions));
  require(within(c.num_key_value_heads, kMaxHeads) && c.num_attention_heads % c.num_key_value_heads == 0);
  require(within(c.head_dim, kMaxHeadDim) && c.head_dim % 2 == 0);
  require(c.rms_norm_eps > 0 && c.rms_norm_eps < 1);
  require(static_cast<std::int64_t>(c.layer_types.size()) == c.num_hidden_layers);
  for (const LayerType type : c.layer_types) {
    const RopeParameters& rope = c.rope(type);
    require(rope.rope_theta > 0 && within(rope.rotary_dims, c.head_dim) && rope.rotary_dims % 2 == 0);
    require(type == LayerType::full_attention || within(c.sliding_window, kMaxPositions));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  run(kRefusals, [&] { check(read_model_config(parse_config(text, "config.json"), "config.json")); });
  run(kRefusals, [&] {
    const GenerationConfig config = parse_generation_config(text, "generation_config.json");
    require(!config.temperature || *config.temperature >= 0);
    require(!config.top_p || (*config.top_p >= 0 && *config.top_p <= 1));
    require(!config.top_k || *config.top_k >= -1);
  });
  return 0;
}
