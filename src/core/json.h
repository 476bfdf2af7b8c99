// One JSON value for the whole project: keeps the order of keys and the exact text of numbers.
//
// Checkpoints, templates and requests are hostile input, so parsing bounds depth and size, and refuses duplicate keys
// where asked. Numbers stay as the text they were written in until somebody asks for a value: 18.4 prints as 18.4, and
// an integer may have any number of digits.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace sparkx::json {

class Value;
using Array = std::vector<Value>;
using Member = std::pair<std::string, Value>;
using Object = std::vector<Member>;  // in the order of the text

// The exact text of a JSON number, such as "1e-06" or "123456789012345678901234567890".
struct Number {
  std::string text;
};

class Value {
 public:
  Value() = default;  // null
  Value(std::nullptr_t) {}
  template <std::same_as<bool> T>  // a template, so that no pointer turns into a boolean
  Value(T value) : data_(value) {}
  template <std::integral T>
  requires(!std::same_as<T, bool> && !std::same_as<T, char>) Value(T value) : data_(Number{std::to_string(value)}) {}
  Value(double value);  // printed as Python's repr; NaN and infinities throw Error{invalid_argument}
  Value(Number value) : data_(std::move(value)) {}
  Value(std::string value) : data_(std::move(value)) {}
  Value(std::string_view value) : data_(std::string(value)) {}
  Value(const char* value) : data_(std::string(value)) {}
  Value(Array value) : data_(std::move(value)) {}
  Value(Object value) : data_(std::move(value)) {}

  bool is_null() const { return std::holds_alternative<std::monostate>(data_); }
  bool is_bool() const { return std::holds_alternative<bool>(data_); }
  bool is_number() const { return std::holds_alternative<Number>(data_); }
  bool is_integer() const;  // a number written without fraction or exponent
  bool is_string() const { return std::holds_alternative<std::string>(data_); }
  bool is_array() const { return std::holds_alternative<Array>(data_); }
  bool is_object() const { return std::holds_alternative<Object>(data_); }
  const char* type_name() const;  // "null", "boolean", "number", "string", "array", "object"

  // The as_* functions throw Error{invalid_argument} when the value has another type; callers that know a file and a
  // field check with is_* first and say both.
  bool as_bool() const;
  const Number& as_number() const;
  std::int64_t as_int64() const;  // also throws when the number is not an integer that fits
  double as_double() const;  // nearest double, correctly rounded; throws when the number is beyond the largest double
  const std::string& as_string() const;
  const Array& as_array() const;
  Array& as_array();
  const Object& as_object() const;
  Object& as_object();

  // The member of an object, or null when it is absent or this is no object. Looks through the members in turn.
  const Value* find(std::string_view key) const;

  bool operator==(const Value& other) const;  // numbers compare by text, objects in order

 private:
  std::variant<std::monostate, bool, Number, std::string, Array, Object> data_;
};

enum class Part { start, null, boolean, number, string, key, array_begin, array_end, object_begin, object_end };

// Gets `start` and then the parts of a container in the order of the text: a string or key with its text, a number as
// it is spelled, "true" or "false". The text is there during the call only. With another `start` the container is read
// anew: nothing before it counts.
using PartReceiver = std::function<void(Part part, std::string_view text)>;

// A container that is too large to become a value: it stays empty, and its parts, from its begin to its end, go to the
// receiver. Repeated keys in it are the receiver's matter.
struct Streamed {
  std::vector<std::string_view> path;  // the keys that lead to it
  PartReceiver receiver;
};

struct ParseOptions {
  std::size_t max_depth = 128;  // containers inside each other; values are destroyed and printed recursively
  std::size_t max_bytes = std::size_t{256} << 20;  // of text; the values take up to 20 times as much
  bool refuse_duplicate_keys = true;               // else the last one wins, at the place of the first
  std::span<const Streamed> streamed = {};
};

// Parses exactly one JSON document (RFC 8259, UTF-8). Throws Error{corrupt}; `what` names the document in the message,
// with line and column (in characters, from 1): "config.json:3:17: expected a value". NaN and infinities are no JSON;
// an escaped surrogate needs its other half, so that every string is well-formed UTF-8.
Value parse(std::string_view text, std::string_view what, const ParseOptions& options = {});

struct PrintOptions {
  int indent = -1;                                      // -1: one line
  std::optional<std::string_view> item_separator = {};  // absent: ", " on one line, "," before a line break
  std::string_view key_separator = ": ";
  bool ensure_ascii = false;
  bool sort_keys = false;
};

// As Python's json.dumps prints it (ensure_ascii false unless asked). Bytes that are not UTF-8 print as U+FFFD.
std::string print(const Value& value, const PrintOptions& options = {});

// Python's repr of a finite double: the shortest digits that read back as the same value ("0.1", "1e-06", "1e+16",
// "1.0").
std::string repr(double value);

}  // namespace sparkx::json
