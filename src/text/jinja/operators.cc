#include "text/jinja/operators.h"

#include <fmt/core.h>

#include <bit>
#include <cmath>

#include "text/jinja/format.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/markup.h"
#include "text/jinja/numbers.h"
#include "text/jinja/unicode.h"

namespace sparkx::jinja {
namespace {

constexpr std::size_t kIndexedDict = 8;  // entries from which a dict keeps hashes

const char* symbol(ExprKind op) {
  switch (op) {
    case ExprKind::add:
      return "+";
    case ExprKind::subtract:
      return "-";
    case ExprKind::multiply:
      return "*";
    case ExprKind::divide:
      return "/";
    case ExprKind::floor_divide:
      return "//";
    case ExprKind::modulo:
      return "%";
    default:
      return "**";
  }
}

const char* symbol(Comparison comparison) {
  switch (comparison) {
    case Comparison::less:
      return "<";
    case Comparison::less_equal:
      return "<=";
    case Comparison::greater:
      return ">";
    default:
      return ">=";
  }
}

void refuse_undefined(const Value& value) {
  if (!value.is(Kind::undefined)) return;
  const UndefinedObject& undefined = value.as<UndefinedObject>();
  fail(undefined.fault, undefined.message());
}

[[noreturn]] void unsupported_operands(const char* op, const Value& a, const Value& b) {
  type_error(fmt::format("unsupported operand type(s) for {}: '{}' and '{}'", op, type_name(a), type_name(b)));
}

int compare_numbers(const Value& a, const Value& b) {  // neither is NaN
  if (a.is_integral() && b.is_integral()) return compare_integers(a, b);
  if (a.is_integral()) return compare_integer_with_float(a, b.as_float());
  if (b.is_integral()) return -compare_integer_with_float(b, a.as_float());
  return a.as_float() < b.as_float() ? -1 : a.as_float() > b.as_float() ? 1 : 0;
}

bool is_nan(const Value& value) {
  return value.is(Kind::floating) && std::isnan(value.as_float());
}

bool ordered(Comparison comparison, int order) {
  switch (comparison) {
    case Comparison::less:
      return order < 0;
    case Comparison::less_equal:
      return order <= 0;
    case Comparison::greater:
      return order > 0;
    default:
      return order >= 0;
  }
}

bool compare_order(Interpreter& interpreter, Comparison comparison, const Value& a, const Value& b) {
  if (a.is_number() && b.is_number()) {
    return !is_nan(a) && !is_nan(b) && ordered(comparison, compare_numbers(a, b));
  }
  if (a.is(Kind::string) && b.is(Kind::string)) {
    // UTF-8 sorts as its code points do.
    interpreter.budget().work(std::min(a.text().size(), b.text().size()));
    return ordered(comparison, a.text().bytes().compare(b.text().bytes()));
  }
  if ((a.is(Kind::list) && b.is(Kind::list)) || (a.is(Kind::tuple) && b.is(Kind::tuple))) {
    const Budget::Level level(interpreter.budget());
    const Values& left = a.as<SequenceObject>().items;
    const Values& right = b.as<SequenceObject>().items;
    for (std::size_t i = 0; i < left.size() && i < right.size(); ++i) {
      interpreter.budget().step();
      if (!equals(interpreter, left[i], right[i])) return compare_order(interpreter, comparison, left[i], right[i]);
    }
    return ordered(comparison, left.size() < right.size() ? -1 : left.size() > right.size() ? 1 : 0);
  }
  refuse_undefined(a);
  refuse_undefined(b);
  type_error(fmt::format("'{}' not supported between instances of '{}' and '{}'", symbol(comparison), type_name(a),
                         type_name(b)));
}

Value repeat(Interpreter& interpreter, const Value& sequence, const Value& times) {
  const auto wanted = to_int64(times);
  if (!wanted && !is_negative(times)) fail(Fault::overflow_error, "cannot fit 'int' into an index-sized integer");
  const std::size_t count = wanted && *wanted > 0 ? static_cast<std::size_t>(*wanted) : 0;
  Budget& budget = interpreter.budget();
  if (sequence.is(Kind::string)) {
    const Text& text = sequence.text();
    Text result;
    if (text.uniform()) {
      result.repeat(budget, text.view(), count, text.origin_at(0));
    } else {
      const std::size_t limit = budget.limits().memory_bytes;
      budget.require(count > limit / text.size() ? limit + 1 : count * text.size());
      for (std::size_t i = 0; i < count; ++i) result.append(budget, text);
    }
    return interpreter.text(std::move(result), sequence.as<StringObject>().markup);
  }
  const Values& items = sequence.as<SequenceObject>().items;
  Values result;
  if (!items.empty()) {
    const std::size_t limit = budget.limits().memory_bytes;
    budget.require(count > limit / (items.size() * sizeof(Value)) ? limit + 1 : count * items.size() * sizeof(Value));
    budget.work(count * items.size() * sizeof(Value));
    result.reserve(count * items.size());
    for (std::size_t i = 0; i < count; ++i) result.insert(result.end(), items.begin(), items.end());
  }
  return sequence.is(Kind::list) ? interpreter.list(std::move(result)) : interpreter.tuple(std::move(result));
}

Value float_arithmetic(ExprKind op, double a, double b) {
  switch (op) {
    case ExprKind::add:
      return Value::floating(a + b);
    case ExprKind::subtract:
      return Value::floating(a - b);
    case ExprKind::multiply:
      return Value::floating(a * b);
    case ExprKind::divide:
      if (b == 0) fail(Fault::zero_division, "float division by zero");
      return Value::floating(a / b);
    case ExprKind::floor_divide:
      return Value::floating(float_floor_divide(a, b));
    case ExprKind::modulo:
      return Value::floating(float_modulo(a, b));
    default:
      break;
  }
  if (a == 0 && b < 0) fail(Fault::zero_division, "0.0 cannot be raised to a negative power");
  if (a < 0 && std::isfinite(a) && std::isfinite(b) && b != std::floor(b)) {
    fail(Fault::unsupported, "complex numbers are not supported");
  }
  const double result = std::pow(a, b);
  if (std::isinf(result) && std::isfinite(a) && std::isfinite(b)) {
    fail(Fault::overflow_error, "(34, 'Numerical result out of range')");
  }
  return Value::floating(result);
}

Value integer_arithmetic(Interpreter& interpreter, ExprKind op, const Value& a, const Value& b) {
  switch (op) {
    case ExprKind::add:
      return add_integers(interpreter, a, b);
    case ExprKind::subtract:
      return subtract_integers(interpreter, a, b);
    case ExprKind::multiply:
      return multiply_integers(interpreter, a, b);
    case ExprKind::divide:
      return Value::floating(divide_integers(a, b));
    case ExprKind::floor_divide:
      return floor_divide_integers(interpreter, a, b);
    case ExprKind::modulo:
      return modulo_integers(interpreter, a, b);
    default:
      break;
  }
  if (is_negative(b)) return float_arithmetic(op, to_double(a), to_double(b));
  return power_integers(interpreter, a, b);
}

std::size_t mix(std::size_t seed, std::size_t hash) {
  return (seed ^ hash) * 0x9e3779b97f4a7c15u + std::rotl(seed, 17);
}

}  // namespace

bool truth(Interpreter& interpreter, const Value& value) {
  switch (value.kind()) {
    case Kind::none:
    case Kind::undefined:
      return false;
    case Kind::boolean:
    case Kind::integer:
      return value.as_integer() != 0;
    case Kind::floating:
      return value.as_float() != 0;
    case Kind::string:
      return !value.text().empty();
    case Kind::list:
    case Kind::tuple:
    case Kind::dict:
    case Kind::view:
    case Kind::range:
    case Kind::loop:
      return *length_of(interpreter, value) != 0;
    default:
      return true;
  }
}

bool equals(Interpreter& interpreter, const Value& a, const Value& b) {
  if (a.is_number() && b.is_number()) return !is_nan(a) && !is_nan(b) && compare_numbers(a, b) == 0;
  if (a.kind() != b.kind()) return false;
  switch (a.kind()) {
    case Kind::none:
    case Kind::missing:
    case Kind::undefined:
      return true;
    case Kind::string:
      interpreter.budget().work(a.text().size());
      return a.text().bytes() == b.text().bytes();
    case Kind::list:
    case Kind::tuple: {
      if (a.object() == b.object()) return true;
      const Budget::Level level(interpreter.budget());
      const Values& left = a.as<SequenceObject>().items;
      const Values& right = b.as<SequenceObject>().items;
      if (left.size() != right.size()) return false;
      for (std::size_t i = 0; i < left.size(); ++i) {
        interpreter.budget().step();
        if (!equals(interpreter, left[i], right[i])) return false;
      }
      return true;
    }
    case Kind::dict: {
      if (a.object() == b.object()) return true;
      const Budget::Level level(interpreter.budget());
      const DictObject& left = a.as<DictObject>();
      const DictObject& right = b.as<DictObject>();
      if (left.entries.size() != right.entries.size()) return false;
      for (const auto& [key, value] : left.entries) {
        interpreter.budget().step();
        const Value* other = dict_find(interpreter, right, key);
        if (other == nullptr || !equals(interpreter, value, *other)) return false;
      }
      return true;
    }
    case Kind::range: {
      const RangeObject& left = a.as<RangeObject>();
      const RangeObject& right = b.as<RangeObject>();
      return left.length == right.length && (left.length == 0 || left.start == right.start) &&
             (left.length < 2 || left.step == right.step);
    }
    case Kind::function: {
      const FunctionObject& left = a.as<FunctionObject>();
      const FunctionObject& right = b.as<FunctionObject>();
      return left.call == right.call && left.self.same(right.self);
    }
    case Kind::view: {
      const ViewObject& left = a.as<ViewObject>();
      const ViewObject& right = b.as<ViewObject>();
      if (left.what != right.what || left.what == ViewObject::What::values) return a.same(b);
      if (length_of(interpreter, a) != length_of(interpreter, b)) return false;
      for (const Value& item : to_values(interpreter, a)) {
        if (!contains(interpreter, b, item)) return false;
      }
      return true;
    }
    default:
      return a.same(b);
  }
}

bool compare(Interpreter& interpreter, Comparison comparison, const Value& a, const Value& b) {
  switch (comparison) {
    case Comparison::equal:
      return equals(interpreter, a, b);
    case Comparison::not_equal:
      return !equals(interpreter, a, b);
    case Comparison::in:
      return contains(interpreter, b, a);
    case Comparison::not_in:
      return !contains(interpreter, b, a);
    default:
      return compare_order(interpreter, comparison, a, b);
  }
}

bool less(Interpreter& interpreter, const Value& a, const Value& b) {
  interpreter.budget().step();
  return compare_order(interpreter, Comparison::less, a, b);
}

bool contains(Interpreter& interpreter, const Value& container, const Value& item) {
  switch (container.kind()) {
    case Kind::string:
      if (!item.is(Kind::string)) {
        type_error(fmt::format("'in <string>' requires string as left operand, not {}", type_name(item)));
      }
      interpreter.budget().work(container.text().size());
      return container.text().bytes().find(item.text().bytes()) != std::string::npos;
    case Kind::dict:
      return dict_find(interpreter, container.as<DictObject>(), item) != nullptr;
    case Kind::view: {
      const ViewObject& view = container.as<ViewObject>();
      const DictObject& dict = view.dict.as<DictObject>();
      if (view.what == ViewObject::What::keys) return dict_find(interpreter, dict, item) != nullptr;
      if (view.what == ViewObject::What::items) {
        if (!item.is(Kind::tuple) || item.as<SequenceObject>().items.size() != 2) return false;
        const Values& pair = item.as<SequenceObject>().items;
        const Value* value = dict_find(interpreter, dict, pair[0]);
        return value != nullptr && equals(interpreter, *value, pair[1]);
      }
      break;
    }
    case Kind::list:
    case Kind::tuple:
      for (const Value& element : container.as<SequenceObject>().items) {
        interpreter.budget().step();
        if (equals(interpreter, element, item)) return true;
      }
      return false;
    default:
      break;
  }
  if (!is_iterable(container)) {
    type_error(fmt::format("argument of type '{}' is not iterable", type_name(container)));
  }
  Iteration iteration(interpreter, container);
  for (Value element; iteration.next(interpreter, element);) {
    if (equals(interpreter, element, item)) return true;
  }
  return false;
}

std::size_t hash_of(const Value& value, int depth) {
  constexpr int kMaxDepth = 500;
  if (depth > kMaxDepth) fail(Fault::recursion_error, "a key nested too deep");
  switch (value.kind()) {
    case Kind::string:
      return std::hash<std::string>{}(value.text().bytes());
    case Kind::boolean:
    case Kind::integer:
    case Kind::floating:
    case Kind::big_integer: {
      // Equal numbers of different types have equal doubles.
      double number = 0;
      try {
        number = as_double(value);
      } catch (const Failure&) {
        return bit_length(value);  // beyond every double
      }
      return std::hash<double>{}(number);
    }
    case Kind::tuple: {
      std::size_t seed = 1;
      for (const Value& item : value.as<SequenceObject>().items) seed = mix(seed, hash_of(item, depth + 1));
      return seed;
    }
    case Kind::none:
    case Kind::undefined:
      return 7;
    case Kind::range:
      return static_cast<std::size_t>(value.as<RangeObject>().length);
    case Kind::list:
    case Kind::dict:
    case Kind::view:
      type_error(fmt::format("unhashable type: '{}'", type_name(value)));
    case Kind::function:
      return std::hash<const void*>{}(reinterpret_cast<const void*>(value.as<FunctionObject>().call));
    default:
      return std::hash<const void*>{}(value.object());
  }
}

double as_double(const Value& number) {
  return number.is(Kind::floating) ? number.as_float() : to_double(number);
}

Value add(Interpreter& interpreter, const Value& a, const Value& b) {
  return arithmetic(interpreter, ExprKind::add, a, b);
}

Value arithmetic(Interpreter& interpreter, ExprKind op, const Value& a, const Value& b) {
  if (a.is_integral() && b.is_integral()) return integer_arithmetic(interpreter, op, a, b);
  if (a.is_number() && b.is_number()) return float_arithmetic(op, as_double(a), as_double(b));
  if (op == ExprKind::modulo && a.is(Kind::string)) return percent_format(interpreter, a, b);
  const auto sequence = [](const Value& value) {
    return value.is(Kind::string) || value.is(Kind::list) || value.is(Kind::tuple);
  };
  if (op == ExprKind::add && a.kind() == b.kind() && sequence(a)) {
    if (a.is(Kind::string)) return add_strings(interpreter, a, b);
    Values items = to_values(interpreter, a);
    const Values& more = b.as<SequenceObject>().items;
    interpreter.budget().require((items.size() + more.size()) * sizeof(Value));
    interpreter.budget().work(more.size() * sizeof(Value));
    items.insert(items.end(), more.begin(), more.end());
    return a.is(Kind::list) ? interpreter.list(std::move(items)) : interpreter.tuple(std::move(items));
  }
  if (op == ExprKind::multiply && sequence(a) && b.is_integral()) return repeat(interpreter, a, b);
  if (op == ExprKind::multiply && sequence(b) && a.is_integral()) return repeat(interpreter, b, a);
  refuse_undefined(a);
  refuse_undefined(b);
  if (op == ExprKind::add && sequence(a)) {
    type_error(fmt::format("can only concatenate {} (not \"{}\") to {}", type_name(a), type_name(b), type_name(a)));
  }
  if (op == ExprKind::multiply && (sequence(a) || sequence(b))) {
    type_error(fmt::format("can't multiply sequence by non-int of type '{}'", type_name(sequence(a) ? b : a)));
  }
  unsupported_operands(op == ExprKind::power ? "** or pow()" : symbol(op), a, b);
}

Value negate(Interpreter& interpreter, const Value& value) {
  if (value.is_integral()) return negate_integer(interpreter, value);
  if (value.is(Kind::floating)) return Value::floating(-value.as_float());
  refuse_undefined(value);
  type_error(fmt::format("bad operand type for unary -: '{}'", type_name(value)));
}

Value positive(Interpreter&, const Value& value) {
  if (value.is(Kind::boolean)) return Value::integer(value.as_integer());
  if (value.is_number()) return value;
  refuse_undefined(value);
  type_error(fmt::format("bad operand type for unary +: '{}'", type_name(value)));
}

const Value* dict_find(Interpreter& interpreter, const DictObject& dict, const Value& key) {
  interpreter.budget().step();
  const std::size_t hash = hash_of(key);
  if (dict.entries.size() < kIndexedDict) {
    for (const auto& [known, value] : dict.entries) {
      if (equals(interpreter, known, key)) return &value;
    }
    return nullptr;
  }
  const auto [first, last] = dict.positions.equal_range(hash);
  for (auto it = first; it != last; ++it) {
    interpreter.budget().step();
    if (equals(interpreter, dict.entries[it->second].first, key)) return &dict.entries[it->second].second;
  }
  return nullptr;
}

void dict_set(Interpreter& interpreter, DictObject& dict, Value key, Value value) {
  if (const Value* known = dict_find(interpreter, dict, key)) {
    *const_cast<Value*>(known) = std::move(value);
    return;
  }
  constexpr std::size_t kEntryBytes = 96;  // with its place in the index
  interpreter.budget().take(kEntryBytes);
  dict.bytes += kEntryBytes;
  dict.entries.emplace_back(std::move(key), std::move(value));
  if (dict.entries.size() == kIndexedDict) {
    for (std::size_t i = 0; i < dict.entries.size(); ++i) {
      dict.positions.emplace(hash_of(dict.entries[i].first), static_cast<std::uint32_t>(i));
    }
  } else if (dict.entries.size() > kIndexedDict) {
    dict.positions.emplace(hash_of(dict.entries.back().first), static_cast<std::uint32_t>(dict.entries.size() - 1));
  }
}

Value make_dict(Interpreter& interpreter) {
  return interpreter.heap().make<DictObject>(0);
}

}  // namespace sparkx::jinja
