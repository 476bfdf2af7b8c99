// sparkx convert, as a person runs it.
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <set>
#include <thread>

#include "cli/sparkx_program.h"
#include "core/json.h"
#include "support/oracle.h"
#include "support/random_model.h"
#include "support/temp_dir.h"

namespace sparkx::testing {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

std::set<std::string> names_in(const fs::path& folder) {
  std::set<std::string> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) names.insert(entry.path().filename());
  return names;
}

class Convert : public ::testing::Test {
 protected:
  Convert() {
    ModelSpec spec;
    spec.hidden_size = 64;
    spec.intermediate_size = 128;
    spec.head_dim = 32;
    RandomModel(spec).write(dir_ / "source");
  }
  std::string at(std::string_view name) const { return (dir_ / name).string(); }
  json::Value quantization(std::string_view output) const {
    return *json::parse(read_file(dir_ / output / "config.json"), "config.json").find("quantization");
  }

  TempDir dir_;
};

TEST_F(Convert, BareQIsFourBits) {
  for (const std::vector<std::string>& options :
       {std::vector<std::string>{"-q"}, {"--quantize"}, {"--quantize", "4bit"}, {"-q", "--group-size", "64"}}) {
    std::vector<std::string> arguments{"convert", "-m", at("source"), "-o", at("out"), "--force"};
    arguments.insert(arguments.end(), options.begin(), options.end());
    const ProcessResult r = sparkx(arguments);
    ASSERT_EQ(r.status, 0) << r.err;
    EXPECT_TRUE(contains(r.out, "float32 -> 4-bit, groups of 64\n")) << r.out;
    EXPECT_EQ(quantization("out"), json::Value(json::Object{{"group_size", 64}, {"bits", 4}, {"mode", "affine"}}));
  }
}

TEST_F(Convert, TakesTheOptionsOfMlxLm) {
  struct Case {
    std::vector<std::string> options;
    json::Object top;
  };
  const Case cases[] = {
      {{"-q", "--q-bits", "3", "--q-group-size", "32"}, {{"group_size", 32}, {"bits", 3}, {"mode", "affine"}}},
      {{"--q-mode", "nvfp4", "-q"}, {{"group_size", 16}, {"bits", 4}, {"mode", "nvfp4"}}},
      {{"-q", "--quant-predicate", "mixed_3_6"}, {{"group_size", 64}, {"bits", 4}, {"mode", "affine"}}},
  };
  for (const Case& c : cases) {
    std::vector<std::string> arguments{"convert", "--hf-path", at("source"), "--mlx-path", at("out"), "--force"};
    arguments.insert(arguments.end(), c.options.begin(), c.options.end());
    const ProcessResult r = sparkx(arguments);
    ASSERT_EQ(r.status, 0) << r.err;
    json::Object top = quantization("out").as_object();
    top.resize(3);
    EXPECT_EQ(json::Value(top), json::Value(c.top));
  }
}

TEST_F(Convert, APredicateIsSplitAtItsLastEqualsSign) {
  const ProcessResult r = sparkx({"convert", "-m", at("source"), "-o", at("out"), "-q", "8bit", "--predicate",
                                  "up_proj(?=x)|gate_proj=none", "--predicate", "down_proj=2"});
  ASSERT_EQ(r.status, 0) << r.err;
  EXPECT_TRUE(contains(r.out, "mlp.down_proj.weight")) << r.out;
  EXPECT_EQ(*quantization("out").find("model.layers.0.mlp.down_proj")->find("bits"), json::Value(2));
  EXPECT_TRUE(contains(r.out, "float32 (as asked for)")) << r.out;
}

TEST_F(Convert, AnExistingOutputIsRefusedWithoutForce) {
  ASSERT_EQ(sparkx({"convert", "-m", at("source"), "-o", at("out")}).status, 0);
  const ProcessResult refused = sparkx({"convert", "-m", at("source"), "-o", at("out"), "-q"});
  EXPECT_EQ(refused.status, 1);
  EXPECT_TRUE(contains(refused.err, "out: exists already; --force replaces it")) << refused.err;
  EXPECT_EQ(sparkx({"convert", "-m", at("source"), "-o", at("out"), "-q", "--force"}).status, 0);
  EXPECT_EQ(*quantization("out").find("bits"), json::Value(4));
  EXPECT_EQ(names_in(dir_.path()), (std::set<std::string>{"source", "out"}));
}

