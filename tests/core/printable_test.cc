#include "core/printable.h"

#include <gtest/gtest.h>

#include <string>

namespace sparkx {
namespace {

TEST(Printable, PlainTextStaysAndAnythingElseIsEscaped) {
  EXPECT_EQ(printable("model.norm.weight"), "model.norm.weight");
  EXPECT_EQ(printable(""), "\"\"");
  EXPECT_EQ(printable("two words"), "\"two words\"");
  EXPECT_EQ(printable("\x1b[31m\x07"), "\"\\u001b[31m\\u0007\"");
  EXPECT_EQ(printable("\xC2\x9B"), "\"\\u009b\"");
  EXPECT_EQ(printable("\xff"), "\"\\ufffd\"");
}

TEST(Printable, InQuotesAlwaysHasThem) {
  EXPECT_EQ(in_quotes("plain"), "\"plain\"");
  EXPECT_EQ(in_quotes("\x1b[2J"), "\"\\u001b[2J\"");
}

TEST(Printable, LongTextIsCut) {
  const std::string text(1'000'000, 'x');
  EXPECT_EQ(printable(text), text.substr(0, 200) + "…");
  EXPECT_EQ(in_quotes(text), "\"" + text.substr(0, 199) + "…");
}

TEST(Printable, WithoutControlsKeepsTheRest) {
  EXPECT_EQ(without_controls("a\n\x1b[2J\x7f 53×42 \xC2\x9Bm\xC2"), "a��[2J� 53×42 �m\xC2");
}

}  // namespace
}  // namespace sparkx
