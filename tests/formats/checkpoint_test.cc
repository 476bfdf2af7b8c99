#include "formats/checkpoint.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <optional>
#include <thread>

#include "support/checkpoints.h"
#include "support/errors.h"
#include "support/oracle.h"
#include "support/temp_dir.h"

namespace sparkx {
namespace {

using testing::error_of;
using testing::kSmallConfig;
using testing::safetensors_file;
using testing::small_checkpoint;
using testing::small_tensors;
using testing::TempDir;
using testing::TestFiles;
using testing::TestTensor;
using testing::with_member;

std::string error_in(const TestFiles& files) {
  return error_of([&] { Checkpoint::open("m", files.memory()); });
}

std::vector<TestTensor>::iterator named(std::vector<TestTensor>& tensors, std::string_view name) {
  return std::find_if(tensors.begin(), tensors.end(), [&](const TestTensor& tensor) { return tensor.name == name; });
}

// The small checkpoint with a change to its tensors.
template <typename Change>
TestFiles changed(Change change) {
  std::vector<TestTensor> tensors = small_tensors();
  change(tensors);
  TestFiles files = small_checkpoint();
  files.contents["model.safetensors"] = safetensors_file(tensors);
  return files;
}

// The small checkpoint in two shards: even places in the first, odd ones in the second.
TestFiles sharded_checkpoint() {
  std::vector<TestTensor> parts[2];
  json::Object weight_map;
  const std::vector<TestTensor> tensors = small_tensors();
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    parts[i % 2].push_back(tensors[i]);
    weight_map.emplace_back(tensors[i].name, i % 2 == 0 ? "a.safetensors" : "b.safetensors");
  }
  return {{{"config.json", std::string(kSmallConfig)},
           {"model.safetensors.index.json",
            json::print(json::Object{{"metadata", json::Object{{"total_size", 1}}}, {"weight_map", weight_map}})},
           {"a.safetensors", safetensors_file(parts[0])},
           {"b.safetensors", safetensors_file(parts[1])}}};
}

std::string bytes_of(const Checkpoint& checkpoint, std::string_view name, std::int64_t begin, std::int64_t end) {
  const TensorInfo& tensor = checkpoint.tensor(name);
  std::string bytes(static_cast<std::size_t>(end - begin) * tensor.row_bytes(), '?');
  checkpoint.read(tensor, begin, end, std::as_writable_bytes(std::span(bytes)));
  return bytes;
}

TEST(Checkpoint, TensorsComeInTheModelsOrderWithTheirBytes) {
  const TestFiles files = small_checkpoint();
  const Checkpoint checkpoint = Checkpoint::open("m", files.memory());
  ASSERT_EQ(checkpoint.tensors().size(), 18u);
  EXPECT_EQ(checkpoint.tensors().front().name, "model.embedding.weight");
  EXPECT_EQ(checkpoint.tensors().back().name, "model.norm.weight");
  EXPECT_EQ(checkpoint.config().head_dim, 4);
  const TensorInfo& gate = checkpoint.tensor("model.layers.0.self_attn.g_proj.weight");
  EXPECT_EQ(gate.dtype, Dtype::float32);
  EXPECT_EQ(gate.rows(), 4);
  EXPECT_EQ(gate.columns(), 6);
  EXPECT_EQ(gate.bytes(), 96u);
  // It is tensor 3 of the file, whose bytes count up from 3.
  std::string expected;
  for (int i = 0; i < 96; ++i) expected += static_cast<char>(3 + i);
  EXPECT_EQ(bytes_of(checkpoint, gate.name, 0, 4), expected);
  EXPECT_EQ(bytes_of(checkpoint, gate.name, 1, 3), expected.substr(24, 48));
  EXPECT_EQ(bytes_of(checkpoint, gate.name, 2, 2), "");
  EXPECT_EQ(checkpoint.weight_bytes(),
            files.contents.at("model.safetensors").size() - 8 -
                static_cast<unsigned char>(files.contents.at("model.safetensors")[0]) -
                256u * static_cast<unsigned char>(files.contents.at("model.safetensors")[1]));
}

TEST(Checkpoint, RowsOutsideTheTensorAndBuffersOfTheWrongSizeAreRefused) {
  const TestFiles files = small_checkpoint();
  const Checkpoint checkpoint = Checkpoint::open("m", files.memory());
  const TensorInfo& norm = checkpoint.tensor("model.norm.weight");
  std::vector<std::byte> out(24);
  for (const auto& [begin, end] : std::vector<std::pair<int, int>>{{-1, 5}, {0, 7}, {4, 3}, {0, 5}, {1, 6}}) {
    EXPECT_THROW(checkpoint.read(norm, begin, end, out), Error) << begin << " " << end;
  }
  EXPECT_NO_THROW(checkpoint.read(norm, 0, 6, out));
  EXPECT_EQ(error_of([&] { checkpoint.tensor("lm_head.weight"); }),
            "not_found: m: the model has no tensor lm_head.weight");
  EXPECT_EQ(checkpoint.find_tensor("model.layers.2.input_layernorm.weight"), nullptr);
}

TEST(Checkpoint, AMissingTensorIsNamed) {
  for (const TestTensor& missing : small_tensors()) {
    const TestFiles files = changed([&](auto& tensors) { tensors.erase(named(tensors, missing.name)); });
    EXPECT_EQ(error_in(files), "not_found: m: tensor " + missing.name + " is missing");
  }
}

TEST(Checkpoint, AMisShapedTensorIsNamedWithBothShapes) {
  for (const TestTensor& wrong : small_tensors()) {
    const TestFiles files = changed([&](auto& tensors) { ++named(tensors, wrong.name)->shape.back(); });
    const std::string error = error_in(files);
    EXPECT_TRUE(error.starts_with("corrupt: m/model.safetensors: tensor " + wrong.name + " has shape [")) << error;
  }
  EXPECT_EQ(error_in(changed([](auto& tensors) {
              named(tensors, "model.layers.1.self_attn.out_proj.weight")->shape = {16, 6};
            })),
            "corrupt: m/model.safetensors: tensor model.layers.1.self_attn.out_proj.weight has shape [16, 6], expected "
            "[6, 16] "
            "(hidden_size, num_attention_heads * head_dim)");
  EXPECT_EQ(error_in(changed([](auto& tensors) {
              named(tensors, "model.norm.weight")->shape = {6, 1};
            })),
            "corrupt: m/model.safetensors: tensor model.norm.weight has shape [6, 1], expected [6] (hidden_size)");
  EXPECT_EQ(
      error_in(
          changed([](auto& tensors) { named(tensors, "model.layers.0.self_attn.q_k_v_proj.weight")->shape = {}; })),
      "corrupt: m/model.safetensors: tensor model.layers.0.self_attn.q_k_v_proj.weight has shape [], expected [32, 6] "
      "((num_attention_heads + 2 * num_key_value_heads) * head_dim, hidden_size)");
}

TEST(Checkpoint, AnUnknownTensorIsNamed) {
  for (const char* name : {"model.layers.0.self_attn.q_norm.weight", "model.layers.2.input_layernorm.weight",
                           "lm_head.bias", "model.layers.0.self_attn.q_k_v_proj.bias",
                           "model.layers.00.input_layernorm.weight", "model.layers.0.mlp.down_proj.scales"}) {
    EXPECT_EQ(error_in(changed([&](auto& tensors) {
                tensors.push_back({name, {6}});
              })),
              std::string("corrupt: m/model.safetensors: tensor ") + name +
                  " is no part of the model that config.json describes");
  }
}

TEST(Checkpoint, ElementTypesOtherThanTheDenseOnesAreRefused) {
  for (const auto& [code, size, name] : std::vector<std::tuple<const char*, int, const char*>>{
           {"F64", 8, "float64"}, {"U32", 4, "uint32"}, {"I8", 1, "int8"}, {"BOOL", 1, "bool"}}) {
    EXPECT_EQ(error_in(changed([&, code = code, size = size](auto& tensors) {
                named(tensors, "model.norm.weight")->dtype = code;
                named(tensors, "model.norm.weight")->element_size = static_cast<std::size_t>(size);
              })),
              std::string("unsupported: m/model.safetensors: tensor model.norm.weight is ") + name +
                  "; sparkx supports float32, bfloat16 and float16 weights only");
  }
}

TEST(Checkpoint, EveryTensorMayHaveItsOwnDenseType) {
  const TestFiles files = changed([](auto& tensors) {
    *named(tensors, "model.norm.weight") = {"model.norm.weight", {6}, "BF16", 2};
    *named(tensors, "model.embedding.weight") = {"model.embedding.weight", {8, 6}, "F16", 2};
  });
  const Checkpoint checkpoint = Checkpoint::open("m", files.memory());
  EXPECT_EQ(checkpoint.tensor("model.norm.weight").dtype, Dtype::bfloat16);
  EXPECT_EQ(checkpoint.tensor("model.embedding.weight").dtype, Dtype::float16);
  EXPECT_EQ(checkpoint.tensor("model.embedding.weight").row_bytes(), 12u);
}

TEST(Checkpoint, TheOtherNameOfTheEmbeddingIsAccepted) {
  const TestFiles files = changed([](auto& tensors) { tensors[0].name = "model.embed_tokens.weight"; });
  const Checkpoint checkpoint = Checkpoint::open("m", files.memory());
  EXPECT_EQ(checkpoint.tensor("model.embedding.weight").rows(), 8);
  EXPECT_EQ(
      error_in(changed([](auto& tensors) {
        tensors.push_back({"model.embed_tokens.weight", {8, 6}});
      })),
      "corrupt: m: tensor model.embedding.weight is there twice: model.embed_tokens.weight is another name of it");
}

TEST(Checkpoint, BuffersAndTheHeadOfATiedModelAreIgnored) {
  const TestFiles files = changed([](auto& tensors) {
    tensors.push_back({"model.layers.0.self_attn.rotary_emb.inv_freq", {2}, "F64", 8});
    tensors.push_back({"model.rotary_emb.inv_freq", {2}});
    tensors.push_back({"lm_head.weight", {8, 6}});
  });
  const Checkpoint checkpoint = Checkpoint::open("m", files.memory());
  EXPECT_EQ(checkpoint.tensors().size(), 18u);
  EXPECT_EQ(checkpoint.find_tensor("lm_head.weight"), nullptr);
  EXPECT_TRUE(checkpoint.warnings().empty());
}

TEST(Checkpoint, AnUntiedModelNeedsItsHead) {
  TestFiles files = small_checkpoint();
  files.contents["config.json"] = with_member(kSmallConfig, "tie_word_embeddings", "false");
  EXPECT_EQ(error_in(files), "not_found: m: tensor lm_head.weight is missing; tie_word_embeddings is false");
  std::vector<TestTensor> tensors = small_tensors();
  tensors.push_back({"lm_head.weight", {8, 6}});
  files.contents["model.safetensors"] = safetensors_file(tensors);
  const Checkpoint checkpoint = Checkpoint::open("m", files.memory());
  EXPECT_EQ(checkpoint.tensors().back().name, "lm_head.weight");
}

TEST(Checkpoint, BiasesBelongToTheModelExactlyWhenTheConfigSaysSo) {
  const std::vector<std::tuple<const char*, const char*, std::int64_t>> biases = {
      {"attention_bias", "self_attn.q_k_v_proj", 32},
      {"attention_bias", "self_attn.g_proj", 4},
      {"attention_bias", "self_attn.out_proj", 6},
      {"mlp_bias", "mlp.gate_proj", 10},
      {"mlp_bias", "mlp.up_proj", 10},
      {"mlp_bias", "mlp.down_proj", 6}};
  for (const char* option : {"attention_bias", "mlp_bias"}) {
    TestFiles files = small_checkpoint();
    files.contents["config.json"] = with_member(kSmallConfig, option, "true");
    std::vector<TestTensor> tensors = small_tensors();
    for (const auto& [needed_by, module, rows] : biases) {
      if (std::string_view(needed_by) != option) continue;
      const std::string error = error_in(files);
      EXPECT_EQ(error,
                fmt::format("not_found: m: tensor model.layers.0.{}.bias is missing; {} is true", module, option));
      for (int layer = 0; layer < 2; ++layer)
        tensors.push_back({fmt::format("model.layers.{}.{}.bias", layer, module), {rows}});
      files.contents["model.safetensors"] = safetensors_file(tensors);
    }
    EXPECT_EQ(error_in(files), "no error");
    const Checkpoint checkpoint = Checkpoint::open("m", files.memory());
    EXPECT_EQ(checkpoint.tensors().size(), 24u);
  }
}

TEST(Checkpoint, ShardsMakeTheSameModelAsOneFile) {
  const TestFiles files = sharded_checkpoint();
  const TempDir dir;
  for (const auto& [name, content] : files.contents) dir.write(name, content);
  const Checkpoint from_memory = Checkpoint::open("m", files.memory());
  const Checkpoint from_folder = Checkpoint::open(dir.path());
  for (const TestTensor& tensor : small_tensors()) {
    EXPECT_EQ(bytes_of(from_memory, tensor.name, 0, tensor.shape[0]),
              bytes_of(from_folder, tensor.name, 0, tensor.shape[0]));
  }
  EXPECT_EQ(from_folder.tensors().size(), 18u);
}

TEST(Checkpoint, AnIndexThatLeavesTheFolderIsRefused) {
  for (const char* path : {"../a.safetensors", "/etc/a.safetensors", "sub/a.safetensors", "..", ".", "",
                           ".a.safetensors", "sub\\\\a.safetensors", "a\\u0000.safetensors", "a\\n.safetensors"}) {
    TestFiles files = sharded_checkpoint();
    const std::string value = std::string("\"") + path + "\"";
    files.contents["model.safetensors.index.json"] = R"({"weight_map":{"model.norm.weight":)" + value + "}}";
    const std::string error = error_in(files);
    EXPECT_TRUE(error.find("expected a file in the same folder") != error.npos ||
                error.find(".safetensors files only") != error.npos)
        << path << ": " << error;
  }
  TestFiles files = sharded_checkpoint();
  files.contents["model.safetensors.index.json"] = R"({"weight_map":{"model.norm.weight":"../a.safetensors"}})";
  EXPECT_EQ(error_in(files),
            "corrupt: m/model.safetensors.index.json: tensor model.norm.weight is placed in ../a.safetensors; expected "
            "a file in the "
            "same folder");
  files.contents["model.safetensors.index.json"] = R"({"weight_map":{"model.norm.weight":"pytorch_model.bin"}})";
  EXPECT_EQ(error_in(files),
            "unsupported: m/model.safetensors.index.json: tensor model.norm.weight is placed in pytorch_model.bin; "
            "sparkx reads "
            ".safetensors files only");
}

TEST(Checkpoint, AnIndexThatIsNoIndexIsRefused) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"{}", "corrupt: m/model.safetensors.index.json: has no weight_map from tensor names to files"},
      {"[]", "corrupt: m/model.safetensors.index.json: has no weight_map from tensor names to files"},
      {R"({"weight_map":[]})", "corrupt: m/model.safetensors.index.json: has no weight_map from tensor names to files"},
      {R"({"weight_map":{"x":1}})",
       "corrupt: m/model.safetensors.index.json: tensor x is placed in a JSON number, not in a file name"},
      {R"({"weight_map":{"x":"a.safetensors","x":"b.safetensors"}})",
       "corrupt: m/model.safetensors.index.json:1:36: duplicate key \"x\""},
      {R"({"weight_map":{}})", "not_found: m: tensor model.embedding.weight is missing"},
  };
  for (const auto& [text, expected] : cases) {
    TestFiles files = sharded_checkpoint();
    files.contents["model.safetensors.index.json"] = text;
    EXPECT_EQ(error_in(files), expected) << text;
  }
}

