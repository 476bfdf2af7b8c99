#include "text/jinja/json_dump.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "text/jinja/interpreter.h"
#include "text/jinja/numbers.h"
#include "text/jinja/operators.h"
#include "text/jinja/unicode.h"

namespace sparkx::jinja {
namespace {

class Dumper {
 public:
  Dumper(Interpreter& interpreter, const DumpOptions& options)
      : interpreter_(interpreter), budget_(interpreter.budget()), options_(options) {}

  Text run(const Value& value) {
    dump(value);
    return std::move(out_);
  }

 private:
  void write(std::string_view text) { out_.append(budget_, text, Origin::data); }
  void write(const Text& text) { out_.append(budget_, text); }

  void line() {
    if (!options_.multiline) return;
    write("\n");
    for (int i = 0; i < depth_; ++i) write(options_.indent);
  }

  std::string scalar(const Value& value) {
    if (value.is(Kind::none)) return "null";
    if (value.is(Kind::boolean)) return value.as_bool() ? "true" : "false";
    if (value.is_integral()) return integer_digits(value, 10);
    const double number = value.as_float();
    if (std::isnan(number)) return "NaN";
    if (std::isinf(number)) return number > 0 ? "Infinity" : "-Infinity";
    return float_repr(number);
  }

  void dump(const Value& value) {
    const Budget::Level level(budget_);
    budget_.step();
    if (value.is(Kind::string)) return string(value.text());
    if (value.is(Kind::none) || value.is_number()) return write(scalar(value));
    if (value.is(Kind::list) || value.is(Kind::tuple)) return items(value.as<SequenceObject>().items);
    if (value.is(Kind::dict)) return dict(value.as<DictObject>());
    type_error(fmt::format("Object of type {} is not JSON serializable", type_name(value)));
  }

  void items(const Values& values) {
    if (values.empty()) return write("[]");
    write("[");
    ++depth_;
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (i > 0) write(options_.item_separator);
      line();
      dump(values[i]);
    }
    --depth_;
    line();
    write("]");
  }

  void dict(const DictObject& dict) {
    if (dict.entries.empty()) return write("{}");
    std::vector<const std::pair<Value, Value>*> entries;
    for (const auto& entry : dict.entries) entries.push_back(&entry);
    if (options_.sort_keys) {
      std::stable_sort(entries.begin(), entries.end(),
                       [&](const auto* a, const auto* b) { return less(interpreter_, a->first, b->first); });
    }
    write("{");
    ++depth_;
    for (std::size_t i = 0; i < entries.size(); ++i) {
      const auto& [key, value] = *entries[i];
      if (i > 0) write(options_.item_separator);
      line();
      if (key.is(Kind::string)) {
        string(key.text());
      } else if (key.is(Kind::none) || key.is_number()) {
        write(fmt::format("\"{}\"", scalar(key)));
      } else {
        type_error(fmt::format("keys must be str, int, float, bool or None, not {}", type_name(key)));
      }
      write(options_.key_separator);
      dump(value);
    }
    --depth_;
    line();
    write("}");
  }

  void string(const Text& text) {
    write("\"");
    text.each_stretch(0, text.size(), [&](std::size_t begin, std::size_t end, Origin origin) {
      std::string escaped;
      for (std::size_t position = begin; position < end;) {
        escape(escaped, next_char(text.view(), position));
        if (escaped.size() > 4096) {
          out_.append(budget_, escaped, origin);
          escaped.clear();
        }
      }
      out_.append(budget_, escaped, origin);
    });
    write("\"");
  }

  void escape(std::string& out, char32_t c) const {
    static constexpr std::string_view kFrom = "\"\\\n\r\t\f\b";
    static constexpr std::string_view kTo = "\"\\nrtfb";
    if (const std::size_t known = c < 0x80 ? kFrom.find(static_cast<char>(c)) : std::string_view::npos;
        known != std::string_view::npos) {
      out += '\\';
      out += kTo[known];
    } else if (c < 0x20 || (options_.ensure_ascii && c > 0x7e && c < 0x10000)) {
      out += fmt::format("\\u{:04x}", static_cast<std::uint32_t>(c));
    } else if (options_.ensure_ascii && c >= 0x10000) {
      const auto rest = static_cast<std::uint32_t>(c - 0x10000);
      out += fmt::format("\\u{:04x}\\u{:04x}", 0xd800 + (rest >> 10), 0xdc00 + (rest & 0x3ff));
    } else {
      append_char(out, c);
    }
  }

  Interpreter& interpreter_;
  Budget& budget_;
  const DumpOptions& options_;
  int depth_ = 0;
  Text out_;
};

}  // namespace

Text dump_json(Interpreter& interpreter, const Value& value, const DumpOptions& options) {
  return Dumper(interpreter, options).run(value);
}

}  // namespace sparkx::jinja
