#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <numeric>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/json.h"
#include "core/random.h"
#include "kernels/math.h"
#include "sparkx/sampling.hpp"

namespace sparkx {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Probabilities 8/16, 4/16, 2/16, 1/16, 1/16.
const std::vector<float> kHalves = {std::log(8.0f), std::log(4.0f), std::log(2.0f), 0.0f, 0.0f};

SamplingOptions greedy() {
  SamplingOptions options;
  options.temperature = 0;
  return options;
}

// The probabilities of what may be drawn, most probable first.
std::vector<std::pair<TokenId, double>> distribution(SamplingOptions options, const std::vector<float>& logits,
                                                     const std::vector<TokenId>& tokens = {},
                                                     std::size_t prompt_length = 0,
                                                     const std::vector<std::uint64_t>& allowed = {}) {
  options.logprobs = static_cast<std::int64_t>(logits.size());
  options.logprobs_of = LogprobsOf::choice;
  Sampler sampler(options, static_cast<std::int64_t>(logits.size()));
  std::vector<std::pair<TokenId, double>> result;
  for (const TokenLogprob& t : sampler.sample(logits, tokens, prompt_length, allowed).top_logprobs) {
    result.emplace_back(t.id, std::exp(static_cast<double>(t.logprob)));
  }
  return result;
}

void expect_distribution(const std::vector<std::pair<TokenId, double>>& found,
                         const std::vector<std::pair<TokenId, double>>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(found[i].first, expected[i].first) << "place " << i;
    EXPECT_NEAR(found[i].second, expected[i].second, 1e-6) << "place " << i;
  }
}

TEST(Sampler, PlainSamplingHasTheDistributionOfTheLogits) {
  expect_distribution(distribution({}, kHalves), {{0, 0.5}, {1, 0.25}, {2, 0.125}, {3, 0.0625}, {4, 0.0625}});
}

TEST(Sampler, TemperatureSharpensAndFlattens) {
  SamplingOptions options;
  options.temperature = 0.5f;  // squares the weights: 64, 16, 4, 1, 1
  expect_distribution(distribution(options, kHalves),
                      {{0, 64 / 86.0}, {1, 16 / 86.0}, {2, 4 / 86.0}, {3, 1 / 86.0}, {4, 1 / 86.0}});
}

TEST(Sampler, AnyTemperatureAboveZeroIsFine) {
  SamplingOptions options;
  options.temperature = std::numeric_limits<float>::denorm_min();
  expect_distribution(distribution(options, kHalves), {{0, 1.0}});
  options.temperature = std::numeric_limits<float>::max();
  const auto flat = distribution(options, kHalves);
  ASSERT_EQ(flat.size(), 5u);
  EXPECT_NEAR(flat[4].second, 0.2, 1e-6);
}

TEST(Sampler, TopKKeepsTheLargestAndTheLowestIdOfEquals) {
  SamplingOptions options;
  options.top_k = 4;
  expect_distribution(distribution(options, kHalves), {{0, 8 / 15.0}, {1, 4 / 15.0}, {2, 2 / 15.0}, {3, 1 / 15.0}});
}

TEST(Sampler, TopKOfZeroAndMinusOneIsOff) {
  for (int top_k : {0, -1}) {
    SamplingOptions options;
    options.top_k = top_k;
    EXPECT_EQ(distribution(options, kHalves).size(), 5u);
  }
}

TEST(Sampler, TopPKeepsTheTokenThatReachesIt) {
  SamplingOptions options;
  options.top_p = 0.6f;
  expect_distribution(distribution(options, kHalves), {{0, 8 / 12.0}, {1, 4 / 12.0}});
}

TEST(Sampler, TopPSpeaksOfWhatTopKLeft) {
  SamplingOptions options;
  options.top_k = 2;
  options.top_p = 0.66f;  // token 0 has 8/12 of what is left
  expect_distribution(distribution(options, kHalves), {{0, 1.0}});
}

