// Printing as Python's json.dumps does it.
#include <algorithm>
#include <charconv>
#include <cmath>

#include <fmt/format.h>

#include "core/json.h"

namespace sparkx::json {
namespace {

// The code point at text[i] and the step to the next; U+FFFD for each maximal ill-formed part, as Python replaces them.
struct CodePoint {
  char32_t value;
  std::size_t length;
};

CodePoint code_point_at(std::string_view text, std::size_t i) {
  const auto byte = [&](std::size_t at) -> unsigned {
    return at < text.size() ? static_cast<unsigned char>(text[at]) : 0;
  };
  const unsigned lead = byte(i);
  if (lead < 0x80) return {lead, 1};
  if (lead < 0xC2 || lead > 0xF4) return {0xFFFD, 1};
  const std::size_t length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  // The second byte's range excludes overlong forms, surrogates and what lies beyond U+10FFFF.
  const unsigned low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  const unsigned high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  char32_t value = lead & (0x7Fu >> length);
  for (std::size_t k = 1; k < length; ++k) {
    const unsigned next = byte(i + k);
    if (next < (k == 1 ? low : 0x80) || next > (k == 1 ? high : 0xBF)) return {0xFFFD, k};
    value = (value << 6) | (next & 0x3F);
  }
  return {value, length};
}

class Printer {
 public:
  explicit Printer(const PrintOptions& options) : options_(options) {
    item_separator_ = options.item_separator.value_or(options.indent >= 0 ? "," : ", ");
  }

  void value(const Value& value, int depth) {
    if (value.is_null()) {
      out_ += "null";
    } else if (value.is_bool()) {
      out_ += value.as_bool() ? "true" : "false";
    } else if (value.is_number()) {
      out_ += value.as_number().text;
    } else if (value.is_string()) {
      string(value.as_string());
    } else if (value.is_array()) {
      array(value.as_array(), depth);
    } else {
      object(value.as_object(), depth);
    }
  }

  std::string take() { return std::move(out_); }

 private:
  void array(const Array& array, int depth) {
    out_ += '[';
    for (const Value& element : array) {
      if (&element != &array.front()) out_ += item_separator_;
      line_break(depth + 1);
      value(element, depth + 1);
    }
    if (!array.empty()) line_break(depth);
    out_ += ']';
  }

  void object(const Object& object, int depth) {
    std::vector<const Member*> members;
    members.reserve(object.size());
    for (const Member& member : object) members.push_back(&member);
    if (options_.sort_keys) {
      std::stable_sort(members.begin(), members.end(),
                       [](const Member* a, const Member* b) { return a->first < b->first; });
    }
    out_ += '{';
    for (const Member* member : members) {
      if (member != members.front()) out_ += item_separator_;
      line_break(depth + 1);
      string(member->first);
      out_ += options_.key_separator;
      value(member->second, depth + 1);
    }
    if (!object.empty()) line_break(depth);
    out_ += '}';
  }

  void line_break(int depth) {
    if (options_.indent < 0) return;
    out_ += '\n';
    out_.append(static_cast<std::size_t>(options_.indent) * static_cast<std::size_t>(depth), ' ');
  }

  void string(std::string_view text) {
    out_ += '"';
    for (std::size_t i = 0; i < text.size();) {
      const CodePoint point = code_point_at(text, i);
      character(point.value, text.substr(i, point.length));
      i += point.length;
    }
    out_ += '"';
  }

  void character(char32_t value, std::string_view bytes) {
    switch (value) {
      case '"':
        out_ += "\\\"";
        return;
      case '\\':
        out_ += "\\\\";
        return;
      case '\n':
        out_ += "\\n";
        return;
      case '\r':
        out_ += "\\r";
        return;
      case '\t':
        out_ += "\\t";
        return;
      case '\b':
        out_ += "\\b";
        return;
      case '\f':
        out_ += "\\f";
        return;
      default:
        break;
    }
    if (value < 0x20 || (options_.ensure_ascii && value > 0x7E)) {
      if (value > 0xFFFF) {
        escape(0xD800 + ((value - 0x10000) >> 10));
        escape(0xDC00 + ((value - 0x10000) & 0x3FF));
      } else {
        escape(value);
      }
    } else if (value == 0xFFFD) {
      out_ += "\xEF\xBF\xBD";  // `bytes` may be what it replaces
    } else {
      out_ += bytes;
    }
  }

  void escape(char32_t unit) { out_ += fmt::format("\\u{:04x}", static_cast<unsigned>(unit)); }

  const PrintOptions& options_;
  std::string_view item_separator_;
  std::string out_;
};

}  // namespace

std::string print(const Value& value, const PrintOptions& options) {
  Printer printer(options);
  printer.value(value, 0);
  return printer.take();
}

std::string repr(double value) {
  if (!std::isfinite(value)) return std::isnan(value) ? "nan" : value < 0 ? "-inf" : "inf";
  char buffer[32];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::scientific).ptr;
  std::string_view text(buffer, static_cast<std::size_t>(end - buffer));  // such as -1.25e-07
  const std::size_t e = text.find('e');
  int exponent = 0;
  std::from_chars(text.data() + e + (text[e + 1] == '+' ? 2 : 1), end, exponent);
  if (exponent < -4 || exponent >= 16) return std::string(text);  // the same two or more exponent digits as Python's

  std::string out = text.starts_with('-') ? "-" : "";
  std::string digits;
  for (const char c : text.substr(0, e)) {
    if (c >= '0' && c <= '9') digits += c;
  }
  if (exponent < 0) return out + "0." + std::string(static_cast<std::size_t>(-exponent - 1), '0') + digits;
  const auto whole = static_cast<std::size_t>(exponent) + 1;
  if (digits.size() < whole) digits.append(whole - digits.size(), '0');
  out += digits.substr(0, whole) + '.';
  return out + (digits.size() > whole ? digits.substr(whole) : "0");
}

}  // namespace sparkx::json
