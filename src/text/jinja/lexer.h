// Cuts a template into tokens as Jinja does with trim_blocks and lstrip_blocks.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sparkx::jinja {

enum class TokenKind : std::uint8_t {
  data,
  variable_begin,
  variable_end,
  block_begin,
  block_end,
  name,
  string,
  integer,
  floating,
  op,
  end,
};

struct Token {
  TokenKind kind;
  std::uint32_t begin;  // in the source
  std::uint32_t end;
  std::string text;  // data and strings as they are meant; numbers without "_"
  bool is(std::string_view op) const { return kind == TokenKind::op && text == op; }
  bool is_name(std::string_view name) const { return kind == TokenKind::name && text == name; }
};

// A syntax error at a place of the source; Template::parse makes a TemplateError of it.
struct SyntaxError {
  std::string message;
  std::uint32_t begin;
  std::uint32_t end;
};

// Line ends become \n; one at the very end is dropped.
std::string normalize_source(std::string_view source);

// `source` is normalized. Throws SyntaxError. The last token is TokenKind::end.
std::vector<Token> tokenize(std::string_view source);

}  // namespace sparkx::jinja
