#include "text/jinja/iteration.h"

#include <fmt/core.h>

#include <algorithm>

#include "text/jinja/interpreter.h"
#include "text/jinja/unicode.h"

namespace sparkx::jinja {
namespace {

// Items of a list, tuple, range, dict or view, from the last to the first.
class ReverseIterator : public IteratorObject {
 public:
  ReverseIterator(const char* name, Values items) : IteratorObject(name), items_(std::move(items)) {}
  void clear() override { items_.clear(); }
  bool next(Interpreter&, Value& out) override {
    if (items_.empty()) return false;
    out = std::move(items_.back());
    items_.pop_back();
    return true;
  }

 private:
  Values items_;
};

}  // namespace

Iteration::Iteration(Interpreter&, Value over) : over_(std::move(over)) {
  if (!is_iterable(over_)) type_error(fmt::format("'{}' object is not iterable", type_name(over_)));
}

bool Iteration::next(Interpreter& interpreter, Value& item) {
  interpreter.budget().step();
  switch (over_.kind()) {
    case Kind::list:
    case Kind::tuple: {
      const Values& items = over_.as<SequenceObject>().items;
      if (position_ >= items.size()) return false;
      item = items[position_++];
      return true;
    }
    case Kind::string: {
      const Text& text = over_.text();
      if (position_ >= text.size()) return false;
      const std::size_t begin = position_;
      next_char(text.view(), position_);
      item = interpreter.text(text.slice(interpreter.budget(), begin, position_));
      return true;
    }
    case Kind::dict: {
      const auto& entries = over_.as<DictObject>().entries;
      if (position_ >= entries.size()) return false;
      item = entries[position_++].first;
      return true;
    }
    case Kind::view: {
      const ViewObject& view = over_.as<ViewObject>();
      const auto& entries = view.dict.as<DictObject>().entries;
      if (position_ >= entries.size()) return false;
      const auto& [key, value] = entries[position_++];
      if (view.what == ViewObject::What::keys) item = key;
      if (view.what == ViewObject::What::values) item = value;
      if (view.what == ViewObject::What::items) item = interpreter.tuple({key, value});
      return true;
    }
    case Kind::range: {
      const RangeObject& range = over_.as<RangeObject>();
      if (position_ >= static_cast<std::size_t>(range.length)) return false;
      item = Value::integer(range.at(static_cast<std::int64_t>(position_++)));
      return true;
    }
    case Kind::iterator:
      return over_.as<IteratorObject>().next(interpreter, item);
    default:
      return false;  // undefined
  }
}

bool is_iterable(const Value& value) {
  switch (value.kind()) {
    case Kind::list:
    case Kind::tuple:
    case Kind::string:
    case Kind::dict:
    case Kind::view:
    case Kind::range:
    case Kind::iterator:
    case Kind::undefined:
      return true;
    default:
      return false;
  }
}

std::optional<std::int64_t> length_of(Interpreter& interpreter, const Value& value) {
  switch (value.kind()) {
    case Kind::list:
    case Kind::tuple:
      return static_cast<std::int64_t>(value.as<SequenceObject>().items.size());
    case Kind::string:
      return static_cast<std::int64_t>(value.as<StringObject>().chars());
    case Kind::dict:
      return static_cast<std::int64_t>(value.as<DictObject>().entries.size());
    case Kind::view:
      return static_cast<std::int64_t>(value.as<ViewObject>().dict.as<DictObject>().entries.size());
    case Kind::range:
      return value.as<RangeObject>().length;
    case Kind::undefined:
      return 0;
    case Kind::loop:
      return value.as<LoopObject>().length(interpreter);
    default:
      return std::nullopt;
  }
}

Values to_values(Interpreter& interpreter, const Value& iterable) {
  if (iterable.is(Kind::list) || iterable.is(Kind::tuple)) {
    const Values& items = iterable.as<SequenceObject>().items;
    interpreter.budget().require(items.size() * sizeof(Value));
    interpreter.budget().work(items.size() * sizeof(Value));
    return items;
  }
  Iteration iteration(interpreter, iterable);
  Values items;
  for (Value item; iteration.next(interpreter, item);) {
    interpreter.budget().require((items.size() + 1) * sizeof(Value));
    items.push_back(item);
  }
  return items;
}

Value reversed(Interpreter& interpreter, const Value& value) {
  const char* name = nullptr;
  if (value.is(Kind::list)) name = "list_reverseiterator";
  if (value.is(Kind::tuple) || value.is(Kind::undefined)) name = "reversed";
  if (value.is(Kind::range)) name = "range_iterator";
  if (value.is(Kind::dict)) name = "dict_reversekeyiterator";
  if (value.is(Kind::view)) name = "dict_reverseitemiterator";
  if (value.is(Kind::string)) name = "reversed";
  if (name == nullptr) return Value();
  Values items = to_values(interpreter, value);
  const std::size_t memory = items.capacity() * sizeof(Value);
  return interpreter.heap().make<ReverseIterator>(memory, name, std::move(items));
}

}  // namespace sparkx::jinja
