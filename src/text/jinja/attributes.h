// value.name, value[key], value[a:b:c] as Jinja's sandbox resolves them.
#pragma once

#include "text/jinja/value.h"

namespace sparkx::jinja {

class Interpreter;

// The attribute first, then the item; undefined when there is neither. `name` is a string.
Value get_attribute(Interpreter& interpreter, const Value& object, const Value& name);
// The attribute alone; missing when there is none.
Value find_attribute(Interpreter& interpreter, const Value& object, const Value& name);
// The item first, then the attribute.
Value get_item(Interpreter& interpreter, const Value& object, const Value& key);
// The bounds may be none.
Value get_slice(Interpreter& interpreter, const Value& object, const Value& start, const Value& stop,
                const Value& step);

// Where the character `index` of a string begins, in bytes; its size behind the last one.
std::size_t char_offset(Interpreter& interpreter, const Value& string, std::size_t index);

}  // namespace sparkx::jinja
