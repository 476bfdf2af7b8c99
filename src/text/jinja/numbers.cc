#include "text/jinja/numbers.h"

#include <fmt/core.h>

#include <boost/multiprecision/cpp_int.hpp>
#include <charconv>
#include <cmath>
#include <limits>

#include "text/jinja/interpreter.h"
#include "text/jinja/unicode.h"

namespace sparkx::jinja {
namespace {

using Big = boost::multiprecision::cpp_int;

struct BigObject : Object {
  explicit BigObject(Big v) : Object(Kind::big_integer), value(std::move(v)) {}
  const Big value;
};

constexpr std::size_t kMaxDigits = 4300;  // Python's own limit between text and integer

Big big(const Value& value) {
  return value.is(Kind::big_integer) ? value.as<BigObject>().value : Big(value.as_integer());
}

std::size_t bits(const Big& value) {
  return value == 0 ? 0 : boost::multiprecision::msb(abs(value)) + 1;
}

void require_bits(Interpreter& interpreter, std::size_t needed) {
  if (needed > interpreter.budget().limits().integer_bits) {
    fail(Fault::limit, fmt::format("an integer of more than {} bits", interpreter.budget().limits().integer_bits));
  }
  interpreter.budget().work(needed * 8);
}

Value make_integer(Interpreter& interpreter, Big value) {
  if (value >= std::numeric_limits<std::int64_t>::min() && value <= std::numeric_limits<std::int64_t>::max()) {
    return Value::integer(static_cast<std::int64_t>(value));
  }
  const std::size_t size = bits(value);
  require_bits(interpreter, size);
  return interpreter.heap().make<BigObject>(size / 8, std::move(value));
}

// Rounds toward minus infinity, as Python divides.
void divide_floor(const Big& a, const Big& b, Big& quotient, Big& remainder) {
  boost::multiprecision::divide_qr(a, b, quotient, remainder);
  if (remainder != 0 && (remainder < 0) != (b < 0)) {
    --quotient;
    remainder += b;
  }
}

double double_from(const std::string& text) {
  double value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

// For a decimal text beyond the range of double: whether it is too large rather than too small.
bool is_large(const std::string& text) {
  const std::size_t e = std::min(text.find('e'), text.size());
  if (e < text.size()) return text[e + 1] != '-';
  return text[0] != '0' && text[0] != '.';
}

[[noreturn]] void zero_division() {
  fail(Fault::zero_division, "division by zero");
}

// value·2^exponent, nearest even, for a value whose lowest bit may stand for lost ones.
double scale(Big value, long exponent) {
  const long size = static_cast<long>(bits(value));
  if (size == 0) return 0;
  // Denormals have fewer bits.
  long keep = std::min<long>(53, size + exponent + 1074);
  if (keep < 0) return 0;
  const long drop = size - keep;
  if (drop > 0) {
    const Big low = value & ((Big(1) << static_cast<unsigned>(drop)) - 1);
    value >>= static_cast<unsigned>(drop);
    const Big half = Big(1) << static_cast<unsigned>(drop - 1);
    if (low > half || (low == half && (value & 1) != 0)) ++value;
    exponent += drop;
  }
  return std::ldexp(static_cast<double>(static_cast<std::uint64_t>(value)), static_cast<int>(exponent));
}

}  // namespace

Value add_integers(Interpreter& interpreter, const Value& a, const Value& b) {
  std::int64_t result;
  if (a.is_small_integer() && b.is_small_integer() &&
      !__builtin_add_overflow(a.as_integer(), b.as_integer(), &result)) {
    return Value::integer(result);
  }
  return make_integer(interpreter, big(a) + big(b));
}

Value subtract_integers(Interpreter& interpreter, const Value& a, const Value& b) {
  std::int64_t result;
  if (a.is_small_integer() && b.is_small_integer() &&
      !__builtin_sub_overflow(a.as_integer(), b.as_integer(), &result)) {
    return Value::integer(result);
  }
  return make_integer(interpreter, big(a) - big(b));
}

Value multiply_integers(Interpreter& interpreter, const Value& a, const Value& b) {
  std::int64_t result;
  if (a.is_small_integer() && b.is_small_integer() &&
      !__builtin_mul_overflow(a.as_integer(), b.as_integer(), &result)) {
    return Value::integer(result);
  }
  const Big left = big(a), right = big(b);
  require_bits(interpreter, bits(left) + bits(right));
  return make_integer(interpreter, left * right);
}

Value floor_divide_integers(Interpreter& interpreter, const Value& a, const Value& b) {
  if (is_zero(b)) zero_division();
  Big quotient, remainder;
  divide_floor(big(a), big(b), quotient, remainder);
  return make_integer(interpreter, std::move(quotient));
}

Value modulo_integers(Interpreter& interpreter, const Value& a, const Value& b) {
  if (is_zero(b)) fail(Fault::zero_division, "integer modulo by zero");
  if (a.is_small_integer() && b.is_small_integer() && b.as_integer() > 0) {
    const std::int64_t remainder = a.as_integer() % b.as_integer();
    return Value::integer(remainder < 0 ? remainder + b.as_integer() : remainder);
  }
  Big quotient, remainder;
  divide_floor(big(a), big(b), quotient, remainder);
  return make_integer(interpreter, std::move(remainder));
}

Value power_integers(Interpreter& interpreter, const Value& a, const Value& b) {
  const Big base = big(a);
  if (base == 0 || base == 1)
    return is_zero(b) ? Value::integer(1) : a.is(Kind::boolean) ? Value::integer(a.as_integer()) : a;
  if (base == -1) return Value::integer(is_zero(modulo_integers(interpreter, b, Value::integer(2))) ? 1 : -1);
  const auto exponent = to_int64(b);
  const std::size_t limit = interpreter.budget().limits().integer_bits;
  // |base| >= 2: the result has more bits than the exponent.
  if (!exponent || static_cast<std::uint64_t>(*exponent) > limit) require_bits(interpreter, limit + 1);
  require_bits(interpreter, (bits(base) - 1) * static_cast<std::size_t>(*exponent));
  return make_integer(interpreter, boost::multiprecision::pow(base, static_cast<unsigned>(*exponent)));
}

Value negate_integer(Interpreter& interpreter, const Value& a) {
  return subtract_integers(interpreter, Value::integer(0), a);
}

double divide_integers(const Value& a, const Value& b) {
  if (is_zero(b)) zero_division();
  constexpr std::int64_t kExact = std::int64_t{1} << 53;
  if (a.is_small_integer() && b.is_small_integer() && std::abs(a.as_integer()) <= kExact &&
      std::abs(b.as_integer()) <= kExact) {
    return static_cast<double>(a.as_integer()) / static_cast<double>(b.as_integer());
  }
  Big dividend = abs(big(a)), divisor = abs(big(b));
  const bool negative = is_negative(a) != is_negative(b);
  // Enough bits for the quotient to round once; what is left over shows in the lowest bit.
  const long shift = 66 + static_cast<long>(bits(divisor)) - static_cast<long>(bits(dividend));
  if (shift > 0) dividend <<= static_cast<unsigned>(shift);
  if (shift < 0) divisor <<= static_cast<unsigned>(-shift);
  Big quotient, remainder;
  boost::multiprecision::divide_qr(dividend, divisor, quotient, remainder);
  if (remainder != 0) quotient |= 1;
  const double result = scale(std::move(quotient), -shift);
  if (std::isinf(result)) fail(Fault::overflow_error, "integer division result too large for a float");
  return negative ? -result : result;
}

int compare_integers(const Value& a, const Value& b) {
  if (a.is_small_integer() && b.is_small_integer()) {
    return a.as_integer() < b.as_integer() ? -1 : a.as_integer() > b.as_integer() ? 1 : 0;
  }
  return big(a).compare(big(b));
}

int compare_integer_with_float(const Value& a, double b) {
  if (std::isinf(b)) return b > 0 ? -1 : 1;
  const double whole = std::trunc(b);
  const int order = big(a).compare(Big(whole));
  if (order != 0) return order < 0 ? -1 : 1;
  return b > whole ? -1 : b < whole ? 1 : 0;
}

bool is_negative(const Value& integer) {
  return integer.is(Kind::big_integer) ? integer.as<BigObject>().value < 0 : integer.as_integer() < 0;
}

bool is_zero(const Value& integer) {
  return integer.is_small_integer() && integer.as_integer() == 0;
}

double to_double(const Value& integer) {
  if (integer.is_small_integer()) return static_cast<double>(integer.as_integer());
  const Big& value = integer.as<BigObject>().value;
  const double result = scale(abs(value), 0);
  if (std::isinf(result)) fail(Fault::overflow_error, "int too large to convert to float");
  return value < 0 ? -result : result;
}

std::int64_t bit_length(const Value& integer) {
  return static_cast<std::int64_t>(bits(big(integer)));
}

std::int64_t bit_count(const Value& integer) {
  std::int64_t count = 0;
  for (Big rest = abs(big(integer)); rest != 0; rest >>= 64) {
    count += __builtin_popcountll(static_cast<unsigned long long>(rest & ~0ull));
  }
  return count;
}

std::string integer_digits(const Value& integer, int base) {
  if (integer.is_small_integer()) {
    char buffer[72];
    return std::string(buffer, std::to_chars(buffer, buffer + sizeof buffer, integer.as_integer(), base).ptr);
  }
  const Big& value = integer.as<BigObject>().value;
  if (base == 10) {
    // log10(2) = 0.30103: no more digits than this
    if (bits(value) > kMaxDigits * 4) {
      fail(Fault::value_error, "Exceeds the limit (4300 digits) for integer string conversion");
    }
    std::string digits = value.str();
    if (digits.size() - (value < 0) > kMaxDigits) {
      fail(Fault::value_error, "Exceeds the limit (4300 digits) for integer string conversion");
    }
    return digits;
  }
  const int shift = base == 16 ? 4 : base == 8 ? 3 : 1;
  std::string digits;
  for (Big rest = abs(value); rest != 0; rest >>= shift) {
    digits += "0123456789abcdef"[static_cast<unsigned>(rest & (base - 1))];
  }
  if (value < 0) digits += '-';
  return std::string(digits.rbegin(), digits.rend());
}

std::optional<std::int64_t> to_int64(const Value& integer) {
  if (integer.is_small_integer()) return integer.as_integer();
  return std::nullopt;
}

std::optional<Value> parse_integer(Interpreter& interpreter, std::string_view text, int base) {
  std::string digits;  // ASCII, without blanks around
  std::size_t position = 0;
  while (position < text.size()) {
    const char32_t c = next_char(text, position);
    const int decimal = decimal_value(c);
    if (decimal >= 0) {
      digits += static_cast<char>('0' + decimal);
    } else if (is_space(c)) {
      digits += ' ';
    } else {
      digits += c < 0x80 ? static_cast<char>(c) : '?';
    }
  }
  const std::size_t first = digits.find_first_not_of(' ');
  if (first == std::string::npos) return std::nullopt;
  digits = digits.substr(first, digits.find_last_not_of(' ') - first + 1);
  bool negative = false;
  if (digits[0] == '+' || digits[0] == '-') {
    negative = digits[0] == '-';
    digits.erase(0, 1);
  }
  const char prefix = digits.size() > 1 && digits[0] == '0' ? static_cast<char>(digits[1] | 0x20) : ' ';
  const int named_base = prefix == 'x' ? 16 : prefix == 'o' ? 8 : prefix == 'b' ? 2 : 0;
  if (named_base != 0 && (base == 0 || base == named_base)) {
    base = named_base;
    digits.erase(0, 2);
    if (!digits.empty() && digits[0] == '_') digits.erase(0, 1);
  } else if (base == 0) {
    base = 10;
    if (digits.size() > 1 && digits[0] == '0' && digits.find_first_not_of("0_") != std::string::npos) {
      return std::nullopt;
    }
  }
  Big result = 0;
  std::size_t count = 0;
  bool after_digit = false;
  const bool power_of_two = base == 2 || base == 4 || base == 8 || base == 16 || base == 32;
  require_bits(interpreter, digits.size() > 200'000 ? SIZE_MAX / 16 : digits.size());
  for (char c : digits) {
    if (c == '_') {
      if (!after_digit) return std::nullopt;
      after_digit = false;
      continue;
    }
    const char lower = static_cast<char>(c | 0x20);
    const int value = c >= '0' && c <= '9' ? c - '0' : lower >= 'a' && lower <= 'z' ? lower - 'a' + 10 : 99;
    if (value >= base) return std::nullopt;
    after_digit = true;
    if (++count > kMaxDigits && !power_of_two) {
      fail(Fault::value_error, "Exceeds the limit (4300 digits) for integer string conversion");
    }
    result = result * base + value;
  }
  if (!after_digit) return std::nullopt;
  if (negative) result = -result;
  return make_integer(interpreter, std::move(result));
}

Value integer_literal(Interpreter& interpreter, std::string_view text) {
  const auto value = parse_integer(interpreter, text, 0);
  if (!value) fail(Fault::value_error, fmt::format("invalid literal for int(): {}", text));
  return *value;
}

Value integer_from_double(Interpreter& interpreter, double value) {
  if (std::isnan(value)) fail(Fault::value_error, "cannot convert float NaN to integer");
  if (std::isinf(value)) fail(Fault::overflow_error, "cannot convert float infinity to integer");
  if (std::abs(value) < 9e18) return Value::integer(static_cast<std::int64_t>(value));
  return make_integer(interpreter, Big(std::trunc(value)));
}

std::string float_repr(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return json::repr(value);
}

std::optional<double> parse_float(std::string_view text) {
  std::string digits;
  std::size_t position = 0;
  while (position < text.size()) {
    const char32_t c = next_char(text, position);
    const int decimal = decimal_value(c);
    if (decimal >= 0) {
      digits += static_cast<char>('0' + decimal);
    } else if (is_space(c)) {
      digits += ' ';
    } else {
      digits += c < 0x80 ? static_cast<char>(c | (c >= 'A' && c <= 'Z' ? 0x20 : 0)) : '?';
    }
  }
  const std::size_t first = digits.find_first_not_of(' ');
  if (first == std::string::npos) return std::nullopt;
  digits = digits.substr(first, digits.find_last_not_of(' ') - first + 1);
  const auto is_digit_at = [&](std::size_t at) { return at < digits.size() && digits[at] >= '0' && digits[at] <= '9'; };
  std::string plain;  // "_" between digits gone
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (digits[i] != '_') {
      plain += digits[i];
    } else if (i == 0 || !is_digit_at(i - 1) || !is_digit_at(i + 1)) {
      return std::nullopt;
    }
  }
  bool negative = false;
  if (plain[0] == '+' || plain[0] == '-') {
    negative = plain[0] == '-';
    plain.erase(0, 1);
  }
  double value = 0;
  if (plain == "inf" || plain == "infinity") {
    value = std::numeric_limits<double>::infinity();
  } else if (plain == "nan") {
    value = std::numeric_limits<double>::quiet_NaN();
  } else {
    if (plain.empty() || plain.find_first_not_of("0123456789.e+-") != std::string::npos) return std::nullopt;
    const char* end = plain.data() + plain.size();
    const auto [stop, error] = std::from_chars(plain.data(), end, value);
    if (stop != end || (error != std::errc() && error != std::errc::result_out_of_range)) return std::nullopt;
    if (error == std::errc::result_out_of_range) {
      value = is_large(plain) ? std::numeric_limits<double>::infinity() : 0.0;
    }
  }
  return negative ? -value : value;
}

double round_float(double value, std::int64_t digits) {
  if (!std::isfinite(value) || value == 0 || digits > 1100) return value;
  if (digits < -400) return std::copysign(0.0, value);
  if (digits >= 0) {
    return double_from(fmt::format("{:.{}f}", value, digits));
  }
  // Tens: the exact decimal digits, cut and rounded by hand.
  const std::string text = fmt::format("{:.1074f}", std::abs(value));
  std::string whole = text.substr(0, text.find('.'));
  const std::string rest = text.substr(text.find('.') + 1);
  const std::size_t cut = static_cast<std::size_t>(-digits);
  if (whole.size() < cut) return std::copysign(0.0, value);
  const std::string dropped = whole.substr(whole.size() - cut) + rest;
  whole = "0" + whole.substr(0, whole.size() - cut);
  const bool above = dropped[0] > '5' || (dropped[0] == '5' && dropped.find_first_not_of('0', 1) != std::string::npos);
  const bool tie = dropped[0] == '5' && !above;
  if (above || (tie && (whole.back() - '0') % 2 == 1)) {
    std::size_t i = whole.size() - 1;
    while (whole[i] == '9') whole[i--] = '0';
    ++whole[i];
  }
  whole += std::string(cut, '0');
  double result = 0;
  const auto parsed = std::from_chars(whole.data(), whole.data() + whole.size(), result);
  if (parsed.ec == std::errc::result_out_of_range) fail(Fault::overflow_error, "rounded value too large to represent");
  return std::copysign(result, value);
}

double float_modulo(double a, double b) {
  if (b == 0) fail(Fault::zero_division, "float modulo");
  double remainder = std::fmod(a, b);
  if (remainder != 0) {
    if ((b < 0) != (remainder < 0)) remainder += b;
    return remainder;
  }
  return std::copysign(0.0, b);
}

double float_floor_divide(double a, double b) {
  if (b == 0) fail(Fault::zero_division, "float floor division by zero");
  const double remainder = std::fmod(a, b);
  double quotient = (a - remainder) / b;
  if (remainder != 0 && (b < 0) != (remainder < 0)) quotient -= 1;
  if (quotient == 0) return std::copysign(0.0, a / b);
  const double floored = std::floor(quotient);
  return quotient - floored > 0.5 ? floored + 1 : floored;
}

}  // namespace sparkx::jinja
