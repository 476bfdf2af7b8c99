// Filters that go through a sequence.
#include <fmt/core.h>

#include <algorithm>

#include "text/jinja/arguments.h"
#include "text/jinja/attributes.h"
#include "text/jinja/filters.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/markup.h"
#include "text/jinja/numbers.h"
#include "text/jinja/operators.h"
#include "text/jinja/repr.h"
#include "text/jinja/strings.h"

namespace sparkx::jinja {
namespace {

// "a.b.0" as a way into values: strings and integers.
Values attribute_path(Interpreter& interpreter, const Value& attribute) {
  if (attribute.is(Kind::missing) || attribute.is(Kind::none)) return {};
  if (!attribute.is(Kind::string)) return {attribute};
  const Text dot(".", Origin::source);
  Values path;
  for (Text& part : split(interpreter.budget(), attribute.text(), &dot, -1, false)) {
    const bool number = !part.empty() && part.bytes().find_first_not_of("0123456789") == std::string::npos;
    path.push_back(number ? parse_integer(interpreter, part.view(), 10).value() : interpreter.text(std::move(part)));
  }
  return path;
}

Value follow(Interpreter& interpreter, Value item, const Values& path, const Value& otherwise = Value()) {
  for (const Value& part : path) {
    item = get_item(interpreter, item, part);
    if (item.is(Kind::undefined) && !otherwise.is(Kind::missing) && !otherwise.is(Kind::none)) item = otherwise;
  }
  return item;
}

Value ignore_case(Interpreter& interpreter, Value value) {
  if (!value.is(Kind::string)) return value;
  return interpreter.text(change_case(interpreter.budget(), value.text(), Case::lower),
                          value.as<StringObject>().markup);
}

// What makes a value comparable: an attribute of it, without case unless asked.
class Key {
 public:
  Key(Interpreter& interpreter, const Value& attribute, bool case_sensitive, Value otherwise = Value())
      : interpreter_(interpreter),
        path_(attribute_path(interpreter, attribute)),
        case_sensitive_(case_sensitive),
        otherwise_(std::move(otherwise)) {}

  Value operator()(const Value& item) const {
    Value value = follow(interpreter_, item, path_, otherwise_);
    return case_sensitive_ ? value : ignore_case(interpreter_, std::move(value));
  }

