#include "text/jinja/lexer.h"

#include <fmt/core.h>

#include <algorithm>

#include "text/jinja/unicode.h"

namespace sparkx::jinja {
namespace {

bool digit(char c) {
  return c >= '0' && c <= '9';
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(source) {}

  std::vector<Token> run() {
    while (position_ < source_.size()) read_data();
    add(TokenKind::end, source_.size(), source_.size());
    return std::move(tokens_);
  }

 private:
  [[noreturn]] void fail(std::string message, std::size_t begin, std::size_t end) const {
    throw SyntaxError{std::move(message), static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(end)};
  }

  void add(TokenKind kind, std::size_t begin, std::size_t end, std::string text = {}) {
    tokens_.push_back({kind, static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(end), std::move(text)});
  }

  bool at(std::string_view text) const { return source_.substr(position_).starts_with(text); }

  std::size_t skip_spaces(std::size_t from) const {
    while (from < source_.size()) {
      std::size_t next = from;
      if (!is_space(next_char(source_, next))) break;
      from = next;
    }
    return from;
  }

  // Text up to the next tag, then the tag.
  void read_data() {
    const std::size_t begin = position_;
    std::size_t tag = begin;
    while (true) {
      tag = source_.find('{', tag);
      if (tag == std::string_view::npos || tag + 1 >= source_.size()) {
        tag = std::string_view::npos;
        break;
      }
      const char second = source_[tag + 1];
      if (second == '%' || second == '{' || second == '#') break;
      ++tag;
    }
    if (tag == std::string_view::npos) {
      add(TokenKind::data, begin, source_.size(), std::string(source_.substr(begin)));
      position_ = source_.size();
      return;
    }
    const char second = source_[tag + 1];
    char sign = tag + 2 < source_.size() ? source_[tag + 2] : ' ';
    if (sign != '-' && sign != '+') sign = ' ';
    add_data_before_tag(begin, tag, sign, second == '{');
    position_ = tag + (sign == ' ' ? 2 : 3);
    if (second == '#') {
      read_comment(tag);
    } else if (second == '{') {
      add(TokenKind::variable_begin, tag, position_);
      read_code(TokenKind::variable_end);
    } else if (const std::size_t inside = raw_begin(); inside != 0) {
      position_ = inside;
      read_raw(tag);
    } else {
      add(TokenKind::block_begin, tag, position_);
      read_code(TokenKind::block_end);
    }
  }

  void add_data_before_tag(std::size_t begin, std::size_t end, char sign, bool variable) {
    std::string_view text = source_.substr(begin, end - begin);
    if (sign == '-') {
      std::size_t length = text.size();
      while (length > 0) {
        std::size_t before = length;
        if (!is_space(last_char(text, before))) break;
        length = before;
      }
      text = text.substr(0, length);
    } else if (sign != '+' && !variable) {
      // Blanks alone on the line before a tag go.
      const std::size_t line = text.rfind('\n') + 1;
      if ((line > 0 || line_starting_) && line < text.size() && skip_spaces(begin + line) >= end) {
        text = text.substr(0, line);
      }
    }
    if (!text.empty()) add(TokenKind::data, begin, end, std::string(text));
  }

  void end_tag(std::size_t behind) {
    line_starting_ = behind > 0 && source_[behind - 1] == '\n';
    position_ = behind;
  }

  // The end of a tag at `from`, if it is there: where the text goes on, else 0. `close` is "%}", "#}" or "}}".
  std::size_t tag_end(std::size_t from, std::string_view close) const {
    const std::string_view rest = source_.substr(from);
    const bool variable = close == "}}";
    if (rest.starts_with('-') && rest.substr(1).starts_with(close)) return skip_spaces(from + 3);
    if (!variable && rest.starts_with('+') && rest.substr(1).starts_with(close)) return from + 3;
    if (!rest.starts_with(close)) return 0;
    return from + 2 + (!variable && rest.size() > 2 && rest[2] == '\n' ? 1 : 0);
  }

  void read_comment(std::size_t tag) {
    // The shortest text before "-#}", "+#}" or "#}".
    const std::size_t close = source_.find("#}", position_);
    if (close == std::string_view::npos) fail("Missing end of comment tag", tag, source_.size());
    std::size_t from = close;
    if (close > position_ && (source_[close - 1] == '-' || source_[close - 1] == '+')) --from;
    end_tag(tag_end(from, "#}"));
  }

  // Behind "{%" and its sign: where the text of a raw block begins, or 0.
  std::size_t raw_begin() const {
    std::size_t at = skip_spaces(position_);
    if (!source_.substr(at).starts_with("raw")) return 0;
    at = skip_spaces(at + 3);
    if (source_.substr(at).starts_with("-%}")) return skip_spaces(at + 3);
    return source_.substr(at).starts_with("%}") ? at + 2 : 0;
  }

  void read_raw(std::size_t tag) {
    const std::size_t begin = position_;
    line_starting_ = begin > 0 && source_[begin - 1] == '\n';
    for (std::size_t open = source_.find("{%", begin); open != std::string_view::npos;
         open = source_.find("{%", open + 1)) {
      std::size_t at = open + 2;
      char sign = ' ';
      if (at < source_.size() && (source_[at] == '-' || source_[at] == '+')) sign = source_[at++];
      at = skip_spaces(at);
      if (!source_.substr(at).starts_with("endraw")) continue;
      const std::size_t behind = tag_end(skip_spaces(at + 6), "%}");
      if (behind == 0) continue;
      add_data_before_tag(begin, open, sign, false);
      end_tag(behind);
      return;
    }
    fail("Missing end of raw directive", tag, source_.size());
  }

  void read_code(TokenKind closing) {
    const std::string_view close = closing == TokenKind::block_end ? "%}" : "}}";
    std::string brackets;
    while (true) {
      position_ = skip_spaces(position_);
      if (position_ >= source_.size()) return;  // the parser says what is missing
      if (brackets.empty()) {
        if (const std::size_t behind = tag_end(position_, close); behind != 0) {
          add(closing, position_, behind);
          end_tag(behind);
          return;
        }
      }
      if (!read_number() && !read_name() && !read_string()) read_operator(brackets);
    }
  }

  // Digits with single "_" between them, from `from`; its end, or `from` when there is none.
  std::size_t digits_end(std::size_t from) const {
    std::size_t at = from;
    while (at < source_.size() && (digit(source_[at]) || (source_[at] == '_' && at > from && digit(source_[at - 1]) &&
                                                          at + 1 < source_.size() && digit(source_[at + 1])))) {
      ++at;
    }
    return at;
  }

  bool read_number() {
    if (!digit(source_[position_])) return false;
    const std::size_t begin = position_;
    const bool behind_dot = begin > 0 && source_[begin - 1] == '.';
    const std::size_t whole = digits_end(begin);
    std::size_t end = whole;
    bool floating = false;
    if (!behind_dot) {
      if (end + 1 < source_.size() && source_[end] == '.' && digit(source_[end + 1])) {
        end = digits_end(end + 1);
        floating = true;
      }
      if (end < source_.size() && (source_[end] == 'e' || source_[end] == 'E')) {
        std::size_t exponent = end + 1;
        if (exponent < source_.size() && (source_[exponent] == '+' || source_[exponent] == '-')) ++exponent;
        if (exponent < source_.size() && digit(source_[exponent])) {
          end = digits_end(exponent);
          floating = true;
        }
      }
    }
    if (!floating) end = integer_end(begin);
    std::string text(source_.substr(begin, end - begin));
    std::erase(text, '_');
    add(floating ? TokenKind::floating : TokenKind::integer, begin, end, std::move(text));
    position_ = end;
    return true;
  }

  std::size_t integer_end(std::size_t begin) const {
    const auto in_base = [](char c, char base) {
      const char lower = static_cast<char>(c | 0x20);
      if (base == 'b') return c == '0' || c == '1';
      if (base == 'o') return c >= '0' && c <= '7';
      return digit(c) || (lower >= 'a' && lower <= 'f');
    };
    if (source_[begin] != '0') return digits_end(begin);
    if (begin + 1 < source_.size()) {
      const char base = static_cast<char>(source_[begin + 1] | 0x20);
      if (base == 'b' || base == 'o' || base == 'x') {
        std::size_t end = begin + 2;
        while (end < source_.size()) {
          const std::size_t at = source_[end] == '_' ? end + 1 : end;
          if (at >= source_.size() || !in_base(source_[at], base)) break;
          end = at + 1;
        }
        if (end > begin + 2) return end;
      }
    }
    std::size_t end = begin + 1;
    while (end < source_.size()) {
      const std::size_t at = source_[end] == '_' ? end + 1 : end;
      if (at >= source_.size() || source_[at] != '0') break;
      end = at + 1;
    }
    return end;
  }

  bool read_name() {
    std::size_t end = position_;
    while (end < source_.size()) {
      std::size_t next = end;
      const char32_t c = next_char(source_, next);
      if (!is_word(c) && !is_identifier_part(c)) break;
      end = next;
    }
    if (end == position_) return false;
    const std::string_view text = source_.substr(position_, end - position_);
    if (!is_identifier(text)) fail("Invalid character in identifier", position_, end);
    add(TokenKind::name, position_, end, std::string(text));
    position_ = end;
    return true;
  }

  bool read_string() {
    const char quote = source_[position_];
    if (quote != '"' && quote != '\'') return false;
    std::size_t end = position_ + 1;
    while (end < source_.size() && source_[end] != quote) end += source_[end] == '\\' ? 2 : 1;
    if (end >= source_.size()) {
      fail(fmt::format("unexpected char '{}'", quote), position_, position_ + 1);
    }
    add(TokenKind::string, position_, end + 1, unescape(position_ + 1, end));
    position_ = end + 1;
    return true;
  }

  // As Python's unicode-escape codec reads it, from text in which every character beyond ASCII was escaped before.
  std::string unescape(std::size_t begin, std::size_t end) const {
    std::string result;
    for (std::size_t at = begin; at < end;) {
      if (source_[at] != '\\') {
        result += source_[at++];
        continue;
      }
      const std::size_t escape = at++;
      const char c = source_[at];
      if (static_cast<unsigned char>(c) >= 0x80) {
        // The backslash met the backslash of the escape: the escape's letters stay.
        const auto code = static_cast<std::uint32_t>(next_char(source_, at));
        result += code < 0x100     ? fmt::format("\\x{:02x}", code)
                  : code < 0x10000 ? fmt::format("\\u{:04x}", code)
                                   : fmt::format("\\U{:08x}", code);
        continue;
      }
      ++at;
      if (c == '\n') continue;  // a line that goes on
      static constexpr std::string_view kNames = "\\'\"abfnrtv";
      static constexpr std::string_view kMeanings = "\\'\"\a\b\f\n\r\t\v";
      if (const std::size_t known = kNames.find(c); known != std::string_view::npos) {
        result += kMeanings[known];
        continue;
      }
      if (c >= '0' && c <= '7') {
        std::uint32_t code = static_cast<std::uint32_t>(c - '0');
        for (int i = 0; i < 2 && at < end && source_[at] >= '0' && source_[at] <= '7'; ++i) {
          code = code * 8 + static_cast<std::uint32_t>(source_[at++] - '0');
        }
        append_char(result, code);
      } else if (c == 'x' || c == 'u' || c == 'U') {
        const std::size_t length = c == 'x' ? 2 : c == 'u' ? 4 : 8;
        std::uint64_t code = 0;
        for (std::size_t i = 0; i < length; ++i, ++at) {
          const int value = at < end ? hex_value(source_[at]) : -1;
          if (value < 0) fail(fmt::format("truncated \\{} escape", c), escape, std::min(at + 1, end));
          code = code * 16 + static_cast<std::uint64_t>(value);
        }
        if (code > 0x10ffff) fail("illegal Unicode character", escape, at);
        append_char(result, static_cast<char32_t>(code));
      } else if (c == 'N') {
        fail("\\N{...} escapes are not supported", escape, at);
      } else {
        result += '\\';
        result += c;
      }
    }
    return result;
  }

  static int hex_value(char c) {
    if (digit(c)) return c - '0';
    const char lower = static_cast<char>(c | 0x20);
    return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
  }

  void read_operator(std::string& brackets) {
    static constexpr std::string_view kTwo[] = {"//", "**", "==", "!=", ">=", "<="};
    std::string_view text;
    for (std::string_view op : kTwo) {
      if (at(op)) text = op;
    }
    if (text.empty()) text = source_.substr(position_, 1);
    const std::size_t begin = position_, end = position_ + text.size();
    if (text.size() == 1 && std::string_view("+-/*%~[](){}><=.:|,;").find(text[0]) == std::string_view::npos) {
      std::size_t behind = position_;
      next_char(source_, behind);
      fail(fmt::format("unexpected char '{}'", source_.substr(position_, behind - position_)), position_, behind);
    }
    if (text == "{") brackets += '}';
    if (text == "(") brackets += ')';
    if (text == "[") brackets += ']';
    if (text == "}" || text == ")" || text == "]") {
      if (brackets.empty()) fail(fmt::format("unexpected '{}'", text), begin, end);
      if (brackets.back() != text[0]) {
        fail(fmt::format("unexpected '{}', expected '{}'", text, brackets.back()), begin, end);
      }
      brackets.pop_back();
    }
    add(TokenKind::op, begin, end, std::string(text));
    position_ = end;
  }

  std::string_view source_;
  std::size_t position_ = 0;
  bool line_starting_ = true;
  std::vector<Token> tokens_;
};

}  // namespace

std::string normalize_source(std::string_view source) {
  std::string result;
  result.reserve(source.size());
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      result += '\n';
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    } else {
      result += source[i];
    }
  }
  if (result.ends_with('\n')) result.pop_back();
  return result;
}

std::vector<Token> tokenize(std::string_view source) {
  return Lexer(source).run();
}

}  // namespace sparkx::jinja
