#include "text/jinja/scope_analysis.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "text/jinja/builtins.h"
#include "text/jinja/lexer.h"

namespace sparkx::jinja {
namespace {

using Names = std::set<std::string, std::less<>>;

[[noreturn]] void fail(std::string message, std::uint32_t begin, std::uint32_t end) {
  throw SyntaxError{std::move(message), begin, end};
}

template <typename Visit>
void each_argument(const Expr& expr, Visit&& visit) {
  for (const ExprPtr& argument : expr.positional) visit(*argument);
  for (const auto& [name, argument] : expr.named) visit(*argument);
  if (expr.more_positional) visit(*expr.more_positional);
  if (expr.more_named) visit(*expr.more_named);
}

// The variables of one scope. The copies that the branches of an `if` work on share its slots.
class Symbols {
 public:
  explicit Symbols(const Symbols* parent) : parent_(parent), slots_(std::make_shared<std::map<std::string, int>>()) {}

  void declare_parameter(const std::string& name) {
    stores_.insert(name);
    define(name, {.from = Load::From::parameter});
  }

  void store(const std::string& name) {
    stores_.insert(name);
    if (loads_.contains(name)) return;
    const auto outer = parent_ != nullptr ? parent_->find(name) : std::nullopt;
    if (outer) {
      define(name, {.from = Load::From::outer, .outer = {outer->scope + 1, outer->slot}});
    } else {
      define(name, {.from = Load::From::nothing});
    }
  }

  void load(const std::string& name) {
    if (!find(name)) define(name, {.from = Load::From::context, .name = name});
  }

  std::optional<Place> find(const std::string& name) const {
    int hops = 0;
    for (const Symbols* symbols = this; symbols != nullptr; symbols = symbols->parent_, ++hops) {
      if (symbols->loads_.contains(name)) return Place{hops, symbols->slots_->at(name)};
    }
    return std::nullopt;
  }

  // A variable that only some branch stores begins with what it would be without it.
  void merge(const std::vector<Symbols>& branches) {
    Names stored;
    for (const Symbols& branch : branches) stored.insert(branch.stores_.begin(), branch.stores_.end());
    for (const std::string& name : stores_) stored.erase(name);
    for (const Symbols& branch : branches) {
      for (const auto& [name, load] : branch.loads_) loads_[name] = load;
      stores_.insert(branch.stores_.begin(), branch.stores_.end());
    }
    for (const std::string& name : stored) {
      const auto outer = parent_ != nullptr ? parent_->find(name) : std::nullopt;
      if (outer) {
        define(name, {.from = Load::From::outer, .outer = {outer->scope + 1, outer->slot}});
      } else {
        define(name, {.from = Load::From::context, .name = name});
      }
    }
  }

  // All that this scope and those around it store.
  std::vector<std::pair<std::string, Place>> stored() const {
    std::map<std::string, Place> result;
    for (const Symbols* symbols = this; symbols != nullptr; symbols = symbols->parent_) {
      for (const std::string& name : symbols->stores_) result.emplace(name, *find(name));
    }
    return {result.begin(), result.end()};
  }

  Scope scope() const {
    Scope scope;
    scope.slots = static_cast<int>(slots_->size());
    for (const auto& [name, load] : loads_) scope.loads.push_back(load);
    return scope;
  }

 private:
  void define(const std::string& name, Load load) {
    load.slot = slots_->emplace(name, static_cast<int>(slots_->size())).first->second;
    loads_[name] = std::move(load);
  }

  const Symbols* parent_;
  std::shared_ptr<std::map<std::string, int>> slots_;
  std::map<std::string, Load> loads_;
  Names stores_;
};

// What a scope's own statements load and store; the bodies of inner scopes are left out.
class Collector {
 public:
  explicit Collector(Symbols& symbols) : symbols_(&symbols) {}

  void load(const Expr* expr) {
    if (expr == nullptr) return;
    if (expr->kind == ExprKind::name) symbols_->load(expr->text);
    for (const ExprPtr& item : expr->items) load(item.get());
    each_argument(*expr, [&](const Expr& argument) { load(&argument); });
  }

