// UTF-8, and the character properties that tokenizers ask for: Unicode 16, as Oniguruma in the `tokenizers` library has
// them, with the few sets where that library's Rust parts differ (tools/make_unicode_tables.py).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sparkx {

inline constexpr char32_t kLastCodePoint = 0x10FFFF;
inline constexpr char32_t kReplacementCharacter = 0xFFFD;
inline constexpr std::string_view kReplacementText = "\xEF\xBF\xBD";

struct CodePointRange {
  char32_t first;
  char32_t last;

  bool operator==(const CodePointRange&) const = default;
};

// A set of code points as ascending ranges that do not touch.
class CodePointSet {
 public:
  CodePointSet() = default;
  CodePointSet(std::initializer_list<CodePointRange> ranges);
  explicit CodePointSet(std::span<const CodePointRange> ranges);  // in any order, overlapping or not

  void add(char32_t first, char32_t last);
  void add(const CodePointSet& other);
  CodePointSet complement() const;
  bool contains(char32_t code_point) const;
  bool empty() const { return ranges_.empty(); }
  std::span<const CodePointRange> ranges() const { return ranges_; }

  bool operator==(const CodePointSet&) const = default;

 private:
  void normalize();
  std::vector<CodePointRange> ranges_;
};

// The set of a general category or a group of them: "Lu", "L", "Uppercase_Letter", "letter"; case, blanks, '_' and '-'
// do not count. Nothing when there is no such category.
std::optional<CodePointSet> general_category_set(std::string_view name);

CodePointSet white_space_set();  // White_Space: \s of Oniguruma and Rust
CodePointSet word_set();         // \w of Oniguruma
CodePointSet single_word_set();  // \w of Rust's regex crate, which decides about `single_word` of added tokens
CodePointSet numeric_set();      // Rust's char::is_numeric: categories Nd, Nl, No of a Unicode newer than 16

// Which of up to 256 groups a code point is in: one or two loads per lookup.
class CodePointTable {
 public:
  CodePointTable() = default;
  // `group_of_range[i]` is the group of `ranges[i]`; the ranges ascend and do not overlap. All others are in group 0.
  CodePointTable(std::span<const CodePointRange> ranges, std::span<const std::uint8_t> group_of_range);
  // Group 1 is the set.
  explicit CodePointTable(const CodePointSet& set);

  std::uint8_t operator[](char32_t code_point) const {
    return entries_[blocks_[code_point >> 8] + (code_point & 0xFF)];
  }
  const std::uint8_t* ascii() const { return entries_.data() + blocks_[0]; }

 private:
  std::vector<std::uint32_t> blocks_;  // [0x1100] where the block of 256 code points begins in entries_
  std::vector<std::uint8_t> entries_;
};

// One character at the beginning of a text, or U+FFFD for its first maximal ill-formed part.
struct Utf8Character {
  char32_t code_point;
  std::uint8_t size;  // in bytes, at least 1
  bool valid;
};
Utf8Character decode_utf8(std::string_view text);  // of a text that is not empty

// The same for text that is known to be valid.
inline Utf8Character decode_valid_utf8(const char* text) {
  const auto byte = [text](int i) { return static_cast<char32_t>(static_cast<unsigned char>(text[i])); };
  if (byte(0) < 0x80) return {byte(0), 1, true};
  if (byte(0) < 0xE0) return {(byte(0) & 0x1F) << 6 | (byte(1) & 0x3F), 2, true};
  if (byte(0) < 0xF0) return {(byte(0) & 0x0F) << 12 | (byte(1) & 0x3F) << 6 | (byte(2) & 0x3F), 3, true};
  return {(byte(0) & 0x07) << 18 | (byte(1) & 0x3F) << 12 | (byte(2) & 0x3F) << 6 | (byte(3) & 0x3F), 4, true};
}

// The last character of a text that is valid and not empty.
inline Utf8Character last_character(std::string_view text) {
  std::size_t i = text.size() - 1;
  while ((static_cast<unsigned char>(text[i]) & 0xC0) == 0x80) --i;
  return decode_valid_utf8(text.data() + i);
}

void append_utf8(std::string& out, char32_t code_point);

bool is_valid_utf8(std::string_view text);

// The text with U+FFFD for each maximal ill-formed part, as Python's errors="replace" does it.
std::string replace_invalid_utf8(std::string_view text);

// How many bytes at the end (0 to 3) are the beginning of a character that more bytes could complete.
std::size_t unfinished_utf8_size(std::string_view text);

}  // namespace sparkx
