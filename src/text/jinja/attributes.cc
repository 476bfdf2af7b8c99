#include "text/jinja/attributes.h"

#include <fmt/core.h>

#include <algorithm>

#include "text/jinja/arguments.h"
#include "text/jinja/builtins.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/numbers.h"
#include "text/jinja/operators.h"
#include "text/jinja/unicode.h"

namespace sparkx::jinja {
namespace {

bool changes(const Value& object, std::string_view name) {
  static constexpr std::string_view kDict[] = {"clear", "pop", "popitem", "setdefault", "update"};
  static constexpr std::string_view kList[] = {"append", "clear", "pop",    "reverse",
                                               "insert", "sort",  "extend", "remove"};
  if (object.is(Kind::dict)) return std::find(std::begin(kDict), std::end(kDict), name) != std::end(kDict);
  if (object.is(Kind::list)) return std::find(std::begin(kList), std::end(kList), name) != std::end(kList);
  return false;
}

Value unsafe(Interpreter& interpreter, const Value& object, std::string_view name) {
  Value result =
      interpreter.undefined(fmt::format("access to attribute '{}' of '{}' object is unsafe.", name, type_name(object)));
  result.as<UndefinedObject>().fault = Fault::security_error;
  return result;
}

Value loop_attribute(Interpreter& interpreter, LoopObject& loop, std::string_view name) {
  if (name == "index") return Value::integer(loop.index0 + 1);
  if (name == "index0") return Value::integer(loop.index0);
  if (name == "first") return Value::boolean(loop.index0 == 0);
  if (name == "last") return Value::boolean(loop.peek(interpreter).is(Kind::missing));
  if (name == "length") return Value::integer(loop.length(interpreter));
  if (name == "revindex") return Value::integer(loop.length(interpreter) - loop.index0);
  if (name == "revindex0") return Value::integer(loop.length(interpreter) - loop.index0 - 1);
  if (name == "depth") return Value::integer(loop.depth0 + 1);
  if (name == "depth0") return Value::integer(loop.depth0);
  if (name == "previtem") return loop.index0 == 0 ? interpreter.undefined("there is no previous item") : loop.before;
  if (name == "nextitem") {
    const Value& next = loop.peek(interpreter);
    return next.is(Kind::missing) ? interpreter.undefined("there is no next item") : next;
  }
  return Value();
}

Value macro_attribute(Interpreter& interpreter, const MacroObject& macro, std::string_view name) {
  const Stmt& stmt = *macro.macro;
  if (name == "name") return stmt.text.empty() ? Value::none() : interpreter.text(stmt.text, Origin::source);
  if (name == "catch_kwargs") return Value::boolean(stmt.catches_named);
  if (name == "catch_varargs") return Value::boolean(stmt.catches_positional);
  if (name == "caller") return Value::boolean(stmt.uses_caller);
  if (name != "arguments") return Value();
  Values names;
  for (const ExprPtr& parameter : stmt.targets) names.push_back(interpreter.text(parameter->text, Origin::source));
  return interpreter.tuple(std::move(names));
}

Value number_attribute(const Value& number, std::string_view name) {
  const bool integral = number.is_integral();
  const Value plain = number.is(Kind::boolean) ? Value::integer(number.as_integer()) : number;
  if (name == "real") return plain;
  if (name == "imag") return integral ? Value::integer(0) : Value::floating(0);
  if (integral && name == "numerator") return plain;
  if (integral && name == "denominator") return Value::integer(1);
  return Value();
}

const Stmt* find_block(Interpreter& interpreter, std::string_view name) {
  for (const Stmt* block : interpreter.tree().blocks) {
    if (block->text == name) return block;
  }
  return nullptr;
}

// object[key]; missing when Python would raise TypeError or LookupError.
Value find_item(Interpreter& interpreter, const Value& object, const Value& key) {
  switch (object.kind()) {
    case Kind::dict: {
      if (key.is(Kind::list) || key.is(Kind::dict) || key.is(Kind::view)) return Value();
      const Value* value = dict_find(interpreter, object.as<DictObject>(), key);
      return value == nullptr ? Value() : *value;
    }
    case Kind::list:
    case Kind::tuple:
    case Kind::string:
    case Kind::range: {
      const auto index = key.is_integral() ? to_int64(key) : std::nullopt;
      if (!index) return Value();
      const std::int64_t length = *length_of(interpreter, object);
      const std::int64_t at = *index < 0 ? *index + length : *index;
      if (at < 0 || at >= length) return Value();
      if (object.is(Kind::range)) return Value::integer(object.as<RangeObject>().at(at));
      if (!object.is(Kind::string)) return object.as<SequenceObject>().items[static_cast<std::size_t>(at)];
      const std::size_t begin = char_offset(interpreter, object, static_cast<std::size_t>(at));
      std::size_t end = begin;
      next_char(object.text().view(), end);
      return interpreter.text(object.text().slice(interpreter.budget(), begin, end), object.as<StringObject>().markup);
    }
    case Kind::self: {
      if (!key.is(Kind::string)) return Value();
      const Stmt* block = find_block(interpreter, key.text().view());
      return block == nullptr ? Value() : interpreter.heap().make<BlockObject>(0, block);
    }
    case Kind::undefined:
      fail(object.as<UndefinedObject>().fault, object.as<UndefinedObject>().message());
    default:
      return Value();
  }
}

}  // namespace

Value find_attribute(Interpreter& interpreter, const Value& object, const Value& name) {
  const std::string_view text = name.text().view();
  Value found;
  switch (object.kind()) {
    case Kind::undefined:
      fail(object.as<UndefinedObject>().fault, object.as<UndefinedObject>().message());
    case Kind::space: {
      const Value* value = dict_find(interpreter, object.as<SpaceObject>().attributes.as<DictObject>(), name);
      return value == nullptr ? Value() : *value;
    }
    case Kind::loop:
      found = loop_attribute(interpreter, object.as<LoopObject>(), text);
      break;
    case Kind::macro:
      found = macro_attribute(interpreter, object.as<MacroObject>(), text);
      break;
    case Kind::cycler:
      if (text == "current") found = object.as<CyclerObject>().items[object.as<CyclerObject>().position];
      if (text == "items") found = interpreter.tuple(object.as<CyclerObject>().items);
      if (text == "pos") found = Value::integer(static_cast<std::int64_t>(object.as<CyclerObject>().position));
      break;
    case Kind::joiner:
      if (text == "sep") found = object.as<JoinerObject>().separator;
      if (text == "used") found = Value::boolean(object.as<JoinerObject>().used);
      break;
    case Kind::tuple:
      if (object.as<SequenceObject>().group && text == "grouper") found = object.as<SequenceObject>().items[0];
      if (object.as<SequenceObject>().group && text == "list") found = object.as<SequenceObject>().items[1];
      break;
    case Kind::range:
      if (text == "start") found = Value::integer(object.as<RangeObject>().start);
      if (text == "stop") found = Value::integer(object.as<RangeObject>().stop);
      if (text == "step") found = Value::integer(object.as<RangeObject>().step);
      break;
    case Kind::boolean:
    case Kind::integer:
    case Kind::floating:
    case Kind::big_integer:
      found = number_attribute(object, text);
      break;
    default:
      break;
  }
  if (!found.is(Kind::missing)) return found;
  if (changes(object, text)) return unsafe(interpreter, object, text);
  if (const NamedNative* method = find_method(object, text)) {
    return interpreter.heap().make<FunctionObject>(0, method->name.data(), method->native, object);
  }
  return Value();
}

Value get_attribute(Interpreter& interpreter, const Value& object, const Value& name) {
  Value found = find_attribute(interpreter, object, name);
  if (!found.is(Kind::missing)) return found;
  found = find_item(interpreter, object, name);
  return found.is(Kind::missing) ? interpreter.undefined_item(object, name) : found;
}

Value get_item(Interpreter& interpreter, const Value& object, const Value& key) {
  Value found = find_item(interpreter, object, key);
  if (!found.is(Kind::missing)) return found;
  if (key.is(Kind::string)) found = find_attribute(interpreter, object, key);
  return found.is(Kind::missing) ? interpreter.undefined_item(object, key) : found;
}

std::size_t char_offset(Interpreter& interpreter, const Value& string, std::size_t index) {
  const StringObject& object = string.as<StringObject>();
  const std::string_view bytes = object.text.view();
  if (object.ascii() || index == 0) return std::min(index, bytes.size());
  interpreter.budget().work(bytes.size());
  std::size_t offset = 0;
  for (; offset < bytes.size(); ++offset) {
    if ((static_cast<unsigned char>(bytes[offset]) & 0xc0) == 0x80) continue;
    if (index-- == 0) break;
  }
  return offset;
}

Value get_slice(Interpreter& interpreter, const Value& object, const Value& start_value, const Value& stop_value,
                const Value& step_value) {
  if (object.is(Kind::undefined)) fail(object.as<UndefinedObject>().fault, object.as<UndefinedObject>().message());
  const bool sliceable =
      object.is(Kind::list) || object.is(Kind::tuple) || object.is(Kind::string) || object.is(Kind::range);
  if (!sliceable) {
    type_error(object.is(Kind::dict) ? "unhashable type: 'slice'"
                                     : fmt::format("'{}' object is not subscriptable", type_name(object)));
  }
  const auto bound = [](const Value& value, std::int64_t otherwise) {
    if (value.is(Kind::none)) return otherwise;
    if (!value.is_integral()) type_error("slice indices must be integers or None or have an __index__ method");
    return as_index(value);
  };
  const std::int64_t step = std::max<std::int64_t>(bound(step_value, 1), -INT64_MAX);
  if (step == 0) fail(Fault::value_error, "slice step cannot be zero");
  const std::int64_t length = *length_of(interpreter, object);
  const auto clamp = [&](std::int64_t index) {
    if (index < 0) return std::max<std::int64_t>(index < -length ? -1 : index + length, step < 0 ? -1 : 0);
    return std::min(index, step < 0 ? length - 1 : length);
  };
  const std::int64_t start = start_value.is(Kind::none) ? (step < 0 ? length - 1 : 0) : clamp(bound(start_value, 0));
  const std::int64_t stop = stop_value.is(Kind::none) ? (step < 0 ? -1 : length) : clamp(bound(stop_value, 0));
  std::int64_t count = 0;
  if (step > 0 && start < stop) count = (stop - start - 1) / step + 1;
  if (step < 0 && start > stop) count = (start - stop - 1) / -step + 1;

  Budget& budget = interpreter.budget();
  if (object.is(Kind::range)) {
    const RangeObject& range = object.as<RangeObject>();
    std::int64_t by = 0;
    constexpr std::int64_t kMost = std::int64_t{1} << 60;
    if (__builtin_mul_overflow(range.step, step, &by)) by = (range.step < 0) == (step < 0) ? kMost : -kMost;
    by = std::clamp(by, -kMost, kMost);
    return interpreter.heap().make<RangeObject>(0, range.at(start), count, by, range.at(stop));
  }
  if (object.is(Kind::string)) {
    const Text& text = object.text();
    const bool markup = object.as<StringObject>().markup;
    if (step == 1 || count <= 1) {
      const std::size_t begin = count == 0 ? 0 : char_offset(interpreter, object, static_cast<std::size_t>(start));
      const std::size_t end =
          count == 0 ? 0 : char_offset(interpreter, object, static_cast<std::size_t>(start + count));
      return interpreter.text(text.slice(budget, begin, end), markup);
    }
    std::vector<std::size_t> offsets;  // of the characters, and of the end
    budget.require(static_cast<std::size_t>(length + 1) * sizeof(std::size_t));
    budget.work(text.size() * 8);
    for (std::size_t offset = 0; offset < text.size();) {
      offsets.push_back(offset);
      next_char(text.view(), offset);
    }
    offsets.push_back(text.size());
    Text result;
    for (std::int64_t i = 0; i < count; ++i) {
      const auto at = static_cast<std::size_t>(start + i * step);
      budget.step();
      result.append(budget, text, offsets[at], offsets[at + 1]);
    }
    return interpreter.text(std::move(result), markup);
  }
  const Values& items = object.as<SequenceObject>().items;
  Values result;
  budget.require(static_cast<std::size_t>(count) * sizeof(Value));
  budget.work(static_cast<std::size_t>(count) * sizeof(Value));
  result.reserve(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) result.push_back(items[static_cast<std::size_t>(start + i * step)]);
  return object.is(Kind::list) ? interpreter.list(std::move(result)) : interpreter.tuple(std::move(result));
}

}  // namespace sparkx::jinja
