// --dtype bfloat16-fast: near the exact mode, and refused where the CPU has no instruction for it.
#include <gtest/gtest.h>

#include <string>

#include "core/error.h"
#include "kernels/kernels.h"
#include "model/load.h"
#include "support/model_runs.h"
#include "support/random_model.h"

namespace sparkx {
namespace {

using testing::Logits;

LoadOptions options_for(std::string_view dtype) {
  LoadOptions options;
  parse_dtype(dtype, options.weights);
  options.kv_kind = kernels::KvKind::float32;
  options.context = 512;
  return options;
}

TEST(FastBfloat16, IsNearTheExactMode) {
  if (!kernels::has_fast_bfloat16(kernels::kernel_table())) GTEST_SKIP() << "untested here: needs AVX512_BF16";
  testing::ModelSpec spec;
  spec.biases = true;
  testing::RandomModel random(spec);
  const Checkpoint checkpoint = random.open();
  const std::vector<TokenId> tokens = testing::random_tokens(100, spec.vocab_size, 3);
  const Logits exact = testing::run(*load_model(checkpoint, options_for("bfloat16")), tokens, 100);
  auto model = load_model(checkpoint, options_for("bfloat16-fast"));
  EXPECT_EQ(model->info().weights, "bfloat16-fast");
  const double whole = testing::relative_rms(testing::run(*model, tokens, 100), exact);
  EXPECT_GT(whole, 1e-4) << "activations are rounded";
  EXPECT_LT(whole, 0.05);
  EXPECT_LT(testing::relative_rms(testing::run(*model, tokens, 7), exact), 0.05) << "in chunks";
}

TEST(FastBfloat16, LeavesQuantizedMatricesExact) {
  testing::ModelSpec spec;
  spec.hidden_size = 64;
  testing::RandomModel random(spec);
  WeightOptions weights;
  parse_dtype("bfloat16-fast", weights);
  weights.quantize = Quantization{4, 32};
  const PackedWeights plan = plan_weights(random.open(), weights);
  EXPECT_EQ(plan.layers[0].q_k_v_proj.form, kernels::ActivationForm::groups_64);
  EXPECT_EQ(plan.layers[0].g_proj.form, kernels::ActivationForm::bfloat16);
}

TEST(FastBfloat16, IsRefusedWithoutTheInstruction) {
  testing::RandomModel random({});
  LoadOptions options = options_for("bfloat16-fast");
  options.kernels = &kernels::kernel_table("reference");
  try {
    load_model(random.open(), options);
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::unsupported);
    EXPECT_NE(std::string(error.what()).find("bfloat16-fast"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("AVX512_BF16"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace sparkx
