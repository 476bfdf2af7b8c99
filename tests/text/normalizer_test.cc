#include "text/normalizer.h"

#include <gtest/gtest.h>

#include "support/errors.h"

namespace sparkx {
namespace {

using testing::error_of;
using Kind = NormalizerStep::Kind;
using Ranges = std::vector<TextRange>;

NormalizerStep replace(std::string pattern, std::string content) {
  return {.kind = Kind::replace, .pattern = std::move(pattern), .content = std::move(content)};
}

NormalizedText normalize(const std::vector<NormalizerStep>& steps, std::string_view text, const Ranges& trusted) {
  return Normalizer(steps, "t.json").normalize(text, trusted);
}

TEST(Normalizer, StepsFollowEachOther) {
  const std::vector<NormalizerStep> steps = {{.kind = Kind::strip, .pattern = "", .content = "", .strip_left = true},
                                             {.kind = Kind::prepend, .pattern = "", .content = "_"},
                                             replace(" ", "__")};
  EXPECT_EQ(normalize(steps, " \u3000a b ", {}).text, "_a__b__");
  EXPECT_EQ(normalize(steps, "  ", {}).text, "") << "nothing is put before nothing";
}

TEST(Normalizer, WhatIsKeptStaysTrusted) {
  EXPECT_EQ(normalize({replace("x", "")}, "aaxbb", {{1, 4}}).trusted, (Ranges{{1, 3}}));
  EXPECT_EQ(
      normalize({{.kind = Kind::strip, .pattern = "", .content = "", .strip_left = true}}, "  ab", {{0, 3}}).trusted,
      (Ranges{{0, 1}}));
  EXPECT_EQ(normalize({{.kind = Kind::nfc, .pattern = "", .content = ""}}, "abe\u0301cd", {{0, 1}, {5, 7}}).trusted,
            (Ranges{{0, 1}, {4, 6}}));
}

TEST(Normalizer, WhatBecomesSomethingElseIsTrustedWhereAllOfItWas) {
  EXPECT_EQ(normalize({replace("xy", "<s>")}, "axyb", {{1, 3}}).trusted, (Ranges{{1, 4}}));
  EXPECT_EQ(normalize({replace("xy", "<s>")}, "axyb", {{0, 2}}).trusted, (Ranges{{0, 1}}));
  EXPECT_EQ(normalize({{.kind = Kind::nfc, .pattern = "", .content = ""}}, "ae\u0301b", {{1, 4}}).trusted,
            (Ranges{{1, 3}}));
  EXPECT_EQ(normalize({{.kind = Kind::nfc, .pattern = "", .content = ""}}, "ae\u0301b", {{0, 2}}).trusted,
            (Ranges{{0, 1}}));
  EXPECT_EQ(normalize({{.kind = Kind::prepend, .pattern = "", .content = "_"}}, "ab", {{0, 2}}).trusted,
            (Ranges{{0, 3}}));
  EXPECT_EQ(normalize({{.kind = Kind::prepend, .pattern = "", .content = "_"}}, "ab", {{1, 2}}).trusted,
            (Ranges{{2, 3}}));
}

TEST(Normalizer, APatternThatIsNotSupportedIsNamed) {
  EXPECT_EQ(error_of([] {
              normalize({replace("a", "b"), replace("(?<=a)", "")}, "", {});
            }),
            "unsupported: t.json: normalizer, step 2: regular expression \"(?<=a)\", character 1: lookbehind is not "
            "supported");
}

}  // namespace
}  // namespace sparkx