TEST(Checkpoint, ShardsThatDisagreeWithTheIndexAreRefused) {
  TestFiles files = sharded_checkpoint();
  const std::string index = files.contents["model.safetensors.index.json"];
  files.contents.erase("b.safetensors");
  EXPECT_EQ(error_in(files),
            "not_found: m/b.safetensors: there is no such file, but model.safetensors.index.json places tensor "
            "model.layers.0.input_layernorm.weight in it");

  // The index places the norm in the other file; weight_map is the second member, the norm (in b) its last.
  files = sharded_checkpoint();
  std::string moved = index;
  moved.replace(moved.rfind("b.safetensors"), 1, "a");
  files.contents["model.safetensors.index.json"] = moved;
  EXPECT_EQ(error_in(files),
            "corrupt: m/a.safetensors: tensor model.norm.weight is missing; model.safetensors.index.json places it in "
            "this file");

  // A shard has a tensor that the index does not know.
  files = sharded_checkpoint();
  std::vector<TestTensor> more{{"model.norm.weight", {6}}, {"extra", {1}}};
  files.contents["b.safetensors"] = safetensors_file(more);
  files.contents["model.safetensors.index.json"] = R"({"weight_map":{"model.norm.weight":"b.safetensors"}})";
  EXPECT_EQ(error_in(files),
            "corrupt: m/b.safetensors: tensor extra is in this file, but model.safetensors.index.json does not place "
            "it here");
}

