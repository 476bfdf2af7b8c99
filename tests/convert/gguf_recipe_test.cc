// tests/data/gguf_conversion.json says what llama-quantize chooses (tests/oracle/make_gguf_conversion.py).
#include "convert/gguf_recipe.h"

#include <gtest/gtest.h>

#include <sstream>

#include "core/json.h"
#include "support/errors.h"
#include "support/temp_dir.h"

namespace sparkx {
namespace {

using testing::error_of;

struct Matrix {
  std::string path;
  std::int64_t columns;
};

std::vector<Matrix> matrices(std::int64_t layers, std::int64_t hidden, std::int64_t attention,
                             std::int64_t intermediate, bool tied) {
  std::vector<Matrix> all = {{"model.embedding", hidden}};
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    const std::string prefix = fmt::format("model.layers.{}.", layer);
    all.push_back({prefix + "self_attn.q_k_v_proj", hidden});
    all.push_back({prefix + "self_attn.g_proj", hidden});
    all.push_back({prefix + "self_attn.out_proj", attention});
    all.push_back({prefix + "mlp.gate_proj", hidden});
    all.push_back({prefix + "mlp.up_proj", hidden});
    all.push_back({prefix + "mlp.down_proj", intermediate});
  }
  if (!tied) all.push_back({"lm_head", hidden});
  return all;
}

TEST(GgufRecipe, EveryMatrixHasTheTypeThatLlamaQuantizeChooses) {
  const json::Value document =
      json::parse(testing::read_file(SPARKX_SOURCE_DIR "/tests/data/gguf_conversion.json"), "gguf_conversion.json");
  for (const json::Value& shape : document.find("shapes")->as_array()) {
    const auto size = [&shape](const char* name) { return shape.find(name)->as_int64(); };
    ModelConfig config;
    config.num_hidden_layers = size("layers");
    config.tie_word_embeddings = shape.find("tied")->as_bool();
    for (const auto& [name, types] : shape.find("types")->as_object()) {
      std::istringstream expected(types.as_string());
      for (const auto& [path, columns] : matrices(size("layers"), size("hidden"), size("attention"),
                                                  size("intermediate"), config.tie_word_embeddings)) {
        std::string type, reason;
        ASSERT_TRUE(expected >> type);
        const GgufType& found = gguf_recipe_type(find_gguf_recipe(name), path, columns, config, &reason);
        EXPECT_EQ(found.name, type) << name << ", " << path << ", " << columns << " columns";
        EXPECT_EQ(columns % found.block_size, 0);
      }
      std::string more;
      EXPECT_FALSE(expected >> more);
    }
  }
}

TEST(GgufRecipe, SaysWhyATypeIsAnother) {
  ModelConfig config;
  config.num_hidden_layers = 4;
  std::string reason;
  gguf_recipe_type(find_gguf_recipe("Q4_K_M"), "model.layers.0.mlp.up_proj", 256, config, &reason);
  EXPECT_EQ(reason, "");
  gguf_recipe_type(find_gguf_recipe("Q4_K_M"), "model.layers.0.mlp.up_proj", 96, config, &reason);
  EXPECT_EQ(reason, "rows of 96 are no multiple of the 256 in a block of Q4_K");
}

TEST(GgufRecipe, NamesAreThoseOfLlamaQuantize) {
  EXPECT_STREQ(find_gguf_recipe("q4_k_m").name, "Q4_K_M");
  EXPECT_STREQ(find_gguf_recipe("Q4_K").name, "Q4_K_M");
  EXPECT_STREQ(find_gguf_recipe("8bit").name, "Q8_0");
  EXPECT_EQ(find_gguf_recipe("Q4_K_M").file_type, 15u);
  EXPECT_EQ(find_gguf_recipe("bf16").file_type, 32u);
  EXPECT_EQ(
      error_of([] { find_gguf_recipe("IQ2_XS"); }),
      "invalid_argument: \"IQ2_XS\" is no quantization that GGUF files have here: F32, F16, BF16, Q8_0, Q6_K, Q5_K_M, "
      "Q5_K_S, Q5_1, Q5_0, Q4_K_M, Q4_K_S, Q4_1, Q4_0");
  EXPECT_EQ(gguf_file_type(*find_gguf_type("Q4_1")), 3u);
  EXPECT_EQ(gguf_file_type(*find_gguf_type("Q4_K")), 15u);
}

}  // namespace
}  // namespace sparkx
