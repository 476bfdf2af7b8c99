#include "text/jinja/expression_parser.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "text/jinja/numbers.h"

namespace sparkx::jinja {

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

ExpressionParser::ExpressionParser(std::string source, std::string name) {
  tree_.source = std::move(source);
  tree_.name = std::move(name);
  tokens_ = tokenize(tree_.source);
}

ExprPtr ExpressionParser::parse_expression(bool conditional) {
  const Nested nested(*this);
  return conditional ? parse_conditional() : parse_or();
}

ExprPtr ExpressionParser::parse_conditional() {
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

ExprPtr ExpressionParser::parse_or() {
  ExprPtr left = parse_and();
  while (skip_name("or")) {
    ExprPtr right = parse_and();
    left = binary(ExprKind::logical_or, std::move(left), std::move(right));
  }
  return left;
}

ExprPtr ExpressionParser::parse_and() {
  ExprPtr left = parse_not();
  while (skip_name("and")) {
    ExprPtr right = parse_not();
    left = binary(ExprKind::logical_and, std::move(left), std::move(right));
  }
  return left;
}

ExprPtr ExpressionParser::parse_not() {
  if (!now().is_name("not")) return parse_compare();
  const Nested nested(*this);
  const std::uint32_t begin = advance().begin;
  ExprPtr operand = parse_not();
  auto expr = node(ExprKind::logical_not, begin);
  expr->items.push_back(std::move(operand));
  return expr;
}

std::optional<Comparison> ExpressionParser::skip_comparison() {
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

ExprPtr ExpressionParser::parse_compare() {
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

ExprPtr ExpressionParser::parse_sum() {
  ExprPtr left = parse_concat();
  while (now().is("+") || now().is("-")) {
    const ExprKind kind = advance().text == "+" ? ExprKind::add : ExprKind::subtract;
    ExprPtr right = parse_concat();
    left = binary(kind, std::move(left), std::move(right));
  }
  return left;
}

ExprPtr ExpressionParser::parse_concat() {
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

ExprPtr ExpressionParser::parse_product() {
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

ExprPtr ExpressionParser::parse_power() {
  ExprPtr left = parse_unary(true);
  while (skip_op("**")) {
    ExprPtr right = parse_unary(true);
    left = binary(ExprKind::power, std::move(left), std::move(right));
  }
  return left;
}

ExprPtr ExpressionParser::parse_unary(bool with_filters) {
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

ExprPtr ExpressionParser::parse_primary(bool with_space) {
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

bool ExpressionParser::at_tuple_end(const TupleOptions& options) const {
  return now().kind == TokenKind::variable_end || now().kind == TokenKind::block_end || now().is(")") ||
         (!options.ends_at.empty() && now().is_name(options.ends_at));
}

ExprPtr ExpressionParser::parse_tuple(const TupleOptions& options) {
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

ExprPtr ExpressionParser::parse_list() {
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

ExprPtr ExpressionParser::parse_dict() {
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

ExprPtr ExpressionParser::parse_postfix(ExprPtr expr) {
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

ExprPtr ExpressionParser::parse_filters(ExprPtr expr) {
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

ExprPtr ExpressionParser::parse_subscript(ExprPtr object) {
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

ExprPtr ExpressionParser::parse_subscribed() {
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

void ExpressionParser::parse_arguments(Expr& call) {
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

ExprPtr ExpressionParser::parse_call(ExprPtr callee) {
  auto expr = node(ExprKind::call, callee->begin);
  stack_on(*expr, *callee);
  parse_arguments(*expr);
  expr->items.push_back(std::move(callee));
  return expr;
}

std::string ExpressionParser::parse_dotted_name() {
  std::string name = expect(TokenKind::name, "name").text;
  while (skip_op(".")) name += "." + expect(TokenKind::name, "name").text;
  return name;
}

ExprPtr ExpressionParser::parse_filter(ExprPtr value, bool inline_first) {
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

ExprPtr ExpressionParser::parse_test(ExprPtr value) {
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

}  // namespace sparkx::jinja
