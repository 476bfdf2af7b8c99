// MLX's format: the oracle's folders were made by mlx_lm.convert itself.
#include <gtest/gtest.h>

#include "convert/folders.h"
#include "formats/safetensors.h"
#include "support/errors.h"
#include "support/oracle.h"
#include "support/random_model.h"

namespace sparkx {
namespace {

namespace fs = std::filesystem;
using testing::convert;
using testing::error_of;
using testing::exact_logits_of;
using testing::json_in;
using testing::oracle_dir;
using testing::read_file;
using testing::same_bits;
using testing::TempDir;

std::string sorted(const json::Value& value) {
  return json::print(value, {.indent = 1, .sort_keys = true});
}

struct OracleCase {
  const char* name;
  ConvertOptions options;
  const char* source = "quant-source-bf16";
};

void PrintTo(const OracleCase& c, std::ostream* out) {
  *out << c.name;
}

class MlxOutput : public ::testing::TestWithParam<OracleCase> {};

INSTANTIATE_TEST_SUITE_P(
    Oracle, MlxOutput,
    ::testing::Values(OracleCase{"mlx-2bit-g32", {.quantize = "2bit", .group_size = 32}},
                      OracleCase{"mlx-3bit-g64", {.quantize = "3bit"}},
                      OracleCase{"mlx-4bit-g64", {.quantize = "4bit"}},
                      OracleCase{"mlx-4bit-g32", {.quantize = "4bit", .group_size = 32}},
                      OracleCase{"mlx-4bit-g128", {.quantize = "4bit", .group_size = 128}},
                      OracleCase{"mlx-5bit-g64", {.quantize = "5bit", .group_size = 64}},
                      OracleCase{"mlx-6bit-g128", {.quantize = "6bit", .group_size = 128}},
                      OracleCase{"mlx-8bit-g64", {.quantize = "8bit"}}, OracleCase{"mlx-mxfp4", {.quantize = "mxfp4"}},
                      OracleCase{"mlx-mxfp8", {.quantize = "mxfp8"}}, OracleCase{"mlx-nvfp4", {.quantize = "nvfp4"}},
                      OracleCase{"mlx-mixed-3-6", {.recipe = "mixed_3_6"}},
                      OracleCase{"mlx-4bit-g32-biased", {.quantize = "4bit", .group_size = 32}, "untied-biased-f32"}),
    testing::case_name);

TEST_P(MlxOutput, IsWhatMlxLmWrites) {
  SPARKX_NEEDS_ORACLE();
  const TempDir dir;
  const fs::path wanted = oracle_dir() / GetParam().name;
  convert(oracle_dir() / GetParam().source, dir / "out", GetParam().options);
  testing::expect_same_tensors(dir / "out", wanted);
  for (const char* file : {"config.json", "model.safetensors.index.json"}) {
    EXPECT_EQ(read_file(dir / "out" / file), read_file(wanted / file)) << file;
  }
  const SafetensorsHeader header = read_safetensors_header(ByteSource::open(dir / "out/model.safetensors"));
  EXPECT_EQ(header.metadata, (std::vector<std::pair<std::string, std::string>>{{"format", "mlx"}}));
}

// mlx_lm.convert leaves what is quantized as it is.
class MlxSource : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Oracle, MlxSource,
                         ::testing::Values("mlx-2bit-g32", "mlx-3bit-g64", "mlx-4bit-g64", "mlx-4bit-g32",
                                           "mlx-4bit-g128", "mlx-5bit-g64", "mlx-6bit-g128", "mlx-8bit-g64",
                                           "mlx-mxfp4", "mlx-mxfp8", "mlx-nvfp4", "mlx-mixed-3-6",
                                           "mlx-4bit-g32-biased"),
                         testing::case_name);

TEST_P(MlxSource, StaysAsItIs) {
  SPARKX_NEEDS_ORACLE();
  const TempDir dir;
  const fs::path source = oracle_dir() / GetParam();
  convert(source, dir / "out");
  testing::expect_same_tensors(dir / "out", source);
  for (const char* file : {"config.json", "model.safetensors.index.json"}) {
    EXPECT_EQ(read_file(dir / "out" / file), read_file(source / file)) << file;
  }
}

TEST(MlxConversion, FilesBesideTheWeightsAreCopied) {
  SPARKX_NEEDS_ORACLE();
  const TempDir dir;
  const fs::path source = oracle_dir() / "quant-source-bf16";
  convert(source, dir / "out", {.quantize = "4bit"});
  for (const char* file :
       {"tokenizer.json", "tokenizer_config.json", "chat_template.jinja", "generation_config.json"}) {
    EXPECT_EQ(read_file(dir / "out" / file), read_file(source / file)) << file;
  }
  EXPECT_EQ(testing::files_in(dir / "out").size(), 7u);
}

TEST(MlxConversion, W8A8KeepsTheCodesOfActivationsUnlessAskedNotTo) {
  SPARKX_NEEDS_ORACLE();
  const TempDir dir;
  const fs::path source = oracle_dir() / "mlx-w8a8";
  convert(source, dir / "w8a8");
  testing::expect_same_tensors(dir / "w8a8", source);
  EXPECT_EQ(sorted(*json_in(dir / "w8a8/config.json").find("quantization_config")),
            sorted(*json_in(source / "config.json").find("quantization_config")));
  convert(source, dir / "w8a16", {.keep_activation_codes = false});
  testing::expect_same_tensors(dir / "w8a16", source);
  EXPECT_EQ(sorted(*json_in(dir / "w8a16/config.json").find("quantization_config")),
            sorted(*json_in(source / "config.json").find("quantization")));
}

class CompressedToMlx : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Oracle, CompressedToMlx,
                         ::testing::Values("ct-w4a16-g128", "ct-w8a16-channel", "ct-w8a8", "ct-mixed-int4-int8",
                                           "ct-tied-int8-head"),
                         testing::case_name);

