// The methods of str.
#include <fmt/core.h>

#include <algorithm>

#include "text/jinja/arguments.h"
#include "text/jinja/attributes.h"
#include "text/jinja/builtins.h"
#include "text/jinja/format.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/markup.h"
#include "text/jinja/methods.h"
#include "text/jinja/operators.h"
#include "text/jinja/strings.h"
#include "text/jinja/unicode.h"

namespace sparkx::jinja {
namespace {

bool is_markup(const Value& string) {
  return string.as<StringObject>().markup;
}

// A result of the same kind as `self`: markup stays markup.
Value like(Interpreter& interpreter, const Value& self, Text text) {
  return interpreter.text(std::move(text), is_markup(self));
}

Value list_like(Interpreter& interpreter, const Value& self, std::vector<Text> parts) {
  Values items;
  items.reserve(parts.size());
  for (Text& part : parts) items.push_back(like(interpreter, self, std::move(part)));
  return interpreter.list(std::move(items));
}

// Inside markup, what is put in is escaped.
Text inserted(Interpreter& interpreter, const Value& self, const Value& text) {
  return is_markup(self) ? escape(interpreter, text).text() : text.text();
}

template <Case kTo>
Value change(Interpreter& interpreter, const Value& self, Call& call) {
  Arguments("case", call, {});
  return like(interpreter, self, change_case(interpreter.budget(), self.text(), kTo));
}

template <Side kSide>
Value strip_method(Interpreter& interpreter, const Value& self, Call& call) {
  const Arguments arguments("strip", call, {"chars"}, 0, true);
  const Text* chars = arguments.given(0) ? &arguments.string(0).text() : nullptr;
  return like(interpreter, self, strip(interpreter.budget(), self.text(), kSide, chars));
}

template <bool kFromRight>
Value split_method(Interpreter& interpreter, const Value& self, Call& call) {
  const Arguments arguments("split", call, {"sep", "maxsplit"});
  const Text* separator = arguments.given(0) ? &arguments.string(0).text() : nullptr;
  return list_like(interpreter, self,
                   split(interpreter.budget(), self.text(), separator, arguments.integer(1, -1), kFromRight));
}

Value splitlines(Interpreter& interpreter, const Value& self, Call& call) {
  const Arguments arguments("splitlines", call, {"keepends"});
  return list_like(interpreter, self, split_lines(interpreter.budget(), self.text(), arguments.integer(0, 0) != 0));
}

template <bool kFromRight>
Value partition(Interpreter& interpreter, const Value& self, Call& call) {
  const Arguments arguments("partition", call, {"sep"}, 1, true);
  const Text& text = self.text();
  const Text& separator = arguments.string(0).text();
  if (separator.empty()) fail(Fault::value_error, "empty separator");
  Budget& budget = interpreter.budget();
  budget.work(text.size());
  const std::size_t found = kFromRight ? text.bytes().rfind(separator.bytes()) : text.bytes().find(separator.bytes());
  Text parts[3];
  if (found == std::string::npos) {
    parts[kFromRight ? 2 : 0] = text;
  } else {
    parts[0] = text.slice(budget, 0, found);
    parts[1] = text.slice(budget, found, found + separator.size());
    parts[2] = text.slice(budget, found + separator.size(), text.size());
  }
  Values items;
  for (Text& part : parts) items.push_back(like(interpreter, self, std::move(part)));
  return interpreter.tuple(std::move(items));
}

// The bytes between the characters `start` and `stop` of the arguments; nothing when start lies behind the end.
struct Window {
  bool valid;
  std::size_t begin;
  std::size_t end;
  std::size_t first_char;
};

Window window(Interpreter& interpreter, const Value& self, const Arguments& arguments, std::size_t first) {
  const auto length = static_cast<std::int64_t>(self.as<StringObject>().chars());
  const auto bound = [&](std::size_t index, std::int64_t otherwise) {
    if (!arguments.given(index)) return otherwise;
    const std::int64_t at = as_index(arguments[index]);
    return at < 0 ? std::max<std::int64_t>(at + length, 0) : at;
  };
  const std::int64_t start = bound(first, 0);
  const std::int64_t stop = std::min(bound(first + 1, length), length);
  if (start > length || start > stop) return {false, 0, 0, 0};
  return {true, char_offset(interpreter, self, static_cast<std::size_t>(start)),
          char_offset(interpreter, self, static_cast<std::size_t>(stop)), static_cast<std::size_t>(start)};
}

// The index of the character where `needle` is found, or -1.
template <bool kFromRight>
std::int64_t find_in(Interpreter& interpreter, const Value& self, Call& call) {
  const Arguments arguments("find", call, {"sub", "start", "end"}, 1, true);
  const std::string_view needle = arguments.string(0).text().view();
  const Window inside = window(interpreter, self, arguments, 1);
  if (!inside.valid) return -1;
  const std::string_view text = self.text().view().substr(inside.begin, inside.end - inside.begin);
  interpreter.budget().work(text.size() * 2);
  const std::size_t found = kFromRight ? text.rfind(needle) : text.find(needle);
  if (found == std::string_view::npos) return -1;
  return static_cast<std::int64_t>(inside.first_char + count_chars(text.substr(0, found)));
}

template <bool kFromRight>
Value find(Interpreter& interpreter, const Value& self, Call& call) {
  return Value::integer(find_in<kFromRight>(interpreter, self, call));
}

template <bool kFromRight>
Value index(Interpreter& interpreter, const Value& self, Call& call) {
  const std::int64_t found = find_in<kFromRight>(interpreter, self, call);
  if (found < 0) fail(Fault::value_error, "substring not found");
  return Value::integer(found);
}

Value count(Interpreter& interpreter, const Value& self, Call& call) {
  const Arguments arguments("count", call, {"sub", "start", "end"}, 1, true);
  const std::string_view needle = arguments.string(0).text().view();
  const Window inside = window(interpreter, self, arguments, 1);
  if (!inside.valid) return Value::integer(0);
  const std::string_view text = self.text().view().substr(inside.begin, inside.end - inside.begin);
  interpreter.budget().work(text.size() * 2);
  if (needle.empty()) return Value::integer(static_cast<std::int64_t>(count_chars(text)) + 1);
  std::int64_t result = 0;
  for (std::size_t at = text.find(needle); at != std::string_view::npos; at = text.find(needle, at + needle.size())) {
    ++result;
  }
  return Value::integer(result);
}

template <bool kEnd>
Value begins(Interpreter& interpreter, const Value& self, Call& call) {
  const Arguments arguments(kEnd ? "endswith" : "startswith", call, {"prefix", "start", "end"}, 1, true);
  const Window inside = window(interpreter, self, arguments, 1);
  const std::string_view text =
      inside.valid ? self.text().view().substr(inside.begin, inside.end - inside.begin) : std::string_view();
  const auto matches = [&](const Value& affix) {
    if (!affix.is(Kind::string)) {
      type_error(fmt::format("{} first arg must be str or a tuple of str, not {}", kEnd ? "endswith" : "startswith",
                             type_name(affix)));
    }
    const std::string_view wanted = affix.text().view();
    return inside.valid && (kEnd ? text.ends_with(wanted) : text.starts_with(wanted));
  };
  if (!arguments[0].is(Kind::tuple)) return Value::boolean(matches(arguments[0]));
  const Values& affixes = arguments[0].as<SequenceObject>().items;
  return Value::boolean(std::any_of(affixes.begin(), affixes.end(), matches));
}

template <bool kEnd>
Value remove_affix(Interpreter& interpreter, const Value& self, Call& call) {
  const Arguments arguments(kEnd ? "removesuffix" : "removeprefix", call, {"affix"}, 1, true);
  const Text& text = self.text();
  const std::string_view affix = arguments.string(0).text().view();
  if (!(kEnd ? text.view().ends_with(affix) : text.view().starts_with(affix))) return self;
  return like(interpreter, self,
              kEnd ? text.slice(interpreter.budget(), 0, text.size() - affix.size())
                   : text.slice(interpreter.budget(), affix.size(), text.size()));
}

Value replace_method(Interpreter& interpreter, const Value& self, Call& call) {
  const Arguments arguments("replace", call, {"old", "new", "count"}, 2, true);
  arguments.string(1);
  return like(interpreter, self,
              replace(interpreter.budget(), self.text(), arguments.string(0).text(),
                      inserted(interpreter, self, arguments[1]), arguments.integer(2, -1)));
}

Value join_method(Interpreter& interpreter, const Value& self, Call& call) {
  const Arguments arguments("join", call, {"iterable"}, 1, true);
  if (!is_iterable(arguments[0])) type_error("can only join an iterable");
  Text result;
  Iteration iteration(interpreter, arguments[0]);
  std::size_t number = 0;
  for (Value item; iteration.next(interpreter, item); ++number) {
    if (number > 0) result.append(interpreter.budget(), self.text());
    if (is_markup(self)) {
      result.append(interpreter.budget(), escape(interpreter, item).text());
      continue;
    }
    if (!item.is(Kind::string)) {
      type_error(fmt::format("sequence item {}: expected str instance, {} found", number, type_name(item)));
    }
    result.append(interpreter.budget(), item.text());
  }
  return like(interpreter, self, std::move(result));
}

enum class Align { left, right, center };

template <Align kAlign>
Value justify_method(Interpreter& interpreter, const Value& self, Call& call) {
  const Arguments arguments("center", call, {"width", "fillchar"}, 1, true);
  const std::int64_t width = as_index(arguments[0]);
  Text fill(" ", Origin::source);
  if (arguments.has(1)) {
    fill = inserted(interpreter, self, arguments.string(1));
    if (count_chars(fill.view()) != 1) type_error("The fill character must be exactly one character long");
  }
  Budget& budget = interpreter.budget();
  if (kAlign == Align::center) return like(interpreter, self, center(budget, self.text(), width, fill));
  return like(interpreter, self,
              justify(budget, self.text(), width, kAlign == Align::left ? Side::left : Side::right, fill));
}

Value zfill(Interpreter& interpreter, const Value& self, Call& call) {
  const Arguments arguments("zfill", call, {"width"}, 1, true);
  const std::int64_t width = as_index(arguments[0]);
  const Text& text = self.text();
  Budget& budget = interpreter.budget();
  const std::size_t sign = text.view().starts_with('-') || text.view().starts_with('+') ? 1 : 0;
  Text digits = text.slice(budget, sign, text.size());
  Text result = text.slice(budget, 0, sign);
  result.append(
      budget, justify(budget, digits, width - static_cast<std::int64_t>(sign), Side::right, Text("0", Origin::source)));
  return like(interpreter, self, std::move(result));
}

Value expandtabs(Interpreter& interpreter, const Value& self, Call& call) {
  const Arguments arguments("expandtabs", call, {"tabsize"});
  const std::int64_t size = arguments.integer(0, 8);
  const Text& text = self.text();
  Budget& budget = interpreter.budget();
  Text result;
  std::int64_t column = 0;
  std::size_t begin = 0;
  for (std::size_t position = 0; position < text.size();) {
    const std::size_t at = position;
    const char32_t c = next_char(text.view(), position);
    if (c == '\t') {
      budget.step();
      result.append(budget, text, begin, at);
      begin = position;
      if (size > 0) {
        const std::int64_t blanks = size - column % size;
        result.repeat(budget, " ", static_cast<std::size_t>(blanks), text.origin_at(at));
        column += blanks;
      }
    } else {
      column = c == '\n' || c == '\r' ? 0 : column + 1;
    }
  }
  result.append(budget, text, begin, text.size());
  return like(interpreter, self, std::move(result));
}

// True when the string is not empty and every character passes.
template <bool (*kTest)(char32_t), bool kEmpty = false>
Value all(Interpreter& interpreter, const Value& self, Call& call) {
  Arguments("isx", call, {});
  const std::string_view text = self.text().view();
  interpreter.budget().work(text.size());
  if (text.empty()) return Value::boolean(kEmpty);
  for (std::size_t position = 0; position < text.size();) {
    if (!kTest(next_char(text, position))) return Value::boolean(false);
  }
  return Value::boolean(true);
}

bool is_ascii_char(char32_t c) {
  return c < 0x80;
}

Value isidentifier(Interpreter&, const Value& self, Call& call) {
  Arguments("isidentifier", call, {});
  return Value::boolean(is_identifier(self.text().view()));
}

Value islower(Interpreter&, const Value& self, Call& call) {
  Arguments("islower", call, {});
  return Value::boolean(is_lower_text(self.text().view()));
}

Value isupper(Interpreter&, const Value& self, Call& call) {
  Arguments("isupper", call, {});
  return Value::boolean(is_upper_text(self.text().view()));
}

Value istitle(Interpreter&, const Value& self, Call& call) {
  Arguments("istitle", call, {});
  bool cased = false, inside_word = false;
  const std::string_view text = self.text().view();
  for (std::size_t position = 0; position < text.size();) {
    const char32_t c = next_char(text, position);
    const bool upper = is_upper(c) || is_title(c);
    const bool lower = is_lower(c);
    if ((upper && inside_word) || (lower && !inside_word)) return Value::boolean(false);
    inside_word = upper || lower;
    cased = cased || inside_word;
  }
  return Value::boolean(cased);
}

Value translate(Interpreter& interpreter, const Value& self, Call& call) {
  const Arguments arguments("translate", call, {"table"}, 1, true);
  if (!arguments[0].is(Kind::dict))
    type_error(fmt::format("'{}' object is not subscriptable", type_name(arguments[0])));
  const DictObject& table = arguments[0].as<DictObject>();
  const Text& text = self.text();
  Budget& budget = interpreter.budget();
  Text result;
  for (std::size_t position = 0; position < text.size();) {
    const std::size_t begin = position;
    const char32_t c = next_char(text.view(), position);
    const Value* to = dict_find(interpreter, table, Value::integer(c));
    if (to == nullptr) {
      result.append(budget, text, begin, position);
    } else if (to->is(Kind::string)) {
      result.append(budget, to->text());
    } else if (to->is_integral()) {
      const std::int64_t code = as_index(*to);
      if (code < 0 || code > 0x10ffff) fail(Fault::value_error, "character mapping must be in range(0x110000)");
      result.append_char(budget, static_cast<char32_t>(code), text.origin_at(begin));
    } else if (!to->is(Kind::none)) {
      type_error("character mapping must return integer, None or str");
    }
  }
  return like(interpreter, self, std::move(result));
}

Value format_method(Interpreter& interpreter, const Value& self, Call& call) {
  return like(interpreter, self, str_format(interpreter, self, call.positional, call.named));
}

Value format_map(Interpreter& interpreter, const Value& self, Call& call) {
  const Arguments arguments("format_map", call, {"mapping"}, 1, true);
  if (!arguments[0].is(Kind::dict))
    type_error(fmt::format("'{}' object is not subscriptable", type_name(arguments[0])));
  std::vector<std::pair<std::string, Value>> named;
  for (const auto& [key, value] : arguments[0].as<DictObject>().entries) {
    if (key.is(Kind::string)) named.emplace_back(key.text().bytes(), value);
  }
  return like(interpreter, self, str_format(interpreter, self, {}, named));
}

Value encode(Interpreter&, const Value&, Call&) {
  fail(Fault::unsupported, "str.encode: templates have no bytes here");
}

constexpr NamedNative kMethods[] = {
    {"capitalize", change<Case::capitalized>},
    {"casefold", change<Case::folded>},
    {"center", justify_method<Align::center>},
    {"count", count},
    {"encode", encode},
    {"endswith", begins<true>},
    {"expandtabs", expandtabs},
    {"find", find<false>},
    {"format", format_method},
    {"format_map", format_map},
    {"index", index<false>},
    {"isalnum", all<is_alnum>},
    {"isalpha", all<is_alpha>},
    {"isascii", all<is_ascii_char, true>},
    {"isdecimal", all<is_decimal>},
    {"isdigit", all<is_digit>},
    {"isidentifier", isidentifier},
    {"islower", islower},
    {"isnumeric", all<is_numeric>},
    {"isprintable", all<is_printable, true>},
    {"isspace", all<is_space>},
    {"istitle", istitle},
    {"isupper", isupper},
    {"join", join_method},
    {"ljust", justify_method<Align::left>},
    {"lower", change<Case::lower>},
    {"lstrip", strip_method<Side::left>},
    {"partition", partition<false>},
    {"removeprefix", remove_affix<false>},
    {"removesuffix", remove_affix<true>},
    {"replace", replace_method},
    {"rfind", find<true>},
    {"rindex", index<true>},
    {"rjust", justify_method<Align::right>},
    {"rpartition", partition<true>},
    {"rsplit", split_method<true>},
    {"rstrip", strip_method<Side::right>},
    {"split", split_method<false>},
    {"splitlines", splitlines},
    {"startswith", begins<false>},
    {"strip", strip_method<Side::both>},
    {"swapcase", change<Case::swapped>},
    {"title", change<Case::title>},
    {"translate", translate},
    {"upper", change<Case::upper>},
    {"zfill", zfill},
};

}  // namespace

bool is_lower_text(std::string_view text) {
  bool cased = false;
  for (std::size_t position = 0; position < text.size();) {
    const char32_t c = next_char(text, position);
    if (is_upper(c) || is_title(c)) return false;
    cased = cased || is_lower(c);
  }
  return cased;
}

bool is_upper_text(std::string_view text) {
  bool cased = false;
  for (std::size_t position = 0; position < text.size();) {
    const char32_t c = next_char(text, position);
    if (is_lower(c) || is_title(c)) return false;
    cased = cased || is_upper(c);
  }
  return cased;
}

std::span<const NamedNative> string_methods() {
  return kMethods;
}

}  // namespace sparkx::jinja
