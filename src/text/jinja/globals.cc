// The functions that every template sees.
#include <fmt/core.h>

#include <locale.h>

#include <ctime>

#include "text/jinja/arguments.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/numbers.h"
#include "text/jinja/operators.h"
#include "text/jinja/repr.h"

namespace sparkx::jinja {
namespace {

constexpr std::int64_t kMaxRange = 100'000;  // jinja2.sandbox.MAX_RANGE

Value range(Interpreter& interpreter, const Value&, Call& call) {
  const Arguments arguments("range", call, {"start", "stop", "step"}, 1, true);
  constexpr std::int64_t kMost = std::int64_t{1} << 60;
  std::int64_t bounds[] = {0, 0, 1};
  for (std::size_t i = 0; i < 3; ++i) {
    if (!arguments.has(i)) continue;
    bounds[i] = as_index(arguments[i]);
    if (bounds[i] < -kMost || bounds[i] > kMost) fail(Fault::overflow_error, "range() argument too large");
  }
  auto [start, stop, step] = bounds;
  if (!arguments.has(1)) {
    stop = start;
    start = 0;
  }
  if (step == 0) fail(Fault::value_error, "range() arg 3 must not be zero");
  std::int64_t length = 0;
  if (step > 0 && start < stop) length = (stop - start - 1) / step + 1;
  if (step < 0 && start > stop) length = (start - stop - 1) / -step + 1;
  if (length > kMaxRange) {
    fail(Fault::overflow_error,
         fmt::format("Range too big. The sandbox blocks ranges larger than MAX_RANGE ({}).", kMaxRange));
  }
  return interpreter.heap().make<RangeObject>(0, start, length, step, stop);
}

// dict(mapping or pairs, **named)
Value dict(Interpreter& interpreter, const Value&, Call& call) {
  if (call.positional.size() > 1) type_error("dict expected at most 1 argument");
  Value result = make_dict(interpreter);
  DictObject& made = result.as<DictObject>();
  if (!call.positional.empty()) {
    const Value& from = call.positional[0];
    if (from.is(Kind::dict)) {
      for (const auto& [key, value] : from.as<DictObject>().entries) dict_set(interpreter, made, key, value);
    } else {
      Iteration iteration(interpreter, from);
      for (Value pair; iteration.next(interpreter, pair);) {
        if (!is_iterable(pair)) type_error("cannot convert dictionary update sequence element to a sequence");
        const Values both = to_values(interpreter, pair);
        if (both.size() != 2) fail(Fault::value_error, "dictionary update sequence element has the wrong length");
        dict_set(interpreter, made, both[0], both[1]);
      }
    }
  }
  for (auto& [name, value] : call.named) {
    dict_set(interpreter, made, interpreter.text(name, Origin::source), std::move(value));
  }
  return result;
}

Value space(Interpreter& interpreter, const Value& self, Call& call) {
  Value attributes = dict(interpreter, self, call);
  for (const auto& [key, value] : attributes.as<DictObject>().entries) {
    if (key.is(Kind::string) && key.text().view().starts_with('_')) {
      fail(Fault::security_error,
           fmt::format("Chat templates cannot store underscore-prefixed attributes on a namespace, but got {}.",
                       short_repr(key)));
    }
  }
  Value result = interpreter.heap().make<SpaceObject>(0);
  result.as<SpaceObject>().attributes = std::move(attributes);
  return result;
}

Value cycler(Interpreter& interpreter, const Value&, Call& call) {
  if (!call.named.empty()) type_error("cycler() takes no keyword arguments");
  if (call.positional.empty()) fail(Fault::runtime_error, "at least one item has to be provided");
  const std::size_t memory = call.positional.size() * sizeof(Value);
  return interpreter.heap().make<CyclerObject>(memory, std::move(call.positional));
}

Value joiner(Interpreter& interpreter, const Value&, Call& call) {
  const Arguments arguments("joiner", call, {"sep"});
  Value separator = arguments.has(0) ? arguments[0] : interpreter.text(", ", Origin::source);
  return interpreter.heap().make<JoinerObject>(0, std::move(separator));
}

Value raise_exception(Interpreter& interpreter, const Value&, Call& call) {
  const Arguments arguments("raise_exception", call, {"message"}, 1);
  fail(Fault::template_error, to_text(interpreter, arguments[0]).bytes());
}

// strftime as Python's datetime has it, in the C locale whatever the process uses.
Value strftime_now(Interpreter& interpreter, const Value&, Call& call) {
  const Arguments arguments("strftime_now", call, {"format"}, 1);
  const Text& format = arguments.string(0).text();
  interpreter.budget().work(format.size());
  constexpr std::size_t kLongest = 4096;
  if (format.size() > kLongest) fail(Fault::limit, "a time format of more than 4096 bytes");
  const LocalTime now = interpreter.clock()();
  std::string pattern;
  for (std::size_t i = 0; i < format.size(); ++i) {
    const char c = format.bytes()[i];
    const char next = i + 1 < format.size() ? format.bytes()[i + 1] : '\0';
    if (c != '%' || next == '\0') {
      pattern += c;
    } else if (next == 'f') {  // what C has no letter for
      pattern += fmt::format("{:06}", now.microseconds);
      ++i;
    } else if (next == 'z' || next == 'Z') {  // a time without a zone
      ++i;
    } else {
      pattern += c;
      pattern += next;
      ++i;
    }
  }
  if (pattern.find('\0') != std::string::npos) fail(Fault::value_error, "embedded null character");
  static const locale_t kLocale = newlocale(LC_ALL_MASK, "C", nullptr);
  std::string result(pattern.size() * 64 + 64, '\0');
  pattern += '.';  // so that an empty result is not taken for an error
  result.resize(strftime_l(result.data(), result.size(), pattern.c_str(), &now.time, kLocale));
  if (result.empty()) fail(Fault::value_error, "invalid time format");
  result.pop_back();
  return interpreter.text(result, Origin::source);
}

Value lipsum(Interpreter&, const Value&, Call&) {
  fail(Fault::unsupported, "lipsum(): a render must give the same text each time");
}

}  // namespace

void Interpreter::add_globals() {
  static constexpr std::pair<const char*, Native> kGlobals[] = {
      {"cycler", cycler},   {"dict", dict},
      {"joiner", joiner},   {"lipsum", lipsum},
      {"namespace", space}, {"raise_exception", raise_exception},
      {"range", range},     {"strftime_now", strftime_now},
  };
  for (const auto& [name, native] : kGlobals) {
    root_context_.parent.emplace(name, heap_.make<FunctionObject>(0, name, native, Value()));
  }
}

}  // namespace sparkx::jinja
