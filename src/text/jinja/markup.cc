#include "text/jinja/markup.h"

#include "text/jinja/interpreter.h"
#include "text/jinja/numbers.h"
#include "text/jinja/repr.h"
#include "text/jinja/strings.h"
#include "text/jinja/unicode.h"

namespace sparkx::jinja {
namespace {

constexpr std::string_view kEscaped = "&<>'\"";

// "&lt;" and the like, and numbers; what is unknown stays.
Text unescape(Budget& budget, const Text& text) {
  static constexpr std::pair<std::string_view, char32_t> kNames[] = {
      {"amp", '&'},   {"lt", '<'},     {"gt", '>'},     {"quot", '"'},     {"apos", '\''},    {"nbsp", 0xa0},
      {"copy", 0xa9}, {"raquo", 0xbb}, {"laquo", 0xab}, {"ndash", 0x2013}, {"mdash", 0x2014}, {"hellip", 0x2026}};
  const std::string& bytes = text.bytes();
  Text result;
  for (std::size_t at = 0; at < bytes.size();) {
    const std::size_t amp = std::min(bytes.find('&', at), bytes.size());
    result.append(budget, text, at, amp);
    if (amp == bytes.size()) break;
    budget.step();
    const std::size_t end = bytes.find(';', amp);
    char32_t c = 0;
    if (end != std::string::npos && end - amp < 12) {
      const std::string_view name = std::string_view(bytes).substr(amp + 1, end - amp - 1);
      for (const auto& [known, meaning] : kNames) {
        if (name == known) c = meaning;
      }
      if (name.size() > 1 && name[0] == '#') {
        const bool hex = name[1] == 'x' || name[1] == 'X';
        std::uint32_t code = 0;
        for (char digit : name.substr(hex ? 2 : 1)) {
          const int value = digit >= '0' && digit <= '9'                            ? digit - '0'
                            : hex && (digit | 0x20) >= 'a' && (digit | 0x20) <= 'f' ? (digit | 0x20) - 'a' + 10
                                                                                    : -1;
          if (value < 0) code = 0x110000;
          if (code < 0x110000) code = code * (hex ? 16 : 10) + static_cast<std::uint32_t>(value);
        }
        if (code > 0 && code < 0x110000) c = code;
      }
    }
    if (c == 0) {
      result.append(budget, text, amp, amp + 1);
      at = amp + 1;
    } else {
      result.append_char(budget, c, text.origin_at(amp));
      at = end + 1;
    }
  }
  return result;
}

}  // namespace

Text escape_text(Budget& budget, const Text& text) {
  static constexpr std::string_view kReplacements[] = {"&amp;", "&lt;", "&gt;", "&#39;", "&#34;"};
  const std::string& bytes = text.bytes();
  Text result;
  for (std::size_t at = 0; at < bytes.size();) {
    const std::size_t found = std::min(bytes.find_first_of(kEscaped, at), bytes.size());
    result.append(budget, text, at, found);
    if (found == bytes.size()) break;
    budget.step();
    result.append(budget, kReplacements[kEscaped.find(bytes[found])], text.origin_at(found));
    at = found + 1;
  }
  return result;
}

Value escape(Interpreter& interpreter, const Value& value) {
  if (value.is(Kind::string) && value.as<StringObject>().markup) return value;
  return interpreter.text(escape_text(interpreter.budget(), to_text(interpreter, value)), true);
}

Value add_strings(Interpreter& interpreter, const Value& a, const Value& b) {
  const bool markup = a.as<StringObject>().markup || b.as<StringObject>().markup;
  Text result = markup ? escape(interpreter, a).text() : a.text();
  result.append(interpreter.budget(), markup ? escape(interpreter, b).text() : b.text());
  return interpreter.text(std::move(result), markup);
}

Value strip_tags(Interpreter& interpreter, const Value& value) {
  Budget& budget = interpreter.budget();
  const Text text = to_text(interpreter, value);
  const std::string& bytes = text.bytes();
  Text kept;
  std::size_t position = 0;
  for (std::size_t start = bytes.find('<'); start != std::string::npos; start = bytes.find('<', position)) {
    budget.step();
    const bool comment = bytes.compare(start, 4, "<!--") == 0;
    std::size_t end = comment ? bytes.find("-->", start + 4) : bytes.find('>', start);
    if (end == std::string::npos) break;
    kept.append(budget, text, position, start);
    position = end + (comment ? 3 : 1);
  }
  kept.append(budget, text, position, text.size());
  Text words;
  for (const Text& word : split(budget, kept, nullptr, -1, false)) {
    if (!words.empty()) words.append(budget, " ", Origin::source);
    words.append(budget, word);
  }
  return interpreter.text(unescape(budget, words));
}

}  // namespace sparkx::jinja
