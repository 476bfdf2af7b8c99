// Conversions to GGUF files, read back and compared with files of gguf-py and llama-quantize.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>

#include "convert/folders.h"
#include "formats/gguf.h"
#include "support/errors.h"
#include "support/oracle.h"
#include "support/random_model.h"

namespace sparkx {
namespace {

namespace fs = std::filesystem;
using testing::convert;
using testing::error_of;
using testing::exact_logits_of;
using testing::oracle_dir;
using testing::same_bits;
using testing::TempDir;

const fs::path kMini = fs::path(SPARKX_SOURCE_DIR) / "models" / "mini";

struct FileTensor {
  std::string type;
  std::vector<std::int64_t> shape;
  std::string bytes;
};

std::map<std::string, FileTensor> tensors_of(const fs::path& file) {
  const ByteSource source = ByteSource::open(file);
  std::map<std::string, FileTensor> all;
  for (const GgufTensor& tensor : read_gguf(source).tensors) {
    std::string bytes(tensor.bytes, '\0');
    source.read(tensor.offset, std::as_writable_bytes(std::span(bytes)));
    all[tensor.name] = {tensor.type->name, tensor.shape, std::move(bytes)};
  }
  return all;
}

std::vector<float> weights(const Checkpoint& checkpoint, const std::string& name) {
  const TensorInfo& tensor = checkpoint.tensor(name);
  const QuantizedMatrix* matrix = checkpoint.find_quantized(name);
  EXPECT_NE(matrix, nullptr) << name;
  std::vector<float> values(static_cast<std::size_t>(tensor.rows() * tensor.columns()));
  read_weights(*matrix, tensor.columns(), 0, tensor.rows(), values.data());
  return values;
}

const ConvertedTensor& planned(const ConversionPlan& plan, const std::string& name) {
  for (const ConvertedTensor& tensor : plan.tensors) {
    if (tensor.name == name) return tensor;
  }
  throw std::runtime_error("no tensor " + name);
}

bool has_note(const ConversionPlan& plan, std::string_view text) {
  return std::any_of(plan.notes.begin(), plan.notes.end(),
                     [text](const std::string& note) { return note.find(text) != note.npos; });
}

TEST(GgufTarget, TheBuiltInModelKeepsItsBitsInOneFile) {
  const TempDir dir;
  convert("", dir / "m.gguf");
  const auto tensors = tensors_of(dir / "m.gguf");
  EXPECT_EQ(tensors.size(), 50u);
  EXPECT_EQ(tensors.at("token_embd.weight").type, "BF16");
  EXPECT_EQ(tensors.at("blk.5.attn_norm.weight").type, "F32");
  EXPECT_EQ(tensors.at("blk.5.attn_gate.weight").shape, (std::vector<std::int64_t>{4, 192}));
  EXPECT_FALSE(tensors.contains("output.weight"));
  EXPECT_TRUE(same_bits(exact_logits_of(dir / "m.gguf"), exact_logits_of(kMini), 1024));
  EXPECT_EQ(testing::files_in(dir.path()), std::set<std::string>{"m.gguf"});
}

TEST(GgufTarget, AModelWithAHeadOfItsOwnKeepsIt) {
  const TempDir dir;
  testing::RandomModel({}).write(dir / "source");
  for (const char* dtype : {"auto", "float32"}) {
    convert(dir / "source", dir / "m.gguf", {.dtype = dtype, .replace = true});
    EXPECT_EQ(tensors_of(dir / "m.gguf").at("output.weight").type, "F32");
    EXPECT_TRUE(same_bits(exact_logits_of(dir / "m.gguf"), exact_logits_of(dir / "source"), 61));
  }
}

TEST(GgufTarget, BytesDoNotDependOnThreads) {
  const TempDir dir;
  for (const char* recipe : {"Q4_K_M", "Q5_1"}) {
    convert(kMini, dir / "1.gguf", {.quantize = recipe, .replace = true, .threads = 1});
    convert(kMini, dir / "5.gguf", {.quantize = recipe, .replace = true, .threads = 5});
    EXPECT_TRUE(testing::read_file(dir / "1.gguf") == testing::read_file(dir / "5.gguf")) << recipe;
  }
}

TEST(GgufTarget, RulesDecideForModules) {
  const TempDir dir;
  const ConvertOptions options{
      .quantize = "q4_0", .rules = {{"mlp", "Q8_0"}, {R"(layers\.1\.mlp)", "none"}, {"embedding", "5"}, {"nope", "8"}}};
  Conversion conversion(kMini, dir / "m.gguf", options);
  EXPECT_TRUE(has_note(conversion.plan(), "no module matches nope"));
  EXPECT_EQ(planned(conversion.plan(), "model.embedding.weight").reason,
            "rows of 192 are no multiple of the 256 in a block of Q5_K");
  conversion.run();
  const auto tensors = tensors_of(dir / "m.gguf");
  EXPECT_EQ(tensors.at("blk.0.ffn_up.weight").type, "Q8_0");
  EXPECT_EQ(tensors.at("blk.1.ffn_up.weight").type, "BF16");
  EXPECT_EQ(tensors.at("blk.1.attn_qkv.weight").type, "Q4_0");
  EXPECT_EQ(tensors.at("token_embd.weight").type, "Q5_1");
  EXPECT_EQ(tensors.at("output_norm.weight").type, "F32");
}

TEST(GgufTarget, RefusesWhatTheFormatCannotHold) {
  const TempDir dir;
  testing::ModelSpec spec;
  spec.biases = true;
  testing::RandomModel(spec).write(dir / "biased");
  const auto error_with = [&](const fs::path& source, const ConvertOptions& options) {
    return error_of([&] { Conversion(source, dir / "m.gguf", options); });
  };
  EXPECT_EQ(error_with(dir / "biased", {}),
            "unsupported: attention_bias is true, but GGUF files of Spark-X2.5 models have no names for biases");
  EXPECT_EQ(error_with(kMini, {.group_size = 64}),
            "invalid_argument: the types of GGUF files have groups of their own; --group-size is for MLX");
  EXPECT_EQ(error_with(kMini, {.recipe = "mixed_3_6"}),
            "invalid_argument: \"mixed_3_6\" is a recipe of MLX's; those of GGUF files are called Q4_K_M, Q5_K_M, …");
  EXPECT_EQ(error_with(kMini, {.dtype = "int8"}),
            "invalid_argument: \"int8\" is no type of weights: float32, bfloat16, float16");
  EXPECT_TRUE(error_with(kMini, {.quantize = "3bit"}).starts_with("invalid_argument: \"3bit\" is no quantization"));
  EXPECT_TRUE(
      error_with(kMini, {.rules = {{"mlp", "2"}}}).starts_with("invalid_argument: \"2bit\" is no quantization"));
  EXPECT_EQ(testing::files_in(dir.path()), std::set<std::string>{"biased"});
}

TEST(GgufTarget, ValuesThatDoNotFitLeaveNothingBehind) {
  const TempDir dir;
  testing::RandomModel model({});
  auto values = model.values("model.layers.1.mlp.up_proj.weight");
  values[36 * 2 + 5] = 70000.0f;
  model.set_values("model.layers.1.mlp.up_proj.weight", values);
  model.write(dir / "source");
  EXPECT_EQ(error_of([&] { convert(dir / "source", dir / "m.gguf", {.quantize = "F16"}); }),
            "corrupt: tensor model.layers.1.mlp.up_proj.weight: row 2 has values that are not finite or too large for "
            "F16");
  EXPECT_EQ(testing::files_in(dir.path()), std::set<std::string>{"source"});
  convert(dir / "source", dir / "m.gguf", {.quantize = "BF16"});
  EXPECT_EQ(tensors_of(dir / "m.gguf").at("blk.1.ffn_up.weight").type, "BF16");
}

class GgufPyTypes : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Oracle, GgufPyTypes, ::testing::Values("F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1"),
                         testing::case_name);

TEST_P(GgufPyTypes, MatricesAreTheBytesOfGgufPy) {
  SPARKX_NEEDS_ORACLE();
  const TempDir dir;
  convert(oracle_dir() / "gguf-F32.gguf", dir / "m.gguf", {.quantize = GetParam()});
  const auto found = tensors_of(dir / "m.gguf");
  int same = 0;
  for (const auto& [name, tensor] : tensors_of(oracle_dir() / (std::string("gguf-") + GetParam() + ".gguf"))) {
    if (found.at(name).type != tensor.type) continue;  // the oracle quantizes the embedding and leaves the gates
    EXPECT_EQ(found.at(name).shape, tensor.shape) << name;
    EXPECT_TRUE(found.at(name).bytes == tensor.bytes) << name;
    ++same;
  }
  EXPECT_GE(same, 10 + 5);  // the matrices of two layers, and all norms
}

class LlamaQuantizeTypes : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Oracle, LlamaQuantizeTypes, ::testing::Values("Q4_K_M", "Q5_K_M", "Q6_K"), testing::case_name);

