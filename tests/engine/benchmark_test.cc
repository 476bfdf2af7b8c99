#include "engine/benchmark.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "core/error.h"
#include "support/errors.h"
#include "support/scripted_model.h"

namespace sparkx {
namespace {

using testing::error_of;
using testing::ScriptedModel;
using Kind = BenchmarkResult::Test;

ScriptedModel model_with_context(std::int64_t context) {
  return ScriptedModel(100, context, [](std::span<const TokenId>) { return TokenId{1}; });
}

TEST(Benchmark, EveryTestIsMeasuredAtEveryDepthAndBatch) {
  ScriptedModel model = model_with_context(100);
  BenchmarkOptions options;
  options.prompt_tokens = {7, 5};
  options.decode_tokens = {3};
  options.depths = {0, 20};
  options.batches = {1, 2};
  options.repeat = 2;
  const BenchmarkReport report = run_benchmark(model, options);
  ASSERT_EQ(report.results.size(), 12u);
  std::size_t i = 0;
  for (const std::int64_t depth : {0, 20}) {
    for (const std::int64_t batch : {1, 2}) {
      for (const auto& [test, tokens] : {std::pair{Kind::prompt, 7}, {Kind::prompt, 5}, {Kind::decode, 3}}) {
        const BenchmarkResult& r = report.results[i++];
        EXPECT_EQ(r.test, test);
        EXPECT_EQ(r.tokens, tokens);
        EXPECT_EQ(r.depth, depth);
        EXPECT_EQ(r.batch, batch);
        EXPECT_GT(r.min, 0);
        EXPECT_LE(r.min, r.tokens_per_second);
        EXPECT_LE(r.tokens_per_second, r.max);
      }
    }
  }
  EXPECT_EQ(model.sequence_count(), 0u);
}

TEST(Benchmark, StepsAreThoseOfAPromptAndOfDecoding) {
  ScriptedModel model = model_with_context(2000);
  BenchmarkOptions options;
  options.prompt_tokens = {1100};
  options.decode_tokens = {6};
  options.batches = {2};
  options.repeat = 1;
  run_benchmark(model, options);
  const std::vector<std::size_t> want = {512, 512,                          // the warm-up of the prompt
                                         512, 512, 512, 512, 76, 76,        // both sequences together
                                         1,   1,   1,   1,   1,  1,  1, 1,  // the warm-up of decoding
                                         1,   1,   1,   1,   1,  1,  1, 1, 1, 1, 1, 1};
  EXPECT_EQ(model.steps, want);
}

TEST(Benchmark, WorkOfAllStepsIsRelatedToTheTime) {
  ScriptedModel model = model_with_context(100);
  BenchmarkOptions options;
  options.prompt_tokens = {};
  options.decode_tokens = {3};
  options.depths = {10};
  options.batches = {2};
  options.repeat = 3;
  const BenchmarkResult r = run_benchmark(model, options).results.at(0);
  // 6 tokens, and 2 · (10 + 11 + 12) positions before them.
  EXPECT_NEAR(r.multiply_adds_per_second / r.tokens_per_second, 1.0, 1e-9);
  EXPECT_NEAR(r.bytes_per_second / r.tokens_per_second, 66.0 / 6.0, 1e-9);
  EXPECT_NEAR(r.bandwidth_share, r.bytes_per_second / model.bandwidth, 1e-9);
}

TEST(Benchmark, WithoutABandwidthThereIsNoShare) {
  ScriptedModel model = model_with_context(1000);
  model.bandwidth = 0;
  EXPECT_TRUE(std::isnan(run_benchmark(model, {}).results.at(0).bandwidth_share));
}

TEST(Benchmark, ProgressCountsMeasurementsAndCancels) {
  ScriptedModel model = model_with_context(1000);
  BenchmarkOptions options;
  options.repeat = 2;
  std::int64_t last = 0;
  options.progress = [&](std::int64_t done, std::int64_t total) {
    EXPECT_EQ(total, 4);
    EXPECT_GE(done, last);
    last = done;
    return true;
  };
  run_benchmark(model, options);
  EXPECT_EQ(last, 3);  // in the last measurement
  options.progress = [](std::int64_t done, std::int64_t) { return done < 2; };
  EXPECT_EQ(error_of([&] { run_benchmark(model, options); }), "cancelled: cancelled");
  EXPECT_EQ(model.sequence_count(), 0u);
}

TEST(Benchmark, WhatGoesWrongInAStepIsSaid) {
  ScriptedModel model = model_with_context(1000);
  model.fail_at = 400;
  EXPECT_EQ(error_of([&] { run_benchmark(model, {}); }), "out_of_memory: no cache blocks left");
}

TEST(Benchmark, OptionsAreChecked) {
  ScriptedModel model = model_with_context(520);
  const auto error = [&](BenchmarkOptions options) { return error_of([&] { run_benchmark(model, options); }); };
  EXPECT_EQ(error({.prompt_tokens = {0}}), "invalid_argument: a prompt of 0: must be 1 or more");
  EXPECT_EQ(error({.decode_tokens = {0}}), "invalid_argument: a number of decoded tokens of 0: must be 1 or more");
  EXPECT_EQ(error({.depths = {-1}}), "invalid_argument: a depth of -1: must be 0 or more");
  EXPECT_EQ(error({.batches = {0}}), "invalid_argument: a batch of 0: must be 1 or more");
  EXPECT_EQ(error({.repeat = 0}), "invalid_argument: 0 measurements: must be 1 or more");
  EXPECT_EQ(error({.depths = {9}}),
            "invalid_argument: the longest sequence has 521 positions, but the context has room for 520");
  EXPECT_EQ(error({.depths = {std::numeric_limits<std::int64_t>::max()}}).substr(0, 17), "invalid_argument:");
}

}  // namespace
}  // namespace sparkx
