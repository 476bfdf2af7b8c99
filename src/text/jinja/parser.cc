#include "text/jinja/parser.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <initializer_list>
#include <optional>

#include "text/jinja/lexer.h"
#include "text/jinja/numbers.h"

namespace sparkx::jinja {
namespace {

constexpr int kMaxNesting = 200;  // of brackets and tags: the parser recurses there
constexpr int kMaxChain = 2000;   // operators, filters, attributes in a row: each deepens the tree by one

std::string describe(const Token& token) {
  switch (token.kind) {
    case TokenKind::data:
      return "template data / text";
    case TokenKind::variable_begin:
      return "begin of print statement";
    case TokenKind::variable_end:
      return "end of print statement";
    case TokenKind::block_begin:
      return "begin of statement block";
    case TokenKind::block_end:
      return "end of statement block";
    case TokenKind::string:
      return "string";
    case TokenKind::integer:
      return "integer";
    case TokenKind::floating:
      return "float";
    case TokenKind::end:
      return "end of template";
    case TokenKind::name:
    case TokenKind::op:
      return token.text;
  }
  return token.text;
}

class Parser {
 public:
  Parser(std::string source, std::string name) {
    tree_.source = std::move(source);
    tree_.name = std::move(name);
    tokens_ = tokenize(tree_.source);
  }

  Tree run() {
    tree_.body = parse_block({});
    return std::move(tree_);
  }

 private:
  using Names = std::initializer_list<std::string_view>;

  // Tokens

  const Token& now() const { return tokens_[at_]; }
  const Token& ahead() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  const Token& advance() {
    const Token& token = tokens_[at_];
    if (at_ + 1 < tokens_.size()) ++at_;
    return token;
  }
  bool skip_op(std::string_view op) {
    if (!now().is(op)) return false;
    advance();
    return true;
  }
  bool skip_name(std::string_view name) {
    if (!now().is_name(name)) return false;
    advance();
    return true;
  }

  [[noreturn]] void fail(std::string message, const Token& token) const {
    throw SyntaxError{std::move(message), token.begin, token.end};
  }
  [[noreturn]] void fail_expected(std::string_view expected) const {
    if (now().kind == TokenKind::end) fail(fmt::format("unexpected end of template, expected '{}'.", expected), now());
    fail(fmt::format("expected token '{}', got '{}'", expected, describe(now())), now());
  }
  void expect_op(std::string_view op) {
    if (!skip_op(op)) fail_expected(op);
  }
  void expect_name(std::string_view name) {
    if (!skip_name(name)) fail_expected(name);
  }
  const Token& expect(TokenKind kind, std::string_view what) {
    if (now().kind != kind) fail_expected(what);
    return advance();
  }

  // Nesting

  class Nested {
   public:
    explicit Nested(Parser& parser) : parser_(parser) {
      if (++parser_.nesting_ > kMaxNesting) {
        --parser_.nesting_;
        parser_.fail(fmt::format("nested deeper than {} levels", kMaxNesting), parser_.now());
      }
    }
    ~Nested() { --parser_.nesting_; }

   private:
    Parser& parser_;
  };

  // `expr` stands on top of `below`.
  void stack_on(Expr& expr, const Expr& below) const {
    expr.height = std::max(expr.height, below.height + 1);
    if (expr.height > kMaxChain) fail(fmt::format("more than {} operators in a row", kMaxChain), now());
  }

  // Nodes

  ExprPtr node(ExprKind kind, std::uint32_t begin) const {
    auto expr = std::make_unique<Expr>();
    expr->kind = kind;
    expr->begin = begin;
    expr->end = last_end();
    return expr;
  }
  std::uint32_t last_end() const { return at_ == 0 ? 0 : tokens_[at_ - 1].end; }

  ExprPtr binary(ExprKind kind, ExprPtr left, ExprPtr right) {
    auto expr = node(kind, left->begin);
    stack_on(*expr, *left);
    expr->items.push_back(std::move(left));
    expr->items.push_back(std::move(right));
    return expr;
  }

