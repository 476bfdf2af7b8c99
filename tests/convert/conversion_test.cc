// Conversions as such, and Hugging Face's format.
#include "sparkx/convert.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>

#include "convert/folders.h"
#include "support/errors.h"
#include "support/failing_calls.h"
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

class HuggingFaceOutput : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Oracle, HuggingFaceOutput,
                         ::testing::Values("mlx-4bit-g64", "mlx-8bit-g64", "mlx-4bit-g32-biased", "ct-w4a16-g32-asym",
                                           "ct-w8a16-channel"),
                         testing::case_name);

TEST_P(HuggingFaceOutput, DecodedToFloat32HasTheSameLogits) {
  SPARKX_NEEDS_ORACLE();
  const TempDir dir;
  const fs::path source = oracle_dir() / GetParam();
  convert(source, dir / "out", {.format = "hf", .dtype = "float32"});
  const std::int64_t vocabulary = Checkpoint::open(source).config().vocab_size;
  EXPECT_TRUE(same_bits(exact_logits_of(dir / "out"), exact_logits_of(source), vocabulary));
  const json::Value config = json_in(dir / "out/config.json");
  EXPECT_EQ(config.find("quantization"), nullptr);
  EXPECT_EQ(config.find("quantization_config"), nullptr);
  EXPECT_EQ(*config.find("torch_dtype"), json::Value("float32"));
}

TEST(HuggingFace, ShardsAreMergedAndNamesAreTheOnesOfTransformers) {
  SPARKX_NEEDS_ORACLE();
  const TempDir dir;
  const fs::path source = oracle_dir() / "sharded-bf16";
  convert(source, dir / "out", {.format = "hf"});
  EXPECT_TRUE(fs::exists(dir / "out/model.safetensors"));
  EXPECT_FALSE(fs::exists(dir / "out/model.safetensors.index.json"));
  auto from = testing::tensors_in(source), to = testing::tensors_in(dir / "out");
  ASSERT_TRUE(to.contains("model.embedding.weight"));
  for (const auto& [name, tensor] : to) {
    const std::string there = name == "model.embedding.weight" ? "model.embed_tokens.weight" : name;
    EXPECT_TRUE(tensor.data == from.at(there).data) << name;
  }
  EXPECT_TRUE(same_bits(exact_logits_of(dir / "out"), exact_logits_of(source), 512));
}

TEST(HuggingFace, IsSplitAsAskedFor) {
  SPARKX_NEEDS_ORACLE();
  const TempDir dir;
  const fs::path source = oracle_dir() / "quant-source-bf16";
  convert(source, dir / "out", {.format = "hf", .shard_bytes = 1 << 20});
  EXPECT_TRUE(fs::exists(dir / "out/model-00001-of-00003.safetensors"));
  EXPECT_TRUE(fs::exists(dir / "out/model.safetensors.index.json"));
  testing::expect_same_tensors(dir / "out", source);
  EXPECT_EQ(json_in(dir / "out/config.json").find("torch_dtype"), nullptr);
}

TEST(HuggingFace, NumbersStayInTheTypeTheyHave) {
  SPARKX_NEEDS_ORACLE();
  const TempDir dir;
  fs::copy(oracle_dir() / "tied-f32", dir / "source");
  fs::permissions(dir / "source", fs::perms::owner_all);
  std::string config = read_file(dir / "source/config.json");
  config.insert(config.rfind('}'), ", \"torch_dtype\": \"bfloat16\"");
  fs::remove(dir / "source/config.json");
  dir.write("source/config.json", config);
  convert(dir / "source", dir / "out", {.format = "hf"});
  testing::expect_same_tensors(dir / "out", dir / "source");
  convert(dir / "source", dir / "half", {.format = "hf", .dtype = "bfloat16"});
  EXPECT_EQ(testing::tensors_in(dir / "half").at("model.norm.weight").dtype, "BF16");
}

TEST(HuggingFace, IsForPlainNumbers) {
  const TempDir dir;
  EXPECT_EQ(error_of([&] { Conversion("", dir / "out", {.format = "hf", .quantize = "4bit"}); }),
            "invalid_argument: Hugging Face's format is for plain numbers here; quantize with --format mlx or gguf");
}

TEST(HuggingFace, AValueThatFloat16CannotHoldIsAnError) {
  const TempDir dir;
  testing::RandomModel model({});
  auto values = model.values("model.layers.1.mlp.up_proj.weight");
  values[77] = 70000.0f;
  model.set_values("model.layers.1.mlp.up_proj.weight", values);
  model.write(dir / "source");
  EXPECT_EQ(error_of([&] { convert(dir / "source", dir / "out", {.format = "hf", .dtype = "float16"}); }),
            "corrupt: tensor model.layers.1.mlp.up_proj.weight: the value 70000 is too large for float16; bfloat16 and "
            "float32 hold it");
  EXPECT_EQ(testing::files_in(dir.path()), std::set<std::string>{"source"});
}