TEST_P(LlamaQuantizeTypes, MatricesAreAsNearToTheWeightsAsThoseOfLlamaQuantize) {
  SPARKX_NEEDS_ORACLE();
  const TempDir dir;
  const fs::path source = oracle_dir() / "gguf-F32.gguf";
  const fs::path theirs_file = oracle_dir() / (std::string("gguf-") + GetParam() + ".gguf");
  convert(source, dir / "m.gguf", {.quantize = GetParam()});
  const Checkpoint ours = Checkpoint::open(dir / "m.gguf"), theirs = Checkpoint::open(theirs_file),
                   exact = Checkpoint::open(source);
  const auto our_tensors = tensors_of(dir / "m.gguf");
  const auto their_tensors = tensors_of(theirs_file);
  int compared = 0;
  for (const TensorInfo& tensor : exact.tensors()) {
    if (tensor.shape.size() == 1 || tensor.name == "model.embedding.weight") continue;  // theirs is Q8_0 on request
    std::vector<float> wanted(static_cast<std::size_t>(tensor.rows() * tensor.columns()));
    exact.read(tensor, 0, tensor.rows(), std::as_writable_bytes(std::span(wanted)));
    const std::vector<float> a = weights(ours, tensor.name), b = weights(theirs, tensor.name);
    double our_error = 0, their_error = 0;
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      our_error += std::pow(static_cast<double>(a[i]) - wanted[i], 2);
      their_error += std::pow(static_cast<double>(b[i]) - wanted[i], 2);
    }
    EXPECT_LT(std::sqrt(our_error), std::sqrt(their_error)) << tensor.name;
    ++compared;
  }
  EXPECT_EQ(compared, 12);
  for (const auto& [name, tensor] : their_tensors) {
    if (name == "token_embd.weight") continue;
    EXPECT_EQ(our_tensors.at(name).type, tensor.type) << name;
  }
}

