#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "cli/sparkx_program.h"
#include "core/json.h"
#include "support/temp_dir.h"
#include "support/text.h"

namespace sparkx::testing {
namespace {

const std::string kText = "<｜start▁of▁sentence｜><|User|>53乘以42的结果是多少？<｜end▁of▁sentence｜>";

double number(const json::Value& object, const char* key) {
  return object.find(key)->as_double();
}

TEST(PerplexityCommand, PrintsOneLine) {
  TempDir folder;
  const ProcessResult r = sparkx({"perplexity", folder.write("text", kText).string()});
  ASSERT_EQ(r.status, 0) << r.err;
  double perplexity = 0, error = 0;
  int tokens = 0;
  ASSERT_EQ(std::sscanf(r.out.c_str(), "perplexity %lf ± %lf (%d tokens)\n", &perplexity, &error, &tokens), 3) << r.out;
  EXPECT_GT(perplexity, 1);
  EXPECT_GT(error, 0);
  // Nothing is put before the text: all its tokens but the first are predicted.
  const std::string ids = sparkx({"tokenize", kText}).out;
  EXPECT_EQ(tokens, std::count(ids.begin(), ids.end(), ' '));
}

TEST(PerplexityCommand, JsonSaysHowItWasMeasured) {
  TempDir folder;
  const std::string file = folder.write("text", kText + kText + kText).string();
  const ProcessResult r = sparkx({"perplexity", file, "--context", "16", "--stride", "4", "--json"});
  ASSERT_EQ(r.status, 0) << r.err;
  const json::Value root = json::parse(r.out, "output");
  EXPECT_EQ(number(root, "context"), 16);
  EXPECT_EQ(number(root, "stride"), 4);
  EXPECT_EQ(number(root, "windows"), 1 + std::ceil((number(root, "tokens") - 16) / 4));
  EXPECT_NEAR(std::log(number(root, "perplexity")), number(root, "nats_per_token"), 1e-12);
  EXPECT_GT(number(root, "standard_error"), 0);
  EXPECT_GT(number(root, "seconds"), 0);
  const ProcessResult whole = sparkx({"perplexity", file, "--json"});
  EXPECT_EQ(number(json::parse(whole.out, "output"), "windows"), 1);
  EXPECT_EQ(number(json::parse(whole.out, "output"), "context"), 2048);
}

TEST(PerplexityCommand, MarkersAreTextWhenToldSo) {
  TempDir folder;
  const std::string file = folder.write("text", "<think><think><think>").string();
  EXPECT_TRUE(contains(sparkx({"perplexity", file}).out, "(2 tokens)"));
  EXPECT_FALSE(contains(sparkx({"perplexity", file, "--no-added-tokens"}).out, "(2 tokens)"));
}

TEST(PerplexityCommand, WhatCannotBeIsSaid) {
  TempDir folder;
  const std::string file = folder.write("text", "1").string();
  ProcessResult r = sparkx({"perplexity", file});
  EXPECT_EQ(r.status, 1);
  EXPECT_TRUE(contains(r.err, "the text has 1 token: there is nothing to predict")) << r.err;
  r = sparkx({"perplexity", (folder.path() / "none").string()});
  EXPECT_EQ(r.status, 1);
  EXPECT_TRUE(contains(r.err, "none: No such file")) << r.err;
  r = sparkx({"perplexity"});
  EXPECT_EQ(r.status, 2);
  EXPECT_TRUE(contains(r.err, "file is required")) << r.err;
  r = sparkx({"perplexity", file, "--stride", "0"});
  EXPECT_EQ(r.status, 2);
  EXPECT_TRUE(contains(r.err, "--stride")) << r.err;
  r = sparkx({"perplexity", folder.write("long", kText).string(), "--context", "100000000"});
  EXPECT_EQ(r.status, 1);
  EXPECT_TRUE(contains(r.err, "a context of 100000000 positions: this model can have 1 to")) << r.err;
}

TEST(PerplexityCommand, InterruptEndsIt) {
  if (!has_terminals()) GTEST_SKIP() << "there are no terminals here";
  TempDir folder;
  std::string text;
  for (int i = 0; i < 20000; ++i) text += kText;
  Process running(sparkx_arguments({"perplexity", folder.write("text", text).string()}), {.terminal_error = true});
  running.run_until([](const ProcessResult& r) { return contains(r.err, "perplexity ["); });
  running.send_signal(SIGINT);
  const ProcessResult r = running.wait();
  EXPECT_EQ(r.status, 130);
  EXPECT_EQ(r.out, "");
}

}  // namespace
}  // namespace sparkx::testing
