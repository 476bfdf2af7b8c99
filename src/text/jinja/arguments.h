// Binds the arguments of a call to the parameters of a built-in function, as Python does.
#pragma once

#include <cstdint>
#include <initializer_list>

#include "text/jinja/value.h"

namespace sparkx::jinja {

class Interpreter;

class Arguments {
 public:
  // The first `required` parameters must be given. Throws Fault::type_error.
  Arguments(const char* function, Call& call, std::initializer_list<const char*> names, std::size_t required = 0,
            bool by_position_only = false);

  // Missing when it was not given.
  const Value& operator[](std::size_t index) const { return values_[index]; }
  bool has(std::size_t index) const { return !values_[index].is(Kind::missing); }
  bool given(std::size_t index) const { return has(index) && !values_[index].is(Kind::none); }

  std::int64_t integer(std::size_t index, std::int64_t otherwise) const;  // clamped to 64 bits
  bool flag(Interpreter& interpreter, std::size_t index, bool otherwise) const;
  const Value& string(std::size_t index) const;  // throws when it is something else

 private:
  const char* function_;
  Values values_;
};

// The value as an index; a large integer is clamped. Throws Fault::type_error for what is no integer.
std::int64_t as_index(const Value& value);

}  // namespace sparkx::jinja