struct Kept {
  const char* source;
  const char* type;  // of the matrices that are codes
};

class KeptCodes : public ::testing::TestWithParam<Kept> {};
INSTANTIATE_TEST_SUITE_P(
    Oracle, KeptCodes,
    ::testing::Values(Kept{"mlx-4bit-g32", "Q4_1"}, Kept{"mlx-4bit-g64", "Q4_1"}, Kept{"mlx-4bit-g128", "Q4_1"},
                      Kept{"mlx-2bit-g32", "Q4_1"}, Kept{"mlx-3bit-g64", "Q4_1"}, Kept{"mlx-5bit-g64", "Q5_1"},
                      Kept{"mlx-mxfp4", "Q5_0"}, Kept{"ct-w4a16-g128", "Q4_0"}, Kept{"ct-w4a16-g32-asym", "Q5_0"}),
    [](const auto& info) { return testing::case_name(::testing::TestParamInfo<const char*>(info.param.source, 0)); });

TEST_P(KeptCodes, WeightsKeepTheirBits) {
  SPARKX_NEEDS_ORACLE();
  const TempDir dir;
  const fs::path source = oracle_dir() / GetParam().source;
  Conversion conversion(source, dir / "m.gguf", {});
  const Checkpoint checkpoint = Checkpoint::open(source);
  int kept = 0;
  for (const ConvertedTensor& tensor : conversion.plan().tensors) {
    if (checkpoint.find_quantized(tensor.name) == nullptr) continue;
    EXPECT_EQ(tensor.target, GetParam().type) << tensor.name;
    EXPECT_EQ(tensor.reason, "") << tensor.name;
    ++kept;
  }
  EXPECT_TRUE(
      has_note(conversion.plan(),
               fmt::format("matrices that keep their codes: {}, of which 0 have scales rounded to float16", kept)));
  conversion.run();
  const Checkpoint converted = Checkpoint::open(dir / "m.gguf");
  for (const ConvertedTensor& tensor : conversion.plan().tensors) {
    if (checkpoint.find_quantized(tensor.name) == nullptr) continue;
    EXPECT_TRUE(weights(converted, tensor.name) == weights(checkpoint, tensor.name)) << tensor.name;
  }
  EXPECT_GE(kept, 10);
}

// Scales of compressed-tensors' 8-bit matrices are float32.
TEST(GgufTarget, CodesStayWhereScalesAreRounded) {
  SPARKX_NEEDS_ORACLE();
  for (const char* name : {"ct-w8a16-channel", "ct-w8a8"}) {
    const TempDir dir;
    Conversion conversion(oracle_dir() / name, dir / "m.gguf", {});
    const ConvertedTensor& tensor = planned(conversion.plan(), "model.layers.0.self_attn.out_proj.weight");
    EXPECT_EQ(tensor.target, "Q8_0");
    EXPECT_TRUE(tensor.reason.starts_with("codes kept; scales as float16 move the weights by ")) << tensor.reason;
    EXPECT_EQ(has_note(conversion.plan(), "GGUF cannot say that activations are codes (W8A8)"),
              std::string_view(name) == "ct-w8a8");
    conversion.run();
    const Checkpoint from = Checkpoint::open(oracle_dir() / name), to = Checkpoint::open(dir / "m.gguf");
    const auto read = [](const Checkpoint& checkpoint, const std::string& matrix) {
      const TensorInfo& info = checkpoint.tensor(matrix);
      const QuantizedMatrix& quantized = *checkpoint.find_quantized(matrix);
      CodeStorage storage(quantized.spec, info.rows(), info.columns());
      quantized.read(0, info.rows(), storage.buffers());
      const std::uint8_t* codes = storage.buffers().codes;
      return std::vector<std::uint8_t>(codes, codes + info.rows() * info.columns());
    };
    EXPECT_EQ(read(to, tensor.name), read(from, tensor.name));
  }
}