TEST(ConversionOf, TheBuiltInModelGivesAFolderThatRuns) {
  const TempDir dir;
  Conversion conversion("", dir / "out", {});
  EXPECT_EQ(conversion.plan().format, "mlx");
  conversion.run();
  const Checkpoint checkpoint = Checkpoint::open(dir / "out");
  EXPECT_TRUE(checkpoint.warnings().empty());
  EXPECT_TRUE(checkpoint.text_file("tokenizer.json"));
  std::uint64_t bytes = 0;
  for (const auto& entry : fs::directory_iterator(dir / "out")) bytes += entry.file_size();
  EXPECT_EQ(bytes, conversion.plan().output_bytes);
  EXPECT_EQ(testing::files_in(dir / "out"),
            std::set<std::string>(conversion.plan().files.begin(), conversion.plan().files.end()));
}

TEST(ConversionOf, ProgressReachesTheEndAndCanStopTheWork) {
  const TempDir dir;
  Conversion whole("", dir / "whole", {.threads = 2});
  std::uint64_t last = 0, all = 0;
  whole.run([&](std::uint64_t done, std::uint64_t total) {
    EXPECT_GE(done, last);
    last = done;
    all = total;
    return true;
  });
  EXPECT_GT(all, 0u);
  EXPECT_EQ(last, all);

  Conversion stopped("", dir / "stopped", {.threads = 2});
  EXPECT_EQ(error_of([&] { stopped.run([](std::uint64_t done, std::uint64_t) { return done == 0; }); }),
            "cancelled: cancelled");
  EXPECT_EQ(testing::files_in(dir.path()), std::set<std::string>{"whole"});
}

TEST(ConversionOf, CheckingReadsEverythingAndWritesNothing) {
  const TempDir dir;
  testing::ModelSpec spec;
  spec.hidden_size = 64;
  spec.intermediate_size = 64;
  testing::RandomModel model(spec);
  model.write(dir / "good");
  EXPECT_EQ(Conversion(dir / "good", dir / "out", {.quantize = "4bit"}).check(), "");
  auto values = model.values("model.layers.2.mlp.up_proj.weight");
  values[100] = INFINITY;
  model.set_values("model.layers.2.mlp.up_proj.weight", values);
  model.write(dir / "bad");
  Conversion bad(dir / "bad", dir / "out", {.quantize = "4bit"});
  EXPECT_EQ(error_of([&] { bad.check(); }),
            "corrupt: tensor model.layers.2.mlp.up_proj.weight: it has values that are not finite, which cannot be "
            "quantized");
  EXPECT_EQ(testing::files_in(dir.path()), (std::set<std::string>{"bad", "good"}));
}

TEST(ConversionOf, ASourceThatIsCutOffOnTheWayLeavesNothing) {
  const TempDir dir;
  testing::RandomModel model({});
  model.write(dir / "source");
  Conversion conversion(dir / "source", dir / "out", {});
  fs::resize_file(dir / "source/model.safetensors", fs::file_size(dir / "source/model.safetensors") / 2);
  EXPECT_TRUE(error_of([&] { conversion.run(); }).starts_with("io: ")) << error_of([&] { conversion.run(); });
  EXPECT_EQ(testing::files_in(dir.path()), std::set<std::string>{"source"});
}

#ifdef __linux__
TEST(ConversionOf, ADiskThatBecomesFullOnTheWayLeavesNothing) {
  const TempDir dir;
  for (const char* format : {"mlx", "hf", "gguf"}) {
    constexpr int kOffset = 3;  // of pwrite
    const bool filtered = testing::with_failing_call({SYS_pwrite64, kOffset, 1 << 20, ENOSPC}, [&] {
      Conversion conversion("", dir / "out", {.format = format, .threads = 2});
      const std::string message = error_of([&] { conversion.run(); });
      EXPECT_TRUE(message.starts_with("io: ")) << message;
      EXPECT_TRUE(message.ends_with("cannot be written: No space left on device")) << message;
    });
    if (!filtered) GTEST_SKIP() << "this system has no seccomp filters";
    EXPECT_EQ(testing::files_in(dir.path()), std::set<std::string>()) << format;
  }
}
#endif

TEST(ConversionOf, AMissingSourceIsSaid) {
  const TempDir dir;
  EXPECT_TRUE(error_of([&] { Conversion(dir / "none", dir / "out", {}); }).starts_with("not_found: "));
}

}  // namespace
}  // namespace sparkx
