#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include "cli/sparkx_program.h"
#include "core/json.h"
#include "support/checkpoints.h"
#include "support/temp_dir.h"
#include "support/text.h"

namespace sparkx::testing {
namespace {

const std::string kMini = SPARKX_SOURCE_DIR "/models/mini";

std::vector<std::string> keys(const json::Value& object) {
  std::vector<std::string> names;
  for (const json::Member& member : object.as_object()) names.push_back(member.first);
  return names;
}

TEST(InspectCommand, APageOfAlignedFacts) {
  const ProcessResult r = sparkx({"inspect", kMini, "--ctx", "100,4096"});
  ASSERT_EQ(r.status, 0) << r.err;
  EXPECT_EQ(r.err, "");
  for (const char* line :
       {"\nruns        yes\n", "\nformat      safetensors\n", "\nparameters  2.9 M, 16.00 bits each\n",
        "\nlayers      6: 2 sliding + 1 full, 2 times; window 64\n", "\nvocabulary  1024; the head is the embedding\n",
        "\nembedding         1      196.6 K    384.0 KiB  16.00  bfloat16\n", "\n100       ", "\n4096      "}) {
    EXPECT_TRUE(contains("\n" + r.out, line)) << line << "\n" << r.out;
  }
  std::istringstream lines(r.out);
  for (std::string line; std::getline(lines, line);) {
    EXPECT_LE(std::count_if(line.begin(), line.end(), [](char c) { return (c & 0xC0) != 0x80; }), 150) << line;
  }
  EXPECT_FALSE(contains(r.out, "model.layers.0."));
  const ProcessResult tensors = sparkx({"inspect", kMini, "--tensors"});
  EXPECT_TRUE(contains(tensors.out, "\nmodel.layers.0.self_attn.q_k_v_proj.weight ")) << tensors.out;
}

TEST(InspectCommand, WithoutAModelItIsTheBuiltinOne) {
  const ProcessResult r = sparkx({"inspect"});
  EXPECT_EQ(r.status, 0);
  EXPECT_TRUE(contains(r.out, "built-in model")) << r.out;
  const auto before_free_memory = [](const std::string& page) { return page.substr(0, page.find("\nfree ")); };
  EXPECT_EQ(before_free_memory(sparkx({"inspect", "-m", kMini}).out),
            before_free_memory(sparkx({"inspect", kMini}).out));
}

TEST(InspectCommand, JsonHasTheSameMembersForEveryModel) {
  const std::vector<std::string> expected = {
      "name",         "format",        "file_type", "runs",         "refusal", "parameters", "bits_per_weight",
      "tensor_bytes", "file_bytes",    "files",     "architecture", "modules", "memory",     "kv",
      "tokenizer",    "chat_template", "sampling",  "warnings"};
  const ProcessResult r = sparkx({"inspect", kMini, "--json"});
  ASSERT_EQ(r.status, 0) << r.err;
  const json::Value root = json::parse(r.out, "output");
  EXPECT_EQ(keys(root), expected);
  EXPECT_TRUE(root.find("runs")->as_bool());
  EXPECT_TRUE(root.find("refusal")->is_null());
  EXPECT_EQ(keys(*root.find("architecture")),
            (std::vector<std::string>{"layers", "sliding_layers", "full_layers", "pattern", "sliding_window",
                                      "hidden_size", "intermediate_size", "heads", "kv_heads", "head_dim", "vocab_size",
                                      "max_position_embeddings", "tied", "attention_bias", "mlp_bias", "rotary"}));
  EXPECT_EQ(keys(*root.find("memory")),
            (std::vector<std::string>{"weights", "activations", "kv_dtype", "device", "weight_bytes", "buffer_bytes",
                                      "available_bytes", "context"}));
  EXPECT_EQ(keys(root.find("kv")->as_array().at(0)),
            (std::vector<std::string>{"positions", "float32", "bfloat16", "int8"}));
  EXPECT_EQ(keys(root.find("modules")->as_array().at(0)),
            (std::vector<std::string>{"name", "tensors", "parameters", "bytes", "bits_per_weight", "stored"}));
  EXPECT_EQ(root.find("sampling")->find("temperature")->as_double(), 0);

  const json::Value with_tensors = json::parse(sparkx({"inspect", kMini, "--json", "--tensors"}).out, "output");
  const json::Array& tensors = with_tensors.find("tensors")->as_array();
  std::int64_t bytes = 0;
  for (const json::Value& tensor : tensors) bytes += tensor.find("bytes")->as_int64();
  EXPECT_EQ(bytes, root.find("tensor_bytes")->as_int64());

  TempDir folder;
  for (const auto& [name, content] : small_checkpoint().contents) folder.write(name, content);
  folder.write("config.json", with_member(kSmallConfig, "attention_sinks", "true"));
  const ProcessResult refused = sparkx({"inspect", folder.path().string(), "--json"});
  EXPECT_EQ(refused.status, 3);
  const json::Value document = json::parse(refused.out, "output");
  EXPECT_EQ(keys(document), expected);
  EXPECT_FALSE(document.find("runs")->as_bool());
  EXPECT_TRUE(contains(document.find("refusal")->as_string(), "attention_sinks")) << refused.out;
  EXPECT_TRUE(document.find("architecture")->is_null());
}

TEST(InspectCommand, TheStatusSaysWhetherItRuns) {
  TempDir folder;
  for (const auto& [name, content] : small_checkpoint().contents) folder.write(name, content);
  const ProcessResult runs = sparkx({"inspect", folder.path().string()});
  EXPECT_EQ(runs.status, 0) << runs.err;
  EXPECT_TRUE(contains(runs.err, "sparkx: warning: there is no tokenizer")) << runs.err;
  folder.write("config.json", with_member(kSmallConfig, "attention_sinks", "true"));
  const ProcessResult refused = sparkx({"inspect", folder.path().string()});
  EXPECT_EQ(refused.status, 3);
  EXPECT_TRUE(contains(refused.out, "runs        no: ")) << refused.out;
  EXPECT_TRUE(contains(refused.out, "attention_sinks is true; sparkx supports false only")) << refused.out;
  folder.write("config.json", "{");
  const ProcessResult broken = sparkx({"inspect", folder.path().string()});
  EXPECT_EQ(broken.status, 1);
  EXPECT_EQ(broken.out, "");
  EXPECT_TRUE(contains(broken.err, "config.json")) << broken.err;
  EXPECT_EQ(sparkx({"inspect", (folder / "none").string()}).status, 1);
  EXPECT_EQ(sparkx({"inspect", "--ctx", "x"}).status, 2);
}

}  // namespace
}  // namespace sparkx::testing
