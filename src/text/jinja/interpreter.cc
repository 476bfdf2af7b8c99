#include "text/jinja/interpreter.h"

#include <fmt/core.h>
#include <algorithm>

#include "core/unicode.h"
#include "text/jinja/attributes.h"
#include "text/jinja/builtins.h"
#include "text/jinja/markup.h"
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

class Interpreter::Inside {
 public:
  Inside(Interpreter& interpreter, Activation& activation) : interpreter_(interpreter), before_(interpreter.scope_) {
    interpreter_.scope_ = &activation;
  }
  ~Inside() { interpreter_.scope_ = before_; }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;

 private:
  Interpreter& interpreter_;
  Activation* before_;
};

namespace {

// What a loop with a condition goes through.
class FilteredLoop : public IteratorObject {
 public:
  FilteredLoop(Interpreter& interpreter, const Stmt* stmt, Value over, Value scope)
      : IteratorObject("generator"), stmt_(stmt), iteration_(interpreter, std::move(over)), scope_(std::move(scope)) {}
  void clear() override {
    iteration_ = Iteration();
    scope_ = Value();
  }
  bool next(Interpreter& interpreter, Value& out) override {
    while (iteration_.next(interpreter, out)) {
      if (interpreter.loop_test(*stmt_, scope_.as<Activation>(), out)) return true;
    }
    return false;
  }

 private:
  const Stmt* stmt_;
  Iteration iteration_;
  Value scope_;
};

void refuse_private(std::string_view name) {
  if (!name.starts_with('_')) return;
  fail(Fault::security_error,
       fmt::format("Chat templates cannot store underscore-prefixed attributes on a namespace, but got '{}'. Please "
                   "rename the attribute.",
                   name));
}

}  // namespace

LoopObject::LoopObject(Interpreter& interpreter, Value over, const Stmt* s, Activation* outer_, int depth_)
    : Object(Kind::loop), iterable(over), iteration(interpreter, std::move(over)), stmt(s), depth0(depth_) {
  if (s->recursive) outer = Value(outer_);
}

void LoopObject::clear() {
  for (Value* value : {&iterable, &outer, &after, &current, &before, &last_changed}) *value = Value();
  iteration = Iteration();
}

bool LoopObject::next(Interpreter& interpreter, Value& item) {
  if (peeked && !after.is(Kind::missing)) {
    item = std::move(after);
  } else if (!iteration.next(interpreter, item)) {
    return false;
  }
  peeked = false;
  after = Value();
  ++index0;
  before = std::move(current);
  current = item;
  return true;
}

const Value& LoopObject::peek(Interpreter& interpreter) {
  if (!peeked || after.is(Kind::missing)) {
    peeked = true;
    if (!iteration.next(interpreter, after)) after = Value();
  }
  return after;
}

std::int64_t LoopObject::length(Interpreter& interpreter) {
  if (known_length >= 0) return known_length;
  if (const auto length = length_of(interpreter, iterable)) return known_length = *length;
  // A generator is read to its end.
  Values rest;
  for (Value item; iteration.next(interpreter, item);) {
    interpreter.budget().require((rest.size() + 1) * sizeof(Value));
    rest.push_back(item);
  }
  known_length = static_cast<std::int64_t>(rest.size()) + index0 + 1 + (peeked && !after.is(Kind::missing) ? 1 : 0);
  iteration = Iteration(interpreter, interpreter.list(std::move(rest)));
  return known_length;
}

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

// Statements

Interpreter::Flow Interpreter::run(const Block& body, Text& out) {
  for (const StmtPtr& stmt : body) {
    const Flow flow = run(*stmt, out);
    if (flow != Flow::normal) return flow;
  }
  return Flow::normal;
}

Interpreter::Flow Interpreter::run(const Stmt& stmt, Text& out) {
  budget_.step();
  if (stmt.kind == StmtKind::data) {
    out.append(budget_, stmt.text, Origin::source);
    check_output(out);
    return Flow::normal;
  }
  const Budget::Level level(budget_);
  try {
    return run_inner(stmt, out);
  } catch (const Failure&) {
    if (failed_stmt_ == nullptr) failed_stmt_ = &stmt;
    throw;
  }
}