TEST_P(CompressedToMlx, KeepsEveryBitOfTheLogits) {
  SPARKX_NEEDS_ORACLE();
  const TempDir dir;
  const fs::path source = oracle_dir() / GetParam();
  convert(source, dir / "out");
  const auto wanted = exact_logits_of(source);
  EXPECT_TRUE(same_bits(exact_logits_of(dir / "out"), wanted, 512));
  const json::Value manifest = json_in(dir / "out/conversion_manifest.json");
  EXPECT_EQ(*manifest.find("source_format"), json::Value("compressed-tensors"));
  EXPECT_EQ(*manifest.find("largest_coefficient_rounding_error"), json::Value(0.0));
  EXPECT_GE(manifest.find("modules")->as_object().size(), 10u);
}

TEST(CompressedToMlx, ZeroPointsBecomeRoundedBiasesWhoseErrorIsReported) {
  SPARKX_NEEDS_ORACLE();
  const TempDir dir;
  const fs::path source = oracle_dir() / "ct-w4a16-g32-asym";
  Conversion conversion(source, dir / "out", {});
  const std::string report = conversion.run();
  EXPECT_EQ(report, read_file(dir / "out/CONVERSION_NOTES.txt"));
  const json::Value manifest = json_in(dir / "out/conversion_manifest.json");
  const double largest = manifest.find("largest_coefficient_rounding_error")->as_double();
  EXPECT_GT(largest, 0.0);
  EXPECT_LE(largest, 0x1p-8);  // bfloat16 has 8 bits
  EXPECT_LT(testing::relative_rms(exact_logits_of(dir / "out"), exact_logits_of(source)), 2e-2);
  // With room for every bit nothing is rounded.
  convert(source, dir / "exact", {.dtype = "float32"});
  EXPECT_EQ(*json_in(dir / "exact/conversion_manifest.json").find("largest_coefficient_rounding_error"),
            json::Value(0.0));
}

