#include "text/jinja/template.h"

#include <fmt/core.h>

#include <chrono>
#include <ctime>

#include "core/unicode.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/lexer.h"
#include "text/jinja/parser.h"
#include "text/jinja/scope_analysis.h"
#include "text/jinja/unicode.h"

namespace sparkx::jinja {
namespace {

constexpr std::size_t kMaxSource = 16u << 20;
constexpr std::size_t kMaxExcerpt = 120;

std::string describe(Fault fault, const std::string& message, const std::string& name, int line, int column,
                     const std::string& expression) {
  std::string what = fmt::format("{}:{}:{}: ", name, line, column);
  what += fault == Fault::template_error ? message : fmt::format("{}: {}", fault_name(fault), message);
  if (!expression.empty()) what += fmt::format(", in `{}`", expression);
  return what;
}

// The source of a node, on one line.
std::string excerpt(std::string_view source) {
  std::string text;
  for (std::size_t position = 0; position < source.size();) {
    if (text.size() > kMaxExcerpt) return text + "...";
    const char32_t c = next_char(source, position);
    if (is_space(c)) {
      if (!text.empty() && text.back() != ' ') text += ' ';
    } else {
      append_char(text, c);
    }
  }
  if (text.ends_with(' ')) text.pop_back();
  return text;
}

[[noreturn]] void fail_at(const std::string& source, const std::string& name, Fault fault, std::string message,
                          std::uint32_t begin, std::uint32_t end) {
  const std::string_view before = std::string_view(source).substr(0, begin);
  const std::size_t line_begin = before.rfind('\n') + 1;
  int line = 1;
  for (char c : before) line += c == '\n' ? 1 : 0;
  const int column = static_cast<int>(count_chars(before.substr(line_begin))) + 1;
  const ErrorCode code = fault == Fault::unsupported ? ErrorCode::unsupported : ErrorCode::invalid_argument;
  throw TemplateError(code, fault, std::move(message), name, line, column,
                      excerpt(std::string_view(source).substr(begin, end - begin)));
}

}  // namespace

TemplateError::TemplateError(ErrorCode code, Fault fault, std::string message, std::string name, int line, int column,
                             std::string expression)
    : Error(code, describe(fault, message, name, line, column, expression)),
      fault_(fault),
      message_(std::move(message)),
      name_(std::move(name)),
      line_(line),
      column_(column),
      expression_(std::move(expression)) {}

std::string Rendered::text() const {
  std::string text;
  for (const Stretch& stretch : stretches) text += stretch.text;
  return text;
}

LocalTime local_time_now() {
  const auto now = std::chrono::system_clock::now();
  const std::time_t seconds = std::chrono::system_clock::to_time_t(now);
  LocalTime result{};
  localtime_r(&seconds, &result.time);
  const auto whole = std::chrono::system_clock::from_time_t(seconds);
  result.microseconds = static_cast<int>(std::chrono::duration_cast<std::chrono::microseconds>(now - whole).count());
  return result;
}

Template::Template(std::unique_ptr<const Tree> tree) : tree_(std::move(tree)) {}
Template::Template(Template&&) noexcept = default;
Template& Template::operator=(Template&&) noexcept = default;
Template::~Template() = default;

Template Template::parse(std::string_view source, std::string name) {
  if (source.size() > kMaxSource) {
    throw_error(ErrorCode::invalid_argument, "{}: a template of more than {} bytes", name, kMaxSource);
  }
  const std::string normalized = normalize_source(source);
  for (std::size_t at = 0; at < normalized.size();) {
    const Utf8Character character = decode_utf8(std::string_view(normalized).substr(at));
    if (!character.valid) {
      const auto place = static_cast<std::uint32_t>(at);
      fail_at(normalized, name, Fault::syntax_error, "the template is not UTF-8", place, place);
    }
    at += character.size;
  }
  try {
    auto tree = std::make_unique<Tree>(parse_tree(normalized, name));
    analyze_scopes(*tree);
    return Template(std::move(tree));
  } catch (const SyntaxError& error) {
    fail_at(normalized, name, Fault::syntax_error, error.message, error.begin, error.end);
  }
}

Rendered Template::render(const json::Value& context, const RenderOptions& options) const {
  if (!context.is_object()) {
    throw_error(ErrorCode::invalid_argument, "{}: the variables must be an object, not {}", tree_->name,
                context.type_name());
  }
  Interpreter interpreter(*tree_, options.limits, options.clock);
  try {
    const Text text = interpreter.render(context, options.trusted);
    for (std::size_t position = 0; position < text.size();) {
      const char32_t c = next_char(text.view(), position);
      if (c >= 0xd800 && c < 0xe000) {
        fail(Fault::value_error, fmt::format("the text has a lone surrogate, U+{:04X}", static_cast<std::uint32_t>(c)));
      }
    }
    Rendered rendered;
    text.each_stretch(0, text.size(), [&](std::size_t begin, std::size_t end, Origin origin) {
      rendered.stretches.push_back({text.bytes().substr(begin, end - begin), origin == Origin::source});
    });
    return rendered;
  } catch (const Failure& failure) {
    std::uint32_t begin = 0, end = 0;
    if (const Expr* expr = interpreter.failed_expr()) {
      begin = expr->begin;
      end = expr->end;
    } else if (const Stmt* stmt = interpreter.failed_stmt()) {
      begin = stmt->begin;
      end = stmt->end;
    }
    fail_at(tree_->source, tree_->name, failure.fault, failure.message, begin, end);
  }
}

}  // namespace sparkx::jinja