Interpreter::Flow Interpreter::run_inner(const Stmt& stmt, Text& out) {
  switch (stmt.kind) {
    case StmtKind::data:
      break;
    case StmtKind::output:
      run_output(stmt, out);
      break;
    case StmtKind::loop:
      if (stmt.recursive) {
        const Value iterable = eval(*stmt.expr);
        Text inner;
        run_loop(stmt, iterable, scope_, 0, inner);
        out.append(budget_, inner);
        break;
      }
      return run_loop(stmt, eval(*stmt.expr), scope_, 0, out);
    case StmtKind::condition:
      return run_condition(stmt, out);
    case StmtKind::macro:
      slot(stmt.place) = heap_.make<MacroObject>(0, &stmt, scope_);
      if (stmt.top_level) context_->variables.insert_or_assign(stmt.text, slot(stmt.place));
      break;
    case StmtKind::call_block:
      run_call_block(stmt, out);
      break;
    case StmtKind::generation: {
      const Value body = heap_.make<MacroObject>(0, &stmt, scope_);
      Call none;
      write(call(body, none), out);
      break;
    }
    case StmtKind::filter_block:
      return run_filter_block(stmt, out);
    case StmtKind::set:
      run_set(stmt);
      break;
    case StmtKind::set_block:
      return run_set_block(stmt);
    case StmtKind::with:
      return run_with(stmt, out);
    case StmtKind::autoescape:
      return run_autoescape(stmt, out);
    case StmtKind::block:
      run_block(stmt, out);
      break;
    case StmtKind::break_loop:
      return Flow::break_loop;
    case StmtKind::continue_loop:
      return Flow::continue_loop;
    case StmtKind::load_template:
      eval(*stmt.expr);
      type_error("no loader for this environment specified");
  }
  return Flow::normal;
}

void Interpreter::check_output(const Text& out) const {
  if (out.size() > budget_.limits().output_bytes) {
    fail(Fault::limit, fmt::format("more than {} bytes of output", budget_.limits().output_bytes));
  }
}

void Interpreter::write(const Value& value, Text& out) {
  if (autoescape_) {
    out.append(budget_, escape(*this, value).text());
  } else {
    append_str(*this, value, out);
  }
  check_output(out);
}

void Interpreter::run_output(const Stmt& stmt, Text& out) {
  for (const ExprPtr& expr : stmt.exprs) {
    const Value value = eval(*expr);
    write(value, out);
  }
}

Interpreter::Flow Interpreter::run_loop(const Stmt& stmt, const Value& iterable, Activation* outer, int depth,
                                        Text& out) {
  const Inside around(*this, *outer);
  Value over = iterable;
  if (stmt.test) over = heap_.make<FilteredLoop>(0, *this, &stmt, iterable, enter(stmt.test_scope, outer));
  Value loop;
  Iteration iteration;
  if (stmt.uses_loop) {
    loop = heap_.make<LoopObject>(0, *this, over, &stmt, outer, depth);
  } else {
    iteration = Iteration(*this, over);
  }
  const Value activation =
      heap_.make<Activation>(static_cast<std::size_t>(stmt.scope.slots) * sizeof(Value), outer, stmt.scope.slots);
  Activation& scope = activation.as<Activation>();
  bool completed = false;  // one round went to its end
  {
    const Inside inside(*this, scope);
    for (Value item;;) {
      // A test of the loop runs in its own scope, whatever the current one is.
      if (!(stmt.uses_loop ? loop.as<LoopObject>().next(*this, item) : iteration.next(*this, item))) break;
      assign(*stmt.targets[0], item);
      if (stmt.uses_loop) scope.slots[static_cast<std::size_t>(stmt.loop_slot)] = loop;
      begin(stmt.scope, scope);
      const Flow flow = run(stmt.body, out);
      if (flow == Flow::break_loop) break;
      if (flow == Flow::normal) completed = true;
    }
    leave(stmt.scope, scope);
  }
  if (completed || stmt.else_body.empty()) return Flow::normal;
  const Value otherwise = enter(stmt.else_scope, outer);
  const Inside inside(*this, otherwise.as<Activation>());
  const Flow flow = run(stmt.else_body, out);
  leave(stmt.else_scope, *scope_);
  return flow;
}

bool Interpreter::loop_test(const Stmt& loop, Activation& scope, const Value& item) {
  const Inside inside(*this, scope);
  assign(*loop.test_target, item);
  return truth_of(*loop.test);
}

Value Interpreter::recurse(const LoopObject& loop, const Value& iterable) {
  if (!loop.stmt->recursive) {
    type_error("The loop must have the 'recursive' marker to be called recursively.");
  }
  const Value outer = loop.outer;
  Text out;
  run_loop(*loop.stmt, iterable, &outer.as<Activation>(), loop.depth0 + 1, out);
  return block_text(std::move(out));
}

