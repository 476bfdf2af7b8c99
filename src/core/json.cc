// The parser is RapidJSON's SAX reader, which works in a copy of the text and undoes the escapes there; values, limits,
// duplicate keys and messages are here, and so is what that reader does not do: it stops at a NUL byte, accepts an
// escaped low surrogate that stands alone, and refuses numbers beyond a double even when it only passes on their text.
#include "core/json.h"

#include <rapidjson/error/error.h>
#include <rapidjson/reader.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>
#include <limits>
#include <system_error>

#include "core/error.h"
#include "core/unicode.h"

namespace sparkx::json {
namespace {

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

// Column numbers count characters: bytes that do not continue a UTF-8 sequence.
[[noreturn]] void throw_at(std::string_view what, std::string_view text, std::size_t offset, std::string_view message) {
  const std::string_view before = text.substr(0, offset);
  const auto line = 1 + std::count(before.begin(), before.end(), '\n');
  const std::string_view last_line = before.substr(before.rfind('\n') + 1);  // npos + 1 is 0
  const auto column =
      1 + std::count_if(last_line.begin(), last_line.end(), [](unsigned char c) { return (c & 0xC0) != 0x80; });
  throw_error(ErrorCode::corrupt, "{}:{}:{}: {}", what, line, column, message);
}

// The length of the number (RFC 8259) that `text` begins with, 0 when it begins with none.
std::size_t number_length(std::string_view text) {
  std::size_t i = 0;
  const auto digits = [&] {
    const std::size_t start = i;
    while (i < text.size() && is_digit(text[i])) ++i;
    return i > start;
  };
  if (i < text.size() && text[i] == '-') ++i;
  if (i < text.size() && text[i] == '0') {
    ++i;
  } else if (!digits()) {
    return 0;
  }
  if (i < text.size() && text[i] == '.') {
    ++i;
    if (!digits()) return 0;
  }
  if (i < text.size() && (text[i] == 'e' || text[i] == 'E')) {
    ++i;
    if (i < text.size() && (text[i] == '+' || text[i] == '-')) ++i;
    if (!digits()) return 0;
  }
  return i;
}

struct Stretch {
  std::size_t offset;
  std::size_t length;
};

// Overwrites every number that might not fit a double with "0" and blanks, and returns where they stood, in order.
std::vector<Stretch> mask_large_numbers(std::string& text) {
  std::vector<Stretch> masked;
  for (std::size_t i = 0; i < text.size();) {
    if (text[i] == '"') {
      for (++i; i < text.size() && text[i] != '"'; ++i) {
        if (text[i] == '\\') ++i;
      }
      ++i;
    } else if (text[i] == '-' || is_digit(text[i])) {
      // All that could belong to a number. Where that is more than one number, it is none, and its error is found
      // later.
      const std::size_t run_end = std::min(text.find_first_not_of("0123456789+-.eE", i), text.size());
      const std::string_view run = std::string_view(text).substr(i, run_end - i);
      if (number_length(run) == run.size() && (run.size() > 300 || run.find_first_of("eE") != run.npos)) {
        masked.push_back({i, run.size()});
        text[i] = '0';
        std::fill(text.begin() + static_cast<std::ptrdiff_t>(i) + 1,
                  text.begin() + static_cast<std::ptrdiff_t>(run_end), ' ');
      }
      i = run_end;
    } else {
      ++i;
    }
  }
  return masked;
}

// Receives RapidJSON's events and builds the value. Finished values wait on one stack until their container closes.
// While a receiver has a container, its parts go there instead.
class Builder {
 public:
  // Within a handler call stream.Tell() is a token's start: the reader takes tokens from a copy of the stream's state.
  Builder(rapidjson::InsituStringStream& stream, std::string_view text, std::string_view what,
          const ParseOptions& options, const std::vector<Stretch>& masked)
      : stream_(stream), text_(text), what_(what), options_(options), masked_(masked) {}

  Value take() { return std::move(values_.front()); }

