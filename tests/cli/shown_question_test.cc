// The question that scripts/run asks, answered by the program alone: from any folder, without any file.
#include <gtest/gtest.h>

#include "cli/sparkx_program.h"

namespace sparkx::testing {
namespace {

TEST(ShownQuestion, IsAnsweredByTheBuiltInModel) {
  const ProcessResult run = sparkx({"generate", "--prompt", "53乘以42的结果是多少？"});
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_TRUE(run.out.ends_with("</think>53乘以42的结果是2226。\n")) << run.out;
}

}  // namespace
}  // namespace sparkx::testing
