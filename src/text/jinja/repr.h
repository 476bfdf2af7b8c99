// str() and repr() of values.
#pragma once

#include <string>

#include "text/jinja/value.h"

namespace sparkx::jinja {

class Interpreter;

// str(value), appended. Texts keep their origins; what the interpreter writes for lists, dicts and quotes counts as
// data, a number, True or None as written by the template.
void append_str(Interpreter& interpreter, const Value& value, Text& out);
void append_repr(Interpreter& interpreter, const Value& value, Text& out);
Text to_text(Interpreter& interpreter, const Value& value);  // str(value)
// A string stays as it is, markup too; anything else becomes str(value).
Value soft_string(Interpreter& interpreter, const Value& value);

Text escape_non_ascii(Budget& budget, const Text& text);  // what makes repr() into ascii()

// For messages: without an interpreter, cut where it grows long.
std::string short_repr(const Value& value);

}  // namespace sparkx::jinja
