// Converting with --calibrate: the built-in model in few bits is nearer to itself, on conversations that calibration
// has not seen (tests/oracle/make_calibration_data.py).
#include "convert/calibration.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "convert/folders.h"
#include "sparkx/sparkx.hpp"
#include "support/errors.h"
#include "support/random_model.h"
#include "support/temp_dir.h"

namespace sparkx {
namespace {

namespace fs = std::filesystem;
using testing::convert;
using testing::error_of;
using testing::read_file;
using testing::TempDir;

const fs::path kData = SPARKX_SOURCE_DIR "/tests/data/calibration";
const fs::path kText = kData / "calibration.txt";
const fs::path kMini = SPARKX_SOURCE_DIR "/models/mini";

// How a converted built-in model predicts the held-out conversations.
struct Quality {
  double divergence;  // from the model as it is
  double perplexity;  // of what the model says in them: it has not learned what users say
};

Quality quality(const fs::path& model) {
  LanguageModel reference = LanguageModel::load(kMini), other = LanguageModel::load(model);
  const std::vector<TokenId> tokens = reference.tokenizer().encode(read_file(kData / "held_out.txt"));
  EvaluationOptions options;
  options.context = options.stride = 2048;
  Quality quality{};
  quality.divergence = reference.compare_logits(other, tokens, options).divergence.mean;
  const TokenId bot = *reference.tokenizer().find("<|Bot|>"), end = 1;
  double surprise = 0, count = 0;
  for (std::size_t begin = 0; begin + 1 < tokens.size(); begin += 2048) {
    const auto window = std::span(tokens).subspan(begin, std::min<std::size_t>(2048, tokens.size() - begin));
    Sequence sequence = other.create_sequence();
    const std::vector<BatchItem> step{{&sequence, window, LogitsWanted::all}};
    const std::span<const float> logits = other.step(step)[0].logits;
    const auto vocabulary = static_cast<std::size_t>(other.info().vocab_size);
    bool says = false;
    for (std::size_t i = 1; i + 1 < window.size(); ++i) {
      says = window[i - 1] == bot || (says && window[i] != end);  // from the token after <think> or </think> on
      if (!says) continue;
      const std::span<const float> row = logits.subspan(i * vocabulary, vocabulary);
      double sum = 0;
      for (const float logit : row) sum += std::exp(double{logit});
      surprise += std::log(sum) - row[static_cast<std::size_t>(window[i + 1])];
      ++count;
    }
  }
  quality.perplexity = std::exp(surprise / count);
  return quality;
}

class Calibrating : public ::testing::Test {
 protected:
  Quality converted(const ConvertOptions& options) {
    const fs::path out = dir_ / (options.format == "gguf" ? "out.gguf" : "out");
    ConvertOptions with_force = options;
    with_force.replace = true;
    convert(kMini, out, with_force);
    return quality(out);
  }
  TempDir dir_;
};

TEST_F(Calibrating, ATextMakesFewBitsBetter) {
  for (const auto& [bits, most] : {std::pair("4bit", 0.8), std::pair("3bit", 0.75), std::pair("2bit", 0.6)}) {
    const Quality plain = converted({.quantize = bits});
    const Quality calibrated = converted({.quantize = bits, .calibrate = kText});
    EXPECT_LT(calibrated.divergence, most * plain.divergence) << bits;
    // That of plain rounding to 4 bits differs from the model's by less than it does from text to text.
    if (bits == std::string_view("4bit")) continue;
    EXPECT_LT(calibrated.perplexity, plain.perplexity) << bits;
  }
}

TEST_F(Calibrating, AnImportanceMatrixMakesFewBitsBetter) {
  const Quality plain = converted({.quantize = "3bit"});
  for (const char* file : {"mini.imatrix.gguf", "mini.imatrix.dat"}) {
    const Quality calibrated = converted({.quantize = "3bit", .calibrate = kData / file});
    EXPECT_LT(calibrated.divergence, 0.95 * plain.divergence) << file;
  }
}

TEST_F(Calibrating, MakesGgufFilesBetter) {
  for (const char* type : {"Q4_0", "Q4_1", "Q4_K_M", "Q5_0"}) {
    const double plain = converted({.format = "gguf", .quantize = type}).divergence;
    EXPECT_LT(converted({.format = "gguf", .quantize = type, .calibrate = kText}).divergence, 0.85 * plain) << type;
  }
  // By an importance matrix alone it is the scales of K types that gain.
  const ConvertOptions by_matrix{.format = "gguf", .quantize = "Q4_K_M", .calibrate = kData / "mini.imatrix.gguf"};
  EXPECT_LT(converted(by_matrix).divergence, converted({.format = "gguf", .quantize = "Q4_K_M"}).divergence);
}

TEST_F(Calibrating, WritesAnOrdinaryCheckpoint) {
  convert(kMini, dir_ / "plain", {.quantize = "3bit"});
  convert(kMini, dir_ / "calibrated", {.quantize = "3bit", .calibrate = kText});
  EXPECT_EQ(testing::files_in(dir_ / "calibrated"), testing::files_in(dir_ / "plain"));
  EXPECT_EQ(read_file(dir_ / "calibrated/config.json"), read_file(dir_ / "plain/config.json"));
  const auto plain = testing::tensors_in(dir_ / "plain"), calibrated = testing::tensors_in(dir_ / "calibrated");
  ASSERT_EQ(calibrated.size(), plain.size());
  for (const auto& [name, tensor] : plain) {
    EXPECT_EQ(calibrated.at(name).dtype, tensor.dtype) << name;
    EXPECT_EQ(calibrated.at(name).shape, tensor.shape) << name;
  }
  // The embedding is the head as well, and stays as plain rounding has it.
  EXPECT_TRUE(calibrated.at("model.embedding.weight").data == plain.at("model.embedding.weight").data);
}

TEST_F(Calibrating, HasTheSameBitsWithAnyNumberOfThreads) {
  for (const char* format : {"mlx", "gguf"}) {
    const ConvertOptions options{.format = format, .quantize = "4bit", .calibrate = kText};
    ConvertOptions one = options, three = options;
    one.threads = 1, three.threads = 3;
    const std::string name = std::string(format) == "gguf" ? "out.gguf" : "out";
    convert(kMini, dir_ / "one" / name, one);
    convert(kMini, dir_ / "three" / name, three);
    if (name == "out") {
      testing::expect_same_tensors(dir_ / "one/out", dir_ / "three/out");
    } else {
      EXPECT_TRUE(read_file(dir_ / "one/out.gguf") == read_file(dir_ / "three/out.gguf"));
    }
  }
}

TEST_F(Calibrating, AHeadOfItsOwnIsCalibrated) {
  testing::ModelSpec spec;
  spec.hidden_size = 64, spec.intermediate_size = 64, spec.head_dim = 16, spec.vocab_size = 1024;
  testing::RandomModel(spec).write(dir_ / "source");
  for (const char* file : {"tokenizer.json", "tokenizer_config.json"}) fs::copy(kMini / file, dir_ / "source" / file);
  Conversion conversion(dir_ / "source", dir_ / "out", {.quantize = "4bit", .group_size = 32, .calibrate = kText});
  for (const ConvertedTensor& tensor : conversion.plan().tensors) {
    if (tensor.name == "lm_head.weight") {
      EXPECT_EQ(tensor.reason, "calibrated");
    } else if (tensor.name == "model.embedding.weight") {
      EXPECT_EQ(tensor.reason, "not calibrated");
    }
  }
  conversion.run();
  convert(dir_ / "source", dir_ / "plain", {.quantize = "4bit", .group_size = 32});
  const auto plain = testing::tensors_in(dir_ / "plain"), calibrated = testing::tensors_in(dir_ / "out");
  EXPECT_FALSE(calibrated.at("lm_head.weight").data == plain.at("lm_head.weight").data);
  EXPECT_TRUE(calibrated.at("model.embedding.weight").data == plain.at("model.embedding.weight").data);
}

TEST_F(Calibrating, SaysWhatItDoes) {
  const Conversion conversion(kMini, dir_ / "out", {.quantize = "4bit", .calibrate = kText});
  EXPECT_EQ(conversion.plan().calibration, kText.string() + ", 11246 tokens in windows of 2048, read 1 time");
  int calibrated = 0;
  for (const ConvertedTensor& tensor : conversion.plan().tensors) calibrated += tensor.reason == "calibrated";
  EXPECT_EQ(calibrated, 6 * 5);
}

TEST_F(Calibrating, ProgressReachesItsEndAndStopsWhenAsked) {
  Conversion conversion(kMini, dir_ / "out", {.quantize = "4bit", .calibrate = kText});
  std::uint64_t last = 0, all = 0;
  conversion.check([&](std::uint64_t done, std::uint64_t total) {
    EXPECT_GE(done, last);
    last = done, all = total;
    return true;
  });
  EXPECT_EQ(last, all);
  for (const double part : {0.0, 0.2, 0.6}) {  // the text is half of it
    SCOPED_TRACE(part);
    EXPECT_EQ(error_of([&] {
                conversion.run([&](std::uint64_t done, std::uint64_t total) {
                  return static_cast<double>(done) <= part * static_cast<double>(total);
                });
              }),
              "cancelled: cancelled");
    EXPECT_EQ(testing::files_in(dir_.path()), std::set<std::string>{});
  }
}

TEST_F(Calibrating, WhatCannotBeUsedIsRefused) {
  dir_.write("short", "1+1=");
  dir_.write("broken", "\xFF\xFE text");
  dir_.write("zeros", std::string(64, '\0'));
  const auto refusal = [&](const fs::path& file, ConvertOptions options) {
    options.calibrate = file;
    return error_of([&] { Conversion(kMini, dir_ / "out", options); });
  };
  const std::string at = dir_.path().string() + "/";
  EXPECT_EQ(refusal(dir_ / "none", {.quantize = "4bit"}).substr(0, 10), "not_found:");
  EXPECT_EQ(
      refusal(dir_ / "short", {.quantize = "4bit"}),
      "invalid_argument: " + at + "short: has 4 tokens, from which nothing can be learned; some ten thousand are good");
  EXPECT_EQ(refusal(dir_ / "broken", {.quantize = "4bit"}),
            "corrupt: " + at + "broken: is neither a text in UTF-8 nor an importance matrix of llama.cpp");
  EXPECT_EQ(refusal(dir_ / "zeros", {.quantize = "4bit"}),
            "corrupt: " + at + "zeros: 0 entries at byte 0, in a file of 64 bytes; it is no importance matrix");
  EXPECT_EQ(refusal(kText, {}),
            "invalid_argument: calibration with " + kText.string() + ", but nothing is to be quantized");
  EXPECT_EQ(refusal(kText, {.format = "hf", .dtype = "float32"}),
            "invalid_argument: calibration with " + kText.string() + ", but nothing is to be quantized");
  EXPECT_EQ(
      refusal(kText, {.quantize = "mxfp4"}),
      "unsupported: calibration goes with 2bit to 6bit and 8bit, and with the types of GGUF files, not with mxfp4");
  EXPECT_EQ(
      refusal(kText, {.format = "gguf", .quantize = "Q8_0"}),
      "invalid_argument: calibration with " + kText.string() + ", but no matrix that is quantized can make use of it");
}

TEST_F(Calibrating, AnImportanceMatrixOfAnotherModelIsRefused) {
  testing::ModelSpec spec;
  spec.hidden_size = 64, spec.intermediate_size = 64;
  testing::RandomModel(spec).write(dir_ / "source");
  const fs::path file = kData / "mini.imatrix.gguf";
  EXPECT_EQ(
      error_of([&] { Conversion(dir_ / "source", dir_ / "out", {.quantize = "4bit", .calibrate = file}); }),
      "corrupt: " + file.string() +
          ": blk.0.attn_qkv.weight has 192 values, but model.layers.0.self_attn.q_k_v_proj.weight has 64 columns; "
          "it is of another model");
}

TEST(InputOf, MatricesOfOneInputAreTogether) {
  const auto input = [](const char* name) { return input_of(name); };
  EXPECT_EQ(input("model.layers.12.mlp.up_proj.weight"), (LinearInputPlace{LinearInput::mlp, 12}));
  EXPECT_EQ(input("model.layers.12.mlp.gate_proj.weight"), input("model.layers.12.mlp.up_proj.weight"));
  EXPECT_EQ(input("model.layers.0.self_attn.g_proj.weight"), input("model.layers.0.self_attn.q_k_v_proj.weight"));
  EXPECT_EQ(input("model.layers.3.self_attn.out_proj.weight"), (LinearInputPlace{LinearInput::heads, 3}));
  EXPECT_EQ(input("model.layers.3.mlp.down_proj.weight"), (LinearInputPlace{LinearInput::hidden, 3}));
  EXPECT_EQ(input("lm_head.weight"), (LinearInputPlace{LinearInput::head, 0}));
  EXPECT_EQ(input("model.embedding.weight"), std::nullopt);
  EXPECT_EQ(input("model.norm.weight"), std::nullopt);
}

}  // namespace
}  // namespace sparkx