TEST(Sampler, TheSmallestTopPKeepsOneToken) {
  SamplingOptions options;
  for (float top_p : {0.0f, std::numeric_limits<float>::denorm_min()}) {
    options.top_p = top_p;
    expect_distribution(distribution(options, {1, 3, 3, 2}), {{1, 1.0}});
  }
}

TEST(Sampler, MinPIsAFractionOfTheLargestProbability) {
  SamplingOptions options;
  options.min_p = 0.2f;
  expect_distribution(distribution(options, kHalves), {{0, 8 / 14.0}, {1, 4 / 14.0}, {2, 2 / 14.0}});
}

TEST(Sampler, MinPOfOneKeepsOnlyTheMostProbable) {
  SamplingOptions options;
  options.min_p = 1;
  expect_distribution(distribution(options, {1, 3, 3, 2}), {{1, 0.5}, {2, 0.5}});
}

TEST(Sampler, RepetitionPenaltyCountsAnIdOncePromptIncluded) {
  SamplingOptions options = greedy();
  options.repetition_penalty = 2;
  Sampler sampler(options, 3);
  // 4 / 2 = 2 < 3; a second division would give 1, and -1 * 2 = -2.
  EXPECT_EQ(sampler.sample(std::vector<float>{4, 3, -1}, std::vector<TokenId>{0, 0}, 2).id, 1);
  EXPECT_EQ(sampler.sample(std::vector<float>{4, 1.5f, -1}, std::vector<TokenId>{0, 0}, 2).id, 0);
  EXPECT_EQ(sampler.sample(std::vector<float>{-1, -1.5f, -9}, std::vector<TokenId>{0}, 1).id, 1);
}

TEST(Sampler, RepetitionWindowLooksAtTheLastTokensOnly) {
  SamplingOptions options = greedy();
  options.repetition_penalty = 2;
  options.repetition_window = 2;
  Sampler sampler(options, 3);
  EXPECT_EQ(sampler.sample(std::vector<float>{4, 3, 2.5f}, std::vector<TokenId>{0, 1, 2}, 3).id, 0);
  EXPECT_EQ(sampler.sample(std::vector<float>{4, 3, 2.5f}, std::vector<TokenId>{2, 0, 1}, 3).id, 2);
}

TEST(Sampler, PresenceAndFrequencyPenaltiesCountGeneratedTokensOnly) {
  SamplingOptions options = greedy();
  options.presence_penalty = 1;
  options.frequency_penalty = 0.5f;
  Sampler sampler(options, 2);
  const std::vector<TokenId> tokens = {0, 0, 0, 0};
  EXPECT_EQ(sampler.sample(std::vector<float>{5, 4}, tokens, 4).id, 0);      // nothing generated
  EXPECT_EQ(sampler.sample(std::vector<float>{5, 3.25f}, tokens, 2).id, 1);  // 5 - 2 * 0.5 - 1 = 3
  EXPECT_EQ(sampler.sample(std::vector<float>{5, 2.75f}, tokens, 2).id, 0);
}

TEST(Sampler, BiasAddsToTheLogit) {
  SamplingOptions options = greedy();
  options.logit_bias = {{2, 1.5f}, {0, -1.0f}, {2, 1.0f}};
  Sampler sampler(options, 3);
  EXPECT_EQ(sampler.sample(std::vector<float>{3, 1, 0}, {}, 0).id, 2);
}

TEST(Sampler, GreedyTakesTheLowestIdOfEquals) {
  Sampler sampler(greedy(), 4);
  EXPECT_EQ(sampler.sample(std::vector<float>{0.0f, -1, 0.0f, -0.0f}, {}, 0).id, 0);
  EXPECT_EQ(sampler.sample(std::vector<float>{-0.0f, -1, 0.0f, 0.0f}, {}, 0).id, 0);
  EXPECT_EQ(sampler.sample(std::vector<float>{-2, -1, -1, -kInfinity}, {}, 0).id, 1);
}