 private:
  Interpreter& interpreter_;
  Values path_;
  bool case_sensitive_;
  Value otherwise_;
};

using Keyed = std::vector<std::pair<Value, Value>>;  // key, value

void sort_by_key(Interpreter& interpreter, Keyed& items, bool reverse) {
  interpreter.budget().require(items.size() * sizeof(items[0]));
  if (reverse) {
    // Equal items keep their order in reverse too.
    std::stable_sort(items.begin(), items.end(),
                     [&](const auto& a, const auto& b) { return less(interpreter, b.first, a.first); });
  } else {
    std::stable_sort(items.begin(), items.end(),
                     [&](const auto& a, const auto& b) { return less(interpreter, a.first, b.first); });
  }
}

template <typename MakeKey>
Keyed with_keys(Interpreter& interpreter, const Value& iterable, const MakeKey& key) {
  Keyed items;
  Iteration iteration(interpreter, iterable);
  for (Value item; iteration.next(interpreter, item);) {
    interpreter.budget().require((items.size() + 1) * sizeof(items[0]));
    Value made = key(item);
    items.emplace_back(std::move(made), item);
  }
  return items;
}

Value values_of(Interpreter& interpreter, Keyed items) {
  Values values;
  values.reserve(items.size());
  for (auto& [key, value] : items) values.push_back(std::move(value));
  return interpreter.list(std::move(values));
}

Value sort(Interpreter& interpreter, const Value& value, Call& call) {
  const Arguments arguments("sort", call, {"reverse", "case_sensitive", "attribute"});
  const bool case_sensitive = arguments.flag(interpreter, 1, false);
  // Several attributes, with commas between them, make a list of keys.
  std::vector<Key> keys;
  if (arguments.has(2) && arguments[2].is(Kind::string)) {
    const Text comma(",", Origin::source);
    for (Text& part : split(interpreter.budget(), arguments[2].text(), &comma, -1, false)) {
      keys.emplace_back(interpreter, interpreter.text(std::move(part)), case_sensitive);
    }
  } else {
    keys.emplace_back(interpreter, arguments[2], case_sensitive);
  }
  Keyed items = with_keys(interpreter, value, [&](const Value& item) {
    Values made;
    for (const Key& key : keys) made.push_back(key(item));
    return interpreter.list(std::move(made));
  });
  sort_by_key(interpreter, items, arguments.integer(0, 0) != 0);
  return values_of(interpreter, std::move(items));
}

Value dictsort(Interpreter& interpreter, const Value& value, Call& call) {
  const Arguments arguments("dictsort", call, {"case_sensitive", "by", "reverse"});
  bool by_value = false;
  if (arguments.has(1)) {
    const bool string = arguments[1].is(Kind::string);
    by_value = string && arguments[1].text().bytes() == "value";
    if (!by_value && !(string && arguments[1].text().bytes() == "key")) {
      fail(Fault::runtime_error, "You can only sort by either \"key\" or \"value\"");
    }
  }
  if (value.is(Kind::undefined)) fail(value.as<UndefinedObject>().fault, value.as<UndefinedObject>().message());
  if (!value.is(Kind::dict)) type_error(fmt::format("'{}' object has no attribute 'items'", type_name(value)));
  const bool case_sensitive = arguments.flag(interpreter, 0, false);
  const Value view = interpreter.heap().make<ViewObject>(0, value, ViewObject::What::items);
  Keyed items = with_keys(interpreter, view, [&](const Value& item) {
    const Value key = item.as<SequenceObject>().items[by_value ? 1 : 0];
    return case_sensitive ? key : ignore_case(interpreter, key);
  });
  sort_by_key(interpreter, items, arguments.integer(2, 0) != 0);
  return values_of(interpreter, std::move(items));
}

Value groupby(Interpreter& interpreter, const Value& value, Call& call) {
  const Arguments arguments("groupby", call, {"attribute", "default", "case_sensitive"}, 1);
  const bool case_sensitive = arguments.flag(interpreter, 2, false);
  const Key key(interpreter, arguments[0], case_sensitive, arguments[1]);
  const Key shown(interpreter, arguments[0], true, arguments[1]);
  Keyed items = with_keys(interpreter, value, key);
  sort_by_key(interpreter, items, false);
  Values groups;
  for (std::size_t begin = 0, end = 0; begin < items.size(); begin = end) {
    Values members;
    for (end = begin; end < items.size() && (end == begin || equals(interpreter, items[end].first, items[begin].first));
         ++end) {
      members.push_back(items[end].second);
    }
    Value grouper = case_sensitive ? items[begin].first : shown(items[begin].second);
    Value group = interpreter.tuple({std::move(grouper), interpreter.list(std::move(members))});
    group.as<SequenceObject>().group = true;
    groups.push_back(std::move(group));
  }
  return interpreter.list(std::move(groups));
}

template <bool kMost>
Value extreme(Interpreter& interpreter, const Value& value, Call& call) {
  const Arguments arguments(kMost ? "max" : "min", call, {"case_sensitive", "attribute"});
  const Key key(interpreter, arguments[1], arguments.flag(interpreter, 0, false));
  Iteration iteration(interpreter, value);
  Value best, best_key, item;
  while (iteration.next(interpreter, item)) {
    Value item_key = key(item);
    if (best.is(Kind::missing) ||
        (kMost ? less(interpreter, best_key, item_key) : less(interpreter, item_key, best_key))) {
      best = item;
      best_key = std::move(item_key);
    }
  }
  return best.is(Kind::missing) ? interpreter.undefined("No aggregated item, sequence was empty.") : best;
}

Value sum(Interpreter& interpreter, const Value& value, Call& call) {
  const Arguments arguments("sum", call, {"attribute", "start"});
  const Values path = attribute_path(interpreter, arguments[0]);
  Value total = arguments.has(1) ? arguments[1] : Value::integer(0);
  if (total.is(Kind::string)) type_error("sum() can't sum strings [use ''.join(seq) instead]");
  Iteration iteration(interpreter, value);
  for (Value item; iteration.next(interpreter, item);) total = add(interpreter, total, follow(interpreter, item, path));
  return total;
}

// With autoescape on, everything is escaped as soon as one piece is markup.
Value join_markup(Interpreter& interpreter, const Value& value, const Value& separator, const Values& path) {
  Values pieces;
  const auto is_markup = [](const Value& piece) { return piece.is(Kind::string) && piece.as<StringObject>().markup; };
  bool markup = is_markup(separator);
  Iteration iteration(interpreter, value);
  for (Value item; iteration.next(interpreter, item);) {
    interpreter.budget().require((pieces.size() + 1) * sizeof(Value));
    pieces.push_back(follow(interpreter, item, path));
    markup = markup || is_markup(pieces.back());
  }
  const auto prepared = [&](const Value& piece) {
    return markup ? escape(interpreter, piece).text() : to_text(interpreter, piece);
  };
  const Text between = separator.is(Kind::missing) ? Text() : prepared(separator);
  Text result;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    if (i > 0) result.append(interpreter.budget(), between);
    result.append(interpreter.budget(), prepared(pieces[i]));
  }
  return interpreter.text(std::move(result), markup);
}

Value join(Interpreter& interpreter, const Value& value, Call& call) {
  const Arguments arguments("join", call, {"d", "attribute"});
  const Values path = attribute_path(interpreter, arguments[1]);
  if (interpreter.autoescape()) return join_markup(interpreter, value, arguments[0], path);
  const Text separator = arguments.has(0) ? to_text(interpreter, arguments[0]) : Text();
  Text result;
  Iteration iteration(interpreter, value);
  bool first = true;
  for (Value item; iteration.next(interpreter, item); first = false) {
    if (!first) result.append(interpreter.budget(), separator);
    append_str(interpreter, follow(interpreter, item, path), result);
  }
  return interpreter.text(std::move(result));
}

Value first(Interpreter& interpreter, const Value& value, Call& call) {
  Arguments("first", call, {});
  Iteration iteration(interpreter, value);
  Value item;
  return iteration.next(interpreter, item) ? item : interpreter.undefined("No first item, sequence was empty.");
}

Value last(Interpreter& interpreter, const Value& value, Call& call) {
  Arguments("last", call, {});
  const Value backwards = reversed(interpreter, value);
  if (backwards.is(Kind::missing)) type_error(fmt::format("'{}' object is not reversible", type_name(value)));
  Iteration iteration(interpreter, backwards);
  Value item;
  return iteration.next(interpreter, item) ? item : interpreter.undefined("No last item, sequence was empty.");
}

Value reverse(Interpreter& interpreter, const Value& value, Call& call) {
  Arguments("reverse", call, {});
  if (value.is(Kind::string)) return get_slice(interpreter, value, Value::none(), Value::none(), Value::integer(-1));
  const Value backwards = reversed(interpreter, value);
  if (!backwards.is(Kind::missing)) return backwards;
  if (!is_iterable(value)) fail(Fault::runtime_error, "argument must be iterable");
  Values items = to_values(interpreter, value);
  std::reverse(items.begin(), items.end());
  return interpreter.list(std::move(items));
}

Value list(Interpreter& interpreter, const Value& value, Call& call) {
  Arguments("list", call, {});
  return interpreter.list(to_values(interpreter, value));
}

Value length(Interpreter& interpreter, const Value& value, Call& call) {
  Arguments("length", call, {});
  const auto length = length_of(interpreter, value);
  if (!length) type_error(fmt::format("object of type '{}' has no len()", type_name(value)));
  return Value::integer(*length);
}

// Generators

// Passes on the items that `Step` makes of others, when they are asked for.
template <typename Step>
class Generator : public IteratorObject {
 public:
  Generator(Value over, Step step) : IteratorObject("generator"), over_(std::move(over)), step_(std::move(step)) {}
  void clear() override {
    over_ = Value();
    iteration_ = Iteration();
    step_ = Step();
  }
  bool next(Interpreter& interpreter, Value& out) override {
    if (!started_) {
      started_ = true;
      ended_ = Step::kSkipsNothing && !truth(interpreter, over_);
      if (!ended_) iteration_ = Iteration(interpreter, over_);
    }
    return !ended_ && step_(interpreter, iteration_, out);
  }

