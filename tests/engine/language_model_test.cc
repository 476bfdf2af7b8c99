// The public API on real models: the built-in one, and the oracle's where it is there.
#include <gtest/gtest.h>

#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "sparkx/sparkx.hpp"
#include "support/errors.h"
#include "support/oracle.h"
#include "support/temp_dir.h"

namespace sparkx {
namespace {

using testing::error_of;
using testing::read_file;
using testing::TempDir;
using Tokens = std::vector<TokenId>;

ModelOptions with_threads(int threads) {
  ModelOptions options;
  options.threads = threads;
  return options;
}

Tokens copy(std::span<const TokenId> tokens) {
  return Tokens(tokens.begin(), tokens.end());
}

std::vector<float> logits_after(LanguageModel& model, Sequence& sequence, const Tokens& tokens) {
  const BatchItem item{&sequence, tokens, LogitsWanted::last};
  const StepOutput output = model.step(std::span(&item, 1)).front();
  EXPECT_FALSE(output.error) << output.message;
  return {output.logits.begin(), output.logits.end()};
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

Tokens some_tokens(std::size_t count, std::int64_t vocab_size) {
  Tokens tokens(count);
  for (std::size_t i = 0; i < count; ++i)
    tokens[i] = static_cast<TokenId>((i * 7919 + 3) % static_cast<std::size_t>(vocab_size));
  return tokens;
}

TEST(BuiltinModel, LoadsWithoutAnyFile) {
  LanguageModel model = LanguageModel::builtin(with_threads(1));
  EXPECT_GT(model.info().vocab_size, 0);
  EXPECT_EQ(model.info().context, model.info().max_position_embeddings);  // it is that small
  EXPECT_TRUE(model.has_tokenizer());
  EXPECT_TRUE(model.warnings().empty()) << model.warnings().front();
}

TEST(BuiltinModel, IsGreedyAndEndsAtItsEndMarker) {
  LanguageModel model = LanguageModel::builtin(with_threads(1));
  const GenerationOptions options = model.generation_defaults();
  EXPECT_EQ(options.sampling.temperature, 0.0f);
  const std::optional<TokenId> end = model.tokenizer().find("<｜end▁of▁sentence｜>");
  ASSERT_TRUE(end);
  EXPECT_EQ(*end, 1);
  EXPECT_EQ(options.stop_tokens, Tokens{1});
}

TEST(BuiltinModel, TheFirstQuestionBeginsTheSameEveryTime) {
  LanguageModel model = LanguageModel::builtin(with_threads(2));
  GenerationOptions options = model.generation_defaults();
  options.max_tokens = 60;
  const Tokens prompt = model.tokenizer().encode_chat({messages_json({{"user", "53乘以42的结果是多少？"}})});
  std::string streamed;
  options.on_token = [&](const GeneratedToken& token) {
    streamed += token.text;
    return true;
  };
  Sequence first = model.create_sequence();
  const GenerationResult result = model.generate(first, prompt, options);
  EXPECT_FALSE(result.text.empty());
  EXPECT_EQ(streamed, result.text);

  LanguageModel other = LanguageModel::builtin(with_threads(1));
  Sequence second = other.create_sequence();
  options.on_token = nullptr;
  options.prompt_chunk = 5;
  EXPECT_EQ(other.generate(second, prompt, options).tokens, result.tokens);
}

TEST(LanguageModel, ABatchGivesEachSequenceTheLogitsThatItGetsAlone) {
  LanguageModel model = LanguageModel::builtin(with_threads(2));
  const Tokens tokens = some_tokens(100, model.info().vocab_size);
  Sequence alone = model.create_sequence();
  const std::vector<float> expected = logits_after(model, alone, tokens);

  Sequence first = model.create_sequence();
  Sequence second = model.create_sequence();
  const std::span<const TokenId> all = tokens;
  const std::vector<BatchItem> one = {{&second, all.first(33), LogitsWanted::none},
                                      {&first, all.first(90), LogitsWanted::none}};
  model.step(one);
  const std::vector<BatchItem> two = {{&first, all.subspan(90)}, {&second, all.subspan(33), LogitsWanted::all}};
  const auto outputs = model.step(two);
  EXPECT_TRUE(same_bits({outputs[0].logits.begin(), outputs[0].logits.end()}, expected));
  ASSERT_EQ(outputs[1].logits.size(), 67 * expected.size());
  const auto last = outputs[1].logits.last(expected.size());
  EXPECT_TRUE(same_bits({last.begin(), last.end()}, expected));
  EXPECT_EQ(copy(second.tokens()), tokens);
}

TEST(LanguageModel, TruncationForgetsWithoutATrace) {
  LanguageModel model = LanguageModel::builtin(with_threads(1));
  const Tokens tokens = some_tokens(300, model.info().vocab_size);
  Sequence sequence = model.create_sequence();
  logits_after(model, sequence, tokens);
  sequence.truncate(150);
  EXPECT_EQ(sequence.length(), 150);
  const std::vector<float> found = logits_after(model, sequence, {5, 6});

  Tokens fresh_tokens(tokens.begin(), tokens.begin() + 150);
  fresh_tokens.insert(fresh_tokens.end(), {5, 6});
  Sequence fresh = model.create_sequence();
  EXPECT_TRUE(same_bits(found, logits_after(model, fresh, fresh_tokens)));
}

TEST(LanguageModel, ASequenceKeepsItsModelAlive) {
  std::optional<LanguageModel> model = LanguageModel::builtin(with_threads(1));
  Sequence sequence = model->create_sequence();
  logits_after(*model, sequence, {1, 2, 3, 4});
  model.reset();
  sequence.truncate(2);
  EXPECT_EQ(copy(sequence.tokens()), (Tokens{1, 2}));
}

TEST(LanguageModel, AStepThatFailsSaysSoAndLeavesTheSequence) {
  ModelOptions options = with_threads(1);
  options.context = 8;
  LanguageModel model = LanguageModel::builtin(options);
  Sequence sequence = model.create_sequence();
  const Tokens tokens(9, 3);
  const BatchItem item{&sequence, tokens};
  const StepOutput output = model.step(std::span(&item, 1)).front();
  EXPECT_EQ(output.error, std::optional(ErrorCode::invalid_argument));
  EXPECT_FALSE(output.message.empty());
  EXPECT_EQ(sequence.length(), 0);
}

TEST(LanguageModel, LoadingCanBeCancelled) {
  ModelOptions options = with_threads(1);
  options.progress = [](std::uint64_t, std::uint64_t) { return false; };
  EXPECT_EQ(error_of([&] { LanguageModel::builtin(options); }), "cancelled: cancelled");
}

TEST(LanguageModel, LoadingReportsAllBytes) {
  ModelOptions options = with_threads(2);
  std::uint64_t last = 0;
  std::uint64_t total = 0;
  options.progress = [&](std::uint64_t done, std::uint64_t of) {
    EXPECT_GE(done, last);
    last = done;
    total = of;
    return true;
  };
  LanguageModel::builtin(options);
  EXPECT_GT(total, 0u);
  EXPECT_EQ(last, total);
}

TEST(LanguageModel, OptionsThatMakeNoSenseAreRefused) {
  ModelOptions options;
  options.dtype = "int3";
  EXPECT_TRUE(error_of([&] { LanguageModel::builtin(options); }).starts_with("invalid_argument: "));
  options = {};
  options.kv_dtype = "float16";
  EXPECT_TRUE(error_of([&] { LanguageModel::builtin(options); }).starts_with("invalid_argument: "));
  EXPECT_TRUE(error_of([&] { LanguageModel::builtin(with_threads(0)); }).starts_with("invalid_argument: "));
  options = {};
  options.context = 0;
  EXPECT_TRUE(error_of([&] { LanguageModel::builtin(options); }).starts_with("invalid_argument: "));
}

TEST(LanguageModel, AFolderThatIsNotThereIsNamed) {
  EXPECT_NE(error_of([] { LanguageModel::load("/no/such/model"); }).find("/no/such/model"), std::string::npos);
  EXPECT_NE(error_of([] { TextTokenizer::load("/no/such/model"); }).find("/no/such/model"), std::string::npos);
}

TEST(LanguageModel, AGgufFileTokenizesAndRendersAsTheFolderItWasMadeOf) {
  SPARKX_NEEDS_ORACLE();
  const TextTokenizer file = TextTokenizer::load(testing::oracle_dir() / "gguf-Q4_K_M.gguf");
  const TextTokenizer folder = TextTokenizer::load(testing::oracle_dir() / "quant-source-bf16");
  const char* texts[] = {"The quick brown fox jumps over the lazy dog.", "53乘以42的结果是多少？",
                         "<think>a</think> 1234 e\u0301 \r\n\t  x",
                         "<｜end▁of▁sentence｜><|User|>\xff\xfe 👩‍👩‍👧 ٣٤٥"};
  for (const char* text : texts) {
    EXPECT_EQ(file.encode(text), folder.encode(text)) << text;
    EXPECT_EQ(file.encode(text, false), folder.encode(text, false)) << text;
    EXPECT_EQ(file.decode(file.encode(text), true), folder.decode(folder.encode(text), true)) << text;
  }
  const ChatRequest request{messages_json({{.content = "<|Bot|> hi"}})};
  EXPECT_EQ(file.render_chat(request), folder.render_chat(request));
  EXPECT_EQ(file.encode_chat(request), folder.encode_chat(request));
  ModelOptions options = with_threads(1);
  LanguageModel model = LanguageModel::load(testing::oracle_dir() / "gguf-F32.gguf", options);
  EXPECT_EQ(model.generation_defaults().stop_tokens, std::vector<TokenId>{1});
  EXPECT_TRUE(model.has_tokenizer());
}

TEST(LanguageModel, NeedsNoTokenizerButSaysWhenItIsAskedForOne) {
  ModelOptions options = with_threads(1);
  options.tokenizer = false;
  LanguageModel model = LanguageModel::builtin(options);
  EXPECT_FALSE(model.has_tokenizer());
  EXPECT_EQ(error_of([&] { model.tokenizer(); }), "not_found: built-in model/tokenizer.json: there is no such file");
}

TEST(LanguageModel, TheTokenizerIsShownBeforeTheWeightsAreRead) {
  ModelOptions options = with_threads(1);
  options.progress = [](std::uint64_t, std::uint64_t) -> bool { throw std::logic_error("reading"); };
  options.on_tokenizer = [](const TextTokenizer& tokenizer) {
    throw std::runtime_error(std::to_string(*tokenizer.find("<think>")));
  };
  try {
    LanguageModel::builtin(options);
    FAIL() << "loaded";
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "3");
  }
}

TEST(LanguageModel, WithoutATokenizerItStillGeneratesTokens) {
  ModelOptions model_options = with_threads(1);
  model_options.tokenizer = false;
  LanguageModel model = LanguageModel::builtin(model_options);
  GenerationOptions options = model.generation_defaults();
  options.max_tokens = 5;
  options.stop_tokens = {};
  Sequence sequence = model.create_sequence();
  const GenerationResult result = model.generate(sequence, Tokens{0, 10, 20}, options);
  EXPECT_EQ(result.tokens.size(), 5u);
  EXPECT_EQ(result.text, "");
}

class SuggestedOptions : public ::testing::Test {
 protected:
  // The built-in model's folder with another generation_config.json.
  GenerationOptions with(const std::string& generation_config) {
    TempDir folder;
    for (const char* name : {"config.json", "model.safetensors"}) {
      folder.write(name, read_file(std::filesystem::path(SPARKX_SOURCE_DIR) / "models/mini" / name));
    }
    if (!generation_config.empty()) folder.write("generation_config.json", generation_config);
    return LanguageModel::load(folder.path(), with_threads(1)).generation_defaults();
  }
};

TEST_F(SuggestedOptions, AreThoseOfTheFile) {
  const GenerationOptions o = with(
      R"({"do_sample": true, "temperature": 0.5, "top_p": 0.75, "top_k": 30, "min_p": 0.125, "repetition_penalty": 1.5,
          "eos_token_id": [1, 0, 7]})");
  EXPECT_EQ(o.sampling.temperature, 0.5f);
  EXPECT_EQ(o.sampling.top_p, 0.75f);
  EXPECT_EQ(o.sampling.top_k, 30);
  EXPECT_EQ(o.sampling.min_p, 0.125f);
  EXPECT_EQ(o.sampling.repetition_penalty, 1.5f);
  EXPECT_EQ(o.stop_tokens, (Tokens{1, 0, 7}));
}

TEST_F(SuggestedOptions, WithoutSamplingAreGreedy) {
  EXPECT_EQ(with(R"({"do_sample": false, "temperature": 0.5})").sampling.temperature, 0.0f);
}

TEST_F(SuggestedOptions, WithoutAFileAreTheRecommendedOnesAndTheConfigsEnd) {
  const GenerationOptions o = with("");
  EXPECT_EQ(o.sampling.temperature, 1.0f);
  EXPECT_EQ(o.sampling.top_p, 0.95f);
  EXPECT_EQ(o.sampling.top_k, 0);
  EXPECT_EQ(o.sampling.repetition_penalty, 1.0f);
  EXPECT_EQ(o.stop_tokens, Tokens{1});
}

std::string logits_file(LanguageModel& model, const Tokens& tokens, std::int64_t chunk) {
  TempDir folder;
  model.write_logits(tokens, folder / "logits.safetensors", chunk);
  return read_file(folder / "logits.safetensors");
}

TEST(WriteLogits, GivesTheSameFileForAnyChunkAndNumberOfThreads) {
  LanguageModel one = LanguageModel::builtin(with_threads(1));
  LanguageModel two = LanguageModel::builtin(with_threads(2));
  const Tokens tokens = some_tokens(200, one.info().vocab_size);  // three windows
  const std::string expected = logits_file(one, tokens, 200);
  EXPECT_GT(expected.size(), 200 * static_cast<std::size_t>(one.info().vocab_size) * sizeof(float));
  for (const std::int64_t chunk : {1, 7, 64}) {
    EXPECT_TRUE(logits_file(two, tokens, chunk) == expected) << "chunks of " << chunk;
  }
}

TEST(WriteLogits, RefusesWhatCannotBeComputedAndLeavesNoFile) {
  ModelOptions options = with_threads(1);
  options.context = 10;
  LanguageModel model = LanguageModel::builtin(options);
  TempDir folder;
  const auto path = folder / "logits.safetensors";
  const auto error = [&](const Tokens& tokens, std::int64_t chunk) {
    return error_of([&] { model.write_logits(tokens, path, chunk); });
  };
  EXPECT_EQ(error({}, 1), "invalid_argument: there are no tokens");
  EXPECT_EQ(error(Tokens(11, 3), 1), "invalid_argument: 11 tokens, but the context has room for 10");
  EXPECT_TRUE(error({1}, 0).starts_with("invalid_argument: "));
  EXPECT_TRUE(error({1, 1 << 30}, 1).starts_with("invalid_argument: "));
  EXPECT_EQ(error_of([&] {
              model.write_logits(Tokens{1, 2}, path, 1, [](std::int64_t, std::int64_t) { return false; });
            }),
            "cancelled: cancelled");
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(TextTokenizer, RoundTripsAndKeepsMarkersOutOfMessages) {
  const TextTokenizer tokenizer = TextTokenizer::builtin();
  const std::string text = "53乘以42 <think> é\r\n 😀";
  EXPECT_EQ(tokenizer.decode(tokenizer.encode(text)), text);
  EXPECT_EQ(tokenizer.decode(tokenizer.encode(text, false)), text);

  const TokenId think = *tokenizer.find("<think>");
  const auto count = [&](const Tokens& tokens) { return std::count(tokens.begin(), tokens.end(), think); };
  EXPECT_EQ(count(tokenizer.encode(text)), 1);
  EXPECT_EQ(count(tokenizer.encode(text, false)), 0);
  EXPECT_EQ(count(tokenizer.encode_chat({messages_json({{"user", text}})})), 1);  // that of the opened reasoning
  EXPECT_EQ(tokenizer.encode_chat({messages_json({{"user", text}})}).back(), think);
}

TEST(OracleModel, LogitsAreTheSameForAnyChunkAndNumberOfThreads) {
  SPARKX_NEEDS_ORACLE();
  for (const char* name : {"tied-f32", "untied-biased-f32"}) {
    const auto folder = testing::oracle_dir() / name;
    const Tokens tokens = read_token_file(folder / "golden.safetensors");
    LanguageModel one = LanguageModel::load(folder, with_threads(1));
    LanguageModel two = LanguageModel::load(folder, with_threads(2));
    const std::string expected = logits_file(one, tokens, static_cast<std::int64_t>(tokens.size()));
    for (const std::int64_t chunk : {1, 7, 512}) {
      EXPECT_TRUE(logits_file(two, tokens, chunk) == expected) << name << ", chunks of " << chunk;
    }
  }
}

}  // namespace
}  // namespace sparkx