  void store(const Expr& target, bool as_parameter) {
    if (target.kind == ExprKind::space_attribute) {
      load(target.items[0].get());
    } else if (target.kind == ExprKind::name) {
      as_parameter ? symbols_->declare_parameter(target.text) : symbols_->store(target.text);
    }
    if (target.kind == ExprKind::tuple) {
      for (const ExprPtr& item : target.items) store(*item, as_parameter);
    }
  }

  void visit(const Block& body) {
    for (const StmtPtr& stmt : body) visit(*stmt);
  }

  void visit(const Stmt& stmt) {
    switch (stmt.kind) {
      case StmtKind::output:
        for (const ExprPtr& expr : stmt.exprs) load(expr.get());
        break;
      case StmtKind::loop:
      case StmtKind::call_block:
      case StmtKind::filter_block:
        load(stmt.expr.get());
        break;
      case StmtKind::condition:
        visit_condition(stmt, 0);
        break;
      case StmtKind::macro:
        symbols_->store(stmt.text);
        break;
      case StmtKind::set:
        load(stmt.expr.get());
        store(*stmt.targets[0], false);
        break;
      case StmtKind::set_block:
        store(*stmt.targets[0], false);
        break;
      case StmtKind::with:
        for (const ExprPtr& value : stmt.exprs) load(value.get());
        break;
      case StmtKind::load_template:
        load(stmt.expr.get());
        for (const ExprPtr& target : stmt.targets) store(*target, false);
        break;
      case StmtKind::data:
      case StmtKind::generation:
      case StmtKind::autoescape:
      case StmtKind::block:
      case StmtKind::break_loop:
      case StmtKind::continue_loop:
        break;
    }
  }

 private:
  void visit_condition(const Stmt& stmt, std::size_t first) {
    load(stmt.branches[first].first.get());
    Symbols* original = symbols_;
    std::vector<Symbols> branches;
    const auto branch = [&](auto&& body) {
      Symbols copy = *original;
      symbols_ = &copy;
      body();
      symbols_ = original;
      branches.push_back(std::move(copy));
    };
    branch([&] { visit(stmt.branches[first].second); });
    branch([&] {
      if (first != 0) return;  // an elif has no elifs of its own: they all belong to the first branch
      for (std::size_t i = 1; i < stmt.branches.size(); ++i) visit_condition(stmt, i);
    });
    branch([&] {
      if (first == 0) visit(stmt.else_body);
    });
    original->merge(branches);
  }

  Symbols* symbols_;
};

// Which of `names` a tree uses without having declared them before.
class UndeclaredFinder {
 public:
  explicit UndeclaredFinder(Names names) : names_(std::move(names)) {}

  const Names& found() const { return found_; }

  void visit(const Block& body) {
    for (const StmtPtr& stmt : body) visit(*stmt);
  }

 private:
  void visit(const Expr* expr) {
    if (expr == nullptr) return;
    if (expr->kind == ExprKind::name && names_.contains(expr->text)) found_.insert(expr->text);
    for (const ExprPtr& item : expr->items) visit(item.get());
    each_argument(*expr, [&](const Expr& argument) { visit(&argument); });
  }

  void declare(const Expr& target) {
    if (target.kind == ExprKind::name) names_.erase(target.text);
    if (target.kind == ExprKind::tuple) {
      for (const ExprPtr& item : target.items) declare(*item);
    }
  }

  void visit(const Stmt& stmt) {
    if (stmt.kind == StmtKind::block) return;
    if (stmt.kind == StmtKind::filter_block) {
      visit(stmt.body);
      visit(stmt.expr.get());
      return;
    }
    if (stmt.kind == StmtKind::call_block) visit(stmt.expr.get());
    if (stmt.kind != StmtKind::load_template) {
      for (const ExprPtr& target : stmt.targets) declare(*target);
    }
    for (const ExprPtr& expr : stmt.exprs) visit(expr.get());
    if (stmt.kind != StmtKind::call_block) visit(stmt.expr.get());
    for (const auto& [test, body] : stmt.branches) {
      visit(test.get());
      visit(body);
    }
    visit(stmt.body);
    visit(stmt.else_body);
    visit(stmt.test.get());
  }