 private:
  Value over_;
  Iteration iteration_;
  bool started_ = false;
  bool ended_ = false;
  Step step_;
};

template <typename Step>
Value generate(Interpreter& interpreter, const Value& over, Step step) {
  return interpreter.heap().make<Generator<Step>>(0, over, std::move(step));
}

struct MapStep {
  static constexpr bool kSkipsNothing = true;  // what is false ends it before the arguments are looked at
  std::shared_ptr<const Call> call;
  bool checked = false;
  Native filter = nullptr;
  Values path;
  Value otherwise;

  void prepare(Interpreter& interpreter) {
    checked = true;
    const auto named = [&](std::string_view name) {
      return std::find_if(call->named.begin(), call->named.end(),
                          [&](const auto& entry) { return entry.first == name; });
    };
    const auto attribute = named("attribute");
    if (call->positional.empty() && attribute != call->named.end()) {
      path = attribute_path(interpreter, attribute->second);
      if (const auto found = named("default"); found != call->named.end()) otherwise = found->second;
      for (const auto& [name, value] : call->named) {
        if (name != "attribute" && name != "default") {
          fail(Fault::runtime_error, fmt::format("Unexpected keyword argument '{}'", name));
        }
      }
      return;
    }
    if (call->positional.empty()) fail(Fault::runtime_error, "map requires a filter argument");
    const Value& name = call->positional[0];
    if (name.is(Kind::string)) filter = find_filter(name.text().view());
    if (filter == nullptr) fail(Fault::runtime_error, fmt::format("No filter named {}.", short_repr(name)));
  }