TEST(Checkpoint, ASingleFileWinsOverAnIndexAndSaysSo) {
  TestFiles files = sharded_checkpoint();
  files.contents["model.safetensors"] = safetensors_file(small_tensors());
  files.contents["model.safetensors.index.json"] = "not even JSON";
  const Checkpoint checkpoint = Checkpoint::open("m", files.memory());
  EXPECT_EQ(
      checkpoint.warnings(),
      std::vector<std::string>{"m/model.safetensors.index.json: ignored, because there is model.safetensors too"});
}

TEST(Checkpoint, AnIndexOfTheSingleFileItselfIsNoReasonToWarn) {
  TestFiles files = small_checkpoint();
  files.contents["model.safetensors.index.json"] = R"({"weight_map":{"model.norm.weight":"model.safetensors"}})";
  EXPECT_EQ(Checkpoint::open("m", files.memory()).warnings(), std::vector<std::string>());
}

TEST(Checkpoint, MissingFilesAreNamed) {
  TestFiles files = small_checkpoint();
  files.contents.erase("model.safetensors");
  EXPECT_EQ(error_in(files), "not_found: m: there is neither model.safetensors nor model.safetensors.index.json");
  files = small_checkpoint();
  files.contents.erase("config.json");
  EXPECT_EQ(error_in(files), "not_found: m/config.json: there is no such file");
  const TempDir dir;
  const std::string base = dir.path().string();
  EXPECT_EQ(error_of([&] { Checkpoint::open(dir / "absent"); }),
            "not_found: " + base + "/absent: no such file or folder");
  EXPECT_EQ(
      error_of([&] { Checkpoint::open(dir.write("file", "")); }),
      "invalid_argument: " + base + "/file: is neither a folder with config.json and safetensors nor a GGUF file");
  EXPECT_EQ(error_of([&] { Checkpoint::open(dir.path()); }),
            "not_found: " + base + "/config.json: there is no such file");
  std::filesystem::create_directory(dir / "config.json");
  EXPECT_EQ(error_of([&] { Checkpoint::open(dir.path()); }), "io: " + base + "/config.json: is a folder, not a file");
}