  Names names_;
  Names found_;
};

Names find_undeclared(const Block& body, Names names) {
  UndeclaredFinder finder(std::move(names));
  finder.visit(body);
  return finder.found();
}

// The first inner statement that `wanted` likes, at any depth.
template <typename Wanted>
const Stmt* find_statement(const Block& body, const Wanted& wanted) {
  for (const StmtPtr& stmt : body) {
    if (wanted(*stmt)) return stmt.get();
    for (const auto& branch : stmt->branches) {
      if (const Stmt* found = find_statement(branch.second, wanted)) return found;
    }
    for (const Block* inner : {&stmt->body, &stmt->else_body}) {
      if (const Stmt* found = find_statement(*inner, wanted)) return found;
    }
  }
  return nullptr;
}

bool stores_loop(const Expr& target) {
  if (target.kind == ExprKind::name) return target.text == "loop";
  return target.kind == ExprKind::tuple &&
         std::any_of(target.items.begin(), target.items.end(), [](const ExprPtr& item) { return stores_loop(*item); });
}

class Analyzer {
 public:
  explicit Analyzer(Tree& tree) : tree_(tree) {}

  void run() {
    Names names;
    for (const Stmt* block : tree_.blocks) {
      if (!names.insert(block->text).second) {
        fail(fmt::format("block '{}' defined twice", block->text), block->begin, block->end);
      }
    }
    Symbols root(nullptr);
    const bool uses_self = find_undeclared(tree_.body, {"self"}).contains("self");
    if (uses_self) root.declare_parameter("self");
    Collector(root).visit(tree_.body);
    if (uses_self) tree_.self_slot = root.find("self")->slot;
    Frame frame{&root};
    frame.top_level = true;
    walk(tree_.body, frame);
    tree_.scope = root.scope();
    for (const Stmt* block : tree_.blocks) walk_named_block(const_cast<Stmt&>(*block));
  }

 private:
  struct Frame {
    const Symbols* symbols;
    bool top_level = false;
    bool soft = false;  // inside a condition: unknown filters fail only when they run
    bool in_loop = false;

    Frame inner(const Symbols& inner_symbols) const { return {&inner_symbols, false, false, in_loop}; }
    Frame softened() const { return {symbols, top_level, true, in_loop}; }
  };

  static Place place_of(const Expr& name, const Frame& frame) {
    const auto place = frame.symbols->find(name.text);
    if (!place)
      fail(fmt::format("Tried to resolve a name that was unknown to the frame ('{}')", name.text), name.begin,
           name.end);
    return *place;
  }

  void walk_named_block(Stmt& block) {
    Symbols symbols(nullptr);
    const Names special = find_undeclared(block.body, {"self", "super"});
    for (const std::string& name : special) symbols.declare_parameter(name);
    Collector(symbols).visit(block.body);
    if (special.contains("self")) block.self_slot = symbols.find("self")->slot;
    if (special.contains("super")) block.super_slot = symbols.find("super")->slot;
    walk(block.body, Frame{&symbols});
    block.scope = symbols.scope();
  }

  void walk(const Block& body, const Frame& frame) {
    for (const StmtPtr& stmt : body) walk(*stmt, frame);
  }

