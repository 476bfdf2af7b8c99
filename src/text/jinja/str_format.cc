#include <fmt/core.h>

#include <cmath>

#include "text/jinja/arguments.h"
#include "text/jinja/attributes.h"
#include "text/jinja/format.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/markup.h"
#include "text/jinja/numbers.h"
#include "text/jinja/operators.h"
#include "text/jinja/repr.h"
#include "text/jinja/strings.h"
#include "text/jinja/unicode.h"

namespace sparkx::jinja {
namespace {

// [[fill]align][sign][z][#][0][width][grouping][.precision][type]
struct Spec {
  std::string fill = " ";
  char align = 0;
  char sign = 0;
  bool alternate = false;
  std::int64_t width = 0;
  char grouping = 0;
  std::int64_t precision = -1;
  char type = 0;
};

std::int64_t read_number(std::string_view text, std::size_t& at) {
  std::int64_t number = 0;
  while (at < text.size() && text[at] >= '0' && text[at] <= '9') {
    number = number * 10 + (text[at++] - '0');
    if (number > INT32_MAX) fail(Fault::value_error, "Too many decimal digits in format string");
  }
  return number;
}

Spec read_spec(std::string_view text) {
  Spec spec;
  const auto is_align = [](char c) { return c == '<' || c == '>' || c == '=' || c == '^'; };
  std::size_t at = 0, behind_first = 0;
  if (!text.empty()) next_char(text, behind_first);
  if (behind_first > 0 && behind_first < text.size() && is_align(text[behind_first])) {
    spec.fill = text.substr(0, behind_first);
    spec.align = text[behind_first];
    at = behind_first + 1;
  } else if (!text.empty() && is_align(text[0])) {
    spec.align = text[0];
    at = 1;
  }
  const auto take = [&](std::string_view chars) -> char {
    return at < text.size() && chars.find(text[at]) != std::string_view::npos ? text[at++] : '\0';
  };
  if (const char sign = take("+- ")) spec.sign = sign;
  take("z");
  spec.alternate = take("#") != 0;
  if (take("0") != 0 && spec.align == 0) {
    spec.fill = "0";
    spec.align = '=';
  }
  spec.width = read_number(text, at);
  spec.grouping = take(",_");
  if (take(".") != 0) {
    const std::size_t before = at;
    spec.precision = read_number(text, at);
    if (at == before) fail(Fault::value_error, "Format specifier missing precision");
  }
  if (at + 1 < text.size()) fail(Fault::value_error, fmt::format("Invalid format specifier '{}'", text));
  if (at < text.size()) spec.type = text[at];
  return spec;
}

std::string group(const std::string& digits, char separator, std::size_t every) {
  std::string result;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % every == 0) result += separator;
    result += digits[i];
  }
  return result;
}

class StrFormatter {
 public:
  StrFormatter(Interpreter& interpreter, bool markup, const Values& positional,
               const std::vector<std::pair<std::string, Value>>& named)
      : interpreter_(interpreter),
        budget_(interpreter.budget()),
        markup_(markup),
        positional_(positional),
        named_(named) {}

  Text run(const Text& format, int depth) {
    if (depth > 2) fail(Fault::value_error, "Max string recursion exceeded");
    const std::string& bytes = format.bytes();
    Text out;
    for (std::size_t at = 0; at < bytes.size();) {
      const std::size_t brace = std::min(bytes.find_first_of("{}", at), bytes.size());
      out.append(budget_, format, at, brace);
      at = brace;
      if (at >= bytes.size()) break;
      budget_.step();
      if (at + 1 < bytes.size() && bytes[at + 1] == bytes[at]) {
        out.append(budget_, format, at, at + 1);
        at += 2;
        continue;
      }
      if (bytes[at] == '}') fail(Fault::value_error, "Single '}' encountered in format string");
      const std::size_t open = at++;
      int level = 1;
      while (at < bytes.size() && level > 0) {
        if (bytes[at] == '[' && level == 1 && bytes.find_first_of(":!", open) >= at) {
          // Inside an index braces are text.
          const std::size_t close = bytes.find(']', at);
          if (close == std::string::npos) fail(Fault::value_error, "expected '}' before end of string");
          at = close;
        }
        if (bytes[at] == '{') ++level;
        if (bytes[at] == '}') --level;
        ++at;
      }
      if (level > 0) {
        fail(Fault::value_error, open + 1 == bytes.size() ? "Single '{' encountered in format string"
                                                          : "expected '}' before end of string");
      }
      field(format, open + 1, at - 1, depth, out);
    }
    return out;
  }

