#include "core/version.h"

#include <gtest/gtest.h>

#include <regex>
#include <string>

namespace sparkx {
namespace {

TEST(Version, SaysVersionCommitAndCompiler) {
  EXPECT_TRUE(std::regex_match(version().version, std::regex(R"(\d+\.\d+\.\d+)"))) << version().version;
  EXPECT_TRUE(std::regex_match(version().commit, std::regex("unknown|[0-9a-f]{12,}(-dirty)?"))) << version().commit;
  EXPECT_TRUE(std::regex_match(version().compiler, std::regex(R"((GCC|Clang|AppleClang) \d+\.\d+.*)")))
      << version().compiler;
}

}  // namespace
}  // namespace sparkx
