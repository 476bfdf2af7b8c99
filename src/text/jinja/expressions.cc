#include "text/jinja/interpreter.h"

#include <fmt/core.h>

#include "text/jinja/attributes.h"
#include "text/jinja/markup.h"
#include "text/jinja/numbers.h"
#include "text/jinja/operators.h"
#include "text/jinja/repr.h"

namespace sparkx::jinja {

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
