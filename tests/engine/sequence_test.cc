#include "engine/sequence.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <vector>

#include "support/scripted_model.h"

namespace sparkx {
namespace {

using testing::ScriptedModel;
using Tokens = std::vector<TokenId>;

ScriptedModel echo(std::int64_t context = 1000) {
  return ScriptedModel(10, context, [](std::span<const TokenId> tokens) { return tokens.back(); });
}

Tokens copy(std::span<const TokenId> tokens) {
  return Tokens(tokens.begin(), tokens.end());
}

TEST(TokenSequence, RemembersWhatItWasGiven) {
  ScriptedModel model = echo();
  TokenSequence sequence(model);
  StepBatch batch(model);
  batch.step(sequence, Tokens{1, 2, 3}, LogitsWanted::none);
  const auto logits = batch.step(sequence, Tokens{4, 5}, LogitsWanted::all);
  EXPECT_EQ(copy(sequence.tokens()), (Tokens{1, 2, 3, 4, 5}));
  ASSERT_EQ(logits.size(), 20u);
  EXPECT_EQ(logits[4], 20.0f);
  EXPECT_EQ(logits[15], 20.0f);
}

TEST(TokenSequence, TruncateComputesAgainWhatTheModelCouldNotKeep) {
  ScriptedModel model = echo();
  model.truncation_grain = 8;
  TokenSequence sequence(model);
  StepBatch batch(model);
  Tokens tokens(21);
  for (int i = 0; i < 21; ++i) tokens[i] = i % 10;
  batch.step(sequence, tokens, LogitsWanted::none);
  model.steps.clear();

  sequence.truncate(13);
  EXPECT_EQ(model.steps, (std::vector<std::size_t>{5}));  // 8 kept
  EXPECT_EQ(copy(sequence.tokens()), Tokens(tokens.begin(), tokens.begin() + 13));
  EXPECT_EQ(model.tokens_of(1), Tokens(tokens.begin(), tokens.begin() + 13));

  sequence.truncate(8);
  EXPECT_EQ(model.steps.size(), 1u);  // nothing lost
  sequence.truncate(0);
  EXPECT_EQ(sequence.length(), 0);
}

TEST(TokenSequence, TruncateComputesALongLossInSteps) {
  ScriptedModel model = echo(5000);
  model.truncation_grain = 4096;
  TokenSequence sequence(model);
  StepBatch batch(model);
  batch.step(sequence, Tokens(2000, 3), LogitsWanted::none);
  model.steps.clear();
  sequence.truncate(1100);
  EXPECT_EQ(model.steps, (std::vector<std::size_t>{512, 512, 76}));
  EXPECT_EQ(sequence.length(), 1100);
}

TEST(TokenSequence, AFailedTruncateLeavesWhatTheModelHas) {
  ScriptedModel model = echo();
  model.truncation_grain = 8;
  TokenSequence sequence(model);
  StepBatch batch(model);
  batch.step(sequence, Tokens(20, 3), LogitsWanted::none);
  model.fail_at = 10;
  EXPECT_THROW(sequence.truncate(15), Error);
  EXPECT_EQ(sequence.length(), 8);
  EXPECT_EQ(model.length(1), 8);
}

TEST(TokenSequence, TruncateToALengthItDoesNotHaveIsRefused) {
  ScriptedModel model = echo();
  TokenSequence sequence(model);
  EXPECT_THROW(sequence.truncate(1), Error);
  EXPECT_THROW(sequence.truncate(-1), Error);
}

TEST(TokenSequence, GivesItsPlaceBack) {
  ScriptedModel model = echo();
  {
    TokenSequence sequence(model);
    EXPECT_EQ(model.sequence_count(), 1u);
  }
  EXPECT_EQ(model.sequence_count(), 0u);
}

TEST(StepBatch, AnErrorOfOneSequenceLeavesItAsItWasAndTheOthersGoOn) {
  ScriptedModel model = echo();
  model.fail_at = 3;
  TokenSequence good(model);
  TokenSequence bad(model);
  StepBatch batch(model);
  const Tokens few = {1, 2};
  const Tokens many = {1, 2, 3, 4};
  const std::vector<SequenceStep> steps = {{&bad, many}, {&good, few}};
  const auto outputs = batch.step(steps);
  EXPECT_EQ(outputs[0].error, std::optional(ErrorCode::out_of_memory));
  EXPECT_FALSE(outputs[1].error);
  EXPECT_EQ(bad.length(), 0);
  EXPECT_EQ(good.length(), 2);
}

TEST(StepBatch, ASequenceOfAnotherModelIsRefused) {
  ScriptedModel model = echo();
  ScriptedModel other = echo();
  TokenSequence stranger(other);
  StepBatch batch(model);
  EXPECT_THROW(batch.step(stranger, Tokens{1}, LogitsWanted::none), Error);
}

}  // namespace
}  // namespace sparkx
