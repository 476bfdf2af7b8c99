#include "text/jinja/parser.h"

#include <fmt/core.h>

#include <algorithm>

#include "text/jinja/expression_parser.h"

namespace sparkx::jinja {
namespace {

class Parser : public ExpressionParser {
 public:
  Parser(std::string source, std::string name) : ExpressionParser(std::move(source), std::move(name)) {}

  Tree run() {
    tree_.body = parse_block({});
    return std::move(tree_);
  }

 private:
  StmtPtr statement(StmtKind kind, std::uint32_t begin) const {
    auto stmt = std::make_unique<Stmt>();
    stmt->kind = kind;
    stmt->begin = begin;
    stmt->end = last_end();
    return stmt;
  }

  // Up to a tag that begins with one of `ends`; that name is then the current token.
  Block parse_block(const std::vector<std::string_view>& ends) {
    Block body;
    ends_.push_back(ends);
    while (now().kind != TokenKind::end) {
      const Token& token = now();
      if (token.kind == TokenKind::data) {
        auto stmt = statement(StmtKind::data, token.begin);
        stmt->text = token.text;
        advance();
        body.push_back(std::move(stmt));
      } else if (token.kind == TokenKind::variable_begin) {
        const std::uint32_t begin = advance().begin;
        ExprPtr expr = parse_tuple({});
        expect(TokenKind::variable_end, "end of print statement");
        auto stmt = statement(StmtKind::output, begin);
        stmt->exprs.push_back(std::move(expr));
        body.push_back(std::move(stmt));
      } else {
        advance();  // block_begin
        if (now().kind == TokenKind::name && std::find(ends.begin(), ends.end(), now().text) != ends.end()) {
          ends_.pop_back();
          return body;
        }
        body.push_back(parse_statement());
        expect(TokenKind::block_end, "end of statement block");
      }
    }
    if (!ends.empty()) fail_unknown(nullptr);
    ends_.pop_back();
    return body;
  }

  // The body of a tag whose head is read: from its "%}" to one of `ends`.
  Block parse_body(const std::vector<std::string_view>& ends) {
    skip_op(":");
    expect(TokenKind::block_end, "end of statement block");
    return parse_block(ends);
  }
  Block parse_body_to(std::string_view end) {
    Block body = parse_body({end});
    advance();
    return body;
  }

  [[noreturn]] void fail_unknown(const Token* tag) const {
    std::string message =
        tag == nullptr ? "Unexpected end of template." : fmt::format("Encountered unknown tag '{}'.", tag->text);
    if (!ends_.empty() && !ends_.back().empty()) {
      message += " Jinja was looking for the following tags:";
      const char* between = " ";
      for (std::string_view end : ends_.back()) {
        message += fmt::format("{}'{}'", between, end);
        between = " or ";
      }
      message += ".";
    }
    if (!open_tags_.empty()) {
      message += fmt::format(" The innermost block that needs to be closed is '{}'.", open_tags_.back());
    }
    fail(std::move(message), tag == nullptr ? now() : *tag);
  }

  StmtPtr parse_statement() {
    const Nested nested(*this);
    if (now().kind != TokenKind::name) fail("tag name expected", now());
    const Token tag = now();
    open_tags_.push_back(tag.text);
    StmtPtr stmt = parse_tag(tag);
    open_tags_.pop_back();
    return stmt;
  }

  StmtPtr parse_tag(const Token& tag) {
    const std::string& name = tag.text;
    if (name == "for") return parse_for();
    if (name == "if") return parse_if();
    if (name == "set") return parse_set();
    if (name == "macro") return parse_macro();
    if (name == "call") return parse_call_block();
    if (name == "generation") return parse_generation();
    if (name == "filter") return parse_filter_block();
    if (name == "with") return parse_with();
    if (name == "autoescape") return parse_autoescape();
    if (name == "block") return parse_named_block();
    if (name == "print") return parse_print();
    if (name == "break" || name == "continue") {
      const std::uint32_t begin = advance().begin;
      return statement(name == "break" ? StmtKind::break_loop : StmtKind::continue_loop, begin);
    }
    if (name == "extends" || name == "include" || name == "import" || name == "from") return parse_load(name);
    open_tags_.pop_back();
    fail_unknown(&tag);
  }