  void walk(Stmt& stmt, const Frame& frame) {
    switch (stmt.kind) {
      case StmtKind::data:
        break;
      case StmtKind::output:
        for (const ExprPtr& expr : stmt.exprs) walk(expr.get(), frame);
        break;
      case StmtKind::loop:
        walk_loop(stmt, frame);
        break;
      case StmtKind::condition: {
        const Frame soft = frame.softened();
        for (const auto& [test, body] : stmt.branches) {
          walk(test.get(), soft);
          walk(body, soft);
        }
        walk(stmt.else_body, soft);
        break;
      }
      case StmtKind::macro:
        walk_macro(stmt, frame);
        stmt.top_level = frame.top_level;
        stmt.place = *frame.symbols->find(stmt.text);
        break;
      case StmtKind::call_block:
        walk_macro(stmt, frame);
        walk(stmt.expr.get(), frame);
        break;
      case StmtKind::generation:
        walk_macro(stmt, frame);
        break;
      case StmtKind::filter_block: {
        Symbols symbols(frame.symbols);
        Collector collector(symbols);
        collector.visit(stmt.body);
        collector.load(stmt.expr.get());
        const Frame inner = frame.inner(symbols);
        walk(stmt.body, inner);
        walk(stmt.expr.get(), inner);
        stmt.scope = symbols.scope();
        break;
      }
      case StmtKind::set:
        walk(stmt.expr.get(), frame);
        walk_target(*stmt.targets[0], frame);
        stmt.top_level = frame.top_level;
        break;
      case StmtKind::set_block: {
        Symbols symbols(frame.symbols);
        Collector(symbols).visit(stmt.body);
        const Frame inner = frame.inner(symbols);
        walk(stmt.body, inner);
        walk(stmt.expr.get(), inner);
        walk_target(*stmt.targets[0], frame);
        stmt.scope = symbols.scope();
        stmt.top_level = frame.top_level;
        break;
      }
      case StmtKind::with: {
        Symbols symbols(frame.symbols);
        Collector collector(symbols);
        for (const ExprPtr& target : stmt.targets) collector.store(*target, true);
        collector.visit(stmt.body);
        const Frame inner = frame.inner(symbols);
        for (const ExprPtr& value : stmt.exprs) walk(value.get(), frame);
        for (const ExprPtr& target : stmt.targets) walk_target(*target, inner);
        walk(stmt.body, inner);
        stmt.scope = symbols.scope();
        break;
      }
      case StmtKind::autoescape: {
        Symbols symbols(frame.symbols);
        Collector collector(symbols);
        collector.load(stmt.expr.get());
        collector.visit(stmt.body);
        const Frame inner = frame.inner(symbols);
        walk(stmt.expr.get(), inner);
        walk(stmt.body, inner);
        stmt.scope = symbols.scope();
        break;
      }
      case StmtKind::block:  // the body is a scope beside the template's: walk_named_block
        if (stmt.scoped) stmt.locals = frame.symbols->stored();
        break;
      case StmtKind::break_loop:
      case StmtKind::continue_loop:
        if (!frame.in_loop) {
          fail(stmt.kind == StmtKind::break_loop ? "'break' outside loop" : "'continue' not properly in loop",
               stmt.begin, stmt.end);
        }
        break;
      case StmtKind::load_template:
        if (stmt.text == "extends" && !frame.top_level) {
          fail("cannot use extend from a non top-level scope", stmt.begin, stmt.end);
        }
        walk(stmt.expr.get(), frame);
        break;
    }
  }

  void walk_loop(Stmt& stmt, const Frame& frame) {
    Symbols loop(frame.symbols), test(frame.symbols), otherwise(frame.symbols);
    stmt.uses_loop = stmt.recursive || find_undeclared(stmt.body, {"loop"}).contains("loop") ||
                     find_statement(stmt.body, [](const Stmt& inner) {
                       return inner.kind == StmtKind::block && inner.scoped;
                     }) != nullptr;
    if (stmt.uses_loop) loop.declare_parameter("loop");
    Collector collector(loop);
    collector.store(*stmt.targets[0], true);
    collector.visit(stmt.body);
    Collector(otherwise).visit(stmt.else_body);
    if (stmt.test) {
      Collector test_collector(test);
      test_collector.store(*stmt.test_target, true);
      test_collector.load(stmt.test.get());
      const Frame test_frame = frame.inner(test);
      walk_target(*stmt.test_target, test_frame);
      walk(stmt.test.get(), test_frame);
      stmt.test_scope = test.scope();
    }
    check_loop_is_not_stored(stmt);

    walk(stmt.expr.get(), frame);
    Frame body = frame.inner(loop);
    body.in_loop = true;
    walk_target(*stmt.targets[0], body);
    walk(stmt.body, body);
    Frame behind = frame.inner(otherwise);
    if (stmt.recursive) behind.in_loop = false;
    walk(stmt.else_body, behind);
    if (stmt.uses_loop) stmt.loop_slot = loop.find("loop")->slot;
    stmt.scope = loop.scope();
    stmt.else_scope = otherwise.scope();
  }