TEST(Sampler, OnlyAllowedTokensAreChosen) {
  std::vector<float> logits(70, 0.0f);
  logits[3] = 9;
  logits[69] = 5;
  logits[1] = 4;
  const std::vector<std::uint64_t> allowed = {std::uint64_t{1} << 1, std::uint64_t{1} << 5};  // 1 and 69
  Sampler sampler(greedy(), 70);
  EXPECT_EQ(sampler.sample(logits, {}, 0).id, 3);
  EXPECT_EQ(sampler.sample(logits, {}, 0, allowed).id, 69);
  const double e = std::exp(1.0);
  expect_distribution(distribution({}, logits, {}, 0, allowed), {{69, e / (1 + e)}, {1, 1 / (1 + e)}});
}

TEST(Sampler, NothingAllowedIsAnError) {
  Sampler sampler({}, 3);
  const std::vector<std::uint64_t> none = {0};
  EXPECT_THROW(sampler.sample(std::vector<float>{1, 2, 3}, {}, 0, none), Error);
  EXPECT_THROW(sampler.sample(std::vector<float>(3, -kInfinity), {}, 0), Error);
}

TEST(Sampler, LogitsThatAreNoNumbersAreAnError) {
  Sampler sampler(greedy(), 3);
  for (float bad : {std::numeric_limits<float>::quiet_NaN(), kInfinity}) {
    try {
      sampler.sample(std::vector<float>{1, bad, 3}, {}, 0);
      FAIL() << bad;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::corrupt);
      EXPECT_NE(std::string(error.what()).find("token 1"), std::string::npos) << error.what();
    }
  }
  EXPECT_EQ(sampler.sample(std::vector<float>{1, -kInfinity, 0}, {}, 0).id, 0);
}

TEST(Sampler, LogprobsOfTheModelIgnoreEverySetting) {
  SamplingOptions options;
  options.logprobs = 2;
  options.temperature = 0.25f;
  options.top_k = 1;
  options.logit_bias = {{3, 50.0f}};
  Sampler sampler(options, 5);
  const SampledToken token = sampler.sample(kHalves, {}, 0);
  EXPECT_EQ(token.id, 3);
  EXPECT_NEAR(token.logprob, std::log(1 / 16.0), 1e-6);
  ASSERT_EQ(token.top_logprobs.size(), 2u);
  EXPECT_EQ(token.top_logprobs[0].id, 0);
  EXPECT_NEAR(token.top_logprobs[0].logprob, std::log(0.5), 1e-6);
  EXPECT_EQ(token.top_logprobs[1].id, 1);
  EXPECT_NEAR(token.top_logprobs[1].logprob, std::log(0.25), 1e-6);
}

TEST(Sampler, LogprobsOfTheChoiceAreThoseItWasDrawnFrom) {
  SamplingOptions options;
  options.logprobs = 9;
  options.logprobs_of = LogprobsOf::choice;
  options.top_k = 2;
  Sampler sampler(options, 5);
  const SampledToken token = sampler.sample(kHalves, {}, 0);
  EXPECT_NEAR(token.logprob, token.id == 0 ? std::log(8 / 12.0) : std::log(4 / 12.0), 1e-6);
  EXPECT_EQ(token.top_logprobs.size(), 2u);

  options.temperature = 0;
  const SampledToken greedy_token = Sampler(options, 5).sample(kHalves, {}, 0);
  EXPECT_EQ(greedy_token.logprob, 0.0f);
  ASSERT_EQ(greedy_token.top_logprobs.size(), 1u);
  EXPECT_EQ(greedy_token.top_logprobs[0].id, 0);
}

