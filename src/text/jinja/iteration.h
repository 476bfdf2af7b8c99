// Going through a value as Python's iter() does.
#pragma once

#include <cstddef>
#include <optional>

#include "text/jinja/value.h"

namespace sparkx::jinja {

class Interpreter;

class Iteration {
 public:
  Iteration() = default;
  // Throws Fault::type_error when the value cannot be gone through.
  Iteration(Interpreter& interpreter, Value over);

  // The next item; false at the end. Each one costs a step.
  bool next(Interpreter& interpreter, Value& item);

 private:
  Value over_;
  std::size_t position_ = 0;
};

bool is_iterable(const Value& value);
// Python's len(); nothing for what has none.
std::optional<std::int64_t> length_of(Interpreter& interpreter, const Value& value);
Values to_values(Interpreter& interpreter, const Value& iterable);

// What `reversed` gives; missing for what cannot be reversed without reading it.
Value reversed(Interpreter& interpreter, const Value& value);

}  // namespace sparkx::jinja
