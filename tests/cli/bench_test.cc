#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>

#include <string>
#include <vector>

#include "cli/sparkx_program.h"
#include "core/json.h"
#include "support/locked_memory.h"
#include "support/text.h"

namespace sparkx::testing {
namespace {

double number(const json::Value& object, const char* key) {
  const json::Value* value = object.find(key);
  EXPECT_TRUE(value != nullptr && value->is_number()) << key;
  return value != nullptr && value->is_number() ? value->as_double() : -1;
}

TEST(Bench, JsonHasEveryTestAtEveryDepthAndBatch) {
  const ProcessResult r = sparkx({"bench", "-p", "9,5", "-n", "3", "--depth", "0,100", "--batch", "1,2", "--repeat",
                                  "2", "--threads", "1", "--kv-dtype", "float32", "--json"});
  ASSERT_EQ(r.status, 0) << r.err;
  const json::Value root = json::parse(r.out, "output");
  EXPECT_GT(number(root, "load_seconds"), 0);
  EXPECT_GT(number(root, "peak_memory_bytes"), 1e6);
  EXPECT_GT(number(root, "read_gb_per_second"), 0.1);
  const json::Value* machine = root.find("machine");
  ASSERT_NE(machine, nullptr);
  EXPECT_GE(number(*machine, "cores"), 1);
  EXPECT_GT(number(*machine, "memory_bytes"), 1e8);
  EXPECT_TRUE(machine->find("cpu")->is_string());
  EXPECT_TRUE(machine->find("instruction_set")->is_string());
  const json::Value* model = root.find("model");
  ASSERT_NE(model, nullptr);
  EXPECT_EQ(model->find("name")->as_string(), "built-in");
  EXPECT_EQ(model->find("kv_dtype")->as_string(), "float32");
  EXPECT_TRUE(contains(model->find("device")->as_string(), "1 thread"));
  EXPECT_EQ(number(*model, "context"), 109);

  const json::Value* results = root.find("results");
  ASSERT_NE(results, nullptr);
  ASSERT_EQ(results->as_array().size(), 12u);
  std::size_t i = 0;
  for (const int depth : {0, 100}) {
    for (const int batch : {1, 2}) {
      for (const auto& [test, tokens] : {std::pair{"prompt", 9}, {"prompt", 5}, {"decode", 3}}) {
        const json::Value& result = results->as_array()[i++];
        EXPECT_EQ(result.find("test")->as_string(), test);
        EXPECT_EQ(number(result, "tokens"), tokens);
        EXPECT_EQ(number(result, "depth"), depth);
        EXPECT_EQ(number(result, "batch"), batch);
        EXPECT_LE(number(result, "min"), number(result, "tokens_per_second"));
        EXPECT_LE(number(result, "tokens_per_second"), number(result, "max"));
        EXPECT_GT(number(result, "gb_per_second"), 0);
        EXPECT_GT(number(result, "gmac_per_second"), 0);
        EXPECT_NEAR(number(result, "bandwidth_share"),
                    number(result, "gb_per_second") / number(root, "read_gb_per_second"), 1e-9);
      }
    }
  }
}

TEST(Bench, TheHeadIsQuantizedUnlessItIsNotToBe) {
  const auto weight_bytes = [](const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {"bench", "--quantize", "4bit",     "-p", "1",
                                          "-n",    "0",          "--repeat", "1",  "--json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const json::Value root = json::parse(sparkx(arguments).out, "output");
    return number(*root.find("model"), "weight_bytes");
  };
  EXPECT_EQ(weight_bytes({}), weight_bytes({"--head-quantize"}));
  EXPECT_LT(weight_bytes({}), weight_bytes({"--no-head-quantize"}));
}

TEST(Bench, ThreadsAreAsManyAsTheirCpus) {
  const std::string cpu = std::to_string(::sched_getcpu());
  const ProcessResult r =
      sparkx({"bench", "--cpu-affinity", cpu + "," + cpu + "-" + cpu, "-p", "1", "-n", "0", "--repeat", "1", "--json"});
  ASSERT_EQ(r.status, 0) << r.err;
  EXPECT_TRUE(contains(json::parse(r.out, "output").find("model")->find("device")->as_string(), "2 threads"));
}

// Without the right to lock as much as it likes, which root has.
TEST(Bench, MemoryThatMayNotBeLockedIsAnError) {
  if (!testing::can_lock(4096)) GTEST_SKIP() << "mlock does nothing here";
  const ProcessResult r = run_process(
      {"/bin/sh", "-c",
       "command -v setpriv >/dev/null || exit 77; ulimit -l 64 && "
       "exec setpriv --bounding-set -ipc_lock --inh-caps -ipc_lock \"$0\" bench --mlock -p 1 -n 0 --repeat 1",
       SPARKX_BINARY_DIR "/sparkx"});
  if (r.status == 77 || contains(r.err, "setpriv")) GTEST_SKIP() << "setpriv cannot take the right away";
  EXPECT_EQ(r.status, 1);
  EXPECT_TRUE(contains(r.err, "of the weights into memory")) << r.err;
  EXPECT_TRUE(contains(r.err, "may lock 0.1 MiB (RLIMIT_MEMLOCK")) << r.err;
}

TEST(Bench, TableHasALineForEachTest) {
  const ProcessResult r = sparkx({"bench", "-p", "5", "-n", "0", "--depth", "0,7", "--repeat", "1"});
  ASSERT_EQ(r.status, 0) << r.err;
  EXPECT_TRUE(contains(r.out, "machine: ")) << r.out;
  EXPECT_TRUE(contains(r.out, "\nprompt       5       0      1 ")) << r.out;
  EXPECT_TRUE(contains(r.out, "\nprompt       5       7      1 ")) << r.out;
  EXPECT_FALSE(contains(r.out, "decode ")) << r.out;
}

TEST(Bench, NothingToMeasureIsAUsageError) {
  const ProcessResult r = sparkx({"bench", "-p", "0", "-n", "0"});
  EXPECT_EQ(r.status, 2);
  EXPECT_TRUE(contains(r.err, "nothing to measure")) << r.err;
}

TEST(Bench, UsageErrorsNameTheOption) {
  for (const std::vector<std::string>& arguments : std::vector<std::vector<std::string>>{
           {"--shape", "3b"}, {"-p", "x"}, {"--depth", "-1"}, {"--batch", "0"}, {"--repeat", "0"}}) {
    std::vector<std::string> all = {"bench"};
    all.insert(all.end(), arguments.begin(), arguments.end());
    const ProcessResult r = sparkx(all);
    EXPECT_EQ(r.status, 2) << arguments[0];
    EXPECT_TRUE(contains(r.err, arguments[0])) << r.err;
  }
  EXPECT_EQ(sparkx({"bench", "--shape", "1.7b", "-m", "x"}).status, 2);
  EXPECT_TRUE(contains(sparkx({"bench", "-p", "512", "--ctx", "100"}).err, "--ctx 100"));
}

TEST(Bench, WhatDoesNotFitIsRefusedBeforeLoading) {
  const ProcessResult r = sparkx({"bench", "--shape", "4b", "--depth", "1000000", "--batch", "1000000"});
  EXPECT_EQ(r.status, 1);
  EXPECT_EQ(r.out, "");
  EXPECT_TRUE(contains(r.err, "not enough memory")) << r.err;
  EXPECT_TRUE(contains(r.err, "1000000 sequences")) << r.err;
}

TEST(Bench, InterruptEndsIt) {
  Process bench(sparkx_arguments({"bench", "-p", "0", "-n", "8000", "--repeat", "1"}), {.terminal_error = true});
  bench.run_until([](const ProcessResult& r) { return contains(r.err, "measuring"); });
  bench.send_signal(SIGINT);
  const ProcessResult r = bench.wait();
  EXPECT_EQ(r.status, 130);
  EXPECT_EQ(r.out, "");
}

}  // namespace
}  // namespace sparkx::testing