// Rule 11: by id modulo 16, then the tree, whether all tokens are summed or a selection. Any other order of these terms
// gives other bits.
TEST(Sampler, SumsOfSelectedTokensHaveTheOrderOfTheSumOfAll) {
  std::mt19937 random(5);
  std::normal_distribution<float> normal(0, 2);
  int differing_from_a_plain_sum = 0;
  for (int round = 0; round < 20; ++round) {
    std::vector<float> logits(1000);
    for (float& l : logits) l = normal(random);
    SamplingOptions options;
    options.logprobs = 1;
    const SampledToken of_model = Sampler(options, 1000).sample(logits, {}, 0);
    options.logprobs_of = LogprobsOf::choice;
    const SampledToken of_choice = Sampler(options, 1000).sample(logits, {}, 0);
    EXPECT_EQ(of_model.id, of_choice.id);
    EXPECT_EQ(of_model.logprob, of_choice.logprob);
    EXPECT_EQ(of_model.top_logprobs[0].logprob, of_choice.top_logprobs[0].logprob);

    const float max = *std::max_element(logits.begin(), logits.end());
    float plain = 0;
    for (float l : logits) plain += kernels::exp(l - max);
    if (-kernels::log(plain) != of_choice.top_logprobs[0].logprob) ++differing_from_a_plain_sum;
  }
  EXPECT_GT(differing_from_a_plain_sum, 5);
}

TEST(Sampler, DrawsDependOnSeedAndPositionOnly) {
  const std::vector<float> flat(1000, 0.0f);
  SamplingOptions options;
  options.seed = 42;
  Sampler first(options, 1000);
  std::vector<TokenId> tokens;
  for (int position = 0; position < 20; ++position) {
    const TokenId id = first.sample(flat, tokens, 0).id;
    // Equal weights: the choice is where the random number points to.
    EXPECT_EQ(id, static_cast<TokenId>(random_unit(42, position) * 1000)) << "position " << position;
    tokens.push_back(id);
  }
  EXPECT_EQ(Sampler(options, 1000).sample(flat, std::span(tokens).first(7), 0).id, tokens[7]);
  options.seed = 43;
  EXPECT_NE(Sampler(options, 1000).sample(flat, {}, 0).id, tokens[0]);
}

TEST(Sampler, DrawsFollowTheDistribution) {
  SamplingOptions options;
  Sampler sampler(options, 5);
  std::vector<int> count(5);
  std::vector<TokenId> tokens;
  constexpr int kDraws = 16000;
  for (int i = 0; i < kDraws; ++i) {
    ++count[sampler.sample(kHalves, tokens, 0).id];
    tokens.push_back(0);
  }
  const std::vector<double> expected = {0.5, 0.25, 0.125, 0.0625, 0.0625};
  for (int id = 0; id < 5; ++id) EXPECT_NEAR(count[id], kDraws * expected[id], 260) << "token " << id;
}

TEST(Sampler, OptionsOutsideTheirRangeAreRefusedByName) {
  const auto expect_refused = [](void (*set)(SamplingOptions&), const char* name) {
    SamplingOptions options;
    set(options);
    try {
      Sampler sampler(options, 10);
      ADD_FAILURE() << name;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
      EXPECT_NE(std::string(error.what()).find(name), std::string::npos) << error.what();
    }
  };
  expect_refused([](SamplingOptions& o) { o.temperature = -1; }, "temperature");
  expect_refused([](SamplingOptions& o) { o.temperature = std::nanf(""); }, "temperature");
  expect_refused([](SamplingOptions& o) { o.top_k = -2; }, "top_k");
  expect_refused([](SamplingOptions& o) { o.top_p = -0.5f; }, "top_p");
  expect_refused([](SamplingOptions& o) { o.top_p = 1.5f; }, "top_p");
  expect_refused([](SamplingOptions& o) { o.min_p = -0.1f; }, "min_p");
  expect_refused([](SamplingOptions& o) { o.repetition_penalty = 0; }, "repetition_penalty");
  expect_refused([](SamplingOptions& o) { o.repetition_window = -1; }, "repetition_window");
  expect_refused([](SamplingOptions& o) { o.presence_penalty = kInfinity; }, "presence_penalty");
  expect_refused([](SamplingOptions& o) { o.frequency_penalty = kInfinity; }, "frequency_penalty");
  expect_refused([](SamplingOptions& o) { o.logit_bias = {{10, 1}}; }, "token 10");
  expect_refused([](SamplingOptions& o) { o.logit_bias = {{-1, 1}}; }, "token -1");
  expect_refused([](SamplingOptions& o) { o.logprobs = -1; }, "logprobs");
}

