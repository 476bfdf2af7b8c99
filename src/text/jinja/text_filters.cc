// Filters that make a text.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "text/jinja/arguments.h"
#include "text/jinja/attributes.h"
#include "text/jinja/filters.h"
#include "text/jinja/format.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/json_dump.h"
#include "text/jinja/markup.h"
#include "text/jinja/numbers.h"
#include "text/jinja/operators.h"
#include "text/jinja/repr.h"
#include "text/jinja/strings.h"
#include "text/jinja/unicode.h"

namespace sparkx::jinja {
namespace {

Value like(Interpreter& interpreter, const Value& string, Text text) {
  return interpreter.text(std::move(text), string.as<StringObject>().markup);
}

template <Case kTo>
Value change(Interpreter& interpreter, const Value& value, Call& call) {
  Arguments("case filter", call, {});
  const Value string = soft_string(interpreter, value);
  return like(interpreter, string, change_case(interpreter.budget(), string.text(), kTo));
}

// Words begin behind blanks and - ( { [ <.
Value title(Interpreter& interpreter, const Value& value, Call& call) {
  Arguments("title", call, {});
  Budget& budget = interpreter.budget();
  const Value string = soft_string(interpreter, value);
  const Text& text = string.text();
  const auto separates = [](char32_t c) {
    return is_space(c) || c == '-' || c == '(' || c == '{' || c == '[' || c == '<';
  };
  Text result;
  for (std::size_t at = 0; at < text.size();) {
    std::size_t behind_first = at;
    const bool separator = separates(next_char(text.view(), behind_first));
    std::size_t end = behind_first;
    while (end < text.size()) {
      std::size_t next = end;
      if (separates(next_char(text.view(), next)) != separator) break;
      end = next;
    }
    budget.step();
    result.append(budget, change_case(budget, text.slice(budget, at, behind_first), Case::upper));
    result.append(budget, change_case(budget, text.slice(budget, behind_first, end), Case::lower));
    at = end;
  }
  return interpreter.text(std::move(result));
}

Value trim(Interpreter& interpreter, const Value& value, Call& call) {
  const Arguments arguments("trim", call, {"chars"});
  const Text* chars = arguments.given(0) ? &arguments.string(0).text() : nullptr;
  const Value string = soft_string(interpreter, value);
  return like(interpreter, string, strip(interpreter.budget(), string.text(), Side::both, chars));
}

Value replace_filter(Interpreter& interpreter, const Value& value, Call& call) {
  const Arguments arguments("replace", call, {"old", "new", "count"}, 2);
  const std::int64_t count = arguments.given(2) ? arguments.integer(2, -1) : -1;
  Budget& budget = interpreter.budget();
  if (!interpreter.autoescape()) {
    return interpreter.text(replace(budget, to_text(interpreter, value), to_text(interpreter, arguments[0]),
                                    to_text(interpreter, arguments[1]), count));
  }
  const auto is_markup = [](const Value& v) { return v.is(Kind::string) && v.as<StringObject>().markup; };
  const bool escaping = is_markup(arguments[0]) || (is_markup(arguments[1]) && !is_markup(value));
  const Value string = escaping ? escape(interpreter, value) : soft_string(interpreter, value);
  const Text replacement =
      (is_markup(string) ? escape(interpreter, arguments[1]) : soft_string(interpreter, arguments[1])).text();
  return like(interpreter, string,
              replace(budget, string.text(), to_text(interpreter, arguments[0]), replacement, count));
}

Value string_filter(Interpreter& interpreter, const Value& value, Call& call) {
  Arguments("string", call, {});
  return soft_string(interpreter, value);
}

Value safe(Interpreter& interpreter, const Value& value, Call& call) {
  Arguments("safe", call, {});
  return interpreter.text(to_text(interpreter, value), true);
}

Value escape_filter(Interpreter& interpreter, const Value& value, Call& call) {
  Arguments("escape", call, {});
  return escape(interpreter, value);
}

Value forceescape(Interpreter& interpreter, const Value& value, Call& call) {
  Arguments("forceescape", call, {});
  return interpreter.text(escape_text(interpreter.budget(), to_text(interpreter, value)), true);
}

Value striptags(Interpreter& interpreter, const Value& value, Call& call) {
  Arguments("striptags", call, {});
  return strip_tags(interpreter, value);
}

Value center_filter(Interpreter& interpreter, const Value& value, Call& call) {
  const Arguments arguments("center", call, {"width"});
  const Value string = soft_string(interpreter, value);
  return like(interpreter, string,
              center(interpreter.budget(), string.text(), arguments.integer(0, 80), Text(" ", Origin::source)));
}

Value format_filter(Interpreter& interpreter, const Value& value, Call& call) {
  if (!call.positional.empty() && !call.named.empty()) {
    fail(Fault::runtime_error, "can't handle positional and keyword arguments at the same time");
  }
  const Value string = soft_string(interpreter, value);
  if (call.named.empty()) {
    return percent_format(interpreter, string, interpreter.tuple(std::move(call.positional)));
  }
  const Value dict = make_dict(interpreter);
  for (auto& [name, argument] : call.named) {
    dict_set(interpreter, dict.as<DictObject>(), interpreter.text(name, Origin::source), std::move(argument));
  }
  return percent_format(interpreter, string, dict);
}

Value indent(Interpreter& interpreter, const Value& value, Call& call) {
  const Arguments arguments("indent", call, {"width", "first", "blank"});
  Budget& budget = interpreter.budget();
  Text indention;
  if (arguments.has(0) && arguments[0].is(Kind::string)) {
    indention = arguments[0].text();
  } else {
    const std::int64_t width = arguments.integer(0, 4);
    if (width > 0) indention.repeat(budget, " ", static_cast<std::size_t>(width), Origin::source);
  }
  const bool blank = arguments.flag(interpreter, 2, false);
  const Value with_newline = add(interpreter, value, interpreter.text("\n", Origin::source));
  const bool markup = with_newline.as<StringObject>().markup;
  const std::vector<Text> lines = split_lines(budget, with_newline.text(), false);
  Text result;
  if (arguments.flag(interpreter, 1, false)) result.append(budget, indention);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) {
      result.append(budget, "\n", Origin::source);
      if (blank || !lines[i].empty()) result.append(budget, indention);
    }
    result.append(budget, lines[i]);
  }
  return interpreter.text(std::move(result), markup);
}

