#include "text/jinja/repr.h"

#include <fmt/core.h>

#include "text/jinja/interpreter.h"
#include "text/jinja/numbers.h"
#include "text/jinja/unicode.h"

namespace sparkx::jinja {
namespace {

void append_escaped(std::string& out, char32_t c, char quote) {
  if (c == static_cast<unsigned char>(quote) || c == '\\') {
    out += '\\';
    out += static_cast<char>(c);
  } else if (c == '\n') {
    out += "\\n";
  } else if (c == '\r') {
    out += "\\r";
  } else if (c == '\t') {
    out += "\\t";
  } else if (is_printable(c)) {
    append_char(out, c);
  } else if (c < 0x100) {
    out += fmt::format("\\x{:02x}", static_cast<std::uint32_t>(c));
  } else if (c < 0x10000) {
    out += fmt::format("\\u{:04x}", static_cast<std::uint32_t>(c));
  } else {
    out += fmt::format("\\U{:08x}", static_cast<std::uint32_t>(c));
  }
}

char quote_for(std::string_view text) {
  return text.find('\'') != std::string_view::npos && text.find('"') == std::string_view::npos ? '"' : '\'';
}

void append_quoted(Budget& budget, const Text& text, Text& out) {
  const char quote = quote_for(text.view());
  out.append(budget, std::string_view(&quote, 1), Origin::data);
  text.each_stretch(0, text.size(), [&](std::size_t begin, std::size_t end, Origin origin) {
    std::string escaped;
    for (std::size_t position = begin; position < end;) {
      append_escaped(escaped, next_char(text.view(), position), quote);
      if (escaped.size() > 4096) {
        out.append(budget, escaped, origin);
        escaped.clear();
      }
    }
    out.append(budget, escaped, origin);
  });
  out.append(budget, std::string_view(&quote, 1), Origin::data);
}

class Printer {
 public:
  Printer(Interpreter& interpreter, Text& out) : interpreter_(interpreter), out_(out) {}

  void repr(const Value& value) {
    Budget& budget = interpreter_.budget();
    const Budget::Level level(budget);
    budget.step();
    switch (value.kind()) {
      case Kind::string:
        if (value.as<StringObject>().markup) write("Markup(");
        append_quoted(budget, value.text(), out_);
        if (value.as<StringObject>().markup) write(")");
        return;
      case Kind::list:
        return items("[", value.as<SequenceObject>().items, "]");
      case Kind::tuple:
        return items("(", value.as<SequenceObject>().items, value.as<SequenceObject>().items.size() == 1 ? ",)" : ")");
      case Kind::dict:
        return dict(value.as<DictObject>());
      case Kind::view:
        write(type_name(value));
        return items("([", to_values(interpreter_, value), "])");
      case Kind::space:
        write("<Namespace ");
        repr(value.as<SpaceObject>().attributes);
        return write(">");
      case Kind::undefined:
        return write("Undefined");
      default:
        return append_str(interpreter_, value, out_);
    }
  }

 private:
  void write(std::string_view text) { out_.append(interpreter_.budget(), text, Origin::data); }

  void items(std::string_view open, const Values& values, std::string_view close) {
    write(open);
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (i > 0) write(", ");
      repr(values[i]);
    }
    write(close);
  }

  void dict(const DictObject& dict) {
    write("{");
    for (std::size_t i = 0; i < dict.entries.size(); ++i) {
      if (i > 0) write(", ");
      repr(dict.entries[i].first);
      write(": ");
      repr(dict.entries[i].second);
    }
    write("}");
  }

  Interpreter& interpreter_;
  Text& out_;
};

std::string range_text(const RangeObject& range) {
  return range.step == 1 ? fmt::format("range({}, {})", range.start, range.stop)
                         : fmt::format("range({}, {}, {})", range.start, range.stop, range.step);
}

}  // namespace

void append_str(Interpreter& interpreter, const Value& value, Text& out) {
  Budget& budget = interpreter.budget();
  const auto write = [&](std::string_view text, Origin origin = Origin::source) { out.append(budget, text, origin); };
  switch (value.kind()) {
    case Kind::string:
      return out.append(budget, value.text());
    case Kind::undefined:
    case Kind::missing:
      return;
    case Kind::none:
      return write("None");
    case Kind::boolean:
      return write(value.as_bool() ? "True" : "False");
    case Kind::integer:
    case Kind::big_integer:
      return write(integer_digits(value, 10));
    case Kind::floating:
      return write(float_repr(value.as_float()));
    case Kind::range:
      return write(range_text(value.as<RangeObject>()), Origin::data);
    case Kind::macro: {
      const std::string& name = value.as<MacroObject>().macro->text;
      return write(name.empty() ? "<Macro anonymous>" : fmt::format("<Macro '{}'>", name), Origin::data);
    }
    case Kind::loop: {
      LoopObject& loop = value.as<LoopObject>();
      return write(fmt::format("<LoopContext {}/{}>", loop.index0 + 1, loop.length(interpreter)), Origin::data);
    }
    case Kind::function:
      return write(fmt::format("<built-in method {}>", value.as<FunctionObject>().name), Origin::data);
    case Kind::self:
      return write("<TemplateReference None>", Origin::data);
    case Kind::iterator:
    case Kind::block:
    case Kind::cycler:
    case Kind::joiner:
    case Kind::scope:
      return write(fmt::format("<{} object>", type_name(value)), Origin::data);
    case Kind::list:
    case Kind::tuple:
    case Kind::dict:
    case Kind::view:
    case Kind::space:
      return append_repr(interpreter, value, out);
  }
}

void append_repr(Interpreter& interpreter, const Value& value, Text& out) {
  Printer(interpreter, out).repr(value);
}

Text to_text(Interpreter& interpreter, const Value& value) {
  if (value.is(Kind::string)) return value.text();
  Text text;
  append_str(interpreter, value, text);
  return text;
}

Value soft_string(Interpreter& interpreter, const Value& value) {
  return value.is(Kind::string) ? value : interpreter.text(to_text(interpreter, value));
}

Text escape_non_ascii(Budget& budget, const Text& text) {
  Text result;
  for (std::size_t position = 0; position < text.size();) {
    const std::size_t begin = position;
    const auto c = static_cast<std::uint32_t>(next_char(text.view(), position));
    if (c < 0x80) {
      result.append(budget, text, begin, position);
    } else {
      const char* pattern = c < 0x100 ? "\\x{:02x}" : c < 0x10000 ? "\\u{:04x}" : "\\U{:08x}";
      result.append(budget, fmt::format(fmt::runtime(pattern), c), text.origin_at(begin));
    }
  }
  return result;
}

std::string short_repr(const Value& value) {
  constexpr std::size_t kMost = 80;
  switch (value.kind()) {
    case Kind::none:
      return "None";
    case Kind::boolean:
      return value.as_bool() ? "True" : "False";
    case Kind::integer:
      return std::to_string(value.as_integer());
    case Kind::floating:
      return float_repr(value.as_float());
    case Kind::string: {
      const std::string& text = value.text().bytes();
      const char quote = quote_for(text);
      std::string result(1, quote);
      std::size_t position = 0;
      while (position < text.size() && position < kMost) append_escaped(result, next_char(text, position), quote);
      if (position < text.size()) result += "...";
      return result + quote;
    }
    default:
      return fmt::format("<{}>", type_name(value));
  }
}

}  // namespace sparkx::jinja