TEST(Sampler, SizesThatDoNotFitAreRefused) {
  Sampler sampler(greedy(), 3);
  EXPECT_THROW(sampler.sample(std::vector<float>{1, 2}, {}, 0), Error);
  EXPECT_THROW(sampler.sample(std::vector<float>{1, 2, 3}, {}, 1), Error);
  EXPECT_THROW(sampler.sample(std::vector<float>{1, 2, 3}, {}, 0, std::vector<std::uint64_t>{7, 7}), Error);
  SamplingOptions options = greedy();
  options.presence_penalty = 1;
  EXPECT_THROW(Sampler(options, 3).sample(std::vector<float>{1, 2, 3}, std::vector<TokenId>{3}, 0), Error);
}

// The real vocabulary's size, where only a part is sorted, against sorting all of it in float64.
TEST(Sampler, SelectionInALargeVocabularyEqualsAFullSort) {
  constexpr std::size_t kVocabulary = 131072;
  std::mt19937 random(3);
  for (const double scale : {1.0, 3.0, 8.0}) {
    std::normal_distribution<double> normal(0, scale);
    std::vector<float> logits(kVocabulary);
    for (float& l : logits) l = static_cast<float>(normal(random));
    logits[77] = logits[70000];

    std::vector<TokenId> order(kVocabulary);
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](TokenId a, TokenId b) { return logits[a] > logits[b]; });
    double total = 0;
    for (float l : logits) total += std::exp(static_cast<double>(l));

    for (const double top_p : {0.1, 0.5, 0.95}) {
      SamplingOptions options;
      options.top_p = static_cast<float>(top_p);
      const auto found = distribution(options, logits);
      double sum = 0;
      std::size_t expected = 0;
      while (sum < static_cast<double>(options.top_p) * total)
        sum += std::exp(static_cast<double>(logits[order[expected++]]));
      // Near the border thousands of tokens are alike: float32 may decide a few of them otherwise.
      EXPECT_NEAR(static_cast<double>(found.size()), static_cast<double>(expected),
                  1 + 2e-4 * static_cast<double>(expected));
      for (std::size_t i = 0; i < found.size(); ++i) ASSERT_EQ(found[i].first, order[i]) << "place " << i;
    }
    for (const std::int64_t top_k : {1, 40, 1500, 100000}) {
      SamplingOptions options;
      options.top_k = top_k;
      const auto found = distribution(options, logits);
      ASSERT_EQ(found.size(), static_cast<std::size_t>(top_k));
      for (std::size_t i = 0; i < found.size(); ++i) ASSERT_EQ(found[i].first, order[i]) << "place " << i;
    }
  }
}

class SamplingGolden : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    const std::string path = SPARKX_SOURCE_DIR "/tests/data/sampling.json";
    std::ifstream file(path);
    std::stringstream text;
    text << file.rdbuf();
    cases_ = new json::Value(json::parse(text.str(), path));
  }
  static void TearDownTestSuite() { delete cases_; }

  static float number(const json::Value& object, const char* key) {
    return static_cast<float>(object.find(key)->as_double());
  }

  // Calls check(case, options, logits, tokens, prompt_length, allowed) for each case.
  template <typename Check>
  static void for_each_case(Check check) {
    int index = 0;
    for (const json::Value& c : cases_->as_array()) {
      SCOPED_TRACE("case " + std::to_string(index++));
      const json::Value& o = *c.find("options");
      SamplingOptions options;
      options.temperature = number(o, "temperature");
      options.top_k = o.find("top_k")->as_int64();
      options.top_p = number(o, "top_p");
      options.min_p = number(o, "min_p");
      options.repetition_penalty = number(o, "repetition_penalty");
      options.repetition_window = o.find("repetition_window")->as_int64();
      options.presence_penalty = number(o, "presence_penalty");
      options.frequency_penalty = number(o, "frequency_penalty");
      for (const json::Value& bias : o.find("logit_bias")->as_array()) {
        options.logit_bias.push_back(
            {static_cast<TokenId>(bias.as_array()[0].as_int64()), static_cast<float>(bias.as_array()[1].as_double())});
      }
      std::vector<float> logits;
      for (const json::Value& l : c.find("logits")->as_array()) logits.push_back(static_cast<float>(l.as_double()));
      std::vector<TokenId> tokens;
      for (const json::Value& t : c.find("tokens")->as_array()) tokens.push_back(static_cast<TokenId>(t.as_int64()));
      std::vector<std::uint64_t> allowed;
      if (const json::Value& ids = *c.find("allowed"); !ids.is_null()) {
        allowed.resize((logits.size() + 63) / 64);
        for (const json::Value& id : ids.as_array())
          allowed[id.as_int64() / 64] |= std::uint64_t{1} << id.as_int64() % 64;
      }
      check(c, options, logits, tokens, static_cast<std::size_t>(c.find("prompt_length")->as_int64()), allowed);
    }
  }

  static const json::Value* cases_;
};
const json::Value* SamplingGolden::cases_ = nullptr;