  bool Null() { return receiver_ ? hand_over(Part::null, {}) : add(Value()); }
  bool Bool(bool value) { return receiver_ ? hand_over(Part::boolean, value ? "true" : "false") : add(Value(value)); }
  bool RawNumber(const char*, rapidjson::SizeType length, bool) {
    Stretch number{stream_.Tell(), length};
    if (next_masked_ < masked_.size() && masked_[next_masked_].offset == number.offset)
      number = masked_[next_masked_++];
    const std::string_view digits = text_.substr(number.offset, number.length);
    return receiver_ ? hand_over(Part::number, digits) : add(Value(Number{std::string(digits)}));
  }
  bool String(const char* data, rapidjson::SizeType length, bool) {
    const std::string_view text = checked_string(data, length);
    return receiver_ ? hand_over(Part::string, text) : add(Value(text));
  }
  bool Key(const char* data, rapidjson::SizeType length, bool) {
    const std::string_view text = checked_string(data, length);
    if (receiver_) return hand_over(Part::key, text);
    keys_.emplace_back(text);
    key_offsets_.push_back(stream_.Tell());
    return true;
  }
  bool StartArray() {
    enter(Part::array_begin);
    return true;
  }
  bool StartObject() {
    if (enter(Part::object_begin)) first_keys_.push_back(keys_.size());
    return true;
  }
  bool EndArray(rapidjson::SizeType count) {
    if (!leave(Part::array_end)) return true;
    const auto first = values_.end() - static_cast<std::ptrdiff_t>(count);
    Array array(std::make_move_iterator(first), std::make_move_iterator(values_.end()));
    values_.erase(first, values_.end());
    return add(Value(std::move(array)));
  }
  bool EndObject(rapidjson::SizeType count) {
    if (!leave(Part::object_end)) return true;
    const std::size_t first_value = values_.size() - count;
    const std::size_t first_key = first_keys_.back();
    const std::vector<bool> dropped = resolve_duplicates(first_key, first_value, count);
    Object object;
    object.reserve(count);
    for (std::size_t i = 0; i < count; ++i) {
      if (!dropped.empty() && dropped[i]) continue;
      object.emplace_back(std::move(keys_[first_key + i]), std::move(values_[first_value + i]));
    }
    keys_.resize(first_key);
    key_offsets_.resize(first_key);
    values_.resize(first_value);
    first_keys_.pop_back();
    return add(Value(std::move(object)));
  }

  // With numbers as strings these never come; the reader's code names them all the same.
  bool Int(int) { return false; }
  bool Uint(unsigned) { return false; }
  bool Int64(std::int64_t) { return false; }
  bool Uint64(std::uint64_t) { return false; }
  bool Double(double) { return false; }

 private:
  bool add(Value value) {
    values_.push_back(std::move(value));
    return true;
  }

  bool hand_over(Part part, std::string_view text) {
    (*receiver_)(part, text);
    return true;
  }

  // False when the container goes to a receiver.
  bool enter(Part part) {
    if (++depth_ > options_.max_depth) {
      throw_at(what_, text_, stream_.Tell(), fmt::format("nested deeper than {} levels", options_.max_depth));
    }
    if (!receiver_) {
      receiver_ = receiver_here();
      if (!receiver_) return true;
      hand_over(Part::start, {});
    }
    ++streamed_depth_;
    return !hand_over(part, {});
  }

  bool leave(Part part) {
    --depth_;
    if (!receiver_) return true;
    hand_over(part, {});
    if (--streamed_depth_ == 0) {
      receiver_ = nullptr;
      add(part == Part::array_end ? Value(Array()) : Value(Object()));
    }
    return false;
  }

  // Of the container that begins.
  const PartReceiver* receiver_here() const {
    for (const Streamed& streamed : options_.streamed) {
      const std::size_t length = streamed.path.size();
      if (length != depth_ - 1 || length != first_keys_.size()) continue;
      bool equal = true;
      for (std::size_t i = 0; i < length && equal; ++i) {
        const std::size_t last_key = (i + 1 < length ? first_keys_[i + 1] : keys_.size()) - 1;
        equal = keys_[last_key] == streamed.path[i];
      }
      if (equal) return &streamed.receiver;
    }
    return nullptr;
  }

  // The text is UTF-8, but the reader lets \udc00 without its other half through as bytes ED B0 80.
  std::string_view checked_string(const char* data, std::size_t length) const {
    const std::string_view text(data, length);
    for (std::size_t i = text.find('\xED'); i != text.npos; i = text.find('\xED', i + 1)) {
      if (static_cast<unsigned char>(text[i + 1]) >= 0xA0) {
        throw_at(what_, text_, stream_.Tell(),
                 "a string with an unpaired surrogate (\\ud800 to \\udfff) is no Unicode text");
      }
    }
    return text;
  }