TEST(CompressedToMlx, ScalesOfARowAreRepeatedAndActivationsRecorded) {
  SPARKX_NEEDS_ORACLE();
  const TempDir dir;
  const fs::path source = oracle_dir() / "ct-w8a8";
  convert(source, dir / "out");
  const std::string path = "model.layers.1.mlp.down_proj";
  const auto from = testing::tensors_in(source), to = testing::tensors_in(dir / "out");
  const auto scales = from.at(path + ".weight_scale").as<float>();
  const auto codes = from.at(path + ".weight").as<std::int8_t>();
  const auto& repeated = to.at(path + ".scales");
  ASSERT_EQ(repeated.shape, (std::vector<std::int64_t>{256, 512 / 32}));
  const auto found = repeated.as<float>(), biases = to.at(path + ".biases").as<float>();
  for (std::size_t i = 0; i < found.size(); ++i) {
    ASSERT_EQ(found[i], scales[i / 16]);
    ASSERT_EQ(biases[i], -128.0f * scales[i / 16]);
  }
  const auto kept = to.at(path + ".weight").as<std::uint8_t>();
  for (std::size_t i = 0; i < codes.size(); ++i) ASSERT_EQ(kept[i], codes[i] + 128);
  const json::Value config = json_in(dir / "out/config.json");
  EXPECT_EQ(config.find("quantization")->find(path)->find("input_activations"), nullptr);
  EXPECT_EQ(*config.find("quantization_config")->find(path)->find("input_activations")->find("strategy"),
            json::Value("token"));

  convert(source, dir / "w8a16", {.keep_activation_codes = false});
  const json::Value without = json_in(dir / "w8a16/config.json");
  EXPECT_EQ(*without.find("quantization_config"), *without.find("quantization"));
}

// A model whose head is quantized apart from the embedding has to say so: mlx_lm would look for one head only.
TEST(CompressedToMlx, AQuantizedHeadUntiesTheModel) {
  SPARKX_NEEDS_ORACLE();
  const TempDir dir;
  Conversion conversion(oracle_dir() / "ct-tied-int8-head", dir / "out", {});
  EXPECT_EQ(conversion.plan().notes.size(), 1u);
  conversion.run();
  const std::vector<std::string>& files = conversion.plan().files;
  EXPECT_EQ(testing::files_in(dir / "out"), std::set<std::string>(files.begin(), files.end()));
  EXPECT_EQ(*json_in(dir / "out/config.json").find("tie_word_embeddings"), json::Value(false));
}

// A dense model of two layers, as wide as every group wants.
class DenseModel : public ::testing::Test {
 protected:
  DenseModel() {
    testing::ModelSpec spec;
    spec.hidden_size = 128;
    spec.intermediate_size = 160;  // no multiple of 64
    spec.head_dim = 32;
    model_ = std::make_unique<testing::RandomModel>(spec);
    model_->write(dir_ / "source");
  }

  std::map<std::string, ConvertedTensor> plan(const ConvertOptions& options) {
    const Conversion conversion(dir_ / "source", dir_ / "out", options);
    notes_ = conversion.plan().notes;
    std::map<std::string, ConvertedTensor> tensors;
    for (const ConvertedTensor& tensor : conversion.plan().tensors) tensors[tensor.name] = tensor;
    return tensors;
  }
  std::string refusal(const ConvertOptions& options) {
    return error_of([&] { Conversion(dir_ / "source", dir_ / "out", options); });
  }

  TempDir dir_;
  std::unique_ptr<testing::RandomModel> model_;
  std::vector<std::string> notes_;
};

TEST_F(DenseModel, QuantizedWhileLoadingOrBeforeIsTheSame) {
  convert(dir_ / "source", dir_ / "out", {.quantize = "4bit", .group_size = 32});
  LoadOptions options;
  options.weights.quantize = Quantization{4, 32};
  EXPECT_TRUE(same_bits(testing::logits_of(dir_ / "out"), testing::logits_of(dir_ / "source", options), 61));
}

TEST_F(DenseModel, ThreadsDoNotChangeABit) {
  convert(dir_ / "source", dir_ / "one", {.quantize = "5bit", .threads = 1});
  convert(dir_ / "source", dir_ / "three", {.quantize = "5bit", .threads = 3});
  testing::expect_same_tensors(dir_ / "three", dir_ / "one");
}

