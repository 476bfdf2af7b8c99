// Python's operators on values.
#pragma once

#include "text/jinja/ast.h"
#include "text/jinja/value.h"

namespace sparkx::jinja {

class Interpreter;

bool truth(Interpreter& interpreter, const Value& value);
bool equals(Interpreter& interpreter, const Value& a, const Value& b);
bool compare(Interpreter& interpreter, Comparison comparison, const Value& a, const Value& b);
bool less(Interpreter& interpreter, const Value& a, const Value& b);
bool contains(Interpreter& interpreter, const Value& container, const Value& item);
std::size_t hash_of(const Value& value, int depth = 0);  // throws Fault::type_error for lists and dicts

Value add(Interpreter& interpreter, const Value& a, const Value& b);
Value arithmetic(Interpreter& interpreter, ExprKind op, const Value& a, const Value& b);
Value negate(Interpreter& interpreter, const Value& value);
Value positive(Interpreter& interpreter, const Value& value);
double as_double(const Value& number);

// Dicts
const Value* dict_find(Interpreter& interpreter, const DictObject& dict, const Value& key);
void dict_set(Interpreter& interpreter, DictObject& dict, Value key, Value value);
Value make_dict(Interpreter& interpreter);

}  // namespace sparkx::jinja