  static void check_loop_is_not_stored(const Stmt& stmt) {
    const auto stores = [](const Stmt& inner) {
      const bool stores_targets =
          inner.kind == StmtKind::loop || inner.kind == StmtKind::set || inner.kind == StmtKind::set_block;
      return stores_targets && stores_loop(*inner.targets[0]);
    };
    const Stmt* found = stores(stmt) ? &stmt : find_statement(stmt.body, stores);
    if (found == nullptr) found = find_statement(stmt.else_body, stores);
    if (found != nullptr) {
      fail("Can't assign to special loop variable in for-loop target", found->begin, found->end);
    }
  }

  void walk_macro(Stmt& stmt, const Frame& outer) {
    Symbols symbols(outer.symbols);
    const auto collect = [&] {
      Collector collector(symbols);
      for (const ExprPtr& parameter : stmt.targets) collector.store(*parameter, true);
      for (const ExprPtr& value : stmt.exprs) collector.load(value.get());
      collector.visit(stmt.body);
    };
    collect();
    const auto parameter_index = [&](std::string_view name) {
      const auto found = std::find_if(stmt.targets.begin(), stmt.targets.end(),
                                      [&](const ExprPtr& parameter) { return parameter->text == name; });
      return found == stmt.targets.end() ? -1 : static_cast<int>(found - stmt.targets.begin());
    };
    const Names special = find_undeclared(stmt.body, {"caller", "kwargs", "varargs"});
    if (special.contains("caller")) {
      const int index = parameter_index("caller");
      if (index >= 0 && static_cast<std::size_t>(index) + stmt.exprs.size() < stmt.targets.size()) {
        fail(
            "When defining macros or call blocks the special \"caller\" argument must be omitted or be given a "
            "default.",
            stmt.begin, stmt.end);
      }
      if (index < 0) symbols.declare_parameter("caller");
      stmt.uses_caller = true;
    }
    stmt.catches_named = special.contains("kwargs") && parameter_index("kwargs") < 0;
    stmt.catches_positional = special.contains("varargs") && parameter_index("varargs") < 0;
    if (stmt.catches_named) symbols.declare_parameter("kwargs");
    if (stmt.catches_positional) symbols.declare_parameter("varargs");
    collect();

    Frame frame = outer.inner(symbols);
    frame.in_loop = false;
    for (const ExprPtr& parameter : stmt.targets) walk_target(*parameter, frame);
    for (const ExprPtr& value : stmt.exprs) walk(value.get(), frame);
    walk(stmt.body, frame);
    if (stmt.uses_caller) stmt.caller_slot = symbols.find("caller")->slot;
    if (stmt.catches_named) stmt.named_slot = symbols.find("kwargs")->slot;
    if (stmt.catches_positional) stmt.positional_slot = symbols.find("varargs")->slot;
    stmt.scope = symbols.scope();
  }

  void walk_target(Expr& target, const Frame& frame) {
    if (target.kind == ExprKind::name) target.place = place_of(target, frame);
    if (target.kind == ExprKind::space_attribute) target.items[0]->place = place_of(*target.items[0], frame);
    if (target.kind == ExprKind::tuple) {
      for (const ExprPtr& item : target.items) walk_target(*item, frame);
    }
  }

  void walk(Expr* expr, const Frame& frame) {
    if (expr == nullptr) return;
    if (expr->kind == ExprKind::name) expr->place = place_of(*expr, frame);
    if (expr->kind == ExprKind::filter || expr->kind == ExprKind::test) {
      const bool filter = expr->kind == ExprKind::filter;
      expr->native = filter ? find_filter(expr->text) : find_test(expr->text);
      if (expr->native == nullptr && !frame.soft) {
        fail(fmt::format("No {} named '{}'.", filter ? "filter" : "test", expr->text), expr->begin, expr->end);
      }
    }
    const Frame& inside = frame;
    const Frame soft = frame.softened();
    const Frame& used = expr->kind == ExprKind::conditional ? soft : inside;
    for (const ExprPtr& item : expr->items) walk(item.get(), used);
    for (const ExprPtr& argument : expr->positional) walk(argument.get(), used);
    for (const auto& [name, argument] : expr->named) walk(argument.get(), used);
    walk(expr->more_positional.get(), used);
    walk(expr->more_named.get(), used);
  }

  Tree& tree_;
};

}  // namespace

void analyze_scopes(Tree& tree) {
  Analyzer(tree).run();
}

}  // namespace sparkx::jinja
