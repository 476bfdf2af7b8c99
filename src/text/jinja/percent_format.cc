#include <fmt/core.h>

#include <cmath>

#include "text/jinja/arguments.h"
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

struct Conversion {
  bool left = false, plus = false, blank = false, alternate = false, zero = false;
  std::int64_t width = 0;
  std::int64_t precision = -1;
  char kind = 's';
};

class PercentFormatter {
 public:
  PercentFormatter(Interpreter& interpreter, const Value& format, const Value& values)
      : interpreter_(interpreter),
        budget_(interpreter.budget()),
        format_(format.text()),
        markup_(format.as<StringObject>().markup),
        values_(values) {
    if (values.is(Kind::tuple)) {
      positional_ = values.as<SequenceObject>().items;
    } else {
      positional_ = {values};
      mapping_ = values.is(Kind::dict) || values.is(Kind::list) || values.is(Kind::range) || values.is(Kind::undefined);
    }
  }

  Text run() {
    const std::string& bytes = format_.bytes();
    while (at_ < bytes.size()) {
      const std::size_t percent = std::min(bytes.find('%', at_), bytes.size());
      out_.append(budget_, format_, at_, percent);
      at_ = percent;
      if (at_ < bytes.size()) convert();
    }
    if (used_ < positional_.size() && !mapping_) type_error("not all arguments converted during string formatting");
    return std::move(out_);
  }

 private:
  char peek() const {
    if (at_ >= format_.size()) fail(Fault::value_error, "incomplete format");
    return format_.bytes()[at_];
  }

  Value next_value() {
    if (used_ >= positional_.size()) type_error("not enough arguments for format string");
    return positional_[used_++];
  }

  std::int64_t number_or_star() {
    if (peek() == '*') {
      ++at_;
      const Value value = next_value();
      if (!value.is_integral()) type_error("* wants int");
      return as_index(value);
    }
    std::int64_t number = 0;
    while (peek() >= '0' && peek() <= '9') {
      number = number * 10 + (format_.bytes()[at_++] - '0');
      if (number > INT32_MAX) fail(Fault::value_error, "width too big");
    }
    return number;
  }

  void convert() {
    budget_.step();
    const Origin origin = format_.origin_at(at_);
    ++at_;
    if (peek() == '%') {
      ++at_;
      out_.append(budget_, "%", origin);
      return;
    }
    Value keyed;
    if (peek() == '(') keyed = keyed_value();
    Conversion conversion;
    for (bool flags = true; flags;) {
      switch (peek()) {
        case '-':
          conversion.left = true;
          break;
        case '+':
          conversion.plus = true;
          break;
        case ' ':
          conversion.blank = true;
          break;
        case '#':
          conversion.alternate = true;
          break;
        case '0':
          conversion.zero = true;
          break;
        default:
          flags = false;
      }
      if (flags) ++at_;
    }
    conversion.width = number_or_star();
    if (conversion.width < 0) {
      conversion.left = true;
      conversion.width = -std::max<std::int64_t>(conversion.width, -INT32_MAX);
    }
    if (peek() == '.') {
      ++at_;
      conversion.precision = std::max<std::int64_t>(number_or_star(), 0);
    }
    if (peek() == 'h' || peek() == 'l' || peek() == 'L') ++at_;
    conversion.kind = peek();
    ++at_;
    const Value value = keyed.is(Kind::missing) ? next_value() : keyed;
    switch (conversion.kind) {
      case 's':
      case 'r':
      case 'a':
        return text(value, conversion, origin);
      case 'c':
        return character(value, conversion, origin);
      case 'd':
      case 'i':
      case 'u':
      case 'o':
      case 'x':
      case 'X':
        return integer(value, conversion, origin);
      case 'e':
      case 'E':
      case 'f':
      case 'F':
      case 'g':
      case 'G':
        return floating(value, conversion, origin);
      default:
        fail(Fault::value_error, fmt::format("unsupported format character '{}' (0x{:x}) at index {}", conversion.kind,
                                             static_cast<unsigned char>(conversion.kind), at_ - 1));
    }
  }

  Value keyed_value() {
    if (!values_.is(Kind::dict)) type_error("format requires a mapping");
    const std::size_t begin = ++at_;
    int depth = 1;
    while (depth > 0) {
      if (at_ >= format_.size()) fail(Fault::value_error, "incomplete format key");
      if (peek() == '(') ++depth;
      if (peek() == ')') --depth;
      ++at_;
    }
    const Value key = interpreter_.text(format_.slice(budget_, begin, at_ - 1));
    const Value* value = dict_find(interpreter_, values_.as<DictObject>(), key);
    if (value == nullptr) fail(Fault::key_error, short_repr(key));
    // From now on a single value that is no tuple counts as used.
    used_ = positional_.size();
    return *value;
  }

  void pad(const Text& text, const Conversion& conversion, Origin origin) {
    out_.append(budget_, justify(budget_, text, conversion.width, conversion.left ? Side::left : Side::right,
                                 Text(" ", origin)));
  }