TEST(Checkpoint, UnknownConfigKeysAreOneWarning) {
  TestFiles files = small_checkpoint();
  files.contents["config.json"] = with_member(with_member(kSmallConfig, "odd", "1"), "o\\u001bdd", "2");
  files.contents["config.json"] = with_member(files.contents["config.json"], "strange", "2");
  const Checkpoint checkpoint = Checkpoint::open("m", files.memory());
  EXPECT_EQ(
      checkpoint.warnings(),
      std::vector<std::string>{"m/config.json: keys that sparkx does not know, and ignores: odd, o\\u001bdd, strange"});
}

TEST(Checkpoint, ManyUnknownConfigKeysAreAShortWarning) {
  std::string members;
  for (int i = 0; i < 100000; ++i) members += "\"odd_" + std::to_string(i) + "\": 0, ";
  TestFiles files = small_checkpoint();
  files.contents["config.json"] = "{" + members + std::string(kSmallConfig.substr(kSmallConfig.find('{') + 1));
  const Checkpoint checkpoint = Checkpoint::open("m", files.memory());
  ASSERT_EQ(checkpoint.warnings().size(), 1u);
  EXPECT_TRUE(checkpoint.warnings()[0].ends_with("odd_14, odd_15 and 99984 more")) << checkpoint.warnings()[0];
}