Value truncate(Interpreter& interpreter, const Value& value, Call& call) {
  const Arguments arguments("truncate", call, {"length", "killwords", "end", "leeway"});
  const std::int64_t length = arguments.integer(0, 255);
  const std::int64_t leeway = arguments.given(3) ? arguments.integer(3, 5) : 5;
  const Value end = arguments.has(2) ? arguments.string(2) : interpreter.text("...", Origin::source);
  const auto end_chars = static_cast<std::int64_t>(end.as<StringObject>().chars());
  if (length < end_chars) fail(Fault::value_error, fmt::format("expected length >= {}, got {}", end_chars, length));
  if (leeway < 0) fail(Fault::value_error, fmt::format("expected leeway >= 0, got {}", leeway));
  const auto chars = length_of(interpreter, value);
  if (!chars) type_error(fmt::format("object of type '{}' has no len()", type_name(value)));
  if (*chars <= length || *chars - length <= leeway) return value;
  if (!value.is(Kind::string)) type_error(fmt::format("'{}' object cannot be truncated", type_name(value)));
  Budget& budget = interpreter.budget();
  Text result =
      value.text().slice(budget, 0, char_offset(interpreter, value, static_cast<std::size_t>(length - end_chars)));
  if (!arguments.flag(interpreter, 1, false)) {
    const Text blank(" ", Origin::source);
    result = split(budget, result, &blank, 1, true).front();
  }
  result.append(budget, end.text());
  return interpreter.text(std::move(result));
}

Value wordcount(Interpreter& interpreter, const Value& value, Call& call) {
  Arguments("wordcount", call, {});
  const Text text = to_text(interpreter, value);
  interpreter.budget().work(text.size() * 4);
  std::int64_t words = 0;
  bool inside = false;
  for (std::size_t position = 0; position < text.size();) {
    const bool word = is_word(next_char(text.view(), position));
    if (word && !inside) ++words;
    inside = word;
  }
  return Value::integer(words);
}

Text quote_url(Interpreter& interpreter, const Value& value, bool for_query) {
  static constexpr std::string_view kSafe = "_.-~";
  const Text text = to_text(interpreter, value);
  Text result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text.bytes()[i];
    const bool plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                       kSafe.find(c) != std::string_view::npos || (c == '/' && !for_query);
    interpreter.budget().step();
    if (plain) {
      result.append(interpreter.budget(), text, i, i + 1);
    } else if (c == ' ' && for_query) {
      result.append(interpreter.budget(), "+", text.origin_at(i));
    } else {
      result.append(interpreter.budget(), fmt::format("%{:02X}", static_cast<unsigned char>(c)), text.origin_at(i));
    }
  }
  return result;
}

Value urlencode(Interpreter& interpreter, const Value& value, Call& call) {
  Arguments("urlencode", call, {});
  if (value.is(Kind::string) || !is_iterable(value)) return interpreter.text(quote_url(interpreter, value, false));
  Budget& budget = interpreter.budget();
  Value pairs = value;
  if (value.is(Kind::dict)) pairs = interpreter.heap().make<ViewObject>(0, value, ViewObject::What::items);
  Text result;
  Iteration iteration(interpreter, pairs);
  bool first = true;
  for (Value item; iteration.next(interpreter, item); first = false) {
    if (!is_iterable(item)) type_error(fmt::format("cannot unpack non-iterable {} object", type_name(item)));
    const Values pair = to_values(interpreter, item);
    if (pair.size() != 2) fail(Fault::value_error, "expected pairs");
    if (!first) result.append(budget, "&", Origin::source);
    result.append(budget, quote_url(interpreter, pair[0], true));
    result.append(budget, "=", Origin::source);
    result.append(budget, quote_url(interpreter, pair[1], true));
  }
  return interpreter.text(std::move(result));
}

