#include "text/jinja/interpreter.h"

#include <fmt/core.h>

#include <algorithm>

#include "core/unicode.h"
#include "text/jinja/numbers.h"
#include "text/jinja/operators.h"
#include "text/jinja/repr.h"

namespace sparkx::jinja {

void fail(Fault fault, std::string message) {
  throw Failure{fault, std::move(message)};
}
void type_error(std::string message) {
  fail(Fault::type_error, std::move(message));
}

namespace {

void refuse_private(std::string_view name) {
  if (!name.starts_with('_')) return;
  fail(Fault::security_error,
       fmt::format("Chat templates cannot store underscore-prefixed attributes on a namespace, but got '{}'. Please "
                   "rename the attribute.",
                   name));
}

}  // namespace

Interpreter::Interpreter(const Tree& tree, const Limits& limits, const Clock& clock)
    : tree_(tree),
      clock_(clock),
      budget_(limits),
      heap_(budget_),
      constants_(static_cast<std::size_t>(tree.constants)) {}

Interpreter::~Interpreter() = default;

Text Interpreter::render(const json::Value& context, std::span<const std::string> trusted) {
  add_globals();
  for (const auto& [name, value] : context.as_object()) {
    const bool own = std::find(trusted.begin(), trusted.end(), name) != trusted.end();
    root_context_.parent.insert_or_assign(name, from_json(value, own ? Origin::source : Origin::data));
  }
  const Value activation = enter(tree_.scope, nullptr);
  const Inside inside(*this, activation.as<Activation>());
  if (tree_.self_slot >= 0) scope_->slots[static_cast<std::size_t>(tree_.self_slot)] = heap_.make<SelfObject>(0);
  Text out;
  run(tree_.body, out);
  return out;
}

// Values

Value Interpreter::from_json(const json::Value& value, Origin origin) {
  const Budget::Level level(budget_);
  budget_.step();
  if (value.is_null()) return Value::none();
  if (value.is_bool()) return Value::boolean(value.as_bool());
  if (value.is_string()) return given_text(value.as_string(), origin);
  if (value.is_number()) {
    const std::string& digits = value.as_number().text;
    if (!value.is_integer()) return Value::floating(parse_float(digits).value());
    const auto integer = parse_integer(*this, digits, 10);
    return integer.value();
  }
  if (value.is_array()) {
    Values items;
    for (const json::Value& item : value.as_array()) items.push_back(from_json(item, origin));
    return list(std::move(items));
  }
  Value dict = make_dict(*this);
  for (const auto& [key, member] : value.as_object()) {
    dict_set(*this, dict.as<DictObject>(), given_text(key, origin), from_json(member, origin));
  }
  return dict;
}

Value Interpreter::given_text(const std::string& bytes, Origin origin) {
  budget_.work(bytes.size());
  budget_.require(bytes.size());
  return text(is_valid_utf8(bytes) ? bytes : replace_invalid_utf8(bytes), origin);
}

Value Interpreter::undefined(std::string hint) {
  Value value = heap_.make<UndefinedObject>(hint.size());
  value.as<UndefinedObject>().hint = std::move(hint);
  return value;
}

Value Interpreter::undefined_name(std::string_view name) {
  Value value = heap_.make<UndefinedObject>(name.size());
  value.as<UndefinedObject>().name = name;
  return value;
}

Value Interpreter::undefined_attribute(const Value& object, std::string_view name) {
  Value value = heap_.make<UndefinedObject>(name.size());
  value.as<UndefinedObject>().owner = object_type_repr(object);
  value.as<UndefinedObject>().name = name;
  return value;
}

Value Interpreter::undefined_item(const Value& object, const Value& key) {
  if (key.is(Kind::string)) return undefined_attribute(object, key.text().view());
  Value value = heap_.make<UndefinedObject>(0);
  value.as<UndefinedObject>().owner = object_type_repr(object);
  value.as<UndefinedObject>().key = key;
  return value;
}

Value Interpreter::block_text(Text text) {
  return heap_.string(std::move(text), autoescape_);
}

// Scopes

Value& Interpreter::slot(Place place) {
  Activation* activation = scope_;
  for (int i = 0; i < place.scope; ++i) activation = activation->parent;
  return activation->slots[static_cast<std::size_t>(place.slot)];
}

Value Interpreter::resolve(std::string_view name) const {
  if (const auto own = context_->variables.find(name); own != context_->variables.end()) return own->second;
  if (const auto given = context_->parent.find(name); given != context_->parent.end()) return given->second;
  return Value();
}

Value Interpreter::enter(const Scope& scope, Activation* parent) {
  Value value = heap_.make<Activation>(static_cast<std::size_t>(scope.slots) * sizeof(Value), parent, scope.slots);
  begin(scope, value.as<Activation>());
  return value;
}

void Interpreter::begin(const Scope& scope, Activation& activation) {
  for (const Load& load : scope.loads) {
    Value& slot = activation.slots[static_cast<std::size_t>(load.slot)];
    if (load.from == Load::From::context) {
      slot = resolve(load.name);
    } else if (load.from == Load::From::nothing) {
      slot = Value();
    } else if (load.from == Load::From::outer) {
      Activation* outer = &activation;
      for (int i = 0; i < load.outer.scope; ++i) outer = outer->parent;
      slot = outer->slots[static_cast<std::size_t>(load.outer.slot)];
    }
  }
}

void Interpreter::leave(const Scope& scope, Activation& activation) {
  for (const Load& load : scope.loads) activation.slots[static_cast<std::size_t>(load.slot)] = Value();
}

void Interpreter::assign(const Expr& target, const Value& value) {
  if (target.kind == ExprKind::name) {
    slot(target.place) = value;
    return;
  }
  if (target.kind == ExprKind::space_attribute) {
    const Value space = slot(target.items[0]->place);
    refuse_private(target.text);
    dict_set(*this, space.as<SpaceObject>().attributes.as<DictObject>(), text(target.text, Origin::source), value);
    return;
  }
  if (!is_iterable(value)) type_error(fmt::format("cannot unpack non-iterable {} object", type_name(value)));
  const Values items = to_values(*this, value);
  if (items.size() > target.items.size()) {
    fail(Fault::value_error, fmt::format("too many values to unpack (expected {})", target.items.size()));
  }
  if (items.size() < target.items.size()) {
    fail(Fault::value_error,
         fmt::format("not enough values to unpack (expected {}, got {})", target.items.size(), items.size()));
  }
  for (std::size_t i = 0; i < items.size(); ++i) assign(*target.items[i], items[i]);
}

void Interpreter::publish(const Expr& target) {
  if (target.kind == ExprKind::name) context_->variables.insert_or_assign(target.text, slot(target.place));
  if (target.kind == ExprKind::tuple) {
    for (const ExprPtr& item : target.items) publish(*item);
  }
}

// Calls

Value Interpreter::call(const Value& callee, Call& arguments) {
  switch (callee.kind()) {
    case Kind::function:
      return callee.as<FunctionObject>().call(*this, callee.as<FunctionObject>().self, arguments);
    case Kind::macro:
      return call_macro(callee.as<MacroObject>(), arguments);
    case Kind::loop:
      if (arguments.positional.size() != 1 || !arguments.named.empty()) type_error("loop() takes one argument");
      return recurse(callee.as<LoopObject>(), arguments.positional[0]);
    case Kind::block:
      return render_block(*callee.as<BlockObject>().stmt);
    case Kind::joiner: {
      JoinerObject& joiner = callee.as<JoinerObject>();
      if (joiner.used) return joiner.separator;
      joiner.used = true;
      return text("", Origin::source);
    }
    case Kind::undefined:
      fail(callee.as<UndefinedObject>().fault, callee.as<UndefinedObject>().message());
    default:
      type_error(fmt::format("'{}' object is not callable", type_name(callee)));
  }
}

Value Interpreter::call_macro(const MacroObject& macro, Call& call) {
  const Stmt& stmt = *macro.macro;
  const std::size_t count = stmt.targets.size();
  const Value closure = macro.closure;  // the macro may be gone before its call ends
  const Value activation = heap_.make<Activation>(static_cast<std::size_t>(stmt.scope.slots) * sizeof(Value),
                                                  &closure.as<Activation>(), stmt.scope.slots);
  Activation& scope = activation.as<Activation>();
  const auto take_named = [&](std::string_view name) {
    for (auto it = call.named.begin(); it != call.named.end(); ++it) {
      if (it->first != name) continue;
      Value value = std::move(it->second);
      call.named.erase(it);
      return value;
    }
    return Value();
  };
  bool explicit_caller = false;
  for (std::size_t i = 0; i < count; ++i) {
    const Expr& parameter = *stmt.targets[i];
    explicit_caller = explicit_caller || parameter.text == "caller";
    scope.slots[static_cast<std::size_t>(parameter.place.slot)] =
        i < call.positional.size() ? call.positional[i] : take_named(parameter.text);
  }
  if (stmt.uses_caller && !explicit_caller) {
    Value caller = take_named("caller");
    if (caller.is(Kind::missing) || caller.is(Kind::none)) caller = undefined("No caller defined");
    scope.slots[static_cast<std::size_t>(stmt.caller_slot)] = std::move(caller);
  }
  if (stmt.catches_named) {
    Value kwargs = make_dict(*this);
    for (auto& [name, value] : call.named) {
      dict_set(*this, kwargs.as<DictObject>(), text(name, Origin::source), std::move(value));
    }
    scope.slots[static_cast<std::size_t>(stmt.named_slot)] = std::move(kwargs);
  } else if (!call.named.empty()) {
    type_error(fmt::format("macro '{}' takes no keyword argument '{}'", stmt.text, call.named[0].first));
  }
  if (stmt.catches_positional) {
    Values rest;
    for (std::size_t i = count; i < call.positional.size(); ++i) rest.push_back(call.positional[i]);
    scope.slots[static_cast<std::size_t>(stmt.positional_slot)] = tuple(std::move(rest));
  } else if (call.positional.size() > count) {
    type_error(fmt::format("macro '{}' takes not more than {} argument(s)", stmt.text, count));
  }

  const Inside inside(*this, scope);
  begin(stmt.scope, scope);
  for (std::size_t i = 0; i < count; ++i) {
    const Expr& parameter = *stmt.targets[i];
    if (!slot(parameter.place).is(Kind::missing)) continue;
    if (i + stmt.exprs.size() >= count) {
      const Value value = eval(*stmt.exprs[i + stmt.exprs.size() - count]);
      slot(parameter.place) = value;
    } else {
      slot(parameter.place) = undefined(fmt::format("parameter '{}' was not provided", parameter.text));
    }
  }
  Text out;
  run(stmt.body, out);
  return block_text(std::move(out));
}

}  // namespace sparkx::jinja