  // Expressions

  ExprPtr parse_expression(bool conditional = true) {
    const Nested nested(*this);
    return conditional ? parse_conditional() : parse_or();
  }

  ExprPtr parse_conditional() {
    const std::uint32_t begin = now().begin;
    ExprPtr expr = parse_or();
    while (skip_name("if")) {
      ExprPtr test = parse_or();
      ExprPtr otherwise;
      if (skip_name("else")) {
        const Nested nested(*this);
        otherwise = parse_conditional();
      }
      auto conditional = node(ExprKind::conditional, begin);
      stack_on(*conditional, *expr);
      conditional->items.push_back(std::move(test));
      conditional->items.push_back(std::move(expr));
      conditional->items.push_back(std::move(otherwise));
      expr = std::move(conditional);
    }
    return expr;
  }

  ExprPtr parse_or() {
    ExprPtr left = parse_and();
    while (skip_name("or")) {
      ExprPtr right = parse_and();
      left = binary(ExprKind::logical_or, std::move(left), std::move(right));
    }
    return left;
  }

  ExprPtr parse_and() {
    ExprPtr left = parse_not();
    while (skip_name("and")) {
      ExprPtr right = parse_not();
      left = binary(ExprKind::logical_and, std::move(left), std::move(right));
    }
    return left;
  }

  ExprPtr parse_not() {
    if (!now().is_name("not")) return parse_compare();
    const Nested nested(*this);
    const std::uint32_t begin = advance().begin;
    ExprPtr operand = parse_not();
    auto expr = node(ExprKind::logical_not, begin);
    expr->items.push_back(std::move(operand));
    return expr;
  }

  std::optional<Comparison> skip_comparison() {
    static constexpr std::pair<std::string_view, Comparison> kOps[] = {
        {"==", Comparison::equal},      {"!=", Comparison::not_equal}, {"<", Comparison::less},
        {"<=", Comparison::less_equal}, {">", Comparison::greater},    {">=", Comparison::greater_equal}};
    for (const auto& [op, comparison] : kOps) {
      if (skip_op(op)) return comparison;
    }
    if (skip_name("in")) return Comparison::in;
    if (now().is_name("not") && ahead().is_name("in")) {
      advance();
      advance();
      return Comparison::not_in;
    }
    return std::nullopt;
  }

  ExprPtr parse_compare() {
    const std::uint32_t begin = now().begin;
    ExprPtr first = parse_sum();
    std::vector<ExprPtr> items;
    std::vector<Comparison> comparisons;
    while (const auto comparison = skip_comparison()) {
      comparisons.push_back(*comparison);
      items.push_back(parse_sum());
    }
    if (comparisons.empty()) return first;
    auto expr = node(ExprKind::compare, begin);
    expr->items.push_back(std::move(first));
    for (ExprPtr& item : items) expr->items.push_back(std::move(item));
    expr->comparisons = std::move(comparisons);
    return expr;
  }

  ExprPtr parse_sum() {
    ExprPtr left = parse_concat();
    while (now().is("+") || now().is("-")) {
      const ExprKind kind = advance().text == "+" ? ExprKind::add : ExprKind::subtract;
      ExprPtr right = parse_concat();
      left = binary(kind, std::move(left), std::move(right));
    }
    return left;
  }

  ExprPtr parse_concat() {
    const std::uint32_t begin = now().begin;
    ExprPtr first = parse_product();
    if (!now().is("~")) return first;
    std::vector<ExprPtr> items;
    items.push_back(std::move(first));
    while (skip_op("~")) items.push_back(parse_product());
    auto expr = node(ExprKind::concat, begin);
    expr->items = std::move(items);
    return expr;
  }