TEST(Checkpoint, TextFilesAreReadWhenTheyAreThere) {
  TestFiles files = small_checkpoint();
  files.contents["tokenizer.json"] = "{}";
  files.contents["generation_config.json"] = R"({"temperature": 0.5, "eos_token_id": [1, 3]})";
  const TempDir dir;
  for (const auto& [name, content] : files.contents) dir.write(name, content);
  const Checkpoint in_memory = Checkpoint::open("m", files.memory());
  const Checkpoint in_folder = Checkpoint::open(dir.path());
  for (const Checkpoint* checkpoint : {&in_memory, &in_folder}) {
    EXPECT_EQ(checkpoint->text_file("tokenizer.json"), "{}");
    EXPECT_EQ(checkpoint->text_file("chat_template.jinja"), std::nullopt);
    EXPECT_EQ(checkpoint->generation_config().temperature, 0.5);
    EXPECT_EQ(checkpoint->generation_config().eos_token_ids, (std::vector<TokenId>{1, 3}));
  }
  EXPECT_EQ(in_folder.display_name("tokenizer.json"), (dir / "tokenizer.json").string());
  files.contents["generation_config.json"] = R"({"temperature": "hot"})";
  EXPECT_EQ(error_in(files), "corrupt: m/generation_config.json: temperature is \"hot\"; expected a number from 0");
}

