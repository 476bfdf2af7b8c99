#include "text/jinja/interpreter.h"

namespace sparkx::jinja {

LoopObject::LoopObject(Interpreter& interpreter, Value over, const Stmt* s, Activation* outer_, int depth_)
    : Object(Kind::loop), iterable(over), iteration(interpreter, std::move(over)), stmt(s), depth0(depth_) {
  if (s->recursive) outer = Value(outer_);
}

void LoopObject::clear() {
  for (Value* value : {&iterable, &outer, &after, &current, &before, &last_changed}) *value = Value();
  iteration = Iteration();
}

bool LoopObject::next(Interpreter& interpreter, Value& item) {
  if (peeked && !after.is(Kind::missing)) {
    item = std::move(after);
  } else if (!iteration.next(interpreter, item)) {
    return false;
  }
  peeked = false;
  after = Value();
  ++index0;
  before = std::move(current);
  current = item;
  return true;
}

const Value& LoopObject::peek(Interpreter& interpreter) {
  if (!peeked || after.is(Kind::missing)) {
    peeked = true;
    if (!iteration.next(interpreter, after)) after = Value();
  }
  return after;
}

std::int64_t LoopObject::length(Interpreter& interpreter) {
  if (known_length >= 0) return known_length;
  if (const auto length = length_of(interpreter, iterable)) return known_length = *length;
  // A generator is read to its end.
  Values rest;
  for (Value item; iteration.next(interpreter, item);) {
    interpreter.budget().require((rest.size() + 1) * sizeof(Value));
    rest.push_back(item);
  }
  known_length = static_cast<std::int64_t>(rest.size()) + index0 + 1 + (peeked && !after.is(Kind::missing) ? 1 : 0);
  iteration = Iteration(interpreter, interpreter.list(std::move(rest)));
  return known_length;
}

}  // namespace sparkx::jinja
