// What inspect says is what loading then finds.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "core/json.h"
#include "formats/checkpoint.h"
#include "formats/published_shapes.h"
#include "sparkx/sparkx.hpp"
#include "support/checkpoints.h"
#include "support/errors.h"
#include "support/gguf_files.h"
#include "support/oracle.h"
#include "support/temp_dir.h"
#include "support/text.h"

namespace sparkx {
namespace {

using testing::contains;
using testing::error_of;
using testing::TempDir;

constexpr std::uint32_t kIq2Xxs = 16;  // as the format numbers it

const ModuleReport* find_module(const CheckpointReport& report, const std::string& name) {
  const auto found = std::find_if(report.modules.begin(), report.modules.end(),
                                  [&](const ModuleReport& module) { return module.name == name; });
  return found == report.modules.end() ? nullptr : &*found;
}

std::vector<std::filesystem::path> oracle_models() {
  std::vector<std::filesystem::path> models;
  for (const auto& entry : std::filesystem::directory_iterator(testing::oracle_dir())) {
    const std::string name = entry.path().filename().string();
    if (entry.path().extension() == ".gguf" || std::filesystem::exists(entry.path() / "config.json")) {
      models.push_back(entry.path());
    } else if (name == "gguf-split") {
      models.push_back(entry.path() / "gguf-Q4_K_M-00001-of-00003.gguf");
    }
  }
  std::sort(models.begin(), models.end());
  return models;
}

// "mlx-4bit-g64" is in MLX's format.
std::string format_of(const std::filesystem::path& model) {
  const std::string name = model.filename().string();
  if (name.starts_with("mlx-")) return "MLX";
  if (name.starts_with("ct-")) return "compressed-tensors";
  return model.extension() == ".gguf" ? "GGUF" : "safetensors";
}

TEST(Inspect, SaysOfEveryCheckpointWhatLoadingFinds) {
  SPARKX_NEEDS_ORACLE();
  ASSERT_GT(oracle_models().size(), 30u);
  for (const std::filesystem::path& path : oracle_models()) {
    const CheckpointReport report = inspect(path);
    EXPECT_EQ(report.format, format_of(path)) << path;
    EXPECT_GT(report.tensors.size(), 0u) << path;
    std::uint64_t file_bytes = 0;
    for (const FileReport& file : report.files) file_bytes += std::filesystem::file_size(file.name);
    EXPECT_EQ(report.file_bytes(), file_bytes) << path;
    EXPECT_LE(report.tensor_bytes(), file_bytes) << path;
    // No more than the header and what is aligned stands beside the tensors.
    EXPECT_GT(static_cast<double>(report.tensor_bytes()), 0.3 * static_cast<double>(file_bytes)) << path;
    std::optional<LanguageModel> model;
    std::string refusal;
    try {
      model = LanguageModel::load(path);
    } catch (const Error& error) {
      ASSERT_EQ(error.code(), ErrorCode::unsupported) << path << error.what();
      refusal = error.what();
    }
    EXPECT_EQ(report.refusal, refusal) << path;
    if (!model) continue;
    const ModelInfo& info = model->info();
    ASSERT_TRUE(report.memory && report.architecture) << path;
    EXPECT_EQ(report.memory->weight_bytes, info.weight_bytes) << path;
    EXPECT_EQ(report.memory->weights, info.weights) << path;
    EXPECT_EQ(report.memory->activations, info.activations) << path;
    EXPECT_EQ(report.memory->kv, info.kv) << path;
    EXPECT_EQ(report.memory->device, info.device) << path;
    EXPECT_EQ(report.memory->context, info.context) << path;
    EXPECT_EQ(report.architecture->vocab_size, info.vocab_size) << path;
    EXPECT_EQ(report.architecture->max_position_embeddings, info.max_position_embeddings) << path;
    EXPECT_EQ(report.tokenizer.has_value(), model->has_tokenizer()) << path;
    const std::int64_t context[] = {info.context};
    EXPECT_EQ(inspect(path, {}, context).kv.at(0).bfloat16, info.kv_bytes_reserved) << path;
  }
}

// Elements of the quantized source, whatever became of them: formats differ in bytes only.
TEST(Inspect, ParametersDoNotDependOnTheFormat) {
  SPARKX_NEEDS_ORACLE();
  const std::int64_t parameters = inspect(testing::oracle_dir() / "quant-source-bf16").parameters();
  for (const char* name :
       {"mlx-4bit-g64", "mlx-8bit-g64", "ct-w4a16-g128", "gguf-Q8_0.gguf", "gguf-Q4_0.gguf", "gguf-BF16.gguf"}) {
    const CheckpointReport report = inspect(testing::oracle_dir() / name);
    EXPECT_EQ(report.parameters(), parameters) << name;
  }
  const CheckpointReport four = inspect(testing::oracle_dir() / "mlx-4bit-g64");
  const ModuleReport* up = find_module(four, "up_proj");
  ASSERT_NE(up, nullptr);
  EXPECT_EQ(static_cast<double>(up->bytes) * 8 / static_cast<double>(up->parameters),
            4.5);  // a scale and a bias each 64
  const ModuleReport* norms = find_module(four, "norms");
  ASSERT_NE(norms, nullptr);
  EXPECT_EQ(norms->stored, (std::vector<std::pair<std::string, std::int64_t>>{{"bfloat16", norms->tensors}}));
}

// Some writers leave general.file_type at 0, whatever is inside.
TEST(Inspect, AGgufFileIsCalledWhatItMostlyHolds) {
  SPARKX_NEEDS_ORACLE();
  EXPECT_EQ(inspect(testing::oracle_dir() / "gguf-F32.gguf").file_type, "F32");
  EXPECT_EQ(inspect(testing::oracle_dir() / "gguf-Q8_0.gguf").file_type, "");
}

TEST(Inspect, TheBuiltinModelIsSaidInFull) {
  const CheckpointReport report = inspect("");
  EXPECT_EQ(report.name, "built-in model");
  EXPECT_EQ(report.format, "safetensors");
  EXPECT_EQ(report.refusal, "");
  EXPECT_TRUE(report.warnings.empty()) << report.warnings[0];
  ASSERT_TRUE(report.architecture);
  EXPECT_EQ(report.architecture->pattern, "2 sliding + 1 full, 2 times");
  EXPECT_EQ(report.architecture->sliding_layers, 4);
  EXPECT_EQ(report.architecture->full_layers, 2);
  EXPECT_EQ(report.architecture->rotary.size(), 2u);
  ASSERT_TRUE(report.tokenizer);
  EXPECT_EQ(report.tokenizer->vocab_size, 1024);
  ASSERT_GE(report.tokenizer->special.size(), 3u);
  EXPECT_EQ(report.tokenizer->special[1].role, "eos");
  EXPECT_EQ(report.tokenizer->special[1].id, 1);
  EXPECT_EQ(report.tokenizer->special[1].text, "<｜end▁of▁sentence｜>");
  ASSERT_TRUE(report.chat_template);
  EXPECT_TRUE(report.chat_template->tools);
  EXPECT_TRUE(report.chat_template->thinking);
  EXPECT_EQ(report.chat_template->failure, "");
  EXPECT_EQ(report.temperature, 0.0);
  EXPECT_EQ(report.kv.back().positions, report.architecture->max_position_embeddings);
  const ModuleReport* embedding = find_module(report, "embedding");
  ASSERT_NE(embedding, nullptr);
  EXPECT_EQ(embedding->tensors, 1);
  EXPECT_EQ(embedding->parameters, 1024 * 192);
  EXPECT_EQ(find_module(report, "lm_head"), nullptr);  // tied
  EXPECT_EQ(report.modules.back().name, "norms");
}

TEST(Inspect, OptionsSayWhatItWouldBe) {
  ModelOptions options;
  options.quantize = "4bit";
  options.kv_dtype = "int8";
  options.threads = 1;
  const CheckpointReport plain = inspect(""), quantized = inspect("", options);
  EXPECT_LT(quantized.memory->weight_bytes, plain.memory->weight_bytes / 3);
  EXPECT_EQ(quantized.memory->activations, "int8");
  EXPECT_EQ(quantized.memory->kv, "int8");
  EXPECT_TRUE(contains(quantized.memory->device, "1 thread"));
  EXPECT_EQ(quantized.tensor_bytes(), plain.tensor_bytes());
  options.quantize = "no such mode";
  EXPECT_TRUE(error_of([&] { inspect("", options); }).starts_with("invalid_argument: "));
}

TEST(Inspect, CachesAreThoseOfThePositionsAskedFor) {
  const std::int64_t positions[] = {100, 4096};
  const CheckpointReport report = inspect("", {}, positions);
  ASSERT_EQ(report.kv.size(), 2u);
  EXPECT_EQ(report.kv[0].positions, 100);
  EXPECT_GT(report.kv[1].bfloat16, report.kv[0].bfloat16);
  EXPECT_EQ(report.kv[1].float32, 2 * report.kv[1].bfloat16);
  EXPECT_EQ(report.kv[1].int8, report.kv[1].bfloat16 * 17 / 32);
  const std::int64_t far[] = {100000000};
  EXPECT_TRUE(error_of([&] {
                inspect("", {}, far);
              }).starts_with("invalid_argument: a context of 100000000 positions: this model can have 1 to"));
}

// A file whose tensors are a hole: nothing but its header can be read in no time.
TEST(Inspect, AFileOfEightGigabytesTakesNoTime) {
  TempDir folder;
  const std::string config = *published_config("4b");
  folder.write("config.json", config);
  json::Object header;
  std::uint64_t offset = 0;
  const Checkpoint shape = Checkpoint::synthetic("4b", config);
  for (const TensorInfo& tensor : shape.tensors()) {
    header.emplace_back(tensor.name, json::Object{{"dtype", "BF16"},
                                                  {"shape", json::Array(tensor.shape.begin(), tensor.shape.end())},
                                                  {"data_offsets", json::Array{offset, offset + tensor.bytes()}}});
    offset += tensor.bytes();
  }
  const std::string text = json::print(header);
  const std::filesystem::path file = folder.write("model.safetensors", testing::safetensors_file(text, ""));
  std::filesystem::resize_file(file, 8 + text.size() + offset);
  const CheckpointReport report = inspect(folder.path());
  EXPECT_EQ(report.refusal, "");
  EXPECT_EQ(report.parameters(), 4112079360);  // docs/model.md, Sizes
  EXPECT_EQ(report.tensor_bytes(), std::uint64_t{2} * 4112079360);
  EXPECT_GT(report.file_bytes(), report.tensor_bytes());
  EXPECT_EQ(report.architecture->pattern, "3 sliding + 1 full, 9 times");
  EXPECT_EQ(find_module(report, "down_proj")->tensors, 36);
  EXPECT_EQ(find_module(report, "norms")->tensors, 73);
  ASSERT_EQ(report.warnings.size(), report.memory->context ? 1u : 2u);
  EXPECT_EQ(report.warnings.back(), "there is no tokenizer: only commands that take token ids can use it");
}

struct Refused {
  const char* name;
  const char* member;
  const char* value;
  const char* says;
};

// Read, and refused by the name of the field.
TEST(Inspect, WhatCannotBeRunIsSaidByName) {
  for (const Refused& refused : std::vector<Refused>{
           {"sinks", "attention_sinks", "true", "attention_sinks is true; sparkx supports false only"},
           {"another model", "model_type", "\"llama\"", "model_type is \"llama\"; sparkx supports \"spark2_5\" only"},
           {"another activation", "hidden_act", "\"silu\"", "hidden_act is \"silu\""},
           {"experts", "num_experts", "8", "num_experts is 8; sparkx supports 0 only"},
           {"another method", "quantization_config", R"({"quant_method": "gptq"})", "quant_method is \"gptq\""}}) {
    TempDir folder;
    for (const auto& [name, content] : testing::small_checkpoint().contents) folder.write(name, content);
    folder.write("config.json", testing::with_member(testing::kSmallConfig, refused.member, refused.value));
    const CheckpointReport report = inspect(folder.path());
    EXPECT_TRUE(contains(report.refusal, refused.says)) << refused.name << ": " << report.refusal;
    EXPECT_TRUE(contains(report.refusal, "config.json")) << report.refusal;
    EXPECT_FALSE(report.architecture);
    EXPECT_EQ(report.format, "safetensors");
  }
}

TEST(Inspect, TensorsOfAnotherTypeAreListedAllTheSame) {
  TempDir folder;
  testing::TestGguf file = testing::small_gguf();
  file.set("spark2_5.embedding_length", 256u);
  for (testing::TestGgufTensor& tensor : file.tensors) {
    std::uint64_t count = 1;
    for (std::uint64_t& dimension : tensor.dimensions) {
      if (dimension == 6) dimension = 256;
      count *= dimension;
    }
    const bool blocks = tensor.name == "blk.1.ffn_up.weight";
    if (blocks) tensor.type = kIq2Xxs;
    tensor.bytes.assign(blocks ? count / 256 * 66 : count * 4, '\0');
  }
  const std::filesystem::path path = folder.write("m.gguf", file.bytes());
  const CheckpointReport report = inspect(path);
  EXPECT_TRUE(contains(report.refusal, "tensor blk.1.ffn_up.weight is IQ2_XXS")) << report.refusal;
  EXPECT_EQ(report.format, "GGUF");
  EXPECT_EQ(report.tensors.size(), 18u);
  const ModuleReport* up = find_module(report, "up_proj");
  ASSERT_NE(up, nullptr);
  EXPECT_EQ(up->stored, (std::vector<std::pair<std::string, std::int64_t>>{{"float32", 1}, {"IQ2_XXS", 1}}));
  EXPECT_EQ(up->bytes, 10u * 256u * 4u + 10u * 66u);
}

TEST(Inspect, WhatCannotBeReadIsAnError) {
  TempDir folder;
  EXPECT_EQ(error_of([&] { inspect(folder / "none"); }),
            "not_found: " + (folder / "none").string() + ": no such file or folder");
  EXPECT_TRUE(error_of([&] { inspect(folder.path()); }).starts_with("not_found: "));
  EXPECT_TRUE(error_of([&] { inspect(folder.write("text.txt", "hello")); }).starts_with("invalid_argument: "));
  folder.write("config.json", "{");
  EXPECT_TRUE(error_of([&] { inspect(folder.path()); }).starts_with("corrupt: "));
  testing::TestFiles files = testing::small_checkpoint();
  std::string& tensors = files.contents.at("model.safetensors");
  tensors.resize(tensors.size() - 1);
  for (const auto& [name, content] : files.contents) folder.write(name, content);
  EXPECT_TRUE(error_of([&] { inspect(folder.path()); }).starts_with("corrupt: "));
}

TEST(Inspect, UnknownKeysAndAMissingTokenizerAreWarnings) {
  TempDir folder;
  for (const auto& [name, content] : testing::small_checkpoint().contents) folder.write(name, content);
  folder.write("config.json", testing::with_member(testing::kSmallConfig, "colour", "\"red\""));
  const CheckpointReport report = inspect(folder.path());
  ASSERT_EQ(report.warnings.size(), 2u);
  EXPECT_TRUE(contains(report.warnings[0], "colour")) << report.warnings[0];
  EXPECT_TRUE(contains(report.warnings[1], "no tokenizer")) << report.warnings[1];
  EXPECT_FALSE(report.tokenizer);
}

TEST(Inspect, AChatTemplateThatFailsIsAWarning) {
  TempDir folder;
  for (const char* name : {"config.json", "model.safetensors", "tokenizer.json"}) {
    std::filesystem::create_symlink(std::filesystem::path(SPARKX_SOURCE_DIR) / "models/mini" / name, folder / name);
  }
  folder.write("chat_template.jinja", "{{ raise_exception('never') }}");
  const CheckpointReport report = inspect(folder.path());
  EXPECT_EQ(report.refusal, "");
  ASSERT_TRUE(report.chat_template);
  EXPECT_TRUE(contains(report.chat_template->failure, "never")) << report.chat_template->failure;
  ASSERT_EQ(report.warnings.size(), 1u);
  EXPECT_TRUE(contains(report.warnings[0], "the chat template fails on one message")) << report.warnings[0];
}

TEST(Inspect, TokensWithControlCharactersDoNotReachATerminal) {
  TempDir folder;
  for (const char* name : {"config.json", "model.safetensors", "tokenizer_config.json"}) {
    std::filesystem::create_symlink(std::filesystem::path(SPARKX_SOURCE_DIR) / "models/mini" / name, folder / name);
  }
  std::string text = testing::read_file(std::filesystem::path(SPARKX_SOURCE_DIR) / "models/mini/tokenizer.json");
  const std::string marker = "<｜end▁of▁sentence｜>";
  for (std::size_t at = text.find(marker); at != std::string::npos; at = text.find(marker, at)) {
    text.replace(at, marker.size(), "\\u001b[31m");
  }
  folder.write("tokenizer.json", text);
  std::string config =
      testing::read_file(std::filesystem::path(SPARKX_SOURCE_DIR) / "models/mini/tokenizer_config.json");
  for (std::size_t at = config.find(marker); at != std::string::npos; at = config.find(marker, at)) {
    config.replace(at, marker.size(), "\\u001b[31m");
  }
  std::filesystem::remove(folder / "tokenizer_config.json");
  folder.write("tokenizer_config.json", config);
  const CheckpointReport report = inspect(folder.path());
  ASSERT_TRUE(report.tokenizer);
  EXPECT_EQ(report.tokenizer->special.at(1).text, "\uFFFD[31m");
}

}  // namespace
}  // namespace sparkx