  // Which of an object's members give way to a later one with the same key (none: empty). Keys are ordered by hash and
  // only compared where hashes meet, so the time is n log n for any keys, also those made to collide.
  std::vector<bool> resolve_duplicates(std::size_t first_key, std::size_t first_value, std::size_t count) {
    const auto index = [](std::uint64_t entry) { return static_cast<std::size_t>(entry & 0xFFFFFFFFu); };
    const auto key = [&](std::uint64_t entry) -> const std::string& { return keys_[first_key + index(entry)]; };
    hashes_.clear();
    for (std::size_t i = 0; i < count; ++i) {
      hashes_.push_back(std::uint64_t{std::hash<std::string>()(keys_[first_key + i])} << 32 | i);
    }
    std::sort(hashes_.begin(), hashes_.end());
    std::vector<bool> dropped;
    std::size_t first_repeat = count;
    for (auto begin = hashes_.begin(), end = begin; begin != hashes_.end(); begin = end) {
      end = std::find_if(begin, hashes_.end(), [&](std::uint64_t entry) { return entry >> 32 != *begin >> 32; });
      if (end - begin == 1) continue;
      std::stable_sort(begin, end, [&](std::uint64_t a, std::uint64_t b) { return key(a) < key(b); });
      for (auto winner = begin; winner != end;) {
        auto last = winner;
        while (last + 1 != end && key(last[1]) == key(*winner)) {
          ++last;
          dropped.resize(count);
          dropped[index(*last)] = true;
          first_repeat = std::min(first_repeat, index(*last));
        }
        if (last != winner) values_[first_value + index(*winner)] = std::move(values_[first_value + index(*last)]);
        winner = last + 1;
      }
    }
    if (first_repeat < count && options_.refuse_duplicate_keys) {
      throw_at(what_, text_, key_offsets_[first_key + first_repeat],
               fmt::format("duplicate key {}", print(Value(keys_[first_key + first_repeat]))));
    }
    return dropped;
  }

