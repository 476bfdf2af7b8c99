// Perplexity and the distance between models, against goldens of an independent implementation
// (oracle/make_evaluation_golden.py).
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "core/bfloat16.h"
#include "core/json.h"
#include "engine/evaluation.h"
#include "sparkx/sparkx.hpp"
#include "support/errors.h"
#include "support/safetensors_files.h"
#include "support/scripted_model.h"
#include "support/temp_dir.h"

namespace sparkx {
namespace {

using testing::error_of;
using testing::ScriptedModel;
using testing::TempDir;
using Tokens = std::vector<TokenId>;

const std::filesystem::path kData = std::filesystem::path(SPARKX_SOURCE_DIR) / "tests/data";
const std::filesystem::path kModel = kData / "model/tied-bf16";

ModelOptions exact(int threads = 1) {
  ModelOptions options;
  options.dtype = "float32";
  options.threads = threads;
  options.tokenizer = false;
  return options;
}

EvaluationOptions windows(std::int64_t context, std::int64_t stride) {
  EvaluationOptions options;
  options.context = context;
  options.stride = stride;
  return options;
}

Tokens golden_tokens() {
  return testing::read_safetensors(kModel / "golden.safetensors").at("tokens").as<TokenId>();
}

json::Value golden() {
  return json::parse(testing::read_file(kData / "evaluation.json"), "evaluation.json");
}

double number(const json::Value& object, const char* key) {
  return object.find(key)->as_double();
}

// The other model of the golden: half the final norm, another rotary base in the sliding layers.
void write_other_model(const TempDir& folder, const json::Value& changes) {
  json::Value config = json::parse(testing::read_file(kModel / "config.json"), "config.json");
  const auto member = [](json::Value& object, const char* key) -> json::Value& {
    return const_cast<json::Value&>(*object.find(key));
  };
  member(member(member(config, "rope_parameters"), "sliding_attention"), "rope_theta") = *changes.find("rope_theta");
  folder.write("config.json", json::print(config));
  testing::StoredTensors tensors = testing::read_safetensors(kModel / "model.safetensors");
  testing::StoredTensor& norm = tensors.at("model.norm.weight");
  std::vector<std::uint16_t> values = norm.as<std::uint16_t>();
  for (std::uint16_t& value : values) {
    value = float_to_bfloat16(bfloat16_to_float(value) * static_cast<float>(number(changes, "norm")));
  }
  norm = testing::stored_tensor(norm.dtype, norm.shape, values);
  const std::vector<std::byte> bytes = testing::safetensors_bytes(tensors);
  folder.write("model.safetensors", {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

void expect_near(double got, double want, const std::string& what) {
  EXPECT_NEAR(got, want, 1e-5 * (1 + std::abs(want))) << what;
}

void expect_mean(const MeanOfTokens& got, const json::Value& want, const std::string& what) {
  expect_near(got.mean, number(want, "mean"), what);
  expect_near(got.standard_error, number(want, "standard_error"), what + ", standard error");
}

TEST(Perplexity, IsThatOfTheIndependentReference) {
  LanguageModel model = LanguageModel::load(kModel, exact());
  const json::Value file = golden();
  for (const json::Value& want : file.find("cuts")->as_array()) {
    const std::int64_t context = want.find("context")->as_int64(), stride = want.find("stride")->as_int64();
    const std::string what = "context " + std::to_string(context) + ", stride " + std::to_string(stride);
    const PerplexityResult got = model.perplexity(golden_tokens(), windows(context, stride));
    EXPECT_EQ(got.tokens, want.find("tokens")->as_int64()) << what;
    EXPECT_EQ(got.windows, want.find("windows")->as_int64()) << what;
    EXPECT_EQ(got.context, context);
    EXPECT_EQ(got.stride, stride);
    expect_mean(got.surprise, *want.find("reference"), what);
    expect_near(got.perplexity, number(want, "perplexity"), what);
    expect_near(got.standard_error, got.perplexity * number(*want.find("reference"), "standard_error"), what);
  }
}

TEST(CompareLogits, IsThatOfTheIndependentReference) {
  const json::Value file = golden();
  TempDir folder;
  write_other_model(folder, *file.find("other"));
  LanguageModel model = LanguageModel::load(kModel, exact());
  LanguageModel other = LanguageModel::load(folder.path(), exact());
  for (const json::Value& want : file.find("cuts")->as_array()) {
    const std::int64_t context = want.find("context")->as_int64(), stride = want.find("stride")->as_int64();
    const std::string what = "context " + std::to_string(context) + ", stride " + std::to_string(stride);
    const LogitsComparison got = model.compare_logits(other, golden_tokens(), windows(context, stride));
    expect_mean(got.reference.surprise, *want.find("reference"), what + ", reference");
    expect_mean(got.other.surprise, *want.find("other"), what + ", other");
    expect_mean(got.divergence, *want.find("divergence"), what + ", divergence");
    expect_near(got.median_divergence, number(want, "median"), what + ", median");
    expect_near(got.largest_divergence, number(want, "largest"), what + ", largest");
    EXPECT_DOUBLE_EQ(got.same_top_token, number(want, "same_top")) << what;
  }
}

TEST(CompareLogits, AModelLoadedTwiceDoesNotDiffer) {
  LanguageModel model = LanguageModel::load(kModel, exact());
  LanguageModel again = LanguageModel::load(kModel, exact());
  const LogitsComparison r = model.compare_logits(again, golden_tokens(), windows(32, 16));
  EXPECT_EQ(r.divergence.mean, 0);
  EXPECT_EQ(r.largest_divergence, 0);
  EXPECT_EQ(r.same_top_token, 1);
  EXPECT_EQ(r.reference.perplexity, r.other.perplexity);
}

TEST(CompareLogits, OneObjectIsNotComparedWithItself) {
  LanguageModel model = LanguageModel::load(kModel, exact());
  EXPECT_EQ(error_of([&] { model.compare_logits(model, golden_tokens()); }),
            "invalid_argument: a model cannot be compared with itself: load it twice");
}

TEST(CompareLogits, VocabulariesOfDifferentSizesAreRefused) {
  LanguageModel model = LanguageModel::load(kModel, exact());
  LanguageModel other = LanguageModel::load(kData / "model/untied-biased-f32", exact());
  EXPECT_EQ(error_of([&] { model.compare_logits(other, golden_tokens()); }),
            "invalid_argument: the models have vocabularies of 96 and 61 tokens");
}

TEST(Evaluation, DoesNotDependOnThreads) {
  const auto load = [](int threads, const char* quantize) {
    ModelOptions options;
    options.threads = threads;
    options.quantize = quantize;
    return LanguageModel::builtin(options);
  };
  LanguageModel one = load(1, "8bit"), three = load(3, "none"), one_plain = load(1, "none"),
                three_eight = load(3, "8bit");
  const Tokens tokens = one.tokenizer().encode(comparison_text().substr(0, 900));
  const LogitsComparison a = one_plain.compare_logits(one, tokens, windows(100, 60));
  const LogitsComparison b = three.compare_logits(three_eight, tokens, windows(100, 60));
  EXPECT_GT(a.divergence.mean, 0);
  EXPECT_EQ(a.divergence.mean, b.divergence.mean);
  EXPECT_EQ(a.divergence.standard_error, b.divergence.standard_error);
  EXPECT_EQ(a.reference.perplexity, b.reference.perplexity);
  EXPECT_EQ(a.other.perplexity, b.other.perplexity);
  EXPECT_EQ(a.other.perplexity, one.perplexity(tokens, windows(100, 60)).perplexity);
}

// Every token is asked for once, in a window that holds the token before it, and nothing else is computed twice.
TEST(Evaluation, WindowsArePlacedAsSaid) {
  const Tokens tokens = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
  ScriptedModel model(16, 1000, [](std::span<const TokenId> seen) { return seen.back() + 1; });
  ThreadPool threads(1);
  std::vector<std::pair<std::int64_t, std::int64_t>> told;
  EvaluationOptions options = windows(4, 3);
  options.progress = [&](std::int64_t done, std::int64_t total) {
    told.emplace_back(done, total);
    return true;
  };
  const PerplexityResult r = evaluate_perplexity(model, tokens, options, threads);
  EXPECT_EQ(r.tokens, 10);
  EXPECT_EQ(r.windows, 3);
  // Windows [0, 4), [3, 7), [6, 10): a token to begin with, then what is new.
  EXPECT_EQ(model.steps, (std::vector<std::size_t>{4, 1, 3, 1, 3}));
  EXPECT_EQ(told.back(), (std::pair<std::int64_t, std::int64_t>{12, 12}));
  EXPECT_EQ(model.sequence_count(), 0u);
  // Each prediction is right: 20 above 15 logits of 0.
  EXPECT_NEAR(r.surprise.mean, std::log1p(15 * std::exp(-20.0)), 1e-12);
  EXPECT_NEAR(r.surprise.standard_error, 0, 1e-12);
}

TEST(Evaluation, OneTokenPredictedHasNoSpread) {
  ScriptedModel model(4, 10, [](std::span<const TokenId>) { return 3; });
  ThreadPool threads(1);
  const PerplexityResult r = evaluate_perplexity(model, Tokens{0, 1}, {}, threads);
  EXPECT_EQ(r.tokens, 1);
  EXPECT_EQ(r.standard_error, 0);
  EXPECT_NEAR(r.surprise.mean, 20, 1e-6);
}

TEST(Evaluation, TheDefaultWindowFitsTheContext) {
  ThreadPool threads(1);
  for (const auto& [context, want] : {std::pair<std::int64_t, std::int64_t>{100, 100}, {5000, 2048}}) {
    ScriptedModel model(4, context, [](std::span<const TokenId>) { return 3; });
    const PerplexityResult r = evaluate_perplexity(model, Tokens(200, 1), {}, threads);
    EXPECT_EQ(r.context, want);
    EXPECT_EQ(r.stride, want / 2);
  }
}

TEST(Evaluation, WhatCannotBeIsSaid) {
  ScriptedModel model(4, 10, [](std::span<const TokenId>) { return 3; });
  ThreadPool threads(1);
  const auto error = [&](const Tokens& tokens, const EvaluationOptions& options) {
    return error_of([&] { evaluate_perplexity(model, tokens, options, threads); });
  };
  EXPECT_EQ(error({}, {}), "invalid_argument: the text has 0 tokens: there is nothing to predict");
  EXPECT_EQ(error({1}, {}), "invalid_argument: the text has 1 token: there is nothing to predict");
  EXPECT_EQ(error({1, 4}, {}), "invalid_argument: token 4 is outside the vocabulary of 4");
  EXPECT_EQ(error({1, 2}, windows(11, 1)), "invalid_argument: windows of 11 tokens: 1 to 10 are possible");
  EXPECT_EQ(error({1, 2}, windows(0, 1)), "invalid_argument: windows of 0 tokens: 1 to 10 are possible");
  EXPECT_EQ(error({1, 2}, windows(5, 6)), "invalid_argument: a stride of 6 tokens: 1 to 5, the context, are possible");
  EXPECT_EQ(error({1, 2}, windows(5, 0)), "invalid_argument: a stride of 0 tokens: 1 to 5, the context, are possible");
  EvaluationOptions cancelled;
  cancelled.progress = [](std::int64_t, std::int64_t) { return false; };
  EXPECT_EQ(error({1, 2, 3}, cancelled), "cancelled: cancelled");
  model.fail_at = 1;
  EXPECT_EQ(error({1, 2, 3}, {}), "out_of_memory: no cache blocks left");
  EXPECT_EQ(model.sequence_count(), 0u);
}

TEST(Evaluation, LogitsThatAreNotFiniteAreAnError) {
  TempDir folder;
  folder.write("config.json", testing::read_file(kModel / "config.json"));
  testing::StoredTensors tensors = testing::read_safetensors(kModel / "model.safetensors");
  testing::StoredTensor& norm = tensors.at("model.norm.weight");
  norm = testing::stored_tensor(norm.dtype, norm.shape,
                                std::vector<std::uint16_t>(norm.as<std::uint16_t>().size(), 0x7fc0));
  const std::vector<std::byte> bytes = testing::safetensors_bytes(tensors);
  folder.write("model.safetensors", {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  LanguageModel model = LanguageModel::load(folder.path(), exact());
  EXPECT_EQ(error_of([&] { model.perplexity(golden_tokens()); }),
            "corrupt: a model's logits at position 0 of the text are not finite");
}

TEST(TokenizerDifference, NamesTheFirstTokenThatIsAnother) {
  const TextTokenizer builtin = TextTokenizer::builtin();
  EXPECT_EQ(builtin.difference(TextTokenizer::load(std::filesystem::path(SPARKX_SOURCE_DIR) / "models/mini")), "");
  TempDir folder;
  std::string text = testing::read_file(std::filesystem::path(SPARKX_SOURCE_DIR) / "models/mini/tokenizer.json");
  const std::string marker = "<think>";
  for (std::size_t at = text.find(marker); at != std::string::npos; at = text.find(marker, at)) {
    text.replace(at, marker.size(), "<brood>");
  }
  folder.write("tokenizer.json", text);
  const std::string difference = builtin.difference(TextTokenizer::load(folder.path()));
  EXPECT_EQ(difference, "token 3 is \"<think>\" in the one and \"<brood>\" in the other");
}

}  // namespace
}  // namespace sparkx
