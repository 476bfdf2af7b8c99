// What Python's str methods know about characters: classes, case mappings, UTF-8. Templates are written for Python, so
// the tables come from Python (tools/make_jinja_unicode.py).
//
// Texts are UTF-8. A lone surrogate, which "\ud800" in a template can make, is kept as three bytes until it is printed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace sparkx::jinja {

bool is_space(char32_t c);
bool is_decimal(char32_t c);
bool is_digit(char32_t c);
bool is_numeric(char32_t c);
bool is_alpha(char32_t c);
bool is_lower(char32_t c);
bool is_upper(char32_t c);
bool is_title(char32_t c);  // titlecase only, such as U+01C5
bool is_printable(char32_t c);
bool is_identifier_start(char32_t c);
bool is_identifier_part(char32_t c);
bool is_line_end(char32_t c);  // where str.splitlines splits
inline bool is_alnum(char32_t c) {
  return is_alpha(c) || is_decimal(c) || is_digit(c) || is_numeric(c);
}
inline bool is_word(char32_t c) {
  return c == '_' || is_alnum(c);
}

int decimal_value(char32_t c);  // 0..9, or -1

// A character in another case: up to three characters.
struct CaseResult {
  char32_t chars[3];
  int count;
};
CaseResult to_upper(char32_t c);
CaseResult to_lower(char32_t c);  // without the rule for a final sigma
CaseResult to_title(char32_t c);
CaseResult fold_case(char32_t c);
bool is_cased(char32_t c);
bool is_case_ignorable(char32_t c);  // for the rule of the final sigma

// The character at `position`, which moves behind it. Bytes that are no UTF-8 count as U+FFFD, one each.
char32_t next_char(std::string_view text, std::size_t& position);
char32_t last_char(std::string_view text, std::size_t& end);  // the one before `end`, which moves before it
void append_char(std::string& text, char32_t c);
bool is_ascii(std::string_view text);
std::size_t count_chars(std::string_view text);
bool is_identifier(std::string_view text);

}  // namespace sparkx::jinja
