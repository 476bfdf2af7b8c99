// What measurements need of a model: sequences that are long without having been computed, and what a step costs.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "core/error.h"
#include "model/load.h"
#include "support/errors.h"
#include "support/random_model.h"

namespace sparkx {
namespace {

using kernels::KvKind;

testing::ModelSpec spec() {
  testing::ModelSpec spec;
  spec.hidden_size = 48;
  spec.intermediate_size = 80;
  spec.heads = 4;
  spec.kv_heads = 2;
  spec.head_dim = 16;
  spec.vocab_size = 64;
  spec.window = 40;
  spec.layers = "sfs";
  return spec;
}

LoadOptions options_for(KvKind kind) {
  LoadOptions options;
  options.context = 2000;
  options.kv_kind = kind;
  return options;
}

TEST(SyntheticSequence, StepsFromItsLengthOn) {
  testing::RandomModel random(spec());
  for (int kind = 0; kind < kernels::kKvKinds; ++kind) {
    auto model = load_model(random.open(), options_for(static_cast<KvKind>(kind)));
    for (const std::int64_t length : {0, 1, 64, 700, 1999}) {
      const SequenceId sequence = model->create_synthetic_sequence(length);
      EXPECT_EQ(model->length(sequence), length);
      const std::vector<TokenId> token = {5};
      const StepItem item{sequence, token};
      const StepOutput output = model->step(std::span(&item, 1)).front();
      ASSERT_FALSE(output.error) << output.message;
      for (const float logit : output.logits) ASSERT_TRUE(std::isfinite(logit)) << length;
      EXPECT_EQ(model->length(sequence), length + 1);
      model->free_sequence(sequence);
    }
  }
}

// Every position counts: one more changes what the next token sees.
TEST(SyntheticSequence, AllPositionsAreThere) {
  testing::RandomModel random(spec());
  auto model = load_model(random.open(), options_for(KvKind::float32));
  std::vector<std::vector<float>> logits;
  for (const std::int64_t length : {600, 601}) {
    const std::vector<TokenId> token = {5};
    const StepItem item{model->create_synthetic_sequence(length), token};
    const auto output = model->step(std::span(&item, 1)).front();
    logits.emplace_back(output.logits.begin(), output.logits.end());
  }
  EXPECT_NE(logits[0], logits[1]);
}

TEST(SyntheticSequence, LengthsOutsideTheContextAreRefused) {
  testing::RandomModel random(spec());
  auto model = load_model(random.open(), options_for(KvKind::float32));
  EXPECT_EQ(testing::error_of([&] { model->create_synthetic_sequence(2001); }),
            "invalid_argument: a sequence of 2001 positions: the context has 2000");
  EXPECT_EQ(testing::error_of([&] { model->create_synthetic_sequence(-1); }).substr(0, 17), "invalid_argument:");
}

TEST(SyntheticSequence, WithoutRoomThereIsNone) {
  testing::RandomModel random(spec());
  LoadOptions options = options_for(KvKind::float32);
  options.kv_limit_bytes = 200000;
  auto model = load_model(random.open(), options);
  EXPECT_EQ(testing::error_of([&] { model->create_synthetic_sequence(1999); }),
            "out_of_memory: the KV cache has no room for a sequence of 1999 positions");
  EXPECT_EQ(model->length(model->create_synthetic_sequence(64)), 64);
}

TEST(StepWork, CountsWeightsOnceAPassAndWhatTokensSee) {
  testing::RandomModel random(spec());
  auto model = load_model(random.open(), options_for(KvKind::bfloat16));
  // Rows as they are packed, in panels of 16, g_proj's 4 too; all multiples of 16 but those.
  const double layer_bytes = 4.0 * (128 * 48 + 16 * 48 + 48 * 64 + 2 * 80 * 48 + 48 * 80);
  const double layer_macs = 128 * 48 + 4 * 48 + 48 * 64 + 2 * 80 * 48 + 48 * 80;
  const double head = 64 * 48;
  const double position_bytes = 2 * 2 * 16 * 2;  // K and V, KV heads, channels, bytes, of one layer
  const double pair_macs = 2 * 64;               // scores and values of all heads

  const std::vector<TokenId> tokens(600, 1);
  StepItem item{model->create_synthetic_sequence(100), std::span(tokens).first(1)};
  StepWork work = model->work(std::span(&item, 1));
  EXPECT_EQ(work.bytes, 3 * layer_bytes + 4 * head + position_bytes * (101 + 2 * 40));
  EXPECT_EQ(work.multiply_adds, 3 * layer_macs + head + pair_macs * (101 + 2 * 40));

  item.logits = LogitsWanted::none;
  work = model->work(std::span(&item, 1));
  EXPECT_EQ(work.bytes, 3 * layer_bytes + position_bytes * (101 + 2 * 40));

  // Two passes, the second of 88 tokens with the logits.
  item.tokens = tokens;
  item.logits = LogitsWanted::last;
  work = model->work(std::span(&item, 1));
  EXPECT_EQ(work.bytes, 2 * 3 * layer_bytes + 4 * head + position_bytes * (612 + 700 + 2 * ((512 + 39) + (88 + 39))));
  double pairs = 0;
  for (int position = 100; position < 700; ++position) pairs += position + 1 + 2 * 40;
  EXPECT_EQ(work.multiply_adds, 600 * 3 * layer_macs + head + pair_macs * pairs);

  // Sequences share a pass, and the head.
  const StepItem items[] = {{model->create_synthetic_sequence(0), std::span(tokens).first(2)},
                            {model->create_synthetic_sequence(10), std::span(tokens).first(1)}};
  work = model->work(items);
  EXPECT_EQ(work.bytes, 3 * layer_bytes + 4 * head + position_bytes * 3 * (2 + 11));
  EXPECT_EQ(work.multiply_adds, 3 * 3 * layer_macs + 2 * head + pair_macs * 3 * (1 + 2 + 11));
}

TEST(ReadBandwidth, IsThatOfMemory) {
  testing::RandomModel random(spec());
  auto model = load_model(random.open(), options_for(KvKind::bfloat16));
  const double bandwidth = model->read_bandwidth();
  EXPECT_GT(bandwidth, 1e8);
  EXPECT_LT(bandwidth, 1e13);
}

}  // namespace
}  // namespace sparkx
