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
// llama.cpp v0.5.0 rounds activations to 8 bits too. How far it is from the golden, with float32 caches, on each of
// these files (docs/exactness.md): 1.3 times that with 4 and 5 bits, which meet activations in groups of 32 there, 1.1
// times with 8, 1 with two levels. On codes of other formats its distance on Q4_1 and Q8_0 counts, 2.9e-2 both.
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
    ::testing::Values(
        StoredCase{"mlx-4bit-g32", kExact, kInt8Of4Bits, "4-bit (groups of 32), bfloat16"},
        StoredCase{"mlx-4bit-g64", kExact, kInt8Of4Bits, "4-bit (groups of 64), bfloat16"},
        StoredCase{"mlx-4bit-g128", kExact, kInt8Of4Bits, "4-bit (groups of 128), bfloat16"},
        StoredCase{"mlx-4bit-g32-biased", kExact, kInt8Of4Bits, "4-bit (groups of 32), float32"},
        StoredCase{"mlx-2bit-g32", kExact, kInt8Of4Bits, "2-bit (groups of 32), bfloat16"},
        StoredCase{"mlx-3bit-g64", kExact, kInt8Of4Bits, "3-bit (groups of 64), bfloat16"},
        StoredCase{"mlx-5bit-g64", kExact, kInt8Of4Bits, "5-bit (groups of 64), bfloat16"},
        StoredCase{"mlx-6bit-g128", kExact, kInt8Of4Bits, "6-bit (groups of 128), bfloat16"},
        StoredCase{"mlx-mixed-3-6", kExact, kInt8Of4Bits, "3-bit (groups of 64), 6-bit (groups of 64)"},
        StoredCase{"mlx-8bit-g64", kExact, kInt8Of8Bits, "8-bit (groups of 64), bfloat16"},
        StoredCase{"mlx-mxfp4", kExact, kInt8Of4Bits, "E2M1 (groups of 32), bfloat16"},
        StoredCase{"mlx-nvfp4", kExact, kInt8Of4Bits, "E2M1 (groups of 16), bfloat16"},
        StoredCase{"mlx-mxfp8", kExact, kExact, "E4M3 (groups of 32), bfloat16"},
        StoredCase{"mlx-w8a8", kTiesOfOutProj, kTiesOfOutProj, "W8A8, bfloat16"},
        StoredCase{"ct-w4a16-g128", kExact, kInt8Of4Bits, "4-bit (groups of 128), bfloat16"},
        StoredCase{"ct-w4a16-g32-asym", kExact, kInt8Of4Bits, "4-bit (groups of 32), bfloat16"},
        StoredCase{"ct-w8a16-channel", kExact, kInt8Of8Bits, "8-bit (one scale a row), bfloat16"},
        StoredCase{"ct-w8a8", kTiesOfAll, kTiesOfAll, "W8A8, bfloat16"},
        StoredCase{"ct-mixed-int4-int8", kTiesOfOutProjAndHead, kInt8Of4Bits + kTiesOfOutProjAndHead,
                   "4-bit (groups of 64), W8A8, bfloat16"},
        StoredCase{"ct-tied-int8-head", kTiesOfOutProjAndHead, kInt8Of4Bits + kTiesOfOutProjAndHead,
                   "4-bit (groups of 64), W8A8, bfloat16"},
        StoredCase{"gguf-Q4_0.gguf", kExact, 1.3 * 2.77e-2, "4-bit (groups of 32), float32"},
        StoredCase{"gguf-Q4_1.gguf", kExact, 1.3 * 2.94e-2, "4-bit (groups of 32), float32"},
        StoredCase{"gguf-Q5_0.gguf", kExact, 1.3 * 2.91e-2, "5-bit (groups of 32), float32"},
        StoredCase{"gguf-Q5_1.gguf", kExact, 1.3 * 2.92e-2, "5-bit (groups of 32), float32"},
        StoredCase{"gguf-IQ4_NL.gguf", kExact, 3.10e-2, "8-bit (groups of 32), IQ4 (groups of 32)"},
        StoredCase{"gguf-IQ4_XS.gguf", kExact, 4.41e-2, "8-bit (groups of 32), IQ4 (two levels, groups of 32)"},
        StoredCase{"gguf-Q2_K.gguf", kExact, 4.38e-2,
                   "2-bit (two levels, groups of 16), 3-bit (two levels, groups of 16), 8-bit (groups of "
                   "32)"},
        StoredCase{"gguf-Q3_K_M.gguf", kExact, 4.36e-2,
                   "3-bit (two levels, groups of 16), 4-bit (two levels, groups of 32), 5-bit (two "
                   "levels, groups of 32), 8-bit (groups of 32)"},
        StoredCase{"gguf-Q4_K_M.gguf", kExact, 4.53e-2,
                   "4-bit (two levels, groups of 32), 6-bit (two levels, groups of 16), 8-bit (groups of "
                   "32)"},
        StoredCase{"gguf-split/gguf-Q4_K_M-00001-of-00003.gguf", kExact, 4.53e-2,
                   "4-bit (two levels, groups of 32), 6-bit (two levels, groups of 16), 8-bit (groups of "
                   "32)"},
        StoredCase{"gguf-Q5_K_M.gguf", kExact, 4.45e-2,
                   "5-bit (two levels, groups of 32), 6-bit (two levels, groups of 16), 8-bit (groups of "
                   "32)"},
        StoredCase{"gguf-Q6_K.gguf", kExact, 4.44e-2, "6-bit (two levels, groups of 16), 8-bit (groups of 32)"},
        StoredCase{"gguf-Q8_0.gguf", kExact, 1.1 * 2.91e-2, "8-bit (groups of 32), float32"}),
    [](const auto& info) {
      std::string name = info.param.name;
      std::replace_if(
          name.begin(), name.end(), [](char c) { return c == '-' || c == '.' || c == '/'; }, '_');
      return name;
    });

}  // namespace
}  // namespace sparkx
