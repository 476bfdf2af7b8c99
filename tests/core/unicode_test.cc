#include "core/unicode.h"

#include <gtest/gtest.h>

#include <string>

namespace sparkx {
namespace {

// From the Unicode Standard, section 3.9, "U+FFFD Substitution of Maximal Subparts", and Python's
// bytes.decode(errors="replace").
TEST(Utf8, EachMaximalIllFormedPartBecomesOneReplacementCharacter) {
  const struct {
    std::string_view bytes;
    std::string_view text;
  } cases[] = {
      {"", ""},
      {"plain ASCII, long enough for words", "plain ASCII, long enough for words"},
      {"\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41", "\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFDA"},
      {"\xED\xA0\x80\xED\xBF\xBF\xED\xAF\x41", "\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFDA"},
      {"\xF4\x91\x92\x93\xFF\x41\x80\xBF\x42", "\uFFFD\uFFFD\uFFFD\uFFFD\uFFFDA\uFFFD\uFFFDB"},
      {"\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41", "\uFFFD\uFFFD\uFFFD\uFFFDA"},
      {"\xF0\x9F\x98\x80\xF4\x8F\xBF\xBF\xEF\xBF\xBF", "\U0001F600\U0010FFFF\uFFFF"},
      {"12345678\xE4\xBD", "12345678\uFFFD"},
  };
  for (const auto& test : cases) {
    EXPECT_EQ(replace_invalid_utf8(test.bytes), test.text);
    EXPECT_EQ(is_valid_utf8(test.bytes), test.bytes == test.text);
  }
}

TEST(Utf8, EveryCodePointGoesOutAndIn) {
  for (char32_t c = 0; c <= kLastCodePoint; ++c) {
    if (c >= 0xD800 && c < 0xE000) continue;
    std::string text;
    append_utf8(text, c);
    const Utf8Character character = decode_utf8(text);
    ASSERT_TRUE(character.valid && character.code_point == c && character.size == text.size()) << std::hex << +c;
    ASSERT_EQ(decode_valid_utf8(text.data()).code_point, c);
    // Any beginning of it is unfinished, and it is not.
    ASSERT_EQ(unfinished_utf8_size(text), 0u);
    for (std::size_t size = 1; size < text.size(); ++size) {
      ASSERT_EQ(unfinished_utf8_size("x" + text.substr(0, size)), size) << std::hex << +c;
    }
  }
}

TEST(Utf8, NoMoreBytesCanFinishWhatIsIllFormed) {
  for (const std::string_view bytes : {"\x80", "\xC0", "\xC1", "\xF5", "\xFF", "\xE0\x80", "\xED\xA0", "\xF4\x90",
                                       "\xF0\x8F", "\xE4\xBD\x41", "\xC3\xA9\x80", "\xF0\x9F\x28"}) {
    EXPECT_EQ(unfinished_utf8_size(bytes), 0u);
  }
}

TEST(CodePointSet, RangesMergeAndComplement) {
  const CodePointSet set = {{'c', 'd'}, {'a', 'b'}, {'x', 'z'}, {'y', 'y'}};
  ASSERT_EQ(set.ranges().size(), 2u);
  EXPECT_EQ(set.ranges()[0], (CodePointRange{'a', 'd'}));
  EXPECT_EQ(set.ranges()[1], (CodePointRange{'x', 'z'}));
  EXPECT_EQ(set.complement().complement(), set);
  EXPECT_EQ(CodePointSet().complement(), (CodePointSet{{0, kLastCodePoint}}));
  EXPECT_TRUE(set.contains('d') && set.contains('x') && !set.contains('e') && !set.contains('`') && !set.contains(0));
}

TEST(CodePointTable, AgreesWithItsSetEverywhere) {
  const CodePointSet letters = *general_category_set("L");
  const CodePointTable table(letters);
  std::size_t members = 0;
  for (char32_t c = 0; c <= kLastCodePoint; ++c) {
    ASSERT_EQ(table[c] != 0, letters.contains(c)) << std::hex << +c;
    members += table[c];
  }
  EXPECT_EQ(members, 141028u);  // letters of Unicode 16.0
}

// Counts from the Unicode Character Database 16.0 (DerivedGeneralCategory.txt).
TEST(GeneralCategory, SetsHaveTheSizesOfUnicode16) {
  const struct {
    const char* name;
    std::size_t count;
  } cases[] = {{"Lu", 1858}, {"Uppercase_Letter", 1858},
               {"nd", 760},  {"Decimal Number", 760},
               {"Zs", 17},   {"Cs", 2048},
               {"Cc", 65},   {"Co", 137468}};
  for (const auto& test : cases) {
    std::size_t count = 0;
    const CodePointSet set = general_category_set(test.name).value();
    for (const CodePointRange range : set.ranges()) count += range.last - range.first + 1;
    EXPECT_EQ(count, test.count) << test.name;
  }
  EXPECT_EQ(general_category_set("Han"), std::nullopt);
  EXPECT_EQ(general_category_set(""), std::nullopt);
}

// The tokenizers library: Rust's char::is_numeric follows a newer Unicode than \p{N} of Oniguruma.
TEST(NumericSet, HasNumbersThatCategoryNDoesNotHave) {
  const CodePointSet number = *general_category_set("N");
  for (const char32_t c : {0x11DE0, 0x11DE9, 0x16FF4, 0x16FF6}) {
    EXPECT_TRUE(numeric_set().contains(c) && !number.contains(c));
  }
  EXPECT_TRUE(numeric_set().contains(0x2167) && numeric_set().contains('7') && !numeric_set().contains(0x4E00));
}

TEST(WordSets, DifferInJoinersAndSuperscripts) {
  EXPECT_TRUE(word_set().contains(0xB2) && !single_word_set().contains(0xB2));
  EXPECT_TRUE(!word_set().contains(0x200D) && single_word_set().contains(0x200D));
  EXPECT_FALSE(white_space_set().contains(0x180E) || white_space_set().contains(0x200B) ||
               white_space_set().contains(0x1C));
}

}  // namespace
}  // namespace sparkx
