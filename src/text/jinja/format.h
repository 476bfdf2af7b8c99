// Python's two ways to format: text % values and text.format(...).
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "text/jinja/value.h"

namespace sparkx::jinja {

class Interpreter;

Value percent_format(Interpreter& interpreter, const Value& format, const Value& values);
Text str_format(Interpreter& interpreter, const Value& format, const Values& positional,
                const std::vector<std::pair<std::string, Value>>& named);

// The digits of a finite or infinite float as printf's %e, %f and %g write them, without a sign. `kind` is one of
// "eEfFgG"; `alternate` keeps the point and, with g, the zeros.
std::string float_digits(Budget& budget, double value, char kind, std::int64_t precision, bool alternate);

}  // namespace sparkx::jinja
