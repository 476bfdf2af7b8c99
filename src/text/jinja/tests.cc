// The tests: what may stand behind `is`.
#include <fmt/core.h>

#include "text/jinja/arguments.h"
#include "text/jinja/builtins.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/methods.h"
#include "text/jinja/operators.h"
#include "text/jinja/repr.h"

namespace sparkx::jinja {
namespace {

template <bool (*kTest)(const Value&)>
Value simple(Interpreter&, const Value& value, Call& call) {
  Arguments("test", call, {});
  return Value::boolean(kTest(value));
}

bool is_defined(const Value& value) {
  return !value.is(Kind::undefined);
}
bool is_undefined(const Value& value) {
  return value.is(Kind::undefined);
}
bool is_none(const Value& value) {
  return value.is(Kind::none);
}
bool is_boolean(const Value& value) {
  return value.is(Kind::boolean);
}
bool is_true(const Value& value) {
  return value.is(Kind::boolean) && value.as_bool();
}
bool is_false(const Value& value) {
  return value.is(Kind::boolean) && !value.as_bool();
}
bool is_integer(const Value& value) {
  return value.is(Kind::integer) || value.is(Kind::big_integer);
}
bool is_float(const Value& value) {
  return value.is(Kind::floating);
}
bool is_number(const Value& value) {
  return value.is_number();
}
bool is_string(const Value& value) {
  return value.is(Kind::string);
}
bool is_mapping(const Value& value) {
  return value.is(Kind::dict);
}
bool is_escaped(const Value& value) {
  return value.is(Kind::string) && value.as<StringObject>().markup;
}

bool is_sequence(const Value& value) {
  switch (value.kind()) {
    case Kind::string:
    case Kind::list:
    case Kind::tuple:
    case Kind::dict:
    case Kind::range:
    case Kind::undefined:
      return true;
    default:
      return false;
  }
}

bool is_iterable_value(const Value& value) {
  return is_iterable(value) || value.is(Kind::loop);
}

bool is_callable(const Value& value) {
  switch (value.kind()) {
    case Kind::function:
    case Kind::macro:
    case Kind::loop:
    case Kind::block:
    case Kind::joiner:
    case Kind::undefined:
      return true;
    default:
      return false;
  }
}

Value lower(Interpreter& interpreter, const Value& value, Call& call) {
  Arguments("lower", call, {});
  return Value::boolean(is_lower_text(to_text(interpreter, value).view()));
}

Value upper(Interpreter& interpreter, const Value& value, Call& call) {
  Arguments("upper", call, {});
  return Value::boolean(is_upper_text(to_text(interpreter, value).view()));
}

Value has_remainder(Interpreter& interpreter, const Value& value, const Value& divisor, std::int64_t remainder) {
  return Value::boolean(
      equals(interpreter, arithmetic(interpreter, ExprKind::modulo, value, divisor), Value::integer(remainder)));
}

Value odd(Interpreter& interpreter, const Value& value, Call& call) {
  Arguments("odd", call, {});
  return has_remainder(interpreter, value, Value::integer(2), 1);
}

Value even(Interpreter& interpreter, const Value& value, Call& call) {
  Arguments("even", call, {});
  return has_remainder(interpreter, value, Value::integer(2), 0);
}

Value divisibleby(Interpreter& interpreter, const Value& value, Call& call) {
  const Arguments arguments("divisibleby", call, {"num"}, 1);
  return has_remainder(interpreter, value, arguments[0], 0);
}

Value sameas(Interpreter&, const Value& value, Call& call) {
  const Arguments arguments("sameas", call, {"other"}, 1);
  return Value::boolean(value.same(arguments[0]));
}

Value in(Interpreter& interpreter, const Value& value, Call& call) {
  const Arguments arguments("in", call, {"seq"}, 1);
  return Value::boolean(contains(interpreter, arguments[0], value));
}

template <Comparison kComparison>
Value comparison(Interpreter& interpreter, const Value& value, Call& call) {
  const Arguments arguments("comparison", call, {"b"}, 1, true);
  return Value::boolean(compare(interpreter, kComparison, value, arguments[0]));
}

// A name is looked up in a dict, so what has no hash fails.
Value filter(Interpreter&, const Value& value, Call& call) {
  Arguments("filter", call, {});
  hash_of(value);
  return Value::boolean(value.is(Kind::string) && find_filter(value.text().view()) != nullptr);
}

Value test(Interpreter&, const Value& value, Call& call) {
  Arguments("test", call, {});
  hash_of(value);
  return Value::boolean(value.is(Kind::string) && find_test(value.text().view()) != nullptr);
}

constexpr NamedNative kTests[] = {
    {"!=", comparison<Comparison::not_equal>},
    {"<", comparison<Comparison::less>},
    {"<=", comparison<Comparison::less_equal>},
    {"==", comparison<Comparison::equal>},
    {">", comparison<Comparison::greater>},
    {">=", comparison<Comparison::greater_equal>},
    {"boolean", simple<is_boolean>},
    {"callable", simple<is_callable>},
    {"defined", simple<is_defined>},
    {"divisibleby", divisibleby},
    {"eq", comparison<Comparison::equal>},
    {"equalto", comparison<Comparison::equal>},
    {"escaped", simple<is_escaped>},
    {"even", even},
    {"false", simple<is_false>},
    {"filter", filter},
    {"float", simple<is_float>},
    {"ge", comparison<Comparison::greater_equal>},
    {"greaterthan", comparison<Comparison::greater>},
    {"gt", comparison<Comparison::greater>},
    {"in", in},
    {"integer", simple<is_integer>},
    {"iterable", simple<is_iterable_value>},
    {"le", comparison<Comparison::less_equal>},
    {"lessthan", comparison<Comparison::less>},
    {"lower", lower},
    {"lt", comparison<Comparison::less>},
    {"mapping", simple<is_mapping>},
    {"ne", comparison<Comparison::not_equal>},
    {"none", simple<is_none>},
    {"number", simple<is_number>},
    {"odd", odd},
    {"sameas", sameas},
    {"sequence", simple<is_sequence>},
    {"string", simple<is_string>},
    {"test", test},
    {"true", simple<is_true>},
    {"undefined", simple<is_undefined>},
    {"upper", upper},
};

}  // namespace

Native find_test(std::string_view name) {
  for (const NamedNative& test : kTests) {
    if (test.name == name) return test.native;
  }
  return nullptr;
}

}  // namespace sparkx::jinja