 private:
  void field(const Text& format, std::size_t begin, std::size_t end, int depth, Text& out) {
    const std::string_view text = format.view().substr(begin, end - begin);
    std::size_t name_end = 0;
    for (bool index = false; name_end < text.size(); ++name_end) {
      if (text[name_end] == '[') index = true;
      if (text[name_end] == ']') index = false;
      if (!index && (text[name_end] == ':' || text[name_end] == '!')) break;
      if (!index && text[name_end] == '{') fail(Fault::value_error, "unexpected '{' in field name");
    }
    std::size_t at = name_end;
    char conversion = 0;
    if (at < text.size() && text[at] == '!') {
      if (at + 1 >= text.size()) fail(Fault::value_error, "end of string while looking for conversion specifier");
      conversion = text[at + 1];
      at += 2;
      if (at < text.size() && text[at] != ':') fail(Fault::value_error, "expected ':' after conversion specifier");
    }
    Text spec;
    if (at < text.size()) spec = run(format.slice(budget_, begin + at + 1, end), depth + 1);
    Value value = find(text.substr(0, name_end));
    if (conversion == 's') {
      value = soft_string(interpreter_, value);
    } else if (conversion == 'r' || conversion == 'a') {
      Text repr;
      append_repr(interpreter_, value, repr);
      if (conversion == 'a') repr = escape_non_ascii(budget_, repr);
      value = interpreter_.text(std::move(repr));
    } else if (conversion != 0) {
      fail(Fault::value_error, fmt::format("Unknown conversion specifier {}", conversion));
    }
    const Origin origin = format.origin_at(begin - 1);
    Text result = format_value(value, spec, origin);
    const bool plain = value.is(Kind::string) && value.as<StringObject>().markup;
    out.append(budget_, markup_ && !plain ? escape_text(budget_, result) : result);
  }

  Value find(std::string_view name) {
    std::size_t at = name.find_first_of(".[");
    const std::string_view first = name.substr(0, at);
    Value value = find_first(first);
    at = std::min(at, name.size());
    while (at < name.size()) {
      if (name[at] == '.') {
        const std::size_t end = std::min(name.find_first_of(".[", at + 1), name.size());
        if (end == at + 1) fail(Fault::value_error, "Empty attribute in format string");
        value = get_attribute(interpreter_, value, key(name.substr(at + 1, end - at - 1)));
        at = end;
      } else if (name[at] == '[') {
        const std::size_t end = name.find(']', at);
        if (end == std::string_view::npos) fail(Fault::value_error, "Missing ']' in format string");
        const std::string_view index = name.substr(at + 1, end - at - 1);
        if (index.empty()) fail(Fault::value_error, "Empty attribute in format string");
        const bool number = index.find_first_not_of("0123456789") == std::string_view::npos && index.size() < 18;
        value = get_item(interpreter_, value, number ? Value::integer(std::stoll(std::string(index))) : key(index));
        at = end + 1;
      } else {
        fail(Fault::value_error, "Only '.' or '[' may follow ']' in format field specifier");
      }
    }
    return value;
  }

  Value key(std::string_view text) { return interpreter_.text(text, Origin::source); }