TEST_F(Convert, TheSourceIsNoOutput) {
  for (const char* output : {"source", "source/inside", "source/../source"}) {
    const ProcessResult r = sparkx({"convert", "-m", at("source"), "-o", at(output), "--force"});
    EXPECT_EQ(r.status, 1) << output;
    EXPECT_TRUE(contains(r.err, "the model is read from")) << r.err;
  }
  EXPECT_EQ(names_in(dir_ / "source"), (std::set<std::string>{"config.json", "model.safetensors"}));
}

TEST_F(Convert, CalibratesWithAText) {
  const std::string text = SPARKX_SOURCE_DIR "/tests/data/calibration/calibration.txt";
  const ProcessResult r = sparkx({"convert", "-o", at("out"), "-q", "3bit", "--calibrate", text});
  ASSERT_EQ(r.status, 0) << r.err;
  EXPECT_TRUE(contains(r.out, "bfloat16 -> 3-bit, groups of 64 (calibrated)\n")) << r.out;
  EXPECT_TRUE(contains(r.out, "\ncalibrated with " + text + ", 11246 tokens in windows of 2048, read 1 time\n"))
      << r.out;
  const ProcessResult plan =
      sparkx({"convert", "-o", at("dry"), "-q", "3bit", "--calibrate", text, "--dry-run", "--json"});
  ASSERT_EQ(plan.status, 0) << plan.err;
  EXPECT_TRUE(json::parse(plan.out, "output").find("calibration")->as_string().starts_with(text + ", "));
  EXPECT_EQ(names_in(dir_.path()), (std::set<std::string>{"source", "out"}));
  const ProcessResult refused = sparkx({"convert", "-o", at("no"), "-q", "mxfp4", "--calibrate", text});
  EXPECT_EQ(refused.status, 1);
  EXPECT_TRUE(contains(refused.err, "calibration goes with 2bit to 6bit and 8bit")) << refused.err;
}

TEST_F(Convert, DryRunShowsThePlanAndWritesNothing) {
  for (const char* option : {"--dry-run", "--inspect"}) {
    const ProcessResult r = sparkx({"convert", "-m", at("source"), "-o", at("out"), "-q", option});
    EXPECT_EQ(r.status, 0);
    EXPECT_TRUE(contains(r.out, "mlx: ")) << r.out;
    EXPECT_TRUE(contains(r.out, "bits per weight")) << r.out;
    EXPECT_TRUE(contains(r.err, "nothing was written")) << r.err;
    EXPECT_EQ(names_in(dir_.path()), std::set<std::string>{"source"});
  }
}

TEST_F(Convert, JsonIsOneDocument) {
  const ProcessResult r = sparkx({"convert", "-m", at("source"), "-o", at("out"), "-q", "--json"});
  ASSERT_EQ(r.status, 0) << r.err;
  const json::Value plan = json::parse(r.out, "plan");
  EXPECT_EQ(*plan.find("format"), json::Value("mlx"));
  EXPECT_EQ(plan.find("files")->as_array().size(), names_in(dir_ / "out").size());
  EXPECT_TRUE(plan.find("tensors")->as_array()[0].find("reason")->is_null());
}

TEST_F(Convert, CommandLinesThatMakeNoSenseAreUsageErrors) {
  struct Case {
    std::vector<std::string> options;
    const char* says;
  };
  const Case cases[] = {
      {{"--q-bits", "3"}, "--q-bits and --q-mode go with -q without a value"},
      {{"-q", "4bit", "--q-bits", "3"}, "--q-bits and --q-mode go with -q without a value"},
      {{"-q", "--q-mode", "mxfp4", "--q-bits", "8"}, "mxfp4 has 4 bits, not 8"},
      {{"--predicate", "down_proj"}, "\"down_proj\" is not of the form RE=BITS"},
      {{"--predicate", "=4"}, "\"=4\" is not of the form RE=BITS"},
      {{"--shard-size", "5 bananas"}, "\"5 bananas\" is no size such as 500MB or 5GB"},
      {{"--shard-size", "0"}, "\"0\" is no size"},
      {{"--shard-size", "99999999999TB"}, "is no size"},
      {{"--format", "onnx"}, "\"onnx\" is not one of"},
      {{"--group-size", "48"}, "\"48\" is not one of"},
  };
  for (const Case& c : cases) {
    std::vector<std::string> arguments{"convert", "-m", at("source"), "-o", at("out")};
    arguments.insert(arguments.end(), c.options.begin(), c.options.end());
    const ProcessResult r = sparkx(arguments);
    EXPECT_EQ(r.status, 2) << c.says;
    EXPECT_TRUE(contains(r.err, c.says)) << r.err;
  }
  EXPECT_EQ(sparkx({"convert", "-m", at("source")}).status, 2);
  EXPECT_EQ(names_in(dir_.path()), std::set<std::string>{"source"});
}

