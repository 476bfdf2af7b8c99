#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "cli/sparkx_program.h"
#include "core/json.h"
#include "support/temp_dir.h"
#include "support/text.h"

namespace sparkx::testing {
namespace {

const std::string kMini = SPARKX_SOURCE_DIR "/models/mini";

double number(const json::Value& object, const char* key) {
  return object.find(key)->as_double();
}

TEST(CompareCommand, AModelWithItselfIsTheSame) {
  const ProcessResult r = sparkx({"compare", kMini, kMini, "--json"});
  ASSERT_EQ(r.status, 0) << r.err;
  const json::Value root = json::parse(r.out, "output");
  EXPECT_EQ(number(*root.find("weights"), "relative_rms"), 0);
  const json::Value& predictions = *root.find("predictions");
  EXPECT_EQ(number(predictions, "kl"), 0);
  EXPECT_EQ(number(predictions, "same_top_token"), 1);
  EXPECT_EQ(predictions.find("text")->as_string(), "the built-in text");
  EXPECT_GT(number(predictions, "tokens"), 1000);
  EXPECT_EQ(number(*predictions.find("reference"), "perplexity"), number(*predictions.find("other"), "perplexity"));
}

TEST(CompareCommand, FewerBitsAreFartherAway) {
  const auto divergence = [](const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {"compare", kMini, kMini, "--logits", "--json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const ProcessResult r = sparkx(arguments);
    EXPECT_EQ(r.status, 0) << r.err;
    const json::Value root = json::parse(r.out, "output");
    EXPECT_TRUE(root.find("weights")->is_null());
    return number(*root.find("predictions"), "kl");
  };
  const double eight = divergence({"--quantize", "8bit"}), four = divergence({"--quantize", "4bit"});
  EXPECT_GT(eight, 0);
  EXPECT_GT(four, 3 * eight);
}

TEST(CompareCommand, HalvesAreDoneAlone) {
  const ProcessResult tensors = sparkx({"compare", kMini, kMini, "--tensors"});
  ASSERT_EQ(tensors.status, 0) << tensors.err;
  EXPECT_TRUE(contains(tensors.out, "\nmodel.layers.0.self_attn.q_k_v_proj.weight ")) << tensors.out;
  EXPECT_FALSE(contains(tensors.out, "KL")) << tensors.out;
  TempDir folder;
  const ProcessResult logits =
      sparkx({"compare", kMini, kMini, folder.write("text", "53乘以42的结果是多少？").string(), "--logits"});
  ASSERT_EQ(logits.status, 0) << logits.err;
  EXPECT_TRUE(logits.out.starts_with("predictions on " + (folder / "text").string() + ", ")) << logits.out;
  EXPECT_TRUE(contains(logits.out, "\nKL           0.000000 ± 0.000000 nats a token")) << logits.out;
  EXPECT_TRUE(contains(logits.out, "\nsame top     100.00 %\n")) << logits.out;
  EXPECT_FALSE(contains(logits.out, "model.layers")) << logits.out;
  EXPECT_EQ(sparkx({"compare", kMini, kMini, "--logits", "--tensors"}).status, 2);
  EXPECT_EQ(sparkx({"compare", kMini, kMini, "--tensors", "--max-kl", "1"}).status, 2);
  EXPECT_EQ(sparkx({"compare", kMini, kMini, "text", "--tensors"}).status, 2);
  EXPECT_EQ(sparkx({"compare", kMini}).status, 2);
}

TEST(CompareCommand, TooFarApartIsAFailure) {
  const std::vector<std::string> quantized = {"compare", kMini, kMini, "--logits", "--quantize", "4bit"};
  std::vector<std::string> strict = quantized, loose = quantized;
  strict.insert(strict.end(), {"--max-kl", "0.0001"});
  loose.insert(loose.end(), {"--max-kl", "100"});
  const ProcessResult r = sparkx(strict);
  EXPECT_EQ(r.status, 1);
  EXPECT_TRUE(contains(r.out, "KL  ")) << r.out;
  EXPECT_TRUE(contains(r.err, "is above 0.0001")) << r.err;
  EXPECT_EQ(sparkx(loose).status, 0);
}

TEST(CompareCommand, DifferentTokenizersAreSaid) {
  TempDir folder;
  for (const char* name : {"config.json", "model.safetensors"}) {
    std::filesystem::create_symlink(std::filesystem::path(kMini) / name, folder / name);
  }
  std::string text = read_file(std::filesystem::path(kMini) / "tokenizer.json");
  const std::string marker = "<think>";
  for (std::size_t at = text.find(marker); at != std::string::npos; at = text.find(marker, at)) {
    text.replace(at, marker.size(), "<brood>");
  }
  folder.write("tokenizer.json", text);
  const ProcessResult r = sparkx({"compare", kMini, folder.path().string(), "--logits"});
  EXPECT_EQ(r.status, 1);
  EXPECT_TRUE(contains(r.err, "the models have different tokenizers")) << r.err;
  EXPECT_TRUE(contains(r.err, "token 3 is \"<think>\" in the one and \"<brood>\" in the other")) << r.err;
  EXPECT_TRUE(contains(r.err, "--tensors compares the weights alone")) << r.err;
  EXPECT_EQ(sparkx({"compare", kMini, folder.path().string(), "--tensors"}).status, 0);
}

TEST(CompareCommand, DifferentShapesAreSaid) {
  const ProcessResult r = sparkx({"compare", kMini, SPARKX_SOURCE_DIR "/tests/data/model/tied-bf16"});
  EXPECT_EQ(r.status, 1);
  EXPECT_EQ(r.out, "");
  EXPECT_TRUE(contains(r.err, "different shapes: num_hidden_layers is 6 in the one and 3 in the other")) << r.err;
}

}  // namespace
}  // namespace sparkx::testing