Value xmlattr(Interpreter& interpreter, const Value& value, Call& call) {
  const Arguments arguments("xmlattr", call, {"autospace"});
  if (!value.is(Kind::dict)) type_error(fmt::format("'{}' object has no attribute 'items'", type_name(value)));
  Budget& budget = interpreter.budget();
  Text result;
  for (const auto& [key, item] : value.as<DictObject>().entries) {
    if (item.is(Kind::none) || item.is(Kind::undefined)) continue;
    if (!key.is(Kind::string)) type_error("expected string or bytes-like object");
    if (key.text().bytes().find_first_of(" \t\n\r\f\v/>=") != std::string::npos) {
      fail(Fault::value_error, fmt::format("Invalid character in attribute name: {}", short_repr(key)));
    }
    if (!result.empty()) result.append(budget, " ", Origin::source);
    result.append(budget, escape(interpreter, key).text());
    result.append(budget, "=\"", Origin::source);
    result.append(budget, escape(interpreter, item).text());
    result.append(budget, "\"", Origin::source);
  }
  if (arguments.flag(interpreter, 0, true) && !result.empty()) {
    Text spaced(" ", Origin::source);
    spaced.append(budget, result);
    result = std::move(spaced);
  }
  return interpreter.text(std::move(result), interpreter.autoescape());
}

Value filesizeformat(Interpreter& interpreter, const Value& value, Call& call) {
  const Arguments arguments("filesizeformat", call, {"binary"});
  const bool binary = arguments.flag(interpreter, 0, false);
  std::optional<double> bytes;
  if (value.is_number()) bytes = as_double(value);
  if (value.is(Kind::string)) bytes = parse_float(value.text().view());
  if (value.is(Kind::undefined)) fail(value.as<UndefinedObject>().fault, value.as<UndefinedObject>().message());
  if (!bytes) fail(Fault::value_error, fmt::format("could not convert {} to float", short_repr(value)));
  const double base = binary ? 1024 : 1000;
  const auto text = [&](const std::string& result) { return interpreter.text(result, Origin::source); };
  if (*bytes == 1) return text("1 Byte");
  if (*bytes < base) return text(integer_digits(integer_from_double(interpreter, *bytes), 10) + " Bytes");
  double unit = base;
  const std::string_view prefixes = "kMGTPEZY";
  std::size_t i = 0;
  for (; i < prefixes.size(); ++i) {
    unit *= base;
    if (*bytes < unit || i + 1 == prefixes.size()) break;
  }
  const char prefix = binary && prefixes[i] == 'k' ? 'K' : prefixes[i];
  return text(fmt::format("{:.1f} {}{}", base * *bytes / unit, prefix, binary ? "iB" : "B"));
}

Value tojson(Interpreter& interpreter, const Value& value, Call& call) {
  const Arguments arguments("tojson", call, {"ensure_ascii", "indent", "separators", "sort_keys"});
  DumpOptions options;
  options.ensure_ascii = arguments.flag(interpreter, 0, false);
  options.sort_keys = arguments.flag(interpreter, 3, false);
  options.multiline = arguments.given(1);
  if (options.multiline) {
    if (arguments[1].is(Kind::string)) {
      options.indent = arguments[1].text();
    } else {
      const std::int64_t width = as_index(arguments[1]);
      if (width > 0) options.indent.repeat(interpreter.budget(), " ", static_cast<std::size_t>(width), Origin::data);
    }
  }
  options.item_separator = Text(options.multiline ? "," : ", ", Origin::data);
  options.key_separator = Text(": ", Origin::data);
  if (arguments.given(2)) {
    if (!is_iterable(arguments[2]))
      type_error(fmt::format("cannot unpack non-iterable {} object", type_name(arguments[2])));
    const Values separators = to_values(interpreter, arguments[2]);
    if (separators.size() != 2) fail(Fault::value_error, "separators must be two strings");
    for (const Value& separator : separators) {
      if (!separator.is(Kind::string)) type_error("separators must be strings");
    }
    options.item_separator = separators[0].text();
    options.key_separator = separators[1].text();
  }
  return interpreter.text(dump_json(interpreter, value, options));
}

constexpr NamedNative kFilters[] = {
    {"capitalize", change<Case::capitalized>},
    {"center", center_filter},
    {"e", escape_filter},
    {"escape", escape_filter},
    {"filesizeformat", filesizeformat},
    {"forceescape", forceescape},
    {"format", format_filter},
    {"indent", indent},
    {"lower", change<Case::lower>},
    {"replace", replace_filter},
    {"safe", safe},
    {"string", string_filter},
    {"striptags", striptags},
    {"title", title},
    {"tojson", tojson},
    {"trim", trim},
    {"truncate", truncate},
    {"upper", change<Case::upper>},
    {"urlencode", urlencode},
    {"wordcount", wordcount},
    {"wordwrap", filter_wordwrap},
    {"xmlattr", xmlattr},
};

}  // namespace

std::span<const NamedNative> text_filters() {
  return kFilters;
}

}  // namespace sparkx::jinja
