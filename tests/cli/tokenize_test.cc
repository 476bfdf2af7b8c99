// sparkx tokenize and sparkx logits, as a program.
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include "cli/sparkx_program.h"
#include "core/json.h"
#include "support/oracle.h"
#include "support/temp_dir.h"

namespace sparkx::testing {
namespace {

using Arguments = std::vector<std::string>;

const std::string kHard = "53乘以42 <think>é\r\n\tx  <｜end▁of▁sentence｜> 😀\n";

TEST(Tokenize, PrintsIdsOnOneLineAndDecodesThemExactly) {
  const ProcessResult ids = sparkx({"tokenize"}, {.input = kHard});
  EXPECT_EQ(ids.status, 0);
  EXPECT_EQ(ids.err, "");
  EXPECT_EQ(ids.out.find_first_not_of("0123456789 "), ids.out.size() - 1) << ids.out;
  EXPECT_EQ(sparkx({"tokenize", "--decode"}, {.input = ids.out}).out, kHard);
  EXPECT_EQ(sparkx({"tokenize", kHard}).out, ids.out);
}

TEST(Tokenize, AddedTokensAreRecognizedUnlessToldOtherwise) {
  EXPECT_EQ(sparkx({"tokenize", "<think>"}).out, "3\n");
  const std::string plain = sparkx({"tokenize", "--no-added-tokens", "<think>"}).out;
  EXPECT_NE(plain.find(' '), std::string::npos) << plain;
  EXPECT_EQ(sparkx({"tokenize", "--decode"}, {.input = plain}).out, "<think>");
}

TEST(Tokenize, PiecesAreJsonStrings) {
  const ProcessResult r = sparkx({"tokenize", "--pieces", "a \"quoted\"\n<think>"});
  std::string text;
  std::size_t begin = 0;
  for (std::size_t end; (end = r.out.find('\n', begin)) != std::string::npos; begin = end + 1) {
    text += json::parse(r.out.substr(begin, end - begin), "piece").as_string();
  }
  EXPECT_EQ(text, "a \"quoted\"\n<think>");
}

TEST(Tokenize, NothingGivesAnEmptyLine) {
  EXPECT_EQ(sparkx({"tokenize", ""}).out, "\n");
}

TEST(Tokenize, TokenZeroIsAToken) {
  EXPECT_EQ(sparkx({"tokenize", "--decode", "0"}).out, "<｜start▁of▁sentence｜>");
  EXPECT_EQ(sparkx({"tokenize", "<｜start▁of▁sentence｜>"}).out, "0\n");
}

TEST(Tokenize, ReadsATokenizerWithoutWeights) {
  TempDir folder;
  const std::filesystem::path mini = SPARKX_SOURCE_DIR "/models/mini";
  folder.write("tokenizer.json", read_file(mini / "tokenizer.json"));
  const ProcessResult r = sparkx({"tokenize", "-m", folder.path().string(), "53"});
  EXPECT_EQ(r.err, "");
  EXPECT_EQ(r.out, sparkx({"tokenize", "53"}).out);
}

std::string logits(const Arguments& arguments) {
  TempDir folder;
  const std::string file = (folder / "logits.safetensors").string();
  Arguments all = {"logits", "-o", file};
  all.insert(all.end(), arguments.begin(), arguments.end());
  const ProcessResult r = sparkx(all);
  EXPECT_EQ(r.status, 0) << r.err;
  EXPECT_EQ(r.out, "");
  return read_file(file);
}

TEST(Logits, AreTheSameFileForAnyChunkThreadsAndFormOfTheTokens) {
  std::string list;
  for (int i = 0; i < 150; ++i) list += (i == 0 ? "" : ", ") + std::to_string(i * 37 % 500);
  const std::string expected = logits({"--tokens", list, "--threads", "1"});
  EXPECT_TRUE(logits({"--tokens", list, "--threads", "2", "--chunk", "7"}) == expected);
  EXPECT_TRUE(logits({"--tokens", list, "--chunk", "1000"}) == expected);
  TempDir folder;
  EXPECT_TRUE(logits({"--tokens", folder.write("tokens.txt", list + "\n").string()}) == expected);
  EXPECT_TRUE(logits({"--tokens", list, "--kv-dtype", "float32"}) == expected);    // the default
  EXPECT_FALSE(logits({"--tokens", list, "--kv-dtype", "bfloat16"}) == expected);  // which is not this one
}

TEST(Logits, ASignalLeavesNoFile) {
  std::string list;
  for (int i = 0; i < 4000; ++i) list += std::to_string(i * 37 % 500) + ' ';
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    const TempDir folder;
    // The plain kernels and one token a step: this would take many seconds.
    Process process(sparkx_arguments({"logits", "--tokens", list, "--chunk", "1", "--threads", "1", "-o",
                                      (folder / "logits.safetensors").string()}),
                    {.environment = {{"SPARKX_ISA", "reference"}}});
    const auto begin = std::chrono::steady_clock::now();
    process.run_until([&](const ProcessResult&) {  // … until it is writing
      return !std::filesystem::is_empty(folder.path()) ||
             std::chrono::steady_clock::now() - begin > std::chrono::minutes(1);
    });
    ASSERT_FALSE(std::filesystem::is_empty(folder.path()));
    process.send_signal(signal);
    EXPECT_EQ(process.wait().status, 128 + signal);
    EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  }
}

TEST(Logits, NeedNoTokenizer) {
  TempDir folder;
  const std::filesystem::path mini = SPARKX_SOURCE_DIR "/models/mini";
  for (const char* name : {"config.json", "model.safetensors"}) folder.write(name, read_file(mini / name));
  EXPECT_TRUE(logits({"-m", folder.path().string(), "--tokens", "1 2 3"}) == logits({"--tokens", "1 2 3"}));
}

TEST(Logits, AreTheSameFileForTokensOfAGoldenFile) {
  SPARKX_NEEDS_ORACLE();
  const auto model = oracle_dir() / "untied-biased-f32";
  const Arguments arguments = {"-m", model.string(), "--tokens", (model / "golden.safetensors").string()};
  Arguments chunked = arguments;
  chunked.insert(chunked.end(), {"--chunk", "5", "--threads", "2"});
  EXPECT_TRUE(logits(arguments) == logits(chunked));
}

}  // namespace
}  // namespace sparkx::testing
