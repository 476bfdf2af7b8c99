// Filters on single values: defaults, numbers, attributes.
#include <fmt/core.h>

#include <cmath>

#include "text/jinja/arguments.h"
#include "text/jinja/attributes.h"
#include "text/jinja/filters.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/numbers.h"
#include "text/jinja/operators.h"
#include "text/jinja/repr.h"

namespace sparkx::jinja {
namespace {

void refuse_undefined(const Value& value) {
  if (value.is(Kind::undefined)) fail(value.as<UndefinedObject>().fault, value.as<UndefinedObject>().message());
}

Value default_filter(Interpreter& interpreter, const Value& value, Call& call) {
  const Arguments arguments("default", call, {"default_value", "boolean"});
  const bool missing =
      value.is(Kind::undefined) || (arguments.flag(interpreter, 1, false) && !truth(interpreter, value));
  if (!missing) return value;
  return arguments.has(0) ? arguments[0] : interpreter.text("", Origin::source);
}

Value attr(Interpreter& interpreter, const Value& value, Call& call) {
  const Arguments arguments("attr", call, {"name"}, 1);
  Value found = find_attribute(interpreter, value, arguments.string(0));
  return found.is(Kind::missing) ? interpreter.undefined_attribute(value, arguments[0].text().view()) : found;
}

Value int_filter(Interpreter& interpreter, const Value& value, Call& call) {
  const Arguments arguments("int", call, {"default", "base"});
  const Value otherwise = arguments.has(0) ? arguments[0] : Value::integer(0);
  refuse_undefined(value);
  if (value.is_integral()) return positive(interpreter, value);
  if (value.is(Kind::floating)) {
    // int() of an infinity is an OverflowError, which only the second try forgives; of NaN a ValueError.
    if (std::isinf(value.as_float())) fail(Fault::overflow_error, "cannot convert float infinity to integer");
    return std::isnan(value.as_float()) ? otherwise : integer_from_double(interpreter, value.as_float());
  }
  if (!value.is(Kind::string)) return otherwise;
  const std::int64_t base = arguments.integer(1, 10);
  if (base == 0 || (base >= 2 && base <= 36)) {
    if (const auto parsed = parse_integer(interpreter, value.text().view(), static_cast<int>(base))) return *parsed;
  }
  const auto number = parse_float(value.text().view());
  return number && std::isfinite(*number) ? integer_from_double(interpreter, *number) : otherwise;
}

Value float_filter(Interpreter&, const Value& value, Call& call) {
  const Arguments arguments("float", call, {"default"});
  refuse_undefined(value);
  if (value.is_number()) return Value::floating(as_double(value));
  if (value.is(Kind::string)) {
    if (const auto number = parse_float(value.text().view())) return Value::floating(*number);
  }
  return arguments.has(0) ? arguments[0] : Value::floating(0);
}

Value abs_filter(Interpreter& interpreter, const Value& value, Call& call) {
  Arguments("abs", call, {});
  if (value.is(Kind::floating)) return Value::floating(std::abs(value.as_float()));
  if (!value.is_integral()) type_error(fmt::format("bad operand type for abs(): '{}'", type_name(value)));
  return is_negative(value) ? negate_integer(interpreter, value) : positive(interpreter, value);
}

// round(integer, digits): half to even at tens and more.
Value round_integer(Interpreter& interpreter, const Value& value, std::int64_t digits) {
  if (digits >= 0) return positive(interpreter, value);
  if (digits < -100'000) return Value::integer(0);
  const Value unit = power_integers(interpreter, Value::integer(10), Value::integer(-digits));
  const Value rest = modulo_integers(interpreter, value, unit);
  const Value down = subtract_integers(interpreter, value, rest);
  const int order = compare_integers(multiply_integers(interpreter, rest, Value::integer(2)), unit);
  const Value tens = floor_divide_integers(interpreter, down, unit);
  const bool odd = !is_zero(modulo_integers(interpreter, tens, Value::integer(2)));
  return order > 0 || (order == 0 && odd) ? add_integers(interpreter, down, unit) : down;
}

Value round_filter(Interpreter& interpreter, const Value& value, Call& call) {
  const Arguments arguments("round", call, {"precision", "method"});
  const std::string method = arguments.has(1) && arguments[1].is(Kind::string) ? arguments[1].text().bytes()
                             : arguments.has(1)                                ? "?"
                                                                               : "common";
  if (method != "common" && method != "ceil" && method != "floor") {
    fail(Fault::runtime_error, "method must be common, ceil or floor");
  }
  if (method == "common") {
    if (value.is(Kind::floating) && arguments.has(0) && arguments[0].is(Kind::none)) {
      return integer_from_double(interpreter, round_float(value.as_float(), 0));
    }
    if (!value.is_number()) type_error(fmt::format("type {} doesn't define __round__ method", type_name(value)));
    const std::int64_t digits = arguments.given(0) ? arguments.integer(0, 0) : 0;
    if (value.is(Kind::floating)) return Value::floating(round_float(value.as_float(), digits));
    return round_integer(interpreter, value, digits);
  }
  const Value precision = arguments.has(0) ? arguments[0] : Value::integer(0);
  const Value unit = arithmetic(interpreter, ExprKind::power, Value::integer(10), precision);
  const Value scaled = arithmetic(interpreter, ExprKind::multiply, value, unit);
  if (!scaled.is_number()) type_error(fmt::format("must be real number, not {}", type_name(scaled)));
  Value whole = scaled;
  if (scaled.is(Kind::floating)) {
    const double real = scaled.as_float();
    whole = integer_from_double(interpreter, method == "ceil" ? std::ceil(real) : std::floor(real));
  }
  return arithmetic(interpreter, ExprKind::divide, whole, unit);
}

Value pprint(Interpreter& interpreter, const Value& value, Call& call) {
  constexpr std::size_t kWidth = 80;
  Arguments("pprint", call, {});
  Text result;
  append_repr(interpreter, value, result);
  if (result.size() > kWidth) fail(Fault::unsupported, "pprint of more than one line");
  return interpreter.text(std::move(result));
}

Value random(Interpreter&, const Value&, Call&) {
  fail(Fault::unsupported, "the filter 'random': a render must give the same text each time");
}

Value urlize(Interpreter&, const Value&, Call&) {
  fail(Fault::unsupported, "the filter 'urlize'");
}

constexpr NamedNative kFilters[] = {
    {"abs", abs_filter},     {"attr", attr},      {"d", default_filter}, {"default", default_filter},
    {"float", float_filter}, {"int", int_filter}, {"pprint", pprint},    {"random", random},
    {"round", round_filter}, {"urlize", urlize},
};

}  // namespace

std::span<const NamedNative> value_filters() {
  return kFilters;
}

Native find_filter(std::string_view name) {
  for (std::span<const NamedNative> filters : {text_filters(), sequence_filters(), value_filters()}) {
    for (const NamedNative& filter : filters) {
      if (filter.name == name) return filter.native;
    }
  }
  return nullptr;
}

}  // namespace sparkx::jinja