  bool operator()(Interpreter& interpreter, Iteration& iteration, Value& out) {
    if (!checked) prepare(interpreter);
    Value item;
    if (!iteration.next(interpreter, item)) return false;
    if (filter == nullptr) {
      out = follow(interpreter, item, path, otherwise);
      return true;
    }
    Call arguments{Values(call->positional.begin() + 1, call->positional.end()), call->named};
    out = filter(interpreter, item, arguments);
    return true;
  }
};

Value map(Interpreter& interpreter, const Value& value, Call& call) {
  MapStep step;
  step.call = std::make_shared<const Call>(std::move(call));
  return generate(interpreter, value, std::move(step));
}

struct SelectStep {
  static constexpr bool kSkipsNothing = true;  // what is false ends it before the arguments are looked at
  std::shared_ptr<const Call> call;
  bool by_attribute = false, wanted = true;
  bool checked = false;
  Native test = nullptr;
  Values path;
  std::size_t first_argument = 0;

  void prepare(Interpreter& interpreter) {
    checked = true;
    std::size_t at = 0;
    if (by_attribute) {
      if (call->positional.empty()) fail(Fault::runtime_error, "Missing parameter for attribute name");
      path = attribute_path(interpreter, call->positional[at++]);
    }
    if (at >= call->positional.size()) return;
    const Value& name = call->positional[at++];
    if (name.is(Kind::string)) test = find_test(name.text().view());
    if (test == nullptr) fail(Fault::runtime_error, fmt::format("No test named {}.", short_repr(name)));
    first_argument = at;
  }

  bool operator()(Interpreter& interpreter, Iteration& iteration, Value& out) {
    if (!checked) prepare(interpreter);
    while (iteration.next(interpreter, out)) {
      const Value looked_at = by_attribute ? follow(interpreter, out, path) : out;
      bool passes = false;
      if (test == nullptr) {
        passes = truth(interpreter, looked_at);
      } else {
        Call arguments{
            Values(call->positional.begin() + static_cast<std::ptrdiff_t>(first_argument), call->positional.end()),
            call->named};
        passes = truth(interpreter, test(interpreter, looked_at, arguments));
      }
      if (passes == wanted) return true;
    }
    return false;
  }
};

template <bool kByAttribute, bool kWanted>
Value select(Interpreter& interpreter, const Value& value, Call& call) {
  SelectStep step;
  step.call = std::make_shared<const Call>(std::move(call));
  step.by_attribute = kByAttribute;
  step.wanted = kWanted;
  return generate(interpreter, value, std::move(step));
}

struct UniqueStep {
  static constexpr bool kSkipsNothing = false;
  std::shared_ptr<const Key> key;
  Value seen;  // a dict

  bool operator()(Interpreter& interpreter, Iteration& iteration, Value& out) {
    while (iteration.next(interpreter, out)) {
      Value made = (*key)(out);
      if (dict_find(interpreter, seen.as<DictObject>(), made) != nullptr) continue;
      dict_set(interpreter, seen.as<DictObject>(), std::move(made), Value::none());
      return true;
    }
    return false;
  }
};

Value unique(Interpreter& interpreter, const Value& value, Call& call) {
  const Arguments arguments("unique", call, {"case_sensitive", "attribute"});
  UniqueStep step;
  step.key = std::make_shared<const Key>(interpreter, arguments[1], arguments.flag(interpreter, 0, false));
  step.seen = make_dict(interpreter);
  return generate(interpreter, value, std::move(step));
}

struct BatchStep {
  static constexpr bool kSkipsNothing = false;
  Value count;
  Value fill;
  Value pending;  // an item read already
  bool ended = false;