Interpreter::Flow Interpreter::run_condition(const Stmt& stmt, Text& out) {
  for (const auto& [test, body] : stmt.branches) {
    if (truth_of(*test)) return run(body, out);
  }
  return run(stmt.else_body, out);
}

void Interpreter::run_call_block(const Stmt& stmt, Text& out) {
  Value caller = heap_.make<MacroObject>(0, &stmt, scope_);
  write(eval_call(*stmt.expr, std::move(caller)), out);
}

Interpreter::Flow Interpreter::run_filter_block(const Stmt& stmt, Text& out) {
  const Value activation = enter(stmt.scope, scope_);
  const Inside inside(*this, activation.as<Activation>());
  Text inner;
  const Flow flow = run(stmt.body, inner);
  if (flow != Flow::normal) return flow;
  write(eval_block_filter(*stmt.expr, block_text(std::move(inner))), out);
  leave(stmt.scope, *scope_);
  return Flow::normal;
}

void Interpreter::run_set(const Stmt& stmt) {
  const auto check = [&](const auto& self, const Expr& target) -> void {
    if (target.kind == ExprKind::space_attribute && !slot(target.items[0]->place).is(Kind::space)) {
      fail(Fault::runtime_error, "cannot assign attribute on non-namespace object");
    }
    if (target.kind == ExprKind::tuple) {
      for (const ExprPtr& item : target.items) self(self, *item);
    }
  };
  check(check, *stmt.targets[0]);
  assign(*stmt.targets[0], eval(*stmt.expr));
  if (stmt.top_level) publish(*stmt.targets[0]);
}

Interpreter::Flow Interpreter::run_set_block(const Stmt& stmt) {
  const Value activation = enter(stmt.scope, scope_);
  Value result;
  {
    const Inside inside(*this, activation.as<Activation>());
    Text inner;
    const Flow flow = run(stmt.body, inner);
    if (flow != Flow::normal) return flow;
    result = block_text(std::move(inner));
    if (stmt.expr) result = eval_block_filter(*stmt.expr, std::move(result));
    if (autoescape_) result = text(to_text(*this, result), true);
    leave(stmt.scope, *scope_);
  }
  const Expr& target = *stmt.targets[0];
  if (target.kind == ExprKind::space_attribute && !slot(target.items[0]->place).is(Kind::space)) {
    type_error(fmt::format("'{}' object does not support item assignment", type_name(slot(target.items[0]->place))));
  }
  assign(target, result);
  if (stmt.top_level) publish(target);
  return Flow::normal;
}

Interpreter::Flow Interpreter::run_with(const Stmt& stmt, Text& out) {
  const Value activation = enter(stmt.scope, scope_);
  for (std::size_t i = 0; i < stmt.targets.size(); ++i) {
    const Value value = eval(*stmt.exprs[i]);
    const Inside inside(*this, activation.as<Activation>());
    assign(*stmt.targets[i], value);
  }
  const Inside inside(*this, activation.as<Activation>());
  const Flow flow = run(stmt.body, out);
  leave(stmt.scope, *scope_);
  return flow;
}

Interpreter::Flow Interpreter::run_autoescape(const Stmt& stmt, Text& out) {
  const Value activation = enter(stmt.scope, scope_);
  const Inside inside(*this, activation.as<Activation>());
  const bool before = autoescape_;
  autoescape_ = truth_of(*stmt.expr);
  Flow flow;
  try {
    flow = run(stmt.body, out);
  } catch (...) {
    autoescape_ = before;
    throw;
  }
  autoescape_ = before;
  leave(stmt.scope, *scope_);
  return flow;
}

void Interpreter::run_block(const Stmt& stmt, Text& out) {
  if (stmt.required) fail(Fault::runtime_error, fmt::format("Required block '{}' not found", stmt.text));
  Context* const before = context_;
  Context derived;
  if (stmt.scoped) {
    derived.parent = context_->parent;
    for (const auto& [name, value] : context_->variables) derived.parent.insert_or_assign(name, value);
    for (const auto& [name, place] : stmt.locals) {
      budget_.step();
      if (!slot(place).is(Kind::missing)) derived.parent.insert_or_assign(name, slot(place));
    }
    context_ = &derived;
  }
  try {
    out.append(budget_, render_block(stmt).text());
  } catch (...) {
    context_ = before;
    throw;
  }
  context_ = before;
  check_output(out);
}