TEST_F(Convert, WithoutAModelItIsTheBuiltInOne) {
  const ProcessResult r = sparkx({"convert", "-o", at("out"), "-q", "8bit"});
  ASSERT_EQ(r.status, 0) << r.err;
  EXPECT_TRUE(contains(r.err, "built-in")) << r.err;
  const ProcessResult answer = sparkx({"generate", "-m", at("out"), "-p", "53乘以42的结果是多少？", "--temp", "0"});
  EXPECT_EQ(answer.status, 0) << answer.err;
  EXPECT_TRUE(contains(answer.out, "2226")) << answer.out;
}

// Large enough to be killed on the way.
class ConvertInterrupted : public ::testing::Test {
 protected:
  ConvertInterrupted() {
    ModelSpec spec;
    spec.hidden_size = 512;
    spec.intermediate_size = 1024;
    spec.vocab_size = 8192;
    spec.head_dim = 64;
    RandomModel(spec).write(dir_ / "source");
  }
  std::vector<std::string> arguments() const {
    return sparkx_arguments(
        {"convert", "-m", (dir_ / "source").string(), "-o", (dir_ / "out").string(), "-q", "mxfp4", "--threads", "1"});
  }

  TempDir dir_;
};

TEST_F(ConvertInterrupted, KilledAtAnyMomentLeavesNothingThatLooksWhole) {
  const auto begin = std::chrono::steady_clock::now();
  ASSERT_EQ(run_process(arguments()).status, 0);
  const auto whole = std::chrono::steady_clock::now() - begin;
  const std::string wanted = read_file(dir_ / "out/model.safetensors");
  fs::remove_all(dir_ / "out");
  constexpr int kKills = 12;
  int killed = 0;
  for (int i = 0; i < kKills; ++i) {
    Process process(arguments());
    std::this_thread::sleep_for(whole * (i + 1) / kKills);
    process.send_signal(SIGKILL);
    if (process.wait().status == 128 + SIGKILL) ++killed;
    if (fs::exists(dir_ / "out")) {  // it was quicker
      EXPECT_EQ(read_file(dir_ / "out/model.safetensors"), wanted);
      fs::remove_all(dir_ / "out");
    }
    // What is left is at names of its own, and while anything of it is not done nothing of it has its name.
    for (const std::string& name : names_in(dir_.path())) {
      if (name == "source") continue;
      EXPECT_TRUE(name.starts_with("out.part-")) << name;
      const std::set<std::string> files = names_in(dir_ / name);
      const bool whole_weights = files.contains("model.safetensors");
      if (whole_weights) {
        EXPECT_EQ(read_file(dir_ / name / "model.safetensors"), wanted);
      } else {
        EXPECT_FALSE(files.contains("config.json"));
      }
    }
  }
  EXPECT_GT(killed, 0);
  // The next one clears it away.
  ASSERT_EQ(run_process(arguments()).status, 0);
  EXPECT_EQ(names_in(dir_.path()), (std::set<std::string>{"source", "out"}));
  EXPECT_EQ(read_file(dir_ / "out/model.safetensors"), wanted);
}

TEST_F(ConvertInterrupted, CtrlCLeavesNothing) {
  Process process(arguments());
  const auto deadline = std::chrono::steady_clock::now() + 60s;
  while (names_in(dir_.path()).size() < 2 && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(1ms);
  }
  process.send_signal(SIGINT);
  const int status = process.wait().status;
  if (status == 0) GTEST_SKIP() << "it was done before the signal came";
  EXPECT_EQ(status, 130);
  EXPECT_EQ(names_in(dir_.path()), std::set<std::string>{"source"});
}

}  // namespace
}  // namespace sparkx::testing