TEST(Checkpoint, AFileThatIsCutOffAfterOpeningIsAnError) {
  const TempDir dir;
  for (const auto& [name, content] : small_checkpoint().contents) dir.write(name, content);
  const Checkpoint checkpoint = Checkpoint::open(dir.path());
  ASSERT_EQ(truncate((dir / "model.safetensors").c_str(), 100), 0);
  const std::string error = error_of([&] { bytes_of(checkpoint, "model.norm.weight", 0, 6); });
  EXPECT_TRUE(error.starts_with("io: " + (dir / "model.safetensors").string() + ": has become shorter")) << error;
}

TEST(Checkpoint, ManyThreadsMayReadAtOnce) {
  const TempDir dir;
  for (const auto& [name, content] : small_checkpoint().contents) dir.write(name, content);
  const Checkpoint checkpoint = Checkpoint::open(dir.path());
  const std::string expected = bytes_of(checkpoint, "model.embedding.weight", 0, 8);
  std::vector<std::jthread> threads;
  std::atomic<int> wrong = 0;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 200; ++i) {
        const int row = i % 8;
        if (bytes_of(checkpoint, "model.embedding.weight", row, row + 1) !=
            expected.substr(static_cast<std::size_t>(row) * 24, 24))
          ++wrong;
      }
    });
  }
  threads.clear();
  EXPECT_EQ(wrong, 0);
}

// A truncation at every length of a real file's header is an error, never a crash.
TEST(Checkpoint, EveryTruncationIsAnError) {
  TestFiles files = small_checkpoint();
  const std::string whole = files.contents["model.safetensors"];
  for (std::size_t size = 0; size < whole.size(); size += size < 3000 ? 1 : 97) {
    files.contents["model.safetensors"] = whole.substr(0, size);
    ASSERT_TRUE(error_in(files).starts_with("corrupt: m/model.safetensors")) << size;
  }
}

struct OracleCase {
  const char* name;
  Dtype dtype;
  std::size_t tensors;
};

TEST(Checkpoint, EveryDenseOracleCaseOpens) {
  SPARKX_NEEDS_ORACLE();
  for (const auto& [name, dtype, tensors] : std::vector<OracleCase>{{"tied-f32", Dtype::float32, 66},
                                                                    {"untied-biased-f32", Dtype::float32, 73},
                                                                    {"window512-f32", Dtype::float32, 34},
                                                                    {"sharded-bf16", Dtype::bfloat16, 50},
                                                                    {"tied-f16", Dtype::float16, 66},
                                                                    {"quant-source-bf16", Dtype::bfloat16, 18}}) {
    SCOPED_TRACE(name);
    const Checkpoint checkpoint = Checkpoint::open(testing::oracle_dir() / name);
    EXPECT_EQ(checkpoint.tensors().size(), tensors);
    for (const TensorInfo& tensor : checkpoint.tensors()) EXPECT_EQ(tensor.dtype, dtype) << tensor.name;
    const TensorInfo& last = checkpoint.tensors().back();
    EXPECT_EQ(bytes_of(checkpoint, last.name, 0, last.rows()).size(), last.bytes());
    EXPECT_TRUE(checkpoint.warnings().empty());
  }
}

}  // namespace
}  // namespace sparkx
