// Python's numbers: integers of any size, floats that print as repr prints them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "text/jinja/value.h"

namespace sparkx::jinja {

class Interpreter;

// Integers. The values are integral (booleans count as 0 and 1); a result that fits 64 bits is a small one.
Value add_integers(Interpreter& interpreter, const Value& a, const Value& b);
Value subtract_integers(Interpreter& interpreter, const Value& a, const Value& b);
Value multiply_integers(Interpreter& interpreter, const Value& a, const Value& b);
Value floor_divide_integers(Interpreter& interpreter, const Value& a, const Value& b);
Value modulo_integers(Interpreter& interpreter, const Value& a, const Value& b);
Value power_integers(Interpreter& interpreter, const Value& a, const Value& b);  // b >= 0
Value negate_integer(Interpreter& interpreter, const Value& a);
double divide_integers(const Value& a, const Value& b);  // correctly rounded
int compare_integers(const Value& a, const Value& b);
int compare_integer_with_float(const Value& a, double b);  // b is no NaN
bool is_negative(const Value& integer);
bool is_zero(const Value& integer);
double to_double(const Value& integer);  // throws Fault::overflow_error when it is too large
std::int64_t bit_length(const Value& integer);
std::int64_t bit_count(const Value& integer);
std::string integer_digits(const Value& integer, int base);  // with a "-" before them
// 64-bit view, when it fits.
std::optional<std::int64_t> to_int64(const Value& integer);

// Python's int(text, base): blanks around, sign, "_" between digits, prefixes. Nothing when it is none.
std::optional<Value> parse_integer(Interpreter& interpreter, std::string_view text, int base);
// The literal of a template or of JSON: "12", "0x1f".
Value integer_literal(Interpreter& interpreter, std::string_view text);
Value integer_from_double(Interpreter& interpreter, double value);  // truncates; NaN and infinities throw

// Floats
std::string float_repr(double value);
std::optional<double> parse_float(std::string_view text);  // Python's float(text)
double round_float(double value, std::int64_t digits);     // half to even, by the exact decimal value
double float_modulo(double a, double b);
double float_floor_divide(double a, double b);

}  // namespace sparkx::jinja