  void text(const Value& value, const Conversion& conversion, Origin origin) {
    Text result;
    if (conversion.kind == 's') {
      result = markup_ ? escape(interpreter_, value).text() : to_text(interpreter_, value);
    } else {
      append_repr(interpreter_, value, result);
      if (conversion.kind == 'a') result = escape_non_ascii(budget_, result);
      if (markup_) result = escape_text(budget_, result);
    }
    if (conversion.precision >= 0) {
      const Value cut = interpreter_.text(std::move(result));
      result = cut.text().slice(budget_, 0, char_end(cut.text().view(), conversion.precision));
    }
    pad(result, conversion, origin);
  }

  static std::size_t char_end(std::string_view text, std::int64_t count) {
    std::size_t position = 0;
    while (count-- > 0 && position < text.size()) next_char(text, position);
    return position;
  }

  void character(const Value& value, const Conversion& conversion, Origin origin) {
    if (value.is(Kind::string) && value.as<StringObject>().chars() == 1) return pad(value.text(), conversion, origin);
    if (!value.is_integral()) type_error("%c requires int or char");
    const std::int64_t code = as_index(value);
    if (code < 0 || code > 0x10ffff) fail(Fault::overflow_error, "%c arg not in range(0x110000)");
    Text text;
    text.append_char(budget_, static_cast<char32_t>(code), origin);
    pad(text, conversion, origin);
  }

  void number(std::string_view sign, std::string_view prefix, const std::string& digits, const Conversion& conversion,
              Origin origin) {
    if (sign.empty() && conversion.plus) sign = "+";
    if (sign.empty() && conversion.blank) sign = " ";
    Text text(fmt::format("{}{}", sign, prefix), origin);
    const auto used = static_cast<std::int64_t>(text.size() + digits.size());
    if (conversion.zero && !conversion.left && conversion.width > used) {
      text.repeat(budget_, "0", static_cast<std::size_t>(conversion.width - used), origin);
    }
    text.append(budget_, digits, origin);
    pad(text, conversion, origin);
  }

  void integer(const Value& value, const Conversion& conversion, Origin origin) {
    const bool decimal = conversion.kind == 'd' || conversion.kind == 'i' || conversion.kind == 'u';
    Value whole = value;
    if (decimal && value.is(Kind::floating)) whole = integer_from_double(interpreter_, value.as_float());
    if (!whole.is_integral()) {
      type_error(fmt::format("%{} format: {} is required, not {}", conversion.kind,
                             decimal ? "a real number" : "an integer", type_name(value)));
    }
    std::string digits = integer_digits(whole, decimal ? 10 : conversion.kind == 'o' ? 8 : 16);
    std::string_view sign;
    if (digits[0] == '-') {
      sign = "-";
      digits.erase(0, 1);
    }
    if (conversion.precision > static_cast<std::int64_t>(digits.size())) {
      budget_.require(static_cast<std::size_t>(conversion.precision));
      digits.insert(0, static_cast<std::size_t>(conversion.precision) - digits.size(), '0');
    }
    std::string_view prefix;
    if (conversion.alternate && conversion.kind == 'o') prefix = "0o";
    if (conversion.alternate && conversion.kind == 'x') prefix = "0x";
    if (conversion.kind == 'X') {
      if (conversion.alternate) prefix = "0X";
      for (char& c : digits) c = static_cast<char>(c >= 'a' ? c - 0x20 : c);
    }
    number(sign, prefix, digits, conversion, origin);
  }

  void floating(const Value& value, const Conversion& conversion, Origin origin) {
    if (value.is(Kind::undefined)) fail(value.as<UndefinedObject>().fault, value.as<UndefinedObject>().message());
    if (!value.is_number()) type_error(fmt::format("must be real number, not {}", type_name(value)));
    const double real = as_double(value);
    const std::int64_t precision = conversion.precision < 0 ? 6 : conversion.precision;
    number(std::signbit(real) && !std::isnan(real) ? "-" : "", "",
           float_digits(budget_, std::abs(real), conversion.kind, precision, conversion.alternate), conversion, origin);
  }

  Interpreter& interpreter_;
  Budget& budget_;
  const Text& format_;
  const bool markup_;
  const Value& values_;
  Values positional_;
  bool mapping_ = false;
  std::size_t used_ = 0;
  std::size_t at_ = 0;
  Text out_;
};

}  // namespace

std::string float_digits(Budget& budget, double value, char kind, std::int64_t precision, bool alternate) {
  const bool upper = kind >= 'A' && kind <= 'Z';
  if (std::isnan(value)) return upper ? "NAN" : "nan";
  if (std::isinf(value)) return upper ? "INF" : "inf";
  budget.require(static_cast<std::size_t>(precision) + 400);
  if (precision > INT32_MAX - 400) fail(Fault::value_error, "precision too big");
  std::string spec = fmt::format("{{:{}.{}{}}}", alternate ? "#" : "", precision, kind);
  return fmt::format(fmt::runtime(spec), value);
}

Value percent_format(Interpreter& interpreter, const Value& format, const Value& values) {
  const Value kept = format;
  return interpreter.text(PercentFormatter(interpreter, kept, values).run(), format.as<StringObject>().markup);
}

}  // namespace sparkx::jinja
