// One render of a template: walks the tree, with the budget and the heap that belong to it. interpreter.cc has values,
// scopes and calls, statements.cc and expressions.cc the two halves of the walk, loop.cc what `loop` is.
#pragma once

#include <functional>
#include <map>
#include <span>
#include <string>

#include "core/json.h"
#include "text/jinja/ast.h"
#include "text/jinja/budget.h"
#include "text/jinja/clock.h"
#include "text/jinja/iteration.h"
#include "text/jinja/value.h"

namespace sparkx::jinja {

// Where names that no scope knows are looked up, and where the template's own variables go.
struct Context {
  using Variables = std::map<std::string, Value, std::less<>>;
  Variables variables;  // set by the template
  Variables parent;     // given to it, and the globals
};

// `loop` inside a for loop.
struct LoopObject : Object {
  LoopObject(Interpreter& interpreter, Value over, const Stmt* s, Activation* outer_, int depth_);
  void clear() override;
  bool next(Interpreter& interpreter, Value& item);
  const Value& peek(Interpreter& interpreter);  // the item after the current one; missing at the end
  std::int64_t length(Interpreter& interpreter);

  Value iterable;
  Iteration iteration;
  const Stmt* stmt;
  Value outer;  // the Activation around a recursive loop; missing when it is not recursive
  std::int64_t index0 = -1;
  std::int64_t known_length = -1;
  int depth0;
  bool peeked = false;
  Value after, current, before, last_changed;
};

// self.name, super()
struct BlockObject : Object {
  explicit BlockObject(const Stmt* s) : Object(Kind::block), stmt(s) {}
  const Stmt* stmt;
};

struct SelfObject : Object {
  SelfObject() : Object(Kind::self) {}
};

class Interpreter {
 public:
  Interpreter(const Tree& tree, const Limits& limits, const Clock& clock);
  ~Interpreter();
  Interpreter(const Interpreter&) = delete;
  Interpreter& operator=(const Interpreter&) = delete;

  // Renders with `context` (an object) as variables; the text of those named in `trusted` counts as the template's own.
  // Throws Failure; failed_expr() and failed_stmt() then say where.
  Text render(const json::Value& context, std::span<const std::string> trusted);
  const Expr* failed_expr() const { return failed_expr_; }
  const Stmt* failed_stmt() const { return failed_stmt_; }

  Value call(const Value& callee, Call& arguments);
  Value render_block(const Stmt& block);
  Value recurse(const LoopObject& loop, const Value& iterable);
  bool loop_test(const Stmt& loop, Activation& scope, const Value& item);

  // Values
  Value text(Text text, bool markup = false) { return heap_.string(std::move(text), markup); }
  Value text(std::string_view bytes, Origin origin) { return heap_.string(Text(std::string(bytes), origin)); }
  Value list(Values items) { return heap_.list(std::move(items)); }
  Value tuple(Values items) { return heap_.tuple(std::move(items)); }
  Value from_json(const json::Value& value, Origin origin);
  Value given_text(const std::string& bytes, Origin origin);  // bytes that are no UTF-8 become U+FFFD
  Value undefined(std::string hint);
  Value undefined_name(std::string_view name);
  Value undefined_attribute(const Value& object, std::string_view name);
  Value undefined_item(const Value& object, const Value& key);

  Budget& budget() { return budget_; }
  Heap& heap() { return heap_; }
  const Clock& clock() const { return clock_; }
  const Tree& tree() const { return tree_; }
  bool autoescape() const { return autoescape_; }

 private:
  enum class Flow { normal, break_loop, continue_loop };

  Value eval(const Expr& expr);
  Value eval_inner(const Expr& expr);
  Value eval_constant(const Expr& expr);
  Value eval_name(const Expr& expr);
  Value eval_binary(const Expr& expr);
  Value eval_compare(const Expr& expr);
  Value eval_concat(const Expr& expr);
  Value eval_display(const Expr& expr);  // list, tuple, dict
  Value eval_subscript(const Expr& expr);
  Value eval_call(const Expr& expr, Value caller);
  Value eval_filter(const Expr& expr, Value value);
  Value eval_block_filter(const Expr& expr, Value text);
  Value eval_test(const Expr& expr);
  void eval_arguments(const Expr& expr, Call& call);
  bool truth_of(const Expr& expr);

  Flow run(const Block& body, Text& out);
  Flow run(const Stmt& stmt, Text& out);
  Flow run_inner(const Stmt& stmt, Text& out);
  void run_output(const Stmt& stmt, Text& out);
  Flow run_loop(const Stmt& stmt, const Value& iterable, Activation* outer, int depth, Text& out);
  Flow run_condition(const Stmt& stmt, Text& out);
  void run_call_block(const Stmt& stmt, Text& out);
  Flow run_filter_block(const Stmt& stmt, Text& out);
  void run_set(const Stmt& stmt);
  Flow run_set_block(const Stmt& stmt);
  Flow run_with(const Stmt& stmt, Text& out);
  Flow run_autoescape(const Stmt& stmt, Text& out);
  void run_block(const Stmt& stmt, Text& out);

  Value call_macro(const MacroObject& macro, Call& call);
  void assign(const Expr& target, const Value& value);
  void publish(const Expr& target);  // a variable set at the top level
  void write(const Value& value, Text& out);
  void check_output(const Text& out) const;
  Value block_text(Text text);  // markup when autoescape is on

  Value& slot(Place place);
  Value enter(const Scope& scope, Activation* parent);  // makes an Activation
  void begin(const Scope& scope, Activation& activation);
  void leave(const Scope& scope, Activation& activation);
  Value resolve(std::string_view name) const;
  void add_globals();

  // Makes `activation` the current scope for a while.
  class Inside {
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

  const Tree& tree_;
  const Clock& clock_;
  Budget budget_;
  Heap heap_;
  Context root_context_;
  Context* context_ = &root_context_;
  Activation* scope_ = nullptr;
  Values constants_;
  bool autoescape_ = false;
  const Expr* failed_expr_ = nullptr;
  const Stmt* failed_stmt_ = nullptr;
};

[[noreturn]] void fail(Fault fault, std::string message);
[[noreturn]] void type_error(std::string message);

}  // namespace sparkx::jinja
