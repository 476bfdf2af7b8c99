// The methods of everything but strings.
#include "text/jinja/methods.h"

#include <fmt/core.h>

#include <cmath>

#include "text/jinja/arguments.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/numbers.h"
#include "text/jinja/operators.h"
#include "text/jinja/repr.h"

namespace sparkx::jinja {
namespace {

// Lists and tuples, ranges

Value sequence_count(Interpreter& interpreter, const Value& self, Call& call) {
  const Arguments arguments("count", call, {"value"}, 1, true);
  std::int64_t count = 0;
  Iteration iteration(interpreter, self);
  for (Value item; iteration.next(interpreter, item);) count += equals(interpreter, item, arguments[0]) ? 1 : 0;
  return Value::integer(count);
}

Value sequence_index(Interpreter& interpreter, const Value& self, Call& call) {
  const Arguments arguments("index", call, {"value", "start", "stop"}, 1, true);
  const std::int64_t length = *length_of(interpreter, self);
  const auto bound = [&](std::size_t index, std::int64_t otherwise) {
    const std::int64_t at = arguments.integer(index, otherwise);
    return at < 0 ? std::max<std::int64_t>(at + length, 0) : at;
  };
  const std::int64_t start = bound(1, 0), stop = bound(2, length);
  Iteration iteration(interpreter, self);
  Value item;
  for (std::int64_t i = 0; iteration.next(interpreter, item); ++i) {
    if (i >= start && i < stop && equals(interpreter, item, arguments[0])) return Value::integer(i);
  }
  fail(Fault::value_error, fmt::format("{} is not in {}", short_repr(arguments[0]), type_name(self)));
}

Value list_copy(Interpreter& interpreter, const Value& self, Call& call) {
  Arguments("copy", call, {});
  return interpreter.list(to_values(interpreter, self));
}

// Dicts

Value dict_get(Interpreter& interpreter, const Value& self, Call& call) {
  const Arguments arguments("get", call, {"key", "default"}, 1, true);
  const Value* value = dict_find(interpreter, self.as<DictObject>(), arguments[0]);
  if (value != nullptr) return *value;
  return arguments.has(1) ? arguments[1] : Value::none();
}

template <ViewObject::What kWhat>
Value dict_view(Interpreter& interpreter, const Value& self, Call& call) {
  Arguments("keys", call, {});
  return interpreter.heap().make<ViewObject>(0, self, kWhat);
}

Value dict_copy(Interpreter& interpreter, const Value& self, Call& call) {
  Arguments("copy", call, {});
  Value copy = make_dict(interpreter);
  for (const auto& [key, value] : self.as<DictObject>().entries) {
    dict_set(interpreter, copy.as<DictObject>(), key, value);
  }
  return copy;
}

Value dict_fromkeys(Interpreter& interpreter, const Value&, Call& call) {
  const Arguments arguments("fromkeys", call, {"iterable", "value"}, 1, true);
  Value dict = make_dict(interpreter);
  Iteration iteration(interpreter, arguments[0]);
  for (Value key; iteration.next(interpreter, key);) {
    dict_set(interpreter, dict.as<DictObject>(), key, arguments.has(1) ? arguments[1] : Value::none());
  }
  return dict;
}

// Numbers

Value bit_length_method(Interpreter&, const Value& self, Call& call) {
  Arguments("bit_length", call, {});
  return Value::integer(bit_length(self));
}

Value bit_count_method(Interpreter&, const Value& self, Call& call) {
  Arguments("bit_count", call, {});
  return Value::integer(bit_count(self));
}

Value conjugate(Interpreter& interpreter, const Value& self, Call& call) {
  Arguments("conjugate", call, {});
  return positive(interpreter, self);
}

Value is_integer(Interpreter&, const Value& self, Call& call) {
  Arguments("is_integer", call, {});
  const double value = self.as_float();
  return Value::boolean(std::isfinite(value) && value == std::floor(value));
}

// loop

Value loop_cycle(Interpreter& interpreter, const Value& self, Call& call) {
  if (!call.named.empty()) type_error("cycle() takes no keyword arguments");
  if (call.positional.empty()) type_error("no items for cycling given");
  interpreter.budget().step();
  const std::int64_t count = static_cast<std::int64_t>(call.positional.size());
  return call.positional[static_cast<std::size_t>(self.as<LoopObject>().index0 % count)];
}

Value loop_changed(Interpreter& interpreter, const Value& self, Call& call) {
  if (!call.named.empty()) type_error("changed() takes no keyword arguments");
  LoopObject& loop = self.as<LoopObject>();
  Value values = interpreter.tuple(std::move(call.positional));
  if (!loop.last_changed.is(Kind::missing) && equals(interpreter, loop.last_changed, values)) {
    return Value::boolean(false);
  }
  loop.last_changed = std::move(values);
  return Value::boolean(true);
}

// cycler

Value cycler_next(Interpreter&, const Value& self, Call& call) {
  Arguments("next", call, {});
  CyclerObject& cycler = self.as<CyclerObject>();
  Value current = cycler.items[cycler.position];
  cycler.position = (cycler.position + 1) % cycler.items.size();
  return current;
}

Value cycler_reset(Interpreter&, const Value& self, Call& call) {
  Arguments("reset", call, {});
  self.as<CyclerObject>().position = 0;
  return Value::none();
}

constexpr NamedNative kListMethods[] = {{"copy", list_copy}, {"count", sequence_count}, {"index", sequence_index}};
constexpr NamedNative kTupleMethods[] = {{"count", sequence_count}, {"index", sequence_index}};
constexpr NamedNative kDictMethods[] = {
    {"copy", dict_copy},
    {"fromkeys", dict_fromkeys},
    {"get", dict_get},
    {"items", dict_view<ViewObject::What::items>},
    {"keys", dict_view<ViewObject::What::keys>},
    {"values", dict_view<ViewObject::What::values>},
};
constexpr NamedNative kIntegerMethods[] = {
    {"bit_count", bit_count_method}, {"bit_length", bit_length_method}, {"conjugate", conjugate}};
constexpr NamedNative kFloatMethods[] = {{"conjugate", conjugate}, {"is_integer", is_integer}};
constexpr NamedNative kLoopMethods[] = {{"changed", loop_changed}, {"cycle", loop_cycle}};
constexpr NamedNative kCyclerMethods[] = {{"next", cycler_next}, {"reset", cycler_reset}};
constexpr NamedNative kDictFunctionMethods[] = {{"fromkeys", dict_fromkeys}};

std::span<const NamedNative> methods_of(const Value& value) {
  switch (value.kind()) {
    case Kind::string:
      return string_methods();
    case Kind::list:
      return kListMethods;
    case Kind::tuple:
    case Kind::range:
      return kTupleMethods;
    case Kind::dict:
      return kDictMethods;
    case Kind::boolean:
    case Kind::integer:
    case Kind::big_integer:
      return kIntegerMethods;
    case Kind::floating:
      return kFloatMethods;
    case Kind::loop:
      return kLoopMethods;
    case Kind::cycler:
      return kCyclerMethods;
    case Kind::function:
      if (std::string_view(value.as<FunctionObject>().name) == "dict") return kDictFunctionMethods;
      return {};
    default:
      return {};
  }
}

}  // namespace

const NamedNative* find_method(const Value& value, std::string_view name) {
  for (const NamedNative& method : methods_of(value)) {
    if (method.name == name) return &method;
  }
  return nullptr;
}

}  // namespace sparkx::jinja
