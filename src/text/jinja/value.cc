#include "text/jinja/value.h"

#include <fmt/core.h>

#include "text/jinja/repr.h"
#include "text/jinja/unicode.h"

namespace sparkx::jinja {

const Text& Value::text() const {
  return as<StringObject>().text;
}

void Value::release() {
  data_.object->heap->release(data_.object);
}

bool Value::same(const Value& other) const {
  if (kind_ != other.kind_) return false;
  if (is_object()) return data_.object == other.data_.object;
  if (kind_ == Kind::floating) return false;  // each number is an object of its own
  return kind_ == Kind::none || data_.integer == other.data_.integer;
}

std::string UndefinedObject::message() const {
  if (!hint.empty()) return hint;
  if (!key.is(Kind::missing)) return fmt::format("{} has no element {}", owner, short_repr(key));
  if (owner.empty()) return fmt::format("'{}' is undefined", name);
  return fmt::format("'{}' has no attribute '{}'", owner, name);
}

std::size_t StringObject::chars() const {
  if (chars_ == SIZE_MAX) chars_ = count_chars(text.view());
  return chars_;
}

void Activation::clear() {
  slots.clear();
  if (parent != nullptr) {
    Object* released = parent;
    parent = nullptr;
    if (--released->references == 0) released->heap->release(released);
  }
}

Value Heap::adopt(Object* object, std::size_t bytes) {
  object->heap = this;
  object->bytes = bytes;
  object->next = first_;
  if (first_ != nullptr) first_->previous = object;
  first_ = object;
  Value value(object);
  budget_.take(bytes);
  return value;
}

void Heap::unlink(Object* object) {
  (object->previous != nullptr ? object->previous->next : first_) = object->next;
  if (object->next != nullptr) object->next->previous = object->previous;
  budget_.give_back(object->bytes);
}

void Heap::release(Object* object) {
  unlink(object);
  object->next = dead_;
  dead_ = object;
  if (freeing_) return;
  freeing_ = true;
  while (dead_ != nullptr) {
    Object* gone = dead_;
    dead_ = gone->next;
    delete gone;  // what it alone held joins the chain
  }
  freeing_ = false;
}

Heap::~Heap() {
  for (Object* object = first_; object != nullptr; object = object->next) ++object->references;
  for (Object* object = first_; object != nullptr; object = object->next) object->clear();
  while (first_ != nullptr) {
    Object* object = first_;
    first_ = object->next;
    delete object;
  }
}

Value Heap::string(Text text, bool markup) {
  const std::size_t memory = text.memory();
  return make<StringObject>(memory, std::move(text), markup);
}

Value Heap::list(Values items) {
  const std::size_t memory = items.capacity() * sizeof(Value);
  return make<SequenceObject>(memory, Kind::list, std::move(items));
}

Value Heap::tuple(Values items) {
  const std::size_t memory = items.capacity() * sizeof(Value);
  return make<SequenceObject>(memory, Kind::tuple, std::move(items));
}

const char* type_name(const Value& value) {
  switch (value.kind()) {
    case Kind::missing:
      return "missing";
    case Kind::none:
      return "NoneType";
    case Kind::boolean:
      return "bool";
    case Kind::integer:
    case Kind::big_integer:
      return "int";
    case Kind::floating:
      return "float";
    case Kind::undefined:
      return "Undefined";
    case Kind::string:
      return value.as<StringObject>().markup ? "Markup" : "str";
    case Kind::list:
      return "list";
    case Kind::tuple:
      return "tuple";
    case Kind::dict:
      return "dict";
    case Kind::view: {
      constexpr const char* kNames[] = {"dict_keys", "dict_values", "dict_items"};
      return kNames[static_cast<int>(value.as<ViewObject>().what)];
    }
    case Kind::range:
      return "range";
    case Kind::iterator:
      return value.as<IteratorObject>().type_name;
    case Kind::space:
      return "TemplateNamespace";
    case Kind::function:
      return "builtin_function_or_method";
    case Kind::macro:
      return "Macro";
    case Kind::loop:
      return "LoopContext";
    case Kind::block:
      return "BlockReference";
    case Kind::self:
      return "TemplateReference";
    case Kind::cycler:
      return "Cycler";
    case Kind::joiner:
      return "Joiner";
    case Kind::scope:
      return "scope";
  }
  return "object";
}

std::string object_type_repr(const Value& value) {
  if (value.is(Kind::none)) return "None";
  return fmt::format("{} object", type_name(value));
}

}  // namespace sparkx::jinja
