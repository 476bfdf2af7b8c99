// Logits against golden ones from independent float64 implementations (docs/exactness.md has the table).
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <string>

#include "formats/checkpoint.h"
#include "kernels/kernels.h"
#include "support/model_runs.h"
#include "support/oracle.h"
#include "support/safetensors_files.h"

namespace sparkx {
namespace {

using testing::Logits;

struct GoldenCase {
  const char* name;
  double bound;  // relative root mean square of all logits
};

void check_golden(const std::filesystem::path& path, double bound) {
  testing::StoredTensors golden = testing::read_safetensors(testing::golden_file(path));
  auto tokens = golden.at("tokens").as<TokenId>();
  LoadOptions options;
  options.kv_kind = kernels::KvKind::float32;
  auto model = load_model(Checkpoint::open(path), options);
  Logits logits = testing::run(*model, tokens, 512);
  double error = testing::relative_rms(logits, golden.at("logits").as<float>());
  std::printf("%-20s %5zu positions   relative rms %.2e   (%s)\n", path.filename().c_str(), tokens.size(), error,
              model->info().weights.c_str());
  EXPECT_LE(error, bound);
}

// A cache of fewer bits rounds keys and values. A bfloat16 is off by 0.8e-3 of itself (root mean square); an int8 by
// 1 / sqrt(12) of a step, which is a 127th of the largest of 64 channels: 5.7e-3 when they are normally distributed, 7
// times as much. Queries are rounded too, but these models have at most 64 channels, whose largest is smaller.
constexpr double kInt8OverBfloat16 = 7;

void check_rounded_caches(const std::filesystem::path& folder) {
  testing::StoredTensors golden = testing::read_safetensors(testing::golden_file(folder));
  auto tokens = golden.at("tokens").as<TokenId>();
  auto error_with = [&](kernels::KvKind kind) {
    LoadOptions options;
    options.kv_kind = kind;
    auto model = load_model(Checkpoint::open(folder), options);
    return testing::relative_rms(testing::run(*model, tokens, 512), golden.at("logits").as<float>());
  };
  double bfloat16 = error_with(kernels::KvKind::bfloat16), int8 = error_with(kernels::KvKind::int8);
  std::printf("%-20s relative rms with a bfloat16 cache %.2e, with int8 %.2e: %.1f times\n", folder.filename().c_str(),
              bfloat16, int8, int8 / bfloat16);
  EXPECT_LE(int8, kInt8OverBfloat16 * bfloat16);
}

class CommittedGolden : public ::testing::TestWithParam<GoldenCase> {};

TEST_P(CommittedGolden, LogitsAgree) {
  check_golden(std::filesystem::path(SPARKX_SOURCE_DIR) / "tests/data/model" / GetParam().name, GetParam().bound);
}

TEST_P(CommittedGolden, RoundedCachesStayNear) {
  check_rounded_caches(std::filesystem::path(SPARKX_SOURCE_DIR) / "tests/data/model" / GetParam().name);
}

std::string case_name(const ::testing::TestParamInfo<GoldenCase>& info) {
  std::string name = info.param.name;
  std::replace_if(
      name.begin(), name.end(), [](char c) { return c == '-' || c == '.'; }, '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(, CommittedGolden,
                         ::testing::Values(GoldenCase{"tied-bf16", 5e-6}, GoldenCase{"untied-biased-f32", 5e-6}),
                         case_name);

class OracleGolden : public ::testing::TestWithParam<GoldenCase> {};

TEST_P(OracleGolden, LogitsAgree) {
  SPARKX_NEEDS_ORACLE();
  check_golden(testing::oracle_dir() / GetParam().name, GetParam().bound);
}

TEST_P(OracleGolden, RoundedCachesStayNear) {
  SPARKX_NEEDS_ORACLE();
  check_rounded_caches(testing::oracle_dir() / GetParam().name);
}

INSTANTIATE_TEST_SUITE_P(, OracleGolden,
                         ::testing::Values(GoldenCase{"tied-f32", 5e-6}, GoldenCase{"untied-biased-f32", 5e-6},
                                           GoldenCase{"window512-f32", 2e-5}, GoldenCase{"sharded-bf16", 5e-6},
                                           GoldenCase{"tied-f16", 5e-6}, GoldenCase{"quant-source-bf16", 5e-6},
                                           GoldenCase{"gguf-F32.gguf", 5e-6}, GoldenCase{"gguf-F16.gguf", 5e-6},
                                           GoldenCase{"gguf-BF16.gguf", 5e-6},
                                           GoldenCase{"gguf-untied-F32.gguf", 5e-6}),
                         case_name);

}  // namespace
}  // namespace sparkx
