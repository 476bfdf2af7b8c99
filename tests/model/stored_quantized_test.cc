// Checkpoints that come quantized, against goldens computed in float64 from the weights as they are stored.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <string>

#include "formats/checkpoint.h"
#include "model/load.h"
#include "support/model_runs.h"
#include "support/oracle.h"
#include "support/safetensors_files.h"

namespace sparkx {
namespace {

// Relative root mean square of all logits. Without W8A8 the float32 bound is that of sums in another order. With it the
// largest activation of every token lies on a rounding tie, which float32 and float64 decide differently; the bounds
// are 1.2 times what the reference gives when it rounds activations in float32 (docs/exactness.md).
constexpr double kExact = 1e-5;
constexpr double kTiesOfOutProj = 1.2 * 2.3e-3;
constexpr double kTiesOfOutProjAndHead = 1.2 * 6.8e-3;
constexpr double kTiesOfAll = 1.2 * 3.4e-2;
// llama.cpp is 2.9e-2 away on Q4_1 and Q8_0 of this source; 1.3 times that with 4 bits, 1.1 times with 8.
constexpr double kInt8Of4Bits = 1.3 * 2.9e-2;
constexpr double kInt8Of8Bits = 1.1 * 2.9e-2;

struct StoredCase {
  const char* name;
  double float32_bound;
  double int8_bound;
  const char* kinds;
};

class OracleStored : public ::testing::TestWithParam<StoredCase> {
 protected:
  void check(ActivationMode activations, double bound) {
    const std::filesystem::path path = testing::oracle_dir() / GetParam().name;
    const auto golden = testing::read_safetensors(testing::golden_file(path));
    LoadOptions options;
    options.weights.activations = activations;
    options.kv_kind = kernels::KvKind::float32;
    auto model = load_model(Checkpoint::open(path), options);
    const auto tokens = golden.at("tokens").as<TokenId>();
    const double error = testing::relative_rms(testing::run(*model, tokens, 512), golden.at("logits").as<float>());
    std::printf("%-22s %-7s activations   relative rms %.2e   (%s)\n", GetParam().name,
                activations == ActivationMode::int8 ? "int8" : "float32", error, model->info().weights.c_str());
    EXPECT_LE(error, bound);
    EXPECT_EQ(model->info().weights, GetParam().kinds);
  }
};

TEST_P(OracleStored, LogitsAgreeWithFloat32Activations) {
  SPARKX_NEEDS_ORACLE();
  check(ActivationMode::float32, GetParam().float32_bound);
}

TEST_P(OracleStored, LogitsAreNearWithInt8Activations) {
  SPARKX_NEEDS_ORACLE();
  check(ActivationMode::int8, GetParam().int8_bound);
}

INSTANTIATE_TEST_SUITE_P(
    , OracleStored,
    ::testing::Values(StoredCase{"mlx-4bit-g32", kExact, kInt8Of4Bits, "4-bit (groups of 32), bfloat16"},
                      StoredCase{"mlx-4bit-g64", kExact, kInt8Of4Bits, "4-bit (groups of 64), bfloat16"},
                      StoredCase{"mlx-4bit-g128", kExact, kInt8Of4Bits, "4-bit (groups of 128), bfloat16"},
                      StoredCase{"mlx-4bit-g32-biased", kExact, kInt8Of4Bits, "4-bit (groups of 32), float32"},
                      StoredCase{"mlx-8bit-g64", kExact, kInt8Of8Bits, "8-bit (groups of 64), bfloat16"},
                      StoredCase{"mlx-w8a8", kTiesOfOutProj, kTiesOfOutProj, "W8A8, bfloat16"},
                      StoredCase{"ct-w4a16-g128", kExact, kInt8Of4Bits, "4-bit (groups of 128), bfloat16"},
                      StoredCase{"ct-w4a16-g32-asym", kExact, kInt8Of4Bits, "4-bit (groups of 32), bfloat16"},
                      StoredCase{"ct-w8a16-channel", kExact, kInt8Of8Bits, "8-bit (one scale a row), bfloat16"},
                      StoredCase{"ct-w8a8", kTiesOfAll, kTiesOfAll, "W8A8, bfloat16"},
                      StoredCase{"ct-mixed-int4-int8", kTiesOfOutProjAndHead, kInt8Of4Bits + kTiesOfOutProjAndHead,
                                 "4-bit (groups of 64), W8A8, bfloat16"},
                      StoredCase{"ct-tied-int8-head", kTiesOfOutProjAndHead, kInt8Of4Bits + kTiesOfOutProjAndHead,
                                 "4-bit (groups of 64), W8A8, bfloat16"},
                      StoredCase{"gguf-Q4_0.gguf", kExact, kInt8Of4Bits, "4-bit (groups of 32), float32"},
                      StoredCase{"gguf-Q4_1.gguf", kExact, kInt8Of4Bits, "4-bit (groups of 32), float32"},
                      StoredCase{"gguf-Q8_0.gguf", kExact, kInt8Of8Bits, "8-bit (groups of 32), float32"}),
    [](const auto& info) {
      std::string name = info.param.name;
      std::replace_if(
          name.begin(), name.end(), [](char c) { return c == '-' || c == '.'; }, '_');
      return name;
    });

}  // namespace
}  // namespace sparkx