TEST_F(DenseModel, ReasonsSayWhyAMatrixStaysDense) {
  auto tensors = plan({.quantize = "4bit"});
  EXPECT_EQ(tensors["model.layers.0.mlp.up_proj.weight"].target, "4-bit, groups of 64");
  EXPECT_EQ(tensors["model.layers.0.mlp.down_proj.weight"].target, "float32");
  EXPECT_EQ(tensors["model.layers.0.mlp.down_proj.weight"].reason, "160 columns are no multiple of the group of 64");
  EXPECT_EQ(tensors["model.layers.0.self_attn.g_proj.weight"].reason, "the gates of heads keep their precision");
  EXPECT_EQ(tensors["model.norm.weight"].reason, "");
}

TEST_F(DenseModel, TheLastRuleThatMatchesDecides) {
  const ConvertOptions options{.quantize = "4bit",
                               .group_size = 32,
                               .rules = {{"mlp", "3"},
                                         {"layers\\.1\\..*down_proj", "8bit"},
                                         {"q_k_v", "none"},
                                         {"^embedding", "2"},
                                         {"g_proj$", "mxfp4"}}};
  auto tensors = plan(options);
  EXPECT_EQ(tensors["model.layers.0.mlp.down_proj.weight"].target, "3-bit, groups of 32");
  EXPECT_EQ(tensors["model.layers.1.mlp.down_proj.weight"].target, "8-bit, groups of 32");
  EXPECT_EQ(tensors["model.layers.1.mlp.up_proj.weight"].target, "3-bit, groups of 32");
  EXPECT_EQ(tensors["model.layers.0.self_attn.q_k_v_proj.weight"].target, "float32");
  EXPECT_EQ(tensors["model.layers.0.self_attn.g_proj.weight"].target, "mxfp4");
  EXPECT_EQ(tensors["model.layers.0.self_attn.out_proj.weight"].target, "4-bit, groups of 32");
  EXPECT_EQ(tensors["model.embedding.weight"].target, "4-bit, groups of 32");
  EXPECT_EQ(notes_, std::vector<std::string>{"no module matches ^embedding"});

  convert(dir_ / "source", dir_ / "out", options);
  const json::Value quantization = *json_in(dir_ / "out/config.json").find("quantization");
  EXPECT_EQ(*quantization.find("bits"), json::Value(4));
  EXPECT_EQ(*quantization.find("model.layers.1.mlp.down_proj"),
            json::Value(json::Object{{"group_size", 32}, {"bits", 8}, {"mode", "affine"}}));
  EXPECT_EQ(quantization.find("model.layers.0.self_attn.q_k_v_proj"), nullptr);
  EXPECT_NO_THROW(Checkpoint::open(dir_ / "out"));
}

TEST_F(DenseModel, ARuleAloneQuantizesItsModulesOnly) {
  auto tensors = plan({.rules = {{"up_proj", "4"}}});
  EXPECT_EQ(tensors["model.layers.0.mlp.up_proj.weight"].target, "4-bit, groups of 64");
  EXPECT_EQ(tensors["model.layers.0.mlp.gate_proj.weight"].target, "float32");
}

TEST_F(DenseModel, OptionsThatMakeNoSenseAreRefused) {
  EXPECT_EQ(refusal({.recipe = "mixed_1_2"}),
            "invalid_argument: \"mixed_1_2\" is no recipe: mixed_2_6, mixed_3_4, mixed_3_6, mixed_4_6");
  EXPECT_EQ(refusal({.quantize = "mxfp4", .recipe = "mixed_3_6"}),
            "invalid_argument: the recipe mixed_3_6 goes with affine quantization only, not with mxfp4");
  EXPECT_EQ(refusal({.group_size = 32}), "invalid_argument: groups of 32, but nothing is to be quantized");
  EXPECT_EQ(refusal({.dtype = "int8"}),
            "invalid_argument: \"int8\" is no type for an output: float32, bfloat16, float16, auto");
  EXPECT_EQ(refusal({.format = "onnx"}), "invalid_argument: \"onnx\" is no format: mlx, hf, gguf");
  EXPECT_EQ(refusal({.threads = 0}), "invalid_argument: threads must be 1 or more");
  EXPECT_TRUE(refusal({.quantize = "4bit", .rules = {{"(", "4"}}}).starts_with("invalid_argument: "));
}