Value Interpreter::render_block(const Stmt& block) {
  const Budget::Level level(budget_);
  const Value activation = enter(block.scope, nullptr);
  const Inside inside(*this, activation.as<Activation>());
  if (block.self_slot >= 0) scope_->slots[static_cast<std::size_t>(block.self_slot)] = heap_.make<SelfObject>(0);
  if (block.super_slot >= 0) {
    scope_->slots[static_cast<std::size_t>(block.super_slot)] =
        undefined(fmt::format("there is no parent block called '{}'.", block.text));
  }
  Text out;
  run(block.body, out);
  return block_text(std::move(out));
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

// Expressions

Value Interpreter::eval(const Expr& expr) {
  budget_.step();
  if (expr.kind == ExprKind::name) return eval_name(expr);
  const Budget::Level level(budget_);
  try {
    return eval_inner(expr);
  } catch (const Failure&) {
    if (failed_expr_ == nullptr && failed_stmt_ == nullptr) failed_expr_ = &expr;
    throw;
  }
}

Value Interpreter::eval_inner(const Expr& expr) {
  switch (expr.kind) {
    case ExprKind::none:
      return Value::none();
    case ExprKind::boolean:
      return Value::boolean(expr.truth);
    case ExprKind::floating:
      return Value::floating(expr.number);
    case ExprKind::integer:
    case ExprKind::string:
      return eval_constant(expr);
    case ExprKind::name:
      return eval_name(expr);
    case ExprKind::tuple:
    case ExprKind::list:
    case ExprKind::dict:
      return eval_display(expr);
    case ExprKind::negate:
      return negate(*this, eval(*expr.items[0]));
    case ExprKind::positive:
      return positive(*this, eval(*expr.items[0]));
    case ExprKind::logical_not:
      return Value::boolean(!truth_of(*expr.items[0]));
    case ExprKind::add:
    case ExprKind::subtract:
    case ExprKind::multiply:
    case ExprKind::divide:
    case ExprKind::floor_divide:
    case ExprKind::modulo:
    case ExprKind::power:
      return eval_binary(expr);
    case ExprKind::logical_and: {
      Value left = eval(*expr.items[0]);
      return truth(*this, left) ? eval(*expr.items[1]) : left;
    }
    case ExprKind::logical_or: {
      Value left = eval(*expr.items[0]);
      return truth(*this, left) ? left : eval(*expr.items[1]);
    }
    case ExprKind::concat:
      return eval_concat(expr);
    case ExprKind::compare:
      return eval_compare(expr);
    case ExprKind::conditional:
      if (truth_of(*expr.items[0])) return eval(*expr.items[1]);
      if (expr.items[2]) return eval(*expr.items[2]);
      return undefined("the inline if-expression evaluated to false and no else section was defined.");
    case ExprKind::attribute: {
      const Value object = eval(*expr.items[0]);
      return get_attribute(*this, object, eval_constant(expr));
    }
    case ExprKind::subscript:
      return eval_subscript(expr);
    case ExprKind::call:
      return eval_call(expr, Value());
    case ExprKind::filter: {
      Value value = eval(*expr.items[0]);
      return eval_filter(expr, std::move(value));
    }
    case ExprKind::test:
      return eval_test(expr);
    case ExprKind::space_attribute:
    case ExprKind::slice:
      break;
  }
  type_error("a slice is no value");
}

Value Interpreter::eval_constant(const Expr& expr) {
  Value& known = constants_[static_cast<std::size_t>(expr.constant)];
  if (known.is(Kind::missing)) {
    known = expr.kind == ExprKind::integer ? integer_literal(*this, expr.text) : text(expr.text, Origin::source);
  }
  return known;
}

Value Interpreter::eval_name(const Expr& expr) {
  const Value& value = slot(expr.place);
  return value.is(Kind::missing) ? undefined_name(expr.text) : value;
}

Value Interpreter::eval_binary(const Expr& expr) {
  const Value left = eval(*expr.items[0]);
  const Value right = eval(*expr.items[1]);
  return arithmetic(*this, expr.kind, left, right);
}

Value Interpreter::eval_compare(const Expr& expr) {
  Value left = eval(*expr.items[0]);
  for (std::size_t i = 0; i < expr.comparisons.size(); ++i) {
    Value right = eval(*expr.items[i + 1]);
    if (!compare(*this, expr.comparisons[i], left, right)) return Value::boolean(false);
    left = std::move(right);
  }
  return Value::boolean(true);
}

Value Interpreter::eval_concat(const Expr& expr) {
  if (!autoescape_) {
    Text result;
    for (const ExprPtr& item : expr.items) append_str(*this, eval(*item), result);
    return text(std::move(result));
  }
  Values values;
  bool markup = false;
  for (const ExprPtr& item : expr.items) {
    values.push_back(soft_string(*this, eval(*item)));
    markup = markup || values.back().as<StringObject>().markup;
  }
  Text result;
  for (const Value& value : values) result.append(budget_, (markup ? escape(*this, value) : value).text());
  return text(std::move(result), markup);
}

Value Interpreter::eval_display(const Expr& expr) {
  if (expr.kind == ExprKind::dict) {
    Value dict = make_dict(*this);
    for (std::size_t i = 0; i < expr.items.size(); i += 2) {
      Value key = eval(*expr.items[i]);
      Value value = eval(*expr.items[i + 1]);
      dict_set(*this, dict.as<DictObject>(), std::move(key), std::move(value));
    }
    return dict;
  }
  Values items;
  items.reserve(expr.items.size());
  for (const ExprPtr& item : expr.items) items.push_back(eval(*item));
  return expr.kind == ExprKind::list ? list(std::move(items)) : tuple(std::move(items));
}

Value Interpreter::eval_subscript(const Expr& expr) {
  const Value object = eval(*expr.items[0]);
  const Expr& key = *expr.items[1];
  if (key.kind != ExprKind::slice) return get_item(*this, object, eval(key));
  Value bounds[3];
  for (std::size_t i = 0; i < 3; ++i) bounds[i] = key.items[i] ? eval(*key.items[i]) : Value::none();
  return get_slice(*this, object, bounds[0], bounds[1], bounds[2]);
}

void Interpreter::eval_arguments(const Expr& expr, Call& call) {
  for (const ExprPtr& argument : expr.positional) call.positional.push_back(eval(*argument));
  for (const auto& [name, argument] : expr.named) call.named.emplace_back(name, eval(*argument));
  if (expr.more_positional) {
    const Value more = eval(*expr.more_positional);
    for (Value& value : to_values(*this, more)) call.positional.push_back(std::move(value));
  }
  if (!expr.more_named) return;
  const Value more = eval(*expr.more_named);
  if (!more.is(Kind::dict)) type_error(fmt::format("argument after ** must be a mapping, not {}", type_name(more)));
  for (const auto& [key, value] : more.as<DictObject>().entries) {
    if (!key.is(Kind::string)) type_error("keywords must be strings");
    for (const auto& [name, given] : call.named) {
      if (name == key.text().bytes()) type_error(fmt::format("got multiple values for keyword argument '{}'", name));
    }
    call.named.emplace_back(key.text().bytes(), value);
  }
}

Value Interpreter::eval_call(const Expr& expr, Value caller) {
  const Value callee = eval(*expr.items[0]);
  Call arguments;
  eval_arguments(expr, arguments);
  if (!caller.is(Kind::missing)) {
    for (const auto& [name, value] : arguments.named) {
      if (name == "caller") type_error("got multiple values for keyword argument 'caller'");
    }
    arguments.named.emplace_back("caller", std::move(caller));
  }
  return call(callee, arguments);
}

Value Interpreter::eval_filter(const Expr& expr, Value value) {
  if (expr.native == nullptr) fail(Fault::runtime_error, fmt::format("No filter named '{}' found.", expr.text));
  Call arguments;
  eval_arguments(expr, arguments);
  return expr.native(*this, value, arguments);
}

// The innermost filter of a block's chain has no value of its own: it gets the text.
Value Interpreter::eval_block_filter(const Expr& expr, Value text) {
  if (!expr.items[0]) return eval_filter(expr, std::move(text));
  return eval_filter(expr, eval_block_filter(*expr.items[0], std::move(text)));
}

Value Interpreter::eval_test(const Expr& expr) {
  const Value value = eval(*expr.items[0]);
  if (expr.native == nullptr) fail(Fault::runtime_error, fmt::format("No test named '{}' found.", expr.text));
  Call arguments;
  eval_arguments(expr, arguments);
  return expr.native(*this, value, arguments);
}

bool Interpreter::truth_of(const Expr& expr) {
  return truth(*this, eval(expr));
}

}  // namespace sparkx::jinja
