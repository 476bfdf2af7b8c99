// HTML escaping as markupsafe does it. Chat templates do not escape, but `escape`, `safe` and autoescape exist.
#pragma once

#include "text/jinja/value.h"

namespace sparkx::jinja {

class Interpreter;

// escape(value): markup stays, everything else becomes text with & < > ' " replaced.
Value escape(Interpreter& interpreter, const Value& value);
// a + b: what is no markup is escaped when the other one is.
Value add_strings(Interpreter& interpreter, const Value& a, const Value& b);
Text escape_text(Budget& budget, const Text& text);
Value strip_tags(Interpreter& interpreter, const Value& value);

}  // namespace sparkx::jinja