TEST_F(DenseModel, WhatIsQuantizedIsNotQuantizedTwice) {
  convert(dir_ / "source", dir_ / "codes", {.quantize = "8bit", .group_size = 32, .rules = {{"g_proj", "8"}}});
  EXPECT_EQ(error_of([&] { Conversion(dir_ / "codes", dir_ / "out", {.quantize = "4bit"}); }),
            "invalid_argument: every matrix is quantized already; to quantize anew, convert to Hugging Face's format "
            "first (--format hf)");
  // mlx_lm quantizes what is still dense, and gives it an entry of its own.
  convert(dir_ / "source", dir_ / "part", {.rules = {{"up_proj", "8"}}});
  convert(dir_ / "part", dir_ / "all", {.quantize = "4bit"});
  const json::Value quantization = *json_in(dir_ / "all/config.json").find("quantization");
  EXPECT_EQ(*quantization.find("model.layers.0.mlp.up_proj")->find("bits"), json::Value(8));
  EXPECT_EQ(*quantization.find("model.layers.0.mlp.gate_proj")->find("bits"), json::Value(4));
  EXPECT_NO_THROW(Checkpoint::open(dir_ / "all"));
}

TEST_F(DenseModel, TorchDtypeDecidesAsInMlxLm) {
  std::string config = read_file(dir_ / "source/config.json");
  config.insert(config.size() - 1, ", \"torch_dtype\": \"bfloat16\", \"eos_token_id\": 1");
  dir_.write("source/config.json", config);
  dir_.write("source/generation_config.json", R"({"eos_token_id": [1, 5]})");
  EXPECT_EQ(plan({})["model.norm.weight"].target, "bfloat16");
  EXPECT_EQ(plan({.dtype = "float16"})["model.norm.weight"].target, "float16");
  convert(dir_ / "source", dir_ / "out", {.quantize = "4bit"});
  EXPECT_EQ(testing::tensors_in(dir_ / "out").at("model.embedding.scales").dtype, "BF16");
  EXPECT_EQ(*json_in(dir_ / "out/config.json").find("eos_token_id"), json::Value(json::Array{1, 5}));
}

TEST_F(DenseModel, ShardsHoldAtMostTheirSizeAndAreInTheIndex) {
  convert(dir_ / "source", dir_ / "out", {.quantize = "4bit", .shard_bytes = 40000});
  const json::Value index = json_in(dir_ / "out/model.safetensors.index.json");
  std::set<std::string> files;
  std::uint64_t total = 0;
  for (const auto& [name, file] : index.find("weight_map")->as_object()) files.insert(file.as_string());
  EXPECT_GT(files.size(), 2u);
  for (const std::string& file : files) {
    std::uint64_t bytes = 0;
    for (const auto& [name, tensor] : testing::read_safetensors(dir_ / "out" / file)) {
      bytes += tensor.data.size();
      EXPECT_EQ(*index.find("weight_map")->find(name), json::Value(file));
    }
    if (testing::read_safetensors(dir_ / "out" / file).size() > 1) {  // one alone may be larger
      EXPECT_LE(bytes, 40000u);
    }
    total += bytes;
  }
  EXPECT_EQ(*index.find("metadata")->find("total_size"), json::Value(total));
  convert(dir_ / "source", dir_ / "whole", {.quantize = "4bit"});
  testing::expect_same_tensors(dir_ / "out", dir_ / "whole");
  EXPECT_NO_THROW(Checkpoint::open(dir_ / "out"));
}

}  // namespace
}  // namespace sparkx