  Value find_first(std::string_view name) {
    const bool number = !name.empty() && name.find_first_not_of("0123456789") == std::string_view::npos;
    if (!name.empty() && !number) {
      for (const auto& [known, value] : named_) {
        if (known == name) return value;
      }
      fail(Fault::key_error, fmt::format("'{}'", name));
    }
    if (number ? automatic_ > 0 : automatic_ < 0) {
      fail(Fault::value_error, "cannot switch between manual field specification and automatic field numbering");
    }
    std::size_t index = 0;
    if (number) {
      automatic_ = -1;
      index = name.size() < 10 ? static_cast<std::size_t>(std::stoul(std::string(name))) : SIZE_MAX;
    } else {
      index = static_cast<std::size_t>(automatic_++);
    }
    if (index >= positional_.size()) {
      fail(Fault::key_error, fmt::format("Replacement index {} out of range for positional args tuple", index));
    }
    return positional_[index];
  }

  Text format_value(const Value& value, const Text& spec_text, Origin origin) {
    if (spec_text.empty()) return to_text(interpreter_, value);
    if (value.is(Kind::string)) return format_string(value, read_spec(spec_text.view()), origin);
    if (value.is(Kind::floating)) return format_float(value.as_float(), read_spec(spec_text.view()), origin);
    if (value.is_integral()) return format_integer(value, read_spec(spec_text.view()), origin);
    type_error(fmt::format("unsupported format string passed to {}.__format__", type_name(value)));
  }

  [[noreturn]] static void unknown_type(const Spec& spec, const Value& value) {
    fail(Fault::value_error,
         fmt::format("Unknown format code '{}' for object of type '{}'", spec.type, type_name(value)));
  }

  Text pad(const Text& text, const Spec& spec, char align, Origin origin) {
    const Text fill(spec.fill, origin);
    if (align == '^') {
      const auto length = static_cast<std::int64_t>(count_chars(text.view()));
      if (spec.width <= length) return text;
      const Text left = justify(budget_, text, length + (spec.width - length) / 2, Side::right, fill);
      return justify(budget_, left, spec.width, Side::left, fill);
    }
    return justify(budget_, text, spec.width, align == '<' ? Side::left : Side::right, fill);
  }

  Text format_string(const Value& value, const Spec& spec, Origin origin) {
    if (spec.type != 0 && spec.type != 's') unknown_type(spec, value);
    if (spec.align == '=' && spec.fill != "0") {
      fail(Fault::value_error, "'=' alignment not allowed in string format specifier");
    }
    if (spec.sign != 0 || spec.alternate || spec.grouping != 0) {
      fail(Fault::value_error, "Sign not allowed in string format specifier");
    }
    Text text = value.text();
    if (spec.precision >= 0) {
      std::size_t end = 0;
      for (std::int64_t i = 0; i < spec.precision && end < text.size(); ++i) next_char(value.text().view(), end);
      text = value.text().slice(budget_, 0, end);
    }
    return pad(text, spec, spec.align == 0 || spec.align == '=' ? '<' : spec.align, origin);
  }

  // `fraction` is what stands behind the whole digits: ".5e+10", "%".
  Text number(bool negative, const std::string& prefix, std::string digits, const std::string& fraction,
              const Spec& spec, std::size_t group_size, Origin origin) {
    std::string sign = negative ? "-" : spec.sign == 0 || spec.sign == '-' ? "" : std::string(1, spec.sign);
    const char align = spec.align == 0 ? '>' : spec.align;
    if (align == '=' && spec.fill == "0") {
      // The zeros are digits: they are grouped too.
      const auto rest = static_cast<std::int64_t>(sign.size() + prefix.size() + fraction.size());
      budget_.require(static_cast<std::size_t>(spec.width));
      const auto grouped_size = [&](std::size_t count) {
        return static_cast<std::int64_t>(spec.grouping != 0 ? count + (count - 1) / group_size : count);
      };
      std::size_t count = digits.size();
      if (count < static_cast<std::size_t>(std::max<std::int64_t>(spec.width - rest, 0))) {
        const auto room = static_cast<std::size_t>(spec.width - rest);
        std::size_t wanted = spec.grouping != 0 ? room - room / (group_size + 1) : room;
        while (grouped_size(wanted) < static_cast<std::int64_t>(room)) ++wanted;
        if (wanted > count) digits.insert(0, wanted - count, '0');
      }
    }
    if (spec.grouping != 0) digits = group(digits, spec.grouping, group_size);
    const std::string head = sign + prefix, tail = digits + fraction;
    if (align == '=') {
      const auto used = static_cast<std::int64_t>(head.size() + tail.size());
      Text text(head, origin);
      if (spec.width > used) text.repeat(budget_, spec.fill, static_cast<std::size_t>(spec.width - used), origin);
      text.append(budget_, tail, origin);
      return text;
    }
    return pad(Text(head + tail, origin), spec, align, origin);
  }