  static bool can_assign(const Expr& target) {
    if (target.kind == ExprKind::name || target.kind == ExprKind::space_attribute) return true;
    return target.kind == ExprKind::tuple &&
           std::all_of(target.items.begin(), target.items.end(), [](const ExprPtr& item) { return can_assign(*item); });
  }

  ExprPtr parse_target(std::string_view ends_at, bool with_space) {
    const Token first = now();
    ExprPtr target = parse_tuple({.targets = true, .ends_at = ends_at, .with_space = with_space});
    if (!can_assign(*target)) fail("can't assign to this", first);
    return target;
  }

  ExprPtr parse_name_target() {
    const Token& token = expect(TokenKind::name, "name");
    static constexpr std::string_view kConstants[] = {"true", "false", "none", "True", "False", "None"};
    if (std::find(std::begin(kConstants), std::end(kConstants), token.text) != std::end(kConstants)) {
      fail("can't assign to 'name'", token);
    }
    auto expr = node(ExprKind::name, token.begin);
    expr->text = token.text;
    return expr;
  }

  StmtPtr parse_for() {
    const std::uint32_t begin = advance().begin;
    ExprPtr target = parse_target("in", false);
    expect_name("in");
    ExprPtr iterable = parse_tuple({.conditional = false, .ends_at = "recursive"});
    auto stmt = statement(StmtKind::loop, begin);
    if (skip_name("if")) {
      stmt->test = parse_expression();
      stmt->test_target = copy_target(*target);
    }
    stmt->recursive = skip_name("recursive");
    stmt->targets.push_back(std::move(target));
    stmt->expr = std::move(iterable);
    stmt->end = last_end();
    stmt->body = parse_body({"endfor", "else"});
    if (advance().text == "else") stmt->else_body = parse_body_to("endfor");
    return stmt;
  }

  static ExprPtr copy_target(const Expr& target) {
    auto copy = std::make_unique<Expr>();
    copy->kind = target.kind;
    copy->begin = target.begin;
    copy->end = target.end;
    copy->text = target.text;
    for (const ExprPtr& item : target.items) copy->items.push_back(copy_target(*item));
    return copy;
  }

  StmtPtr parse_if() {
    const std::uint32_t begin = advance().begin;
    auto stmt = statement(StmtKind::condition, begin);
    while (true) {
      ExprPtr test = parse_tuple({.conditional = false});
      if (stmt->branches.empty()) stmt->end = last_end();
      Block body = parse_body({"elif", "else", "endif"});
      stmt->branches.emplace_back(std::move(test), std::move(body));
      const std::string end = advance().text;
      if (end == "elif") continue;
      if (end == "else") stmt->else_body = parse_body_to("endif");
      return stmt;
    }
  }

  StmtPtr parse_set() {
    const std::uint32_t begin = advance().begin;
    ExprPtr target = parse_target({}, true);
    auto stmt = statement(StmtKind::set, begin);
    if (skip_op("=")) {
      stmt->expr = parse_tuple({});
      stmt->end = last_end();
    } else {
      stmt->kind = StmtKind::set_block;
      stmt->expr = parse_filter(nullptr, false);
      stmt->end = last_end();
      stmt->body = parse_body_to("endset");
    }
    stmt->targets.push_back(std::move(target));
    return stmt;
  }

  void parse_signature(Stmt& stmt) {
    expect_op("(");
    while (!now().is(")")) {
      if (!stmt.targets.empty()) expect_op(",");
      const Token first = now();
      ExprPtr parameter = parse_name_target();
      for (const ExprPtr& known : stmt.targets) {
        if (known->text == parameter->text) {
          fail(fmt::format("duplicate argument '{}' in macro definition", parameter->text), first);
        }
      }
      if (skip_op("=")) {
        stmt.exprs.push_back(parse_expression());
      } else if (!stmt.exprs.empty()) {
        fail("non-default argument follows default argument", first);
      }
      stmt.targets.push_back(std::move(parameter));
    }
    expect_op(")");
  }

  StmtPtr parse_macro() {
    const std::uint32_t begin = advance().begin;
    auto stmt = statement(StmtKind::macro, begin);
    stmt->text = parse_name_target()->text;
    parse_signature(*stmt);
    stmt->end = last_end();
    stmt->body = parse_body_to("endmacro");
    return stmt;
  }

