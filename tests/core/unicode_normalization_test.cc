#include "core/unicode_normalization.h"

#include <gtest/gtest.h>

#include <chrono>
#include <fstream>
#include <iterator>
#include <string>

#include "core/json.h"

namespace sparkx {
namespace {

constexpr NormalizationForm kForms[] = {NormalizationForm::nfc, NormalizationForm::nfd, NormalizationForm::nfkc,
                                        NormalizationForm::nfkd};

std::string normalized(NormalizationForm form, std::string_view text) {
  return UnicodeNormalizer(form).normalize(text);
}

// tests/oracle/make_tokenizer_parts_golden.py: the tokenizers library.
TEST(UnicodeNormalization, FormsAreTheLibrarys) {
  std::ifstream file(SPARKX_SOURCE_DIR "/tests/data/tokenizer/parts.json", std::ios::binary);
  const json::Value groups = json::parse(std::string(std::istreambuf_iterator<char>(file), {}), "parts.json");
  const json::Array& rows = groups.as_array().back().find("normalized")->as_array();
  ASSERT_GT(rows.size(), 200u);
  for (const json::Value& row : rows) {
    const json::Array& texts = row.as_array();
    for (std::size_t form = 0; form < 4; ++form) {
      EXPECT_EQ(normalized(kForms[form], texts[0].as_string()), texts[1 + form].as_string())
          << json::print(texts[0]) << ", form " << form;
    }
  }
}

TEST(UnicodeNormalization, HangulComesApartAndTogether) {
  std::string syllables, letters;
  for (const char32_t c : {0xAC00, 0xAC01, 0xD7A3, 0xB098}) append_utf8(syllables, c);
  for (const char32_t c : {0x1100, 0x1161, 0x1100, 0x1161, 0x11A8, 0x1112, 0x1175, 0x11C2, 0x1102, 0x1161})
    append_utf8(letters, c);
  EXPECT_EQ(normalized(NormalizationForm::nfd, syllables), letters);
  EXPECT_EQ(normalized(NormalizationForm::nfc, letters), syllables);
}

TEST(UnicodeNormalization, AFormIsItsOwnNormalForm) {
  for (const NormalizationForm form : kForms) {
    const UnicodeNormalizer normalizer(form);
    for (char32_t c = 0; c <= kLastCodePoint; ++c) {
      if (c == 0xD800) c = 0xE000;
      std::string text = "e";
      append_utf8(text, c);
      text += "\u0301";
      const std::string once = normalizer.normalize(text);
      ASSERT_EQ(normalizer.normalize(once), once) << "U+" << std::hex << static_cast<unsigned>(c);
    }
  }
}

TEST(UnicodeNormalization, MarksYoungerThanTheLibrarysTablesDoNotMove) {
  EXPECT_EQ(normalized(NormalizationForm::nfd, "a\u0301\u1DFA"), "a\u0301\u1DFA");
  EXPECT_EQ(normalized(NormalizationForm::nfd, "a\u0301\u0316"), "a\u0316\u0301");
}

TEST(UnicodeNormalization, AMegabyteOfMarksIsNotQuadratic) {
  std::string text = "a";
  while (text.size() < 1'000'000) text += "\u0301\u0316";
  const std::string result = normalized(NormalizationForm::nfc, text);
  EXPECT_EQ(result.substr(0, 4), "\u00E1\u0316");
  EXPECT_EQ(result.size(), text.size() - 1);
}

TEST(UnicodeNormalization, PartsAreTheText) {
  const UnicodeNormalizer normalizer(NormalizationForm::nfc);
  std::string joined, kept;
  normalizer.normalize(
      "abce\u0301 def", [&](std::string_view part) { joined += part, kept += part; },
      [&](std::string_view part, const std::string& text) {
        joined += part;
        EXPECT_EQ(text, "\u00E9");
      });
  EXPECT_EQ(joined, "abce\u0301 def");
  EXPECT_EQ(kept, "abc def");
}

}  // namespace
}  // namespace sparkx