  ExprPtr parse_product() {
    ExprPtr left = parse_power();
    while (true) {
      ExprKind kind = ExprKind::none;
      if (now().is("*")) kind = ExprKind::multiply;
      if (now().is("/")) kind = ExprKind::divide;
      if (now().is("//")) kind = ExprKind::floor_divide;
      if (now().is("%")) kind = ExprKind::modulo;
      if (kind == ExprKind::none) return left;
      advance();
      ExprPtr right = parse_power();
      left = binary(kind, std::move(left), std::move(right));
    }
  }

  ExprPtr parse_power() {
    ExprPtr left = parse_unary(true);
    while (skip_op("**")) {
      ExprPtr right = parse_unary(true);
      left = binary(ExprKind::power, std::move(left), std::move(right));
    }
    return left;
  }

  ExprPtr parse_unary(bool with_filters) {
    ExprPtr expr;
    if (now().is("-") || now().is("+")) {
      const Nested nested(*this);
      const Token& sign = advance();
      const std::uint32_t begin = sign.begin;
      const ExprKind kind = sign.text == "-" ? ExprKind::negate : ExprKind::positive;
      ExprPtr operand = parse_unary(false);
      expr = node(kind, begin);
      expr->items.push_back(std::move(operand));
    } else {
      expr = parse_primary(false);
    }
    expr = parse_postfix(std::move(expr));
    return with_filters ? parse_filters(std::move(expr)) : std::move(expr);
  }

  ExprPtr parse_primary(bool with_space) {
    const Token& token = now();
    const std::uint32_t begin = token.begin;
    switch (token.kind) {
      case TokenKind::name: {
        const std::string name = token.text;
        advance();
        if (name == "true" || name == "false" || name == "True" || name == "False") {
          auto expr = node(ExprKind::boolean, begin);
          expr->truth = name == "true" || name == "True";
          return expr;
        }
        if (name == "none" || name == "None") return node(ExprKind::none, begin);
        if (with_space && skip_op(".")) {
          const std::string attribute = expect(TokenKind::name, "name").text;
          auto expr = node(ExprKind::space_attribute, begin);
          auto space = node(ExprKind::name, begin);
          space->text = name;
          expr->items.push_back(std::move(space));
          expr->text = attribute;
          return expr;
        }
        auto expr = node(ExprKind::name, begin);
        expr->text = name;
        return expr;
      }
      case TokenKind::string: {
        std::string text;
        while (now().kind == TokenKind::string) text += advance().text;
        auto expr = node(ExprKind::string, begin);
        expr->text = std::move(text);
        expr->constant = tree_.constants++;
        return expr;
      }
      case TokenKind::integer: {
        const std::string text = advance().text;
        auto expr = node(ExprKind::integer, begin);
        expr->text = text;
        expr->constant = tree_.constants++;
        return expr;
      }
      case TokenKind::floating: {
        const std::string text = advance().text;
        auto expr = node(ExprKind::floating, begin);
        expr->number = parse_float(text).value();
        return expr;
      }
      default:
        break;
    }
    if (token.is("(")) {
      advance();
      ExprPtr expr = parse_tuple({.parentheses = true});
      expect_op(")");
      return expr;
    }
    if (token.is("[")) return parse_list();
    if (token.is("{")) return parse_dict();
    fail(fmt::format("unexpected '{}'", describe(token)), token);
  }

  struct TupleOptions {
    bool targets = false;  // names and literals only
    bool conditional = true;
    std::string_view ends_at = {};  // a name that ends it too
    bool parentheses = false;       // may be empty
    bool with_space = false;
  };

  bool at_tuple_end(const TupleOptions& options) const {
    return now().kind == TokenKind::variable_end || now().kind == TokenKind::block_end || now().is(")") ||
           (!options.ends_at.empty() && now().is_name(options.ends_at));
  }

