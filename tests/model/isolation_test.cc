// What happens to one sequence never shows in another: NaNs, errors, lack of blocks.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "core/error.h"
#include "kernels/kernels.h"
#include "model/cpu_model.h"
#include "support/model_runs.h"
#include "support/random_model.h"

namespace sparkx {
namespace {

using kernels::KvKind;
using testing::Logits;
using testing::run;
using testing::same_bits;

constexpr TokenId kPoisoned = 5;  // its embedding is not finite

std::vector<TokenId> clean_tokens(std::int64_t count, std::int64_t vocab_size, unsigned seed) {
  std::vector<TokenId> tokens = testing::random_tokens(count, vocab_size, seed);
  std::replace(tokens.begin(), tokens.end(), kPoisoned, TokenId{6});
  return tokens;
}

const CpuModel& cpu(const Model& model) {
  return dynamic_cast<const CpuModel&>(model);
}

class Isolation : public ::testing::TestWithParam<KvKind> {
 protected:
  std::unique_ptr<Model> load_poisoned(float poison, const kernels::KernelTable& kernels) {
    testing::RandomModel random(spec_);
    std::vector<float> embedding = random.values("model.embedding.weight");
    for (std::int64_t i = 0; i < spec_.hidden_size; ++i) embedding[kPoisoned * spec_.hidden_size + i] = poison;
    random.set_values("model.embedding.weight", embedding);
    LoadOptions options;
    options.weights = weights_;
    options.kv_kind = GetParam();
    options.context = 4096;
    options.threads = 2;
    options.kernels = &kernels;
    return load_model(random.open(), options);
  }

  void check_non_finite_values_stay_in_their_sequence();