  Text format_integer(const Value& value, const Spec& spec, Origin origin) {
    const char type = spec.type == 0 ? 'd' : spec.type;
    if (std::string_view("eEfFgG%").find(type) != std::string_view::npos) {
      return format_float(as_double(value), spec, origin);
    }
    if (spec.precision >= 0) fail(Fault::value_error, "Precision not allowed in integer format specifier");
    if (type == 'c') {
      const std::int64_t code = as_index(value);
      if (code < 0 || code > 0x10ffff) fail(Fault::overflow_error, "%c arg not in range(0x110000)");
      Text text;
      text.append_char(budget_, static_cast<char32_t>(code), origin);
      return pad(text, spec, spec.align == 0 ? '<' : spec.align, origin);
    }
    int base = 0;
    if (type == 'd' || type == 'n') base = 10;
    if (type == 'b') base = 2;
    if (type == 'o') base = 8;
    if (type == 'x' || type == 'X') base = 16;
    if (base == 0) unknown_type(spec, value);
    std::string digits = integer_digits(value, base);
    const bool negative = digits[0] == '-';
    if (negative) digits.erase(0, 1);
    std::string prefix;
    if (spec.alternate && base != 10) prefix = std::string("0") + type;
    if (type == 'X') {
      for (char& c : digits) c = static_cast<char>(c >= 'a' ? c - 0x20 : c);
    }
    return number(negative, prefix, std::move(digits), "", spec, base == 10 ? 3 : 4, origin);
  }

  Text format_float(double value, const Spec& spec, Origin origin) {
    const bool negative = std::signbit(value) && !std::isnan(value);
    std::string text;
    if (spec.type == 0 && spec.precision < 0) {
      text = float_repr(std::abs(value));
    } else if (spec.type == '%') {
      text =
          float_digits(budget_, std::abs(value) * 100, 'f', spec.precision < 0 ? 6 : spec.precision, spec.alternate) +
          "%";
    } else {
      const char kind = spec.type == 0 || spec.type == 'n' ? 'g' : spec.type;
      if (std::string_view("eEfFgG").find(kind) == std::string_view::npos) {
        unknown_type(spec, Value::floating(value));
      }
      std::int64_t precision = spec.precision < 0 ? 6 : spec.precision;
      text = float_digits(budget_, std::abs(value), kind, precision, spec.alternate);
      // Without a type, a float keeps at least one digit behind its point.
      if (spec.type == 0 && text.find_first_not_of("0123456789") == std::string::npos) text += ".0";
    }
    const std::size_t end = std::min(text.find_first_not_of("0123456789"), text.size());
    const std::string fraction = text.substr(end);
    return number(negative, "", text.substr(0, end), fraction, spec, 3, origin);
  }

  Interpreter& interpreter_;
  Budget& budget_;
  const bool markup_;
  const Values& positional_;
  const std::vector<std::pair<std::string, Value>>& named_;
  std::int64_t automatic_ = 0;  // the next number; -1 when fields are numbered by hand
};

}  // namespace

Text str_format(Interpreter& interpreter, const Value& format, const Values& positional,
                const std::vector<std::pair<std::string, Value>>& named) {
  const Value kept = format;
  return StrFormatter(interpreter, kept.as<StringObject>().markup, positional, named).run(kept.text(), 0);
}

}  // namespace sparkx::jinja