  StmtPtr parse_call_block() {
    const Token tag = advance();
    auto stmt = statement(StmtKind::call_block, tag.begin);
    if (now().is("(")) parse_signature(*stmt);
    stmt->expr = parse_expression();
    if (stmt->expr->kind != ExprKind::call) fail("expected call", tag);
    stmt->end = last_end();
    stmt->body = parse_body_to("endcall");
    return stmt;
  }

  StmtPtr parse_generation() {
    const std::uint32_t begin = advance().begin;
    auto stmt = statement(StmtKind::generation, begin);
    stmt->body = parse_body_to("endgeneration");
    return stmt;
  }

  StmtPtr parse_filter_block() {
    const std::uint32_t begin = advance().begin;
    auto stmt = statement(StmtKind::filter_block, begin);
    stmt->expr = parse_filter(nullptr, true);
    stmt->end = last_end();
    stmt->body = parse_body_to("endfilter");
    return stmt;
  }

  StmtPtr parse_with() {
    const std::uint32_t begin = advance().begin;
    auto stmt = statement(StmtKind::with, begin);
    while (now().kind != TokenKind::block_end) {
      if (!stmt->targets.empty()) expect_op(",");
      stmt->targets.push_back(parse_target({}, false));
      expect_op("=");
      stmt->exprs.push_back(parse_expression());
    }
    stmt->end = last_end();
    stmt->body = parse_body_to("endwith");
    return stmt;
  }

  StmtPtr parse_autoescape() {
    const std::uint32_t begin = advance().begin;
    auto stmt = statement(StmtKind::autoescape, begin);
    stmt->expr = parse_expression();
    stmt->end = last_end();
    stmt->body = parse_body_to("endautoescape");
    return stmt;
  }

  StmtPtr parse_named_block() {
    const std::uint32_t begin = advance().begin;
    auto stmt = statement(StmtKind::block, begin);
    stmt->text = expect(TokenKind::name, "name").text;
    stmt->scoped = skip_name("scoped");
    stmt->required = skip_name("required");
    stmt->end = last_end();
    stmt->body = parse_body_to("endblock");
    if (stmt->required) {
      for (const StmtPtr& inner : stmt->body) {
        if (inner->kind != StmtKind::data || inner->text.find_first_not_of(" \t\r\n\f\v") != std::string::npos) {
          fail("Required blocks can only contain comments or whitespace", now());
        }
      }
    }
    skip_name(stmt->text);
    tree_.blocks.push_back(stmt.get());
    return stmt;
  }

  StmtPtr parse_print() {
    const std::uint32_t begin = advance().begin;
    auto stmt = statement(StmtKind::output, begin);
    while (now().kind != TokenKind::block_end) {
      if (!stmt->exprs.empty()) expect_op(",");
      stmt->exprs.push_back(parse_expression());
    }
    stmt->end = last_end();
    return stmt;
  }

  void skip_context() {
    if ((now().is_name("with") || now().is_name("without")) && ahead().is_name("context")) {
      advance();
      advance();
    }
  }

  StmtPtr parse_load(const std::string& tag) {
    const std::uint32_t begin = advance().begin;
    auto stmt = statement(StmtKind::load_template, begin);
    stmt->text = tag;
    stmt->expr = parse_expression();
    if (tag == "include") {
      if (now().is_name("ignore") && ahead().is_name("missing")) {
        advance();
        advance();
      }
      skip_context();
    } else if (tag == "import") {
      expect_name("as");
      stmt->targets.push_back(parse_name_target());
      skip_context();
    } else if (tag == "from") {
      expect_name("import");
      parse_imported_names(*stmt);
    }
    stmt->end = last_end();
    return stmt;
  }

  void parse_imported_names(Stmt& stmt) {
    while (true) {
      if (!stmt.targets.empty()) expect_op(",");
      if (now().kind != TokenKind::name) fail_expected("name");
      const std::size_t before = at_;
      skip_context();
      if (at_ != before) return;
      ExprPtr target = parse_name_target();
      if (target->text.starts_with('_')) fail("names starting with an underline can not be imported", now());
      if (skip_name("as")) target = parse_name_target();
      stmt.targets.push_back(std::move(target));
      const std::size_t behind = at_;
      skip_context();
      if (at_ != behind || !now().is(",")) return;
    }
  }

  std::vector<std::vector<std::string_view>> ends_;
  std::vector<std::string> open_tags_;
};

}  // namespace

Tree parse_tree(std::string source, std::string name) {
  return Parser(std::move(source), std::move(name)).run();
}

}  // namespace sparkx::jinja
