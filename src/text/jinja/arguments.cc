#include "text/jinja/arguments.h"

#include <fmt/core.h>

#include <limits>

#include "text/jinja/interpreter.h"
#include "text/jinja/numbers.h"
#include "text/jinja/operators.h"

namespace sparkx::jinja {

Arguments::Arguments(const char* function, Call& call, std::initializer_list<const char*> names, std::size_t required,
                     bool by_position_only)
    : function_(function), values_(std::move(call.positional)) {
  if (values_.size() > names.size()) {
    type_error(fmt::format("{}() takes at most {} argument(s) ({} given)", function, names.size(), values_.size()));
  }
  const std::size_t by_position = values_.size();
  values_.resize(names.size());
  for (auto& [name, value] : call.named) {
    std::size_t index = 0;
    for (const char* known : names) {
      if (name == known) break;
      ++index;
    }
    if (index == names.size() || by_position_only) {
      type_error(fmt::format("{}() got an unexpected keyword argument '{}'", function, name));
    }
    if (index < by_position) type_error(fmt::format("{}() got multiple values for argument '{}'", function, name));
    values_[index] = std::move(value);
  }
  for (std::size_t i = 0; i < required; ++i) {
    if (!has(i)) type_error(fmt::format("{}() missing required argument: '{}'", function, *(names.begin() + i)));
  }
}

std::int64_t Arguments::integer(std::size_t index, std::int64_t otherwise) const {
  return has(index) ? as_index(values_[index]) : otherwise;
}

bool Arguments::flag(Interpreter& interpreter, std::size_t index, bool otherwise) const {
  return has(index) ? truth(interpreter, values_[index]) : otherwise;
}

const Value& Arguments::string(std::size_t index) const {
  if (!values_[index].is(Kind::string)) {
    type_error(fmt::format("{}() argument {} must be str, not {}", function_, index + 1, type_name(values_[index])));
  }
  return values_[index];
}

std::int64_t as_index(const Value& value) {
  if (!value.is_integral()) {
    type_error(fmt::format("'{}' object cannot be interpreted as an integer", type_name(value)));
  }
  const auto small = to_int64(value);
  if (small) return *small;
  return is_negative(value) ? std::numeric_limits<std::int64_t>::min() : std::numeric_limits<std::int64_t>::max();
}

}  // namespace sparkx::jinja