  ExprPtr parse_tuple(const TupleOptions& options) {
    const Nested nested(*this);
    const std::uint32_t begin = now().begin;
    std::vector<ExprPtr> items;
    bool is_tuple = false;
    while (true) {
      if (!items.empty()) expect_op(",");
      if (at_tuple_end(options)) break;
      items.push_back(options.targets ? parse_primary(options.with_space) : parse_expression(options.conditional));
      if (!now().is(",")) break;
      is_tuple = true;
    }
    if (!is_tuple) {
      if (!items.empty()) return std::move(items.front());
      if (!options.parentheses) fail(fmt::format("Expected an expression, got '{}'", describe(now())), now());
    }
    auto expr = node(ExprKind::tuple, begin);
    expr->items = std::move(items);
    return expr;
  }

  ExprPtr parse_list() {
    const std::uint32_t begin = now().begin;
    expect_op("[");
    std::vector<ExprPtr> items;
    while (!now().is("]")) {
      if (!items.empty()) expect_op(",");
      if (now().is("]")) break;
      items.push_back(parse_expression());
    }
    expect_op("]");
    auto expr = node(ExprKind::list, begin);
    expr->items = std::move(items);
    return expr;
  }

  ExprPtr parse_dict() {
    const std::uint32_t begin = now().begin;
    expect_op("{");
    std::vector<ExprPtr> items;
    while (!now().is("}")) {
      if (!items.empty()) expect_op(",");
      if (now().is("}")) break;
      items.push_back(parse_expression());
      expect_op(":");
      items.push_back(parse_expression());
    }
    expect_op("}");
    auto expr = node(ExprKind::dict, begin);
    expr->items = std::move(items);
    return expr;
  }

  ExprPtr parse_postfix(ExprPtr expr) {
    while (true) {
      if (now().is(".") || now().is("[")) {
        expr = parse_subscript(std::move(expr));
      } else if (now().is("(")) {
        expr = parse_call(std::move(expr));
      } else {
        return expr;
      }
    }
  }

  ExprPtr parse_filters(ExprPtr expr) {
    while (true) {
      if (now().is("|")) {
        expr = parse_filter(std::move(expr), false);
      } else if (now().is_name("is")) {
        expr = parse_test(std::move(expr));
      } else if (now().is("(")) {
        expr = parse_call(std::move(expr));
      } else {
        return expr;
      }
    }
  }

  ExprPtr parse_subscript(ExprPtr object) {
    const std::uint32_t begin = object->begin;
    if (skip_op(".")) {
      const Token token = advance();
      if (token.kind == TokenKind::name) {
        auto expr = node(ExprKind::attribute, begin);
        expr->text = token.text;
        expr->constant = tree_.constants++;
        stack_on(*expr, *object);
        expr->items.push_back(std::move(object));
        return expr;
      }
      if (token.kind != TokenKind::integer) fail("expected name or number", token);
      auto index = node(ExprKind::integer, token.begin);
      index->text = token.text;
      index->constant = tree_.constants++;
      auto expr = node(ExprKind::subscript, begin);
      stack_on(*expr, *object);
      expr->items.push_back(std::move(object));
      expr->items.push_back(std::move(index));
      return expr;
    }
    expect_op("[");
    std::vector<ExprPtr> keys;
    const std::uint32_t first = now().begin;
    while (!now().is("]")) {
      if (!keys.empty()) expect_op(",");
      keys.push_back(parse_subscribed());
    }
    ExprPtr key;
    if (keys.size() == 1) {
      key = std::move(keys.front());
    } else {
      key = node(ExprKind::tuple, first);
      key->items = std::move(keys);
    }
    expect_op("]");
    auto expr = node(ExprKind::subscript, begin);
    stack_on(*expr, *object);
    expr->items.push_back(std::move(object));
    expr->items.push_back(std::move(key));
    return expr;
  }

  ExprPtr parse_subscribed() {
    const std::uint32_t begin = now().begin;
    const auto at_end = [&] { return now().is("]") || now().is(","); };
    ExprPtr start, stop, step;
    if (!now().is(":")) {
      start = parse_expression();
      if (!now().is(":")) return start;
    }
    expect_op(":");
    if (!now().is(":") && !at_end()) stop = parse_expression();
    if (skip_op(":") && !at_end()) step = parse_expression();
    auto expr = node(ExprKind::slice, begin);
    expr->items.push_back(std::move(start));
    expr->items.push_back(std::move(stop));
    expr->items.push_back(std::move(step));
    return expr;
  }

