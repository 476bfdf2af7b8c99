// Taking tokens back: what is kept, and that the sequence then goes on with the bits of a fresh one.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "kernels/kernels.h"
#include "model/kv_cache.h"
#include "support/model_runs.h"
#include "support/random_model.h"

namespace sparkx {
namespace {

using testing::Logits;
using testing::run;
using testing::same_bits;

class Truncate : public ::testing::TestWithParam<kernels::KvKind> {
 protected:
  void SetUp() override {
    LoadOptions options;
    options.kv_kind = GetParam();
    options.context = 4096;
    testing::RandomModel random(spec_);
    model_ = load_model(random.open(), options);
    tokens_ = testing::random_tokens(700, spec_.vocab_size, 1);
    other_ = testing::random_tokens(700, spec_.vocab_size, 2);
  }

  // other_ after tokens_[0 … kept), in a fresh sequence: the last `count` positions.
  Logits fresh(std::int64_t kept, std::int64_t count) {
    std::vector<TokenId> text(tokens_.begin(), tokens_.begin() + kept);
    text.insert(text.end(), other_.begin(), other_.begin() + count);
    Logits logits = run(*model_, text, 512);
    return Logits(logits.end() - count * spec_.vocab_size, logits.end());
  }

  testing::ModelSpec spec_;  // a window of 40
  std::unique_ptr<Model> model_;
  std::vector<TokenId> tokens_, other_;
};

TEST_P(Truncate, GoesOnLikeAFreshSequence) {
  struct Case {
    std::int64_t length, to;
  };
  for (Case c : std::vector<Case>{{1, 0},
                                  {10, 9},
                                  {64, 63},
                                  {65, 64},
                                  {66, 64},
                                  {128, 64},
                                  {129, 128},
                                  {103, 40},
                                  {104, 40},
                                  {200, 199},
                                  {200, 150},
                                  {200, 136},
                                  {511, 510},
                                  {512, 511},
                                  {513, 512},
                                  {600, 540},
                                  {600, 536}}) {
    SCOPED_TRACE(std::to_string(c.length) + " to " + std::to_string(c.to));
    SequenceId sequence = model_->create_sequence();
    Logits ignored, got;
    testing::step_all(*model_, sequence, std::span(tokens_).first(c.length), 100, ignored);
    ASSERT_EQ(model_->truncate(sequence, c.to), c.to);
    EXPECT_EQ(model_->length(sequence), c.to);
    testing::step_all(*model_, sequence, std::span(other_).first(90), 33, got);
    EXPECT_TRUE(same_bits(got, fresh(c.to, 90), spec_.vocab_size));
    model_->free_sequence(sequence);
  }
}

TEST_P(Truncate, BeyondTheKeysThatAreLeftTheTokensAreSteppedAgain) {
  SequenceId sequence = model_->create_sequence();
  Logits ignored, got;
  testing::step_all(*model_, sequence, tokens_, 512, ignored);
  std::int64_t kept = model_->truncate(sequence, 300);
  ASSERT_LT(kept, 300);
  EXPECT_EQ(model_->length(sequence), kept);
  testing::step_all(*model_, sequence, std::span(tokens_).subspan(kept, 300 - kept), 512, ignored);
  testing::step_all(*model_, sequence, std::span(other_).first(90), 64, got);
  EXPECT_TRUE(same_bits(got, fresh(300, 90), spec_.vocab_size));
}

TEST_P(Truncate, BackAndForthManyTimes) {
  SequenceId sequence = model_->create_sequence();
  Logits ignored, got;
  std::int64_t length = 0;
  for (int i = 0; i < 30; ++i) {  // 20 on, 7 back, as speculation does
    testing::step_all(*model_, sequence, std::span(tokens_).subspan(length, 13), 13, ignored);
    testing::step_all(*model_, sequence, std::span(other_).subspan(i, 7), 7, ignored);
    length += 13;
    ASSERT_EQ(model_->truncate(sequence, length), length);
  }
  testing::step_all(*model_, sequence, std::span(other_).first(50), 50, got);
  EXPECT_TRUE(same_bits(got, fresh(length, 50), spec_.vocab_size));
}

INSTANTIATE_TEST_SUITE_P(, Truncate,
                         ::testing::Values(kernels::KvKind::float32, kernels::KvKind::bfloat16, kernels::KvKind::int8),
                         [](const auto& info) { return std::string(kv_kind_name(info.param)); });

// A cancelled pass leaves keys and values behind the end of the sequence, which must not show.
TEST_P(Truncate, AStepMayBeCancelledAnywhereAndDoneAgain) {
  const Logits want = run(*model_, tokens_, 512);
  SequenceId sequence = model_->create_sequence();
  std::atomic<bool> cancel = true;
  model_->cancel_steps_on(&cancel);
  StepItem item{sequence, std::span(tokens_).first(600), LogitsWanted::all};
  ASSERT_EQ(model_->step({&item, 1})[0].error, ErrorCode::cancelled);
  EXPECT_EQ(model_->length(sequence), 0);

  // At whatever layer and pass it happens to be; where the other thread comes too late, the step is done.
  for (int attempt = 0; model_->length(sequence) < 600; ++attempt) {
    cancel = false;
    std::atomic<bool> started = false;
    std::thread other([&] {
      while (!started) std::this_thread::yield();
      for (int i = 0; i < attempt * 1000; ++i) started.load();
      cancel = true;
    });
    const std::int64_t had = model_->length(sequence);
    item.tokens = std::span(tokens_).subspan(static_cast<std::size_t>(had), static_cast<std::size_t>(600 - had));
    started = true;
    const StepOutput output = model_->step({&item, 1})[0];
    other.join();
    if (output.error) {
      ASSERT_EQ(*output.error, ErrorCode::cancelled);
    } else {
      EXPECT_TRUE(
          same_bits(output.logits,
                    std::span(want).subspan(static_cast<std::size_t>(had * spec_.vocab_size), output.logits.size()),
                    spec_.vocab_size));
    }
  }
  model_->cancel_steps_on(nullptr);
  Logits rest;
  testing::step_all(*model_, sequence, std::span(tokens_).subspan(600), 512, rest);
  EXPECT_TRUE(same_bits(rest, std::span(want).last(rest.size()), spec_.vocab_size));
  model_->free_sequence(sequence);
}

}  // namespace
}  // namespace sparkx