  testing::ModelSpec spec_;
  WeightOptions weights_;
};

void Isolation::check_non_finite_values_stay_in_their_sequence() {
  for (const kernels::KernelTable* table : kernels::kernel_tables()) {
    if (!kernels::runs_on_this_cpu(*table)) continue;
    for (float poison : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
      SCOPED_TRACE(std::string(table->name) + (std::isnan(poison) ? ", NaN" : ", Inf"));
      auto model = load_poisoned(poison, *table);
      const std::int64_t vocab = spec_.vocab_size;
      std::vector<TokenId> clean = clean_tokens(150, vocab, 1);
      std::vector<TokenId> poisoned = clean_tokens(150, vocab, 2);
      poisoned[40] = kPoisoned;
      const Logits want = run(*model, clean, 50);

      SequenceId bad = model->create_sequence(), good = model->create_sequence();
      Logits good_logits, bad_logits;
      for (std::size_t done = 0; done < clean.size(); done += 50) {
        std::vector<StepItem> items = {{bad, std::span(poisoned).subspan(done, 50), LogitsWanted::all},
                                       {good, std::span(clean).subspan(done, 50), LogitsWanted::all}};
        std::span<const StepOutput> outputs = model->step(items);
        bad_logits.insert(bad_logits.end(), outputs[0].logits.begin(), outputs[0].logits.end());
        good_logits.insert(good_logits.end(), outputs[1].logits.begin(), outputs[1].logits.end());
      }
      EXPECT_TRUE(same_bits(good_logits, want, vocab)) << "batched";
      EXPECT_TRUE(std::isfinite(bad_logits[39 * vocab]));
      EXPECT_TRUE(std::isnan(bad_logits[40 * vocab]));

      // The same blocks and buffers, full of what the poisoned sequence left.
      model->free_sequence(good);
      model->free_sequence(bad);
      for (std::int64_t chunk : {150, 64, 1})
        EXPECT_TRUE(same_bits(run(*model, clean, chunk), want, vocab)) << "reused";
    }
  }
}

TEST_P(Isolation, NonFiniteValuesStayInTheirSequence) {
  check_non_finite_values_stay_in_their_sequence();
}

// The poisoned row of the embedding is quantized with the rest; NaN codes are zeros, and the scale alone says it.
TEST_P(Isolation, NonFiniteValuesStayInTheirSequenceWhenQuantized) {
  spec_.hidden_size = 96;
  spec_.intermediate_size = 160;
  spec_.head_dim = 24;
  for (int bits : {4, 8}) {
    weights_.quantize = Quantization{bits, 32};
    check_non_finite_values_stay_in_their_sequence();
  }
}

TEST_P(Isolation, ErrorsLeaveTheOtherItemsAlone) {
  testing::RandomModel random(spec_);
  LoadOptions options;
  options.kv_kind = GetParam();
  options.context = 100;
  auto model = load_model(random.open(), options);
  std::vector<TokenId> tokens = testing::random_tokens(100, spec_.vocab_size, 1);
  const Logits want = run(*model, tokens, 100);

  SequenceId good = model->create_sequence(), full = model->create_sequence(), outside = model->create_sequence();
  SequenceId empty = model->create_sequence();
  Logits ignored;
  testing::step_all(*model, full, std::span(tokens).first(99), 99, ignored);
  std::vector<TokenId> strange = {1, 2, static_cast<TokenId>(spec_.vocab_size)};
  std::vector<StepItem> items = {{full, std::span(tokens).first(2), LogitsWanted::all},
                                 {outside, strange, LogitsWanted::all},
                                 {good, tokens, LogitsWanted::all},
                                 {empty, {}, LogitsWanted::last}};
  std::span<const StepOutput> outputs = model->step(items);
  ASSERT_EQ(outputs.size(), 4u);
  EXPECT_EQ(outputs[0].error, ErrorCode::invalid_argument);
  EXPECT_EQ(outputs[0].message, "the context of 100 positions is full: 99 are taken, 2 more were asked for");
  EXPECT_EQ(outputs[1].error, ErrorCode::invalid_argument);
  EXPECT_EQ(outputs[1].message, "token 61 is outside the vocabulary of 61");
  EXPECT_EQ(outputs[3].error, ErrorCode::invalid_argument);
  EXPECT_TRUE(same_bits(outputs[2].logits, want, spec_.vocab_size));
  EXPECT_EQ(model->length(full), 99);
  EXPECT_EQ(model->length(outside), 0);

  // The refused sequences go on as if nothing had been.
  StepItem last{full, std::span(tokens).subspan(99), LogitsWanted::last};
  EXPECT_TRUE(same_bits(model->step({&last, 1})[0].logits, std::span(want).last(spec_.vocab_size), spec_.vocab_size));
  EXPECT_TRUE(same_bits(run(*model, tokens, 100), want, spec_.vocab_size));
}

TEST_P(Isolation, RunningOutOfBlocksIsOneSequencesErrorAndCanBeCured) {
  testing::RandomModel random(spec_);
  LoadOptions options;
  options.kv_kind = GetParam();
  options.context = 4096;
  KvLayout layout = kv_layout(random.open().config(), GetParam());
  options.kv_limit_bytes = kv_sequence_bytes(layout, 600, kPassTokens) + kv_sequence_bytes(layout, 64, kPassTokens);
  auto model = load_model(random.open(), options);
  std::vector<TokenId> tokens = testing::random_tokens(600, spec_.vocab_size, 1);
  const Logits want = run(*model, tokens, 600);

  SequenceId first = model->create_sequence(), second = model->create_sequence();
  Logits first_logits, second_logits;
  testing::step_all(*model, first, std::span(tokens).first(400), 400, first_logits);
  testing::step_all(*model, second, std::span(tokens).first(64), 64, second_logits);
  std::vector<StepItem> items = {{second, std::span(tokens).subspan(64), LogitsWanted::all},
                                 {first, std::span(tokens).subspan(400), LogitsWanted::all}};
  std::span<const StepOutput> outputs = model->step(items);
  EXPECT_EQ(outputs[0].error, ErrorCode::out_of_memory);
  EXPECT_EQ(outputs[0].message, "the KV cache has no room for 536 more positions of this sequence");
  EXPECT_EQ(model->length(second), 64);
  ASSERT_FALSE(outputs[1].error) << outputs[1].message;
  first_logits.insert(first_logits.end(), outputs[1].logits.begin(), outputs[1].logits.end());
  EXPECT_TRUE(same_bits(first_logits, want, spec_.vocab_size));

  model->free_sequence(first);
  testing::step_all(*model, second, std::span(tokens).subspan(64), 400, second_logits);
  EXPECT_TRUE(same_bits(second_logits, want, spec_.vocab_size));
  model->free_sequence(second);
  EXPECT_EQ(cpu(*model).cache().pool(LayerType::full_attention).used(), 0);
  EXPECT_EQ(cpu(*model).cache().pool(LayerType::sliding_attention).used(), 0);
}

TEST_P(Isolation, SequenceWithoutRoomForABlockIsNotCreated) {
  testing::RandomModel random(spec_);
  LoadOptions options;
  options.kv_kind = GetParam();
  options.context = 64;
  options.kv_limit_bytes = kv_sequence_bytes(kv_layout(random.open().config(), GetParam()), 64, 64);
  auto model = load_model(random.open(), options);
  SequenceId first = model->create_sequence();
  Logits logits;
  testing::step_all(*model, first, std::vector<TokenId>{1}, 1, logits);
  try {
    model->create_sequence();
    FAIL() << "created";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::out_of_memory);
  }
  model->free_sequence(first);
  model->create_sequence();
}

INSTANTIATE_TEST_SUITE_P(, Isolation, ::testing::Values(KvKind::float32, KvKind::bfloat16, KvKind::int8),
                         [](const auto& info) { return std::string(kv_kind_name(info.param)); });

TEST(Steps, UnknownAndRepeatedSequencesAreTheCallersMistake) {
  testing::RandomModel random({});
  auto model = load_model(random.open(), {});
  std::vector<TokenId> tokens = {1, 2};
  SequenceId sequence = model->create_sequence();
  std::vector<StepItem> twice = {{sequence, tokens}, {sequence, tokens}};
  EXPECT_THROW(model->step(twice), Error);
  std::vector<StepItem> unknown = {{sequence, tokens}, {sequence + 1, tokens}};
  EXPECT_THROW(model->step(unknown), Error);
  EXPECT_EQ(model->length(sequence), 0);
  EXPECT_THROW(model->length(sequence + 1), Error);
  EXPECT_THROW(model->truncate(sequence, -1), Error);
  model->free_sequence(sequence);
  EXPECT_THROW(model->free_sequence(sequence), Error);
}

TEST(Steps, LogitsAreThoseAskedFor) {
  testing::ModelSpec spec;
  testing::RandomModel random(spec);
  auto model = load_model(random.open(), {});
  std::vector<TokenId> tokens = testing::random_tokens(700, spec.vocab_size, 1);
  const Logits want = run(*model, tokens, 700);
  std::vector<StepItem> items = {{model->create_sequence(), tokens, LogitsWanted::none},
                                 {model->create_sequence(), tokens, LogitsWanted::last},
                                 {model->create_sequence(), tokens, LogitsWanted::all}};
  std::span<const StepOutput> outputs = model->step(items);
  EXPECT_TRUE(outputs[0].logits.empty());
  EXPECT_TRUE(same_bits(outputs[1].logits, std::span(want).last(spec.vocab_size), spec.vocab_size));
  EXPECT_TRUE(same_bits(outputs[2].logits, want, spec.vocab_size));
  EXPECT_TRUE(model->step({}).empty());
}

}  // namespace
}  // namespace sparkx