  void parse_arguments(Expr& call) {
    const Token open = now();
    expect_op("(");
    const auto ensure = [&](bool valid) {
      if (!valid) fail("invalid syntax for function call expression", open);
    };
    bool comma = false;
    while (!now().is(")")) {
      if (comma) {
        expect_op(",");
        if (now().is(")")) break;
      }
      if (now().is("*")) {
        ensure(!call.more_positional && !call.more_named);
        advance();
        call.more_positional = parse_expression();
      } else if (now().is("**")) {
        ensure(!call.more_named);
        advance();
        call.more_named = parse_expression();
      } else if (now().kind == TokenKind::name && ahead().is("=")) {
        ensure(!call.more_named);
        const Token name = advance();
        advance();
        for (const auto& [known, value] : call.named) {
          if (known == name.text) fail(fmt::format("keyword argument repeated: {}", name.text), name);
        }
        call.named.emplace_back(name.text, parse_expression());
      } else {
        ensure(!call.more_positional && !call.more_named && call.named.empty());
        call.positional.push_back(parse_expression());
      }
      comma = true;
    }
    expect_op(")");
    call.end = last_end();
  }

  ExprPtr parse_call(ExprPtr callee) {
    auto expr = node(ExprKind::call, callee->begin);
    stack_on(*expr, *callee);
    parse_arguments(*expr);
    expr->items.push_back(std::move(callee));
    return expr;
  }

  std::string parse_dotted_name() {
    std::string name = expect(TokenKind::name, "name").text;
    while (skip_op(".")) name += "." + expect(TokenKind::name, "name").text;
    return name;
  }

  // `value` may be null, for the text of a block. `inline_first`: the first filter has no "|".
  ExprPtr parse_filter(ExprPtr value, bool inline_first) {
    while (now().is("|") || inline_first) {
      if (!inline_first) advance();
      inline_first = false;
      const std::uint32_t begin = value ? value->begin : now().begin;
      std::string name = parse_dotted_name();
      auto expr = node(ExprKind::filter, begin);
      expr->text = std::move(name);
      if (value) stack_on(*expr, *value);
      if (now().is("(")) parse_arguments(*expr);
      expr->items.push_back(std::move(value));
      value = std::move(expr);
    }
    return value;
  }

  ExprPtr parse_test(ExprPtr value) {
    const std::uint32_t begin = value->begin;
    expect_name("is");
    const bool negated = skip_name("not");
    std::string name = parse_dotted_name();
    auto expr = node(ExprKind::test, begin);
    expr->text = std::move(name);
    stack_on(*expr, *value);
    const Token& token = now();
    if (token.is("(")) {
      parse_arguments(*expr);
    } else if ((token.kind == TokenKind::name || token.kind == TokenKind::string || token.kind == TokenKind::integer ||
                token.kind == TokenKind::floating || token.is("[") || token.is("{")) &&
               !token.is_name("else") && !token.is_name("or") && !token.is_name("and")) {
      if (token.is_name("is")) fail("You cannot chain multiple tests with is", token);
      expr->positional.push_back(parse_postfix(parse_primary(false)));
      expr->end = last_end();
    }
    expr->items.push_back(std::move(value));
    if (!negated) return expr;
    auto no = node(ExprKind::logical_not, begin);
    no->items.push_back(std::move(expr));
    return no;
  }

  // Statements

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

  Tree tree_;
  std::vector<Token> tokens_;
  std::size_t at_ = 0;
  int nesting_ = 0;
  std::vector<std::vector<std::string_view>> ends_;
  std::vector<std::string> open_tags_;
};

}  // namespace

Tree parse_tree(std::string source, std::string name) {
  return Parser(std::move(source), std::move(name)).run();
}

}  // namespace sparkx::jinja
