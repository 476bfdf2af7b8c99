#include "engine/generation.h"

#include <gtest/gtest.h>

#include <atomic>
#include <optional>
#include <string>
#include <vector>

#include "support/scripted_model.h"

namespace sparkx {
namespace {

using testing::ScriptedModel;
using Tokens = std::vector<TokenId>;

// Ids 0 … 25 are the letters; then markers, a blank, and 完 in three tokens of one byte each.
constexpr TokenId kBlank = 26;
constexpr TokenId kEnd = 27;    // special
constexpr TokenId kThink = 28;  // added, not special
constexpr TokenId kByte1 = 29;
constexpr TokenId kByte2 = 30;
constexpr TokenId kByte3 = 31;
constexpr std::int64_t kVocabulary = 32;

const Tokenizer& tokenizer() {
  static const Tokenizer instance = [] {
    TokenizerDescription d;
    d.source = "test";
    for (char c = 'a'; c <= 'z'; ++c) d.tokens.emplace_back(1, c);
    d.tokens.insert(d.tokens.end(), {"Ġ", "<end>", "<think>", "å", "®", "Į"});
    d.added_tokens.resize(2);
    d.added_tokens[0].id = kEnd;
    d.added_tokens[0].content = "<end>";
    d.added_tokens[0].special = true;
    d.added_tokens[1].id = kThink;
    d.added_tokens[1].content = "<think>";
    d.pre_tokenizer.resize(1);
    d.unknown = kThink;  // bytes without a token are not part of these tests, but every byte must mean something
    return Tokenizer(std::move(d));
  }();
  return instance;
}

Tokens letters(std::string_view text) {
  Tokens ids;
  for (char c : text) ids.push_back(c == ' ' ? kBlank : c - 'a');
  return ids;
}

Tokens operator+(Tokens a, const Tokens& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

const Tokens kPrompt = {1, 2, 3};

GenerationOptions greedy() {
  GenerationOptions options;
  options.sampling.temperature = 0;
  options.stop_tokens = {kEnd};
  return options;
}

// What a model that says `answer` generates after kPrompt.
struct Trial {
  explicit Trial(const Tokens& answer, GenerationOptions options = greedy(), std::int64_t context = 1000)
      : model(ScriptedModel::saying(answer, kPrompt.size(), kVocabulary, context)), sequence(model) {
    const auto on_token = options.on_token;
    options.on_token = [&](const GeneratedToken& token) {
      EXPECT_EQ(token.index, static_cast<std::int64_t>(ids.size()));
      ids.push_back(token.id);
      pieces.emplace_back(token.text);
      return !on_token || on_token(token);
    };
    result = generate(model, sequence, kPrompt, options, &tokenizer());
    EXPECT_EQ(ids, result.tokens);
    if (result.finish_reason != FinishReason::cancelled) {
      std::string together;
      for (const std::string& piece : pieces) together += piece;
      EXPECT_EQ(together, result.text);
    }
  }

  ScriptedModel model;
  TokenSequence sequence;
  Tokens ids;
  std::vector<std::string> pieces;
  GenerationResult result;
};

using Pieces = std::vector<std::string>;

TEST(Generation, EndsAtAStopTokenWhichHasNoText) {
  Trial run(letters("hello") + Tokens{kEnd});
  EXPECT_EQ(run.result.finish_reason, FinishReason::stop);
  EXPECT_EQ(run.result.text, "hello");
  EXPECT_EQ(run.pieces, (Pieces{"h", "e", "l", "l", "o", ""}));
  EXPECT_EQ(run.ids.back(), kEnd);
  EXPECT_EQ(run.result.prompt_tokens, 3);
}

TEST(Generation, TokenZeroIsAStopTokenLikeAnyOther) {
  GenerationOptions options = greedy();
  options.stop_tokens = {0};
  Trial run(letters("hea") + Tokens{kEnd}, options);
  EXPECT_EQ(run.result.finish_reason, FinishReason::stop);
  EXPECT_EQ(run.result.text, "he");
}

TEST(Generation, TokenZeroIsGeneratedLikeAnyOther) {
  Trial run(letters("baab") + Tokens{kEnd});
  EXPECT_EQ(run.result.text, "baab");
}

TEST(Generation, AStopTokenThatIsTextIsNotPrinted) {
  GenerationOptions options = greedy();
  options.stop_tokens = {kEnd, letters("x")[0]};
  Trial run(letters("abxy"), options);
  EXPECT_EQ(run.result.finish_reason, FinishReason::stop);
  EXPECT_EQ(run.result.text, "ab");
}

TEST(Generation, OnlyTheStopTokensThatWereGivenEndIt) {
  GenerationOptions options = greedy();
  options.stop_tokens = {};
  options.max_tokens = 4;
  Trial run(letters("ab") + Tokens{kEnd} + letters("c"), options);
  EXPECT_EQ(run.result.finish_reason, FinishReason::length);
  EXPECT_EQ(run.result.text, "abc");  // the marker is special: no text
}

TEST(Generation, SpecialTokensAreShownOnRequest) {
  GenerationOptions options = greedy();
  options.stop_tokens = {};
  options.max_tokens = 3;
  options.skip_special_tokens = false;
  EXPECT_EQ(Trial(Tokens{kThink, kEnd} + letters("c"), options).result.text, "<think><end>c");
  options.skip_special_tokens = true;
  EXPECT_EQ(Trial(Tokens{kThink, kEnd} + letters("c"), options).result.text, "<think>c");
}

TEST(Generation, EndsAfterMaxTokens) {
  GenerationOptions options = greedy();
  options.max_tokens = 3;
  Trial run(letters("abcdef"), options);
  EXPECT_EQ(run.result.finish_reason, FinishReason::length);
  EXPECT_EQ(run.result.text, "abc");
  // The last token needs no step: nobody asks what comes after it.
  EXPECT_EQ(run.model.steps, (std::vector<std::size_t>{3, 1, 1}));
  EXPECT_EQ(run.sequence.length(), 5);
}

TEST(Generation, AStopTokenAsTheLastOfMaxTokensIsAStop) {
  GenerationOptions options = greedy();
  options.max_tokens = 3;
  EXPECT_EQ(Trial(letters("ab") + Tokens{kEnd}, options).result.finish_reason, FinishReason::stop);
}

TEST(Generation, NoTokensAreGeneratedWhenNoneAreWanted) {
  GenerationOptions options = greedy();
  options.max_tokens = 0;
  Trial run(letters("abc"), options);
  EXPECT_EQ(run.result.finish_reason, FinishReason::length);
  EXPECT_TRUE(run.ids.empty());
  EXPECT_EQ(run.sequence.length(), 3);
}

TEST(Generation, EndsWhenTheContextIsFull) {
  Trial run(letters("abcdefgh"), greedy(), 6);
  EXPECT_EQ(run.result.finish_reason, FinishReason::length);
  EXPECT_EQ(run.result.text, "abcd");  // three positions after the prompt, and the token that those give
  EXPECT_EQ(run.sequence.length(), 6);
}

TEST(Generation, APromptThatFillsTheContextStillGivesAToken) {
  Trial run(letters("abc"), greedy(), 3);
  EXPECT_EQ(run.result.finish_reason, FinishReason::length);
  EXPECT_EQ(run.result.text, "a");
}

TEST(Generation, APromptLongerThanTheContextIsRefusedWithBothNumbers) {
  ScriptedModel model = ScriptedModel::saying(letters("a"), 3, kVocabulary, 2);
  TokenSequence sequence(model);
  try {
    generate(model, sequence, kPrompt, greedy(), &tokenizer());
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    EXPECT_STREQ(error.what(), "the prompt has 3 tokens, but the context has room for 2");
  }
  EXPECT_TRUE(model.steps.empty());
}

TEST(Generation, AnEmptyPromptIsRefused) {
  ScriptedModel model = ScriptedModel::saying(letters("a"), 0, kVocabulary);
  TokenSequence sequence(model);
  EXPECT_THROW(generate(model, sequence, {}, greedy(), &tokenizer()), Error);
}

TEST(Generation, AStopStringMaySpanTokensAndIsNeverPrinted) {
  GenerationOptions options = greedy();
  options.stop_strings = {"lo w"};
  Trial run(letters("hello world"), options);
  EXPECT_EQ(run.result.finish_reason, FinishReason::stop);
  EXPECT_EQ(run.pieces, (Pieces{"h", "e", "", "l", "", "", ""}));
  EXPECT_EQ(run.result.text, "hel");
}

TEST(Generation, TextHeldBackForAStopStringComesOutAtTheEnd) {
  GenerationOptions options = greedy();
  options.stop_strings = {"low"};
  Trial at_stop_token(letters("hello") + Tokens{kEnd}, options);
  EXPECT_EQ(at_stop_token.pieces, (Pieces{"h", "e", "", "l", "", "lo"}));
  options.max_tokens = 5;
  Trial at_length(letters("hellox"), options);
  EXPECT_EQ(at_length.pieces, (Pieces{"h", "e", "", "l", "lo"}));
}

TEST(Generation, CharactersComeOutWhole) {
  Trial run(letters("a") + Tokens{kByte1, kByte2, kByte3, kEnd});
  EXPECT_EQ(run.pieces, (Pieces{"a", "", "", "完", ""}));
  Trial cut(letters("a") + Tokens{kByte1, kByte2, kEnd});
  EXPECT_EQ(cut.pieces, (Pieces{"a", "", "", "\xEF\xBF\xBD"}));
}

TEST(Generation, TokensBeyondTheTokenizerHaveNoText) {
  ScriptedModel model = ScriptedModel::saying({0, kVocabulary + 5, 1, kEnd}, 3, kVocabulary + 10);
  TokenSequence sequence(model);
  EXPECT_EQ(generate(model, sequence, kPrompt, greedy(), &tokenizer()).text, "ab");
}

TEST(Generation, WithoutATokenizerThereIsNoTextAndNoStopString) {
  ScriptedModel model = ScriptedModel::saying(letters("ab") + Tokens{kEnd}, 3, kVocabulary);
  TokenSequence sequence(model);
  const GenerationResult result = generate(model, sequence, kPrompt, greedy(), nullptr);
  EXPECT_EQ(result.tokens, letters("ab") + Tokens{kEnd});
  EXPECT_EQ(result.text, "");
  GenerationOptions options = greedy();
  options.stop_strings = {"a"};
  TokenSequence other(model);
  EXPECT_THROW(generate(model, other, kPrompt, options, nullptr), Error);
}

TEST(Generation, ThePromptGoesInChunksWithProgress) {
  ScriptedModel model = ScriptedModel::saying(letters("a"), 11, kVocabulary);
  TokenSequence sequence(model);
  GenerationOptions options = greedy();
  options.max_tokens = 1;
  options.prompt_chunk = 4;
  std::vector<std::int64_t> progress;
  options.on_prompt = [&](std::int64_t done, std::int64_t total) {
    EXPECT_EQ(total, 11);
    progress.push_back(done);
  };
  const GenerationResult result = generate(model, sequence, Tokens(11, 2), options, &tokenizer());
  EXPECT_EQ(model.steps, (std::vector<std::size_t>{4, 4, 3}));
  EXPECT_EQ(progress, (std::vector<std::int64_t>{4, 8, 11}));
  EXPECT_EQ(result.text, "a");
}

TEST(Generation, CancelInsideThePromptEndsBeforeTheNextChunk) {
  ScriptedModel model = ScriptedModel::saying(letters("a"), 11, kVocabulary);
  TokenSequence sequence(model);
  GenerationOptions options = greedy();
  options.prompt_chunk = 4;
  std::atomic<bool> cancel = false;
  options.cancel = &cancel;
  options.on_prompt = [&](std::int64_t done, std::int64_t) { cancel = done == 8; };
  const GenerationResult result = generate(model, sequence, Tokens(11, 2), options, &tokenizer());
  EXPECT_EQ(result.finish_reason, FinishReason::cancelled);
  EXPECT_EQ(result.prompt_tokens, 8);
  EXPECT_TRUE(result.tokens.empty());
  EXPECT_EQ(sequence.length(), 8);
}

TEST(Generation, CancelBetweenTokensKeepsWhatThereIs) {
  std::atomic<bool> cancel = false;
  GenerationOptions options = greedy();
  options.cancel = &cancel;
  options.stop_strings = {"cx"};
  options.on_token = [&](const GeneratedToken& token) {
    cancel = token.index == 2;
    return true;
  };
  Trial run(letters("abcdef"), options);
  EXPECT_EQ(run.result.finish_reason, FinishReason::cancelled);
  EXPECT_EQ(run.pieces, (Pieces{"a", "b", ""}));
  EXPECT_EQ(run.result.text, "abc");  // what was held back is not lost
}

TEST(Generation, TheCallbackCanCancel) {
  GenerationOptions options = greedy();
  options.on_token = [](const GeneratedToken& token) { return token.index < 1; };
  Trial run(letters("abcdef"), options);
  EXPECT_EQ(run.result.finish_reason, FinishReason::cancelled);
  EXPECT_EQ(run.ids, letters("ab"));
}

TEST(Generation, TheCallbackIsNotAskedAfterTheEnd) {
  GenerationOptions options = greedy();
  options.on_token = [](const GeneratedToken& token) { return token.id != kEnd; };
  EXPECT_EQ(Trial(letters("ab") + Tokens{kEnd}, options).result.finish_reason, FinishReason::stop);
}

TEST(Generation, AnErrorOfTheModelIsThrown) {
  ScriptedModel model = ScriptedModel::saying(letters("abcdef"), 3, kVocabulary);
  model.fail_at = 4;
  TokenSequence sequence(model);
  try {
    generate(model, sequence, kPrompt, greedy(), &tokenizer());
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::out_of_memory);
    EXPECT_STREQ(error.what(), "no cache blocks left");
  }
}

TEST(Generation, LogprobsComeWithEachTokenWhenAsked) {
  GenerationOptions options = greedy();
  int seen = 0;
  options.on_token = [&](const GeneratedToken& token) {
    EXPECT_FALSE(token.logprob);
    EXPECT_TRUE(token.top_logprobs.empty());
    return ++seen < 2;
  };
  Trial without(letters("ab"), options);
  options.sampling.logprobs = 2;
  options.on_token = [&](const GeneratedToken& token) {
    EXPECT_TRUE(token.logprob && *token.logprob > -1e-6f && *token.logprob <= 0.0f);
    EXPECT_EQ(token.top_logprobs.size(), 2u);
    EXPECT_EQ(token.top_logprobs[0].id, token.id);
    return ++seen < 4;
  };
  Trial with(letters("ab"), options);
  EXPECT_EQ(seen, 4);
}

TEST(Generation, PenaltiesSeeThePromptButCountOnlyWhatWasGenerated) {
  // Every logit but the script's is 0; the script wants "b", which is also the whole prompt.
  ScriptedModel model(kVocabulary, 100, [](std::span<const TokenId>) { return TokenId{1}; });
  GenerationOptions options = greedy();
  options.max_tokens = 3;
  options.sampling.frequency_penalty = 15;  // 20 - 15 > 0 once, 20 - 30 < 0
  TokenSequence sequence(model);
  EXPECT_EQ(generate(model, sequence, Tokens{1, 1}, options, &tokenizer()).text, "bba");
}

TEST(Generation, ContinuesASequence) {
  ScriptedModel model(kVocabulary, 100,
                      [](std::span<const TokenId> tokens) { return static_cast<TokenId>(tokens.size()); });
  TokenSequence sequence(model);
  GenerationOptions options = greedy();
  options.max_tokens = 2;
  EXPECT_EQ(generate(model, sequence, Tokens{1}, options, &tokenizer()).tokens, (Tokens{1, 2}));
  EXPECT_EQ(sequence.length(), 2);
  EXPECT_EQ(generate(model, sequence, Tokens{2, 9}, options, &tokenizer()).tokens, (Tokens{4, 5}));
}

TEST(Generation, TheSeedDecidesTheText) {
  ScriptedModel model(kVocabulary, 1000, [](std::span<const TokenId>) { return TokenId{1}; });
  const auto text = [&](std::uint64_t seed) {
    GenerationOptions options;
    options.sampling.temperature = 20;  // the script's token has weight e, all others 1
    options.sampling.seed = seed;
    options.max_tokens = 50;
    TokenSequence sequence(model);
    return generate(model, sequence, kPrompt, options, &tokenizer()).tokens;
  };
  EXPECT_EQ(text(5), text(5));
  EXPECT_NE(text(5), text(6));
}

TEST(Generation, OptionsThatMakeNoSenseAreRefused) {
  ScriptedModel model = ScriptedModel::saying(letters("a"), 3, kVocabulary);
  TokenSequence sequence(model);
  GenerationOptions options = greedy();
  options.max_tokens = -1;
  EXPECT_THROW(generate(model, sequence, kPrompt, options, &tokenizer()), Error);
  options = greedy();
  options.prompt_chunk = 0;
  EXPECT_THROW(generate(model, sequence, kPrompt, options, &tokenizer()), Error);
  options = greedy();
  options.sampling.top_p = 2;
  EXPECT_THROW(generate(model, sequence, kPrompt, options, &tokenizer()), Error);
}

}  // namespace
}  // namespace sparkx
