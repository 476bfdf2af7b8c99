// The tokens of a template, and its expressions: the half of the parser that statements (parser.cc) build upon.
#pragma once

#include <fmt/core.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/jinja/ast.h"
#include "text/jinja/lexer.h"

namespace sparkx::jinja {

// What the parsers recurse into is bounded.
constexpr int kMaxNesting = 200;  // of brackets and tags
constexpr int kMaxChain = 2000;   // operators, filters, attributes in a row: each deepens the tree by one

// How an error message names a token.
std::string describe(const Token& token);

class ExpressionParser {
 protected:
  // Throws SyntaxError, and so does every function of this class.
  ExpressionParser(std::string source, std::string name);

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
    explicit Nested(ExpressionParser& parser) : parser_(parser) {
      if (++parser_.nesting_ > kMaxNesting) {
        --parser_.nesting_;
        parser_.fail(fmt::format("nested deeper than {} levels", kMaxNesting), parser_.now());
      }
    }
    ~Nested() { --parser_.nesting_; }

   private:
    ExpressionParser& parser_;
  };

  // Nodes

  ExprPtr node(ExprKind kind, std::uint32_t begin) const {
    auto expr = std::make_unique<Expr>();
    expr->kind = kind;
    expr->begin = begin;
    expr->end = last_end();
    return expr;
  }
  std::uint32_t last_end() const { return at_ == 0 ? 0 : tokens_[at_ - 1].end; }

  // Expressions

  struct TupleOptions {
    bool targets = false;  // names and literals only
    bool conditional = true;
    std::string_view ends_at = {};  // a name that ends it too
    bool parentheses = false;       // may be empty
    bool with_space = false;
  };

  ExprPtr parse_expression(bool conditional = true);
  ExprPtr parse_tuple(const TupleOptions& options);
  // `value` may be null, for the text of a block. `inline_first`: the first filter has no "|".
  ExprPtr parse_filter(ExprPtr value, bool inline_first);

  Tree tree_;
  std::vector<Token> tokens_;
  std::size_t at_ = 0;

 private:
  // `expr` stands on top of `below`.
  void stack_on(Expr& expr, const Expr& below) const {
    expr.height = std::max(expr.height, below.height + 1);
    if (expr.height > kMaxChain) fail(fmt::format("more than {} operators in a row", kMaxChain), now());
  }

  ExprPtr binary(ExprKind kind, ExprPtr left, ExprPtr right) {
    auto expr = node(kind, left->begin);
    stack_on(*expr, *left);
    expr->items.push_back(std::move(left));
    expr->items.push_back(std::move(right));
    return expr;
  }

  ExprPtr parse_conditional();
  ExprPtr parse_or();
  ExprPtr parse_and();
  ExprPtr parse_not();
  std::optional<Comparison> skip_comparison();
  ExprPtr parse_compare();
  ExprPtr parse_sum();
  ExprPtr parse_concat();
  ExprPtr parse_product();
  ExprPtr parse_power();
  ExprPtr parse_unary(bool with_filters);
  ExprPtr parse_primary(bool with_space);
  bool at_tuple_end(const TupleOptions& options) const;
  ExprPtr parse_list();
  ExprPtr parse_dict();
  ExprPtr parse_postfix(ExprPtr expr);
  ExprPtr parse_filters(ExprPtr expr);
  ExprPtr parse_subscript(ExprPtr object);
  ExprPtr parse_subscribed();
  void parse_arguments(Expr& call);
  ExprPtr parse_call(ExprPtr callee);
  std::string parse_dotted_name();
  ExprPtr parse_test(ExprPtr value);

  int nesting_ = 0;
};

}  // namespace sparkx::jinja
