#include "text/jinja/interpreter.h"

#include <fmt/core.h>

#include "text/jinja/attributes.h"
#include "text/jinja/markup.h"
#include "text/jinja/operators.h"
#include "text/jinja/repr.h"

namespace sparkx::jinja {
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

}  // namespace

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
  const Value filtered = eval_block_filter(*stmt.expr, block_text(std::move(inner)));
  if (!filtered.is(Kind::string)) {
    type_error(fmt::format("sequence item 0: expected str instance, {} found", type_name(filtered)));
  }
  write(filtered, out);
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

}  // namespace sparkx::jinja