  bool operator()(Interpreter& interpreter, Iteration& iteration, Value& out) {
    if (ended) return false;
    Values batch;
    if (!pending.is(Kind::missing)) batch.push_back(std::move(pending));
    const Value size_wanted = count;
    for (Value item; iteration.next(interpreter, item);) {
      if (equals(interpreter, Value::integer(static_cast<std::int64_t>(batch.size())), size_wanted)) {
        pending = item;
        out = interpreter.list(std::move(batch));
        return true;
      }
      interpreter.budget().require((batch.size() + 1) * sizeof(Value));
      batch.push_back(item);
    }
    ended = true;
    if (batch.empty()) return false;
    if (!fill.is(Kind::none)) {
      const auto size = as_index(size_wanted);
      if (size > static_cast<std::int64_t>(batch.size())) {
        const auto missing = static_cast<std::size_t>(size) - batch.size();
        const std::size_t limit = interpreter.budget().limits().memory_bytes;
        interpreter.budget().require(missing > limit / sizeof(Value) ? limit + 1 : missing * sizeof(Value));
        interpreter.budget().work(missing * sizeof(Value));
        batch.resize(static_cast<std::size_t>(size), fill);
      }
    }
    out = interpreter.list(std::move(batch));
    return true;
  }
};

Value batch(Interpreter& interpreter, const Value& value, Call& call) {
  const Arguments arguments("batch", call, {"linecount", "fill_with"}, 1);
  BatchStep step;
  step.count = arguments[0];
  step.fill = arguments.has(1) ? arguments[1] : Value::none();
  return generate(interpreter, value, std::move(step));
}

struct SliceStep {
  static constexpr bool kSkipsNothing = false;
  Value count;
  Value fill;
  Values items;
  bool read = false;
  std::int64_t slices = 0, number = 0;
  std::size_t at = 0;

  bool operator()(Interpreter& interpreter, Iteration& iteration, Value& out) {
    if (!read) {
      read = true;
      for (Value item; iteration.next(interpreter, item);) {
        interpreter.budget().require((items.size() + 1) * sizeof(Value));
        items.push_back(item);
      }
      slices = as_index(count);
      if (slices == 0) fail(Fault::zero_division, "integer division or modulo by zero");
    }
    if (number >= slices) return false;
    interpreter.budget().step();
    const auto length = static_cast<std::int64_t>(items.size());
    const bool extra = number < length % slices;
    const auto size = static_cast<std::size_t>(length / slices + (extra ? 1 : 0));
    Values slice(items.begin() + static_cast<std::ptrdiff_t>(at),
                 items.begin() + static_cast<std::ptrdiff_t>(at + size));
    at += size;
    ++number;
    if (!fill.is(Kind::none) && !extra) slice.push_back(fill);
    out = interpreter.list(std::move(slice));
    return true;
  }
};

Value slice(Interpreter& interpreter, const Value& value, Call& call) {
  const Arguments arguments("slice", call, {"slices", "fill_with"}, 1);
  SliceStep step;
  step.count = arguments[0];
  step.fill = arguments.has(1) ? arguments[1] : Value::none();
  return generate(interpreter, value, std::move(step));
}

struct ItemsStep {
  static constexpr bool kSkipsNothing = false;
  bool operator()(Interpreter& interpreter, Iteration& iteration, Value& out) {
    return iteration.next(interpreter, out);
  }
};

// Jinja finds out that it was given no mapping only when the items are asked for.
struct NoItemsStep {
  static constexpr bool kSkipsNothing = false;
  bool operator()(Interpreter&, Iteration&, Value&) { type_error("Can only get item pairs from a mapping."); }
};

Value items(Interpreter& interpreter, const Value& value, Call& call) {
  Arguments("items", call, {});
  if (value.is(Kind::undefined)) return generate(interpreter, value, ItemsStep{});
  if (!value.is(Kind::dict)) return generate(interpreter, interpreter.list({}), NoItemsStep{});
  return generate(interpreter, interpreter.heap().make<ViewObject>(0, value, ViewObject::What::items), ItemsStep{});
}

constexpr NamedNative kFilters[] = {
    {"batch", batch},
    {"count", length},
    {"dictsort", dictsort},
    {"first", first},
    {"groupby", groupby},
    {"items", items},
    {"join", join},
    {"last", last},
    {"length", length},
    {"list", list},
    {"map", map},
    {"max", extreme<true>},
    {"min", extreme<false>},
    {"reject", select<false, false>},
    {"rejectattr", select<true, false>},
    {"reverse", reverse},
    {"select", select<false, true>},
    {"selectattr", select<true, true>},
    {"slice", slice},
    {"sort", sort},
    {"sum", sum},
    {"unique", unique},
};

}  // namespace

std::span<const NamedNative> sequence_filters() {
  return kFilters;
}

}  // namespace sparkx::jinja
