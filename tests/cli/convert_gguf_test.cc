// sparkx convert to GGUF files, and the program running them.
#include <gtest/gtest.h>

#include <filesystem>

#include "cli/sparkx_program.h"
#include "support/temp_dir.h"

namespace sparkx::testing {
namespace {

namespace fs = std::filesystem;

TEST(ConvertGguf, TheBuiltInModelAnswersFromOneFile) {
  const TempDir dir;
  const std::string file = (dir / "mini.gguf").string();
  for (const std::vector<std::string>& options :
       {std::vector<std::string>{}, {"--quantize", "f16"}, {"--quantize", "Q8_0"}}) {
    std::vector<std::string> arguments{"convert", "-o", file, "--force"};
    arguments.insert(arguments.end(), options.begin(), options.end());
    const ProcessResult converted = sparkx(arguments);
    ASSERT_EQ(converted.status, 0) << converted.err;
    EXPECT_NE(converted.out.find("gguf: "), std::string::npos) << converted.out;
    const ProcessResult run = sparkx({"generate", "-m", file, "--prompt", "53乘以42的结果是多少？"});
    EXPECT_EQ(run.status, 0) << run.err;
    EXPECT_TRUE(run.out.ends_with("</think>53乘以42的结果是2226。\n")) << run.out;
  }
  const ProcessResult ids = sparkx({"tokenize", "-m", file, "<think>53乘以42"});
  EXPECT_EQ(ids.out, sparkx({"tokenize", "<think>53乘以42"}).out) << ids.err;
}

TEST(ConvertGguf, ADryRunShowsThePlanAndWritesNothing) {
  const TempDir dir;
  const ProcessResult run = sparkx({"convert", "-o", (dir / "m.gguf").string(), "--quantize", "Q4_K_M", "--dry-run"});
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_NE(run.out.find("bfloat16 -> Q5_0 (rows of 192 are no multiple of the 256 in a block of Q4_K)"),
            std::string::npos)
      << run.out;
  EXPECT_TRUE(fs::is_empty(dir.path()));
}

TEST(ConvertGguf, AFileThatIsThereIsKeptWithoutForce) {
  const TempDir dir;
  dir.write("m.gguf", "mine");
  const ProcessResult run = sparkx({"convert", "-o", (dir / "m.gguf").string()});
  EXPECT_EQ(run.status, 1);
  EXPECT_NE(run.err.find("exists already; --force replaces it"), std::string::npos) << run.err;
  EXPECT_EQ(read_file(dir / "m.gguf"), "mine");
}

}  // namespace
}  // namespace sparkx::testing