class CodesWithoutAPlace : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Oracle, CodesWithoutAPlace,
                         ::testing::Values("mlx-6bit-g128", "mlx-8bit-g64", "mlx-mxfp8", "mlx-nvfp4"),
                         testing::case_name);

TEST_P(CodesWithoutAPlace, AreQuantizedAgainAndSaidToBe) {
  SPARKX_NEEDS_ORACLE();
  const TempDir dir;
  Conversion conversion(oracle_dir() / GetParam(), dir / "m.gguf", {});
  const ConvertedTensor& tensor = planned(conversion.plan(), "model.layers.0.mlp.up_proj.weight");
  EXPECT_EQ(tensor.target, "Q8_0");
  EXPECT_EQ(tensor.reason, "GGUF has no type for such codes");
  EXPECT_TRUE(has_note(conversion.plan(), "matrices that are codes already and are quantized a second time: "));
  conversion.run();
  const Checkpoint from = Checkpoint::open(oracle_dir() / GetParam()), to = Checkpoint::open(dir / "m.gguf");
  const std::vector<float> a = weights(from, tensor.name), b = weights(to, tensor.name);
  double moved = 0, size = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    moved += std::pow(static_cast<double>(b[i]) - a[i], 2);
    size += std::pow(static_cast<double>(a[i]), 2);
  }
  EXPECT_GT(moved, 0);
  EXPECT_LT(std::sqrt(moved / size), 0.01);
}

TEST(GgufTarget, ARecipeDecidesWhetherCodesStay) {
  SPARKX_NEEDS_ORACLE();
  const TempDir dir;
  const fs::path source = oracle_dir() / "mlx-4bit-g32";
  const std::string name = "model.layers.0.mlp.up_proj.weight";
  Conversion same(source, dir / "same.gguf", {.quantize = "Q4_1"});
  EXPECT_EQ(planned(same.plan(), name).target, "Q4_1");
  EXPECT_EQ(planned(same.plan(), name).reason, "");
  Conversion other(source, dir / "other.gguf", {.quantize = "Q4_K_M"});
  EXPECT_EQ(planned(other.plan(), name).target, "Q4_K");
  EXPECT_TRUE(has_note(other.plan(), "quantized a second time"));
}

class GgufSources : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Oracle, GgufSources,
                         ::testing::Values("gguf-Q2_K.gguf", "gguf-Q3_K_M.gguf", "gguf-Q4_K_M.gguf", "gguf-Q5_K_M.gguf",
                                           "gguf-Q6_K.gguf", "gguf-IQ4_NL.gguf", "gguf-IQ4_XS.gguf", "gguf-Q5_0.gguf",
                                           "gguf-untied-F32.gguf"),
                         [](const auto& info) {
                           std::string name = testing::case_name(info);
                           return name.substr(0, name.find('.'));
                         });

TEST_P(GgufSources, TensorsAreCopied) {
  SPARKX_NEEDS_ORACLE();
  const TempDir dir;
  convert(oracle_dir() / GetParam(), dir / "m.gguf");
  const auto found = tensors_of(dir / "m.gguf"), wanted = tensors_of(oracle_dir() / GetParam());
  EXPECT_EQ(found.size(), wanted.size());
  for (const auto& [name, tensor] : wanted) {
    ASSERT_TRUE(found.contains(name)) << name;
    EXPECT_EQ(found.at(name).type, tensor.type) << name;
    EXPECT_TRUE(found.at(name).bytes == tensor.bytes) << name;
  }
}

TEST(GgufTarget, PartsOfASplitFileBecomeOne) {
  SPARKX_NEEDS_ORACLE();
  const TempDir dir;
  convert(oracle_dir() / "gguf-split/gguf-Q4_K_M-00001-of-00003.gguf", dir / "m.gguf");
  const auto found = tensors_of(dir / "m.gguf"), whole = tensors_of(oracle_dir() / "gguf-Q4_K_M.gguf");
  EXPECT_EQ(found.size(), whole.size());
  for (const auto& [name, tensor] : whole) EXPECT_TRUE(found.at(name).bytes == tensor.bytes) << name;
  const GgufMetadata metadata = read_gguf(ByteSource::open(dir / "m.gguf")).metadata;
  EXPECT_EQ(metadata.find("split.count"), nullptr);
  EXPECT_EQ(*metadata.text("general.name"), "tiny random spark2_5");
}

}  // namespace
}  // namespace sparkx