TEST_F(SamplingGolden, GreedyChoices) {
  for_each_case([](const json::Value& c, SamplingOptions options, const auto& logits, const auto& tokens,
                   std::size_t prompt_length, const auto& allowed) {
    options.temperature = 0;
    Sampler sampler(options, static_cast<std::int64_t>(logits.size()));
    EXPECT_EQ(sampler.sample(logits, tokens, prompt_length, allowed).id, c.find("greedy")->as_int64());
  });
}

TEST_F(SamplingGolden, Distributions) {
  for_each_case([](const json::Value& c, const SamplingOptions& options, const auto& logits, const auto& tokens,
                   std::size_t prompt_length, const auto& allowed) {
    std::vector<std::pair<TokenId, double>> expected;
    for (const json::Value& pair : c.find("distribution")->as_array()) {
      expected.emplace_back(static_cast<TokenId>(pair.as_array()[0].as_int64()),
                            std::exp(pair.as_array()[1].as_double()));
    }
    auto found = distribution(options, logits, tokens, prompt_length, allowed);
    std::erase_if(found, [](const auto& p) { return p.second <= 1e-30; });  // left out of the golden data
    expect_distribution(found, expected);
  });
}

TEST_F(SamplingGolden, Draws) {
  for_each_case([](const json::Value& c, SamplingOptions options, const auto& logits, const auto& tokens,
                   std::size_t prompt_length, const auto& allowed) {
    options.seed = 0;
    for (const json::Value& id : c.find("draws")->as_array()) {
      Sampler sampler(options, static_cast<std::int64_t>(logits.size()));
      EXPECT_EQ(sampler.sample(logits, tokens, prompt_length, allowed).id, id.as_int64()) << "seed " << options.seed;
      ++options.seed;
    }
  });
}

TEST_F(SamplingGolden, LogprobsOfTheModel) {
  for_each_case([](const json::Value& c, SamplingOptions options, const auto& logits, const auto& tokens,
                   std::size_t prompt_length, const auto& allowed) {
    options.logprobs = static_cast<std::int64_t>(logits.size());
    Sampler sampler(options, static_cast<std::int64_t>(logits.size()));
    const SampledToken token = sampler.sample(logits, tokens, prompt_length, allowed);
    const json::Array& expected = c.find("model_logprobs")->as_array();
    EXPECT_NEAR(token.logprob, expected[token.id].as_double(), 4e-6);
    ASSERT_EQ(token.top_logprobs.size(), logits.size());
    for (std::size_t i = 0; i < token.top_logprobs.size(); ++i) {
      const TokenLogprob& t = token.top_logprobs[i];
      EXPECT_NEAR(t.logprob, expected[t.id].as_double(), 4e-6);
      if (i == 0) continue;
      const TokenLogprob& before = token.top_logprobs[i - 1];
      EXPECT_TRUE(before.logprob > t.logprob || (before.logprob == t.logprob && before.id < t.id)) << "place " << i;
    }
  });
}

}  // namespace
}  // namespace sparkx