  rapidjson::InsituStringStream& stream_;
  std::string_view text_;
  std::string_view what_;
  const ParseOptions& options_;
  const std::vector<Stretch>& masked_;
  std::size_t next_masked_ = 0;
  std::size_t depth_ = 0;
  std::vector<Value> values_;
  std::vector<std::string> keys_;         // of all open objects
  std::vector<std::size_t> key_offsets_;  // where they stand in the text
  std::vector<std::size_t> first_keys_;   // of each open object, in keys_
  const PartReceiver* receiver_ = nullptr;
  std::size_t streamed_depth_ = 0;     // open containers that go to the receiver
  std::vector<std::uint64_t> hashes_;  // scratch of resolve_duplicates: 32 bits of hash, 32 bits of index
};

const char* message_for(rapidjson::ParseErrorCode code, std::string_view text, std::size_t offset) {
  switch (code) {
    case rapidjson::kParseErrorDocumentEmpty:
      return offset < text.size() ? "expected a value" : "the document is empty";
    case rapidjson::kParseErrorDocumentRootNotSingular:
      return "unexpected text after the document";
    case rapidjson::kParseErrorObjectMissName:
      return "expected a key in double quotes";
    case rapidjson::kParseErrorObjectMissColon:
      return "expected ':' after a key";
    case rapidjson::kParseErrorObjectMissCommaOrCurlyBracket:
      return "expected ',' or '}'";
    case rapidjson::kParseErrorArrayMissCommaOrSquareBracket:
      return "expected ',' or ']'";
    case rapidjson::kParseErrorStringUnicodeEscapeInvalidHex:
      return "expected four hexadecimal digits after \\u";
    case rapidjson::kParseErrorStringUnicodeSurrogateInvalid:
      return "an unpaired surrogate (\\ud800 to \\udfff) is no Unicode text";
    case rapidjson::kParseErrorStringEscapeInvalid:
      return text[offset] == '\\' ? "unknown escape in a string" : "control character in a string, it must be escaped";
    case rapidjson::kParseErrorStringMissQuotationMark:
      return "a string without its closing quotation mark";
    case rapidjson::kParseErrorStringInvalidEncoding:
      return "invalid UTF-8";
    case rapidjson::kParseErrorNumberMissFraction:
      return "expected a digit after the decimal point";
    case rapidjson::kParseErrorNumberTooBig:
      return "malformed number";
    case rapidjson::kParseErrorNumberMissExponent:
      return "expected a digit in the exponent";
    default:
      return "expected a value";
  }
}

// Whether the number's magnitude is at least 1: tells, for text outside the range of double, infinity from zero.
bool at_least_one(std::string_view number) {
  const std::size_t exponent_at = std::min(number.find_first_of("eE"), number.size());
  const std::string_view digits = number.substr(0, exponent_at);
  const std::size_t point = std::min(digits.find('.'), digits.size());
  const std::size_t first = digits.find_first_of("123456789");
  if (first == digits.npos) return false;
  // Power of ten of the first digit that counts.
  const auto power = static_cast<std::int64_t>(point) - static_cast<std::int64_t>(first) - (first < point ? 1 : 0);
  std::string_view exponent_text = number.substr(std::min(exponent_at + 1, number.size()));
  if (exponent_text.starts_with('+')) exponent_text.remove_prefix(1);
  std::int64_t exponent = 0;
  const auto parsed = std::from_chars(exponent_text.data(), exponent_text.data() + exponent_text.size(), exponent);
  if (parsed.ec == std::errc::result_out_of_range) return !exponent_text.starts_with('-');
  return power >= -exponent;
}

}  // namespace

Value::Value(double value) {
  if (!std::isfinite(value)) throw_error(ErrorCode::invalid_argument, "JSON has no number for {}", value);
  data_ = Number{repr(value)};
}

bool Value::is_integer() const {
  return is_number() && as_number().text.find_first_of(".eE") == std::string::npos;
}

const char* Value::type_name() const {
  if (is_null()) return "null";
  if (is_bool()) return "boolean";
  if (is_number()) return "number";
  if (is_string()) return "string";
  return is_array() ? "array" : "object";
}

namespace {

// std::get with our error.
template <typename T, typename Data>
auto& get_as(Data& data, const Value& value, const char* wanted) {
  auto* found = std::get_if<T>(&data);
  if (found == nullptr)
    throw_error(ErrorCode::invalid_argument, "expected a JSON {}, found {}", wanted, value.type_name());
  return *found;
}

}  // namespace

bool Value::as_bool() const {
  return get_as<bool>(data_, *this, "boolean");
}
const Number& Value::as_number() const {
  return get_as<Number>(data_, *this, "number");
}
const std::string& Value::as_string() const {
  return get_as<std::string>(data_, *this, "string");
}
const Array& Value::as_array() const {
  return get_as<Array>(data_, *this, "array");
}
Array& Value::as_array() {
  return get_as<Array>(data_, *this, "array");
}
const Object& Value::as_object() const {
  return get_as<Object>(data_, *this, "object");
}
Object& Value::as_object() {
  return get_as<Object>(data_, *this, "object");
}

std::int64_t Value::as_int64() const {
  const std::string& text = as_number().text;
  std::int64_t value = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  if (parsed.ec != std::errc() || parsed.ptr != text.data() + text.size()) {
    throw_error(ErrorCode::invalid_argument, "{} is not an integer of 64 bits", text);
  }
  return value;
}

double Value::as_double() const {
  const std::string& text = as_number().text;
  double value = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  if (parsed.ec == std::errc::result_out_of_range) {
    if (at_least_one(text)) throw_error(ErrorCode::invalid_argument, "{} is beyond the largest double", text);
    return text.starts_with('-') ? -0.0 : 0.0;
  }
  return value;
}

const Value* Value::find(std::string_view key) const {
  if (const auto* object = std::get_if<Object>(&data_)) {
    for (const Member& member : *object) {
      if (member.first == key) return &member.second;
    }
  }
  return nullptr;
}

bool Value::operator==(const Value& other) const {
  if (data_.index() != other.data_.index()) return false;
  if (is_number()) return as_number().text == other.as_number().text;
  if (is_bool()) return as_bool() == other.as_bool();
  if (is_string()) return as_string() == other.as_string();
  if (is_array()) return as_array() == other.as_array();
  if (is_object()) return as_object() == other.as_object();
  return true;
}

Value parse(std::string_view text, std::string_view what, const ParseOptions& options) {
  const std::size_t max_bytes = std::min<std::size_t>(options.max_bytes, std::numeric_limits<std::uint32_t>::max());
  if (text.size() > max_bytes) {
    throw_error(ErrorCode::corrupt, "{}: {} bytes of JSON, more than the limit of {}", what, text.size(), max_bytes);
  }
  if (const std::size_t nul = text.find('\0'); nul != text.npos) throw_at(what, text, nul, "a NUL byte");

  // Text that is known to be UTF-8 is not looked at again.
  constexpr unsigned kFlags =
      rapidjson::kParseIterativeFlag | rapidjson::kParseNumbersAsStringsFlag | rapidjson::kParseInsituFlag;
  const bool valid = is_valid_utf8(text);
  // A character that the end of the text cuts off is read to its own end before it is refused.
  constexpr std::size_t kLongestCharacter = 4;
  std::string copy(text);
  std::vector<Stretch> masked;
  for (bool again = false;; again = true) {
    copy.append(kLongestCharacter, '\0');
    rapidjson::InsituStringStream stream(copy.data());
    Builder builder(stream, text, what, options, masked);
    rapidjson::Reader reader;
    const rapidjson::ParseResult result =
        valid ? reader.Parse<kFlags>(stream, builder)
              : reader.Parse<kFlags | rapidjson::kParseValidateEncodingFlag>(stream, builder);
    if (!result.IsError()) return builder.take();
    if (result.Code() != rapidjson::kParseErrorNumberTooBig || again) {
      throw_at(what, text, result.Offset(), message_for(result.Code(), text, result.Offset()));
    }
    copy = text;
    masked = mask_large_numbers(copy);
  }
}

}  // namespace sparkx::json
