// Jinja templates with the semantics of jinja2 3.1.6 as Hugging Face transformers sets it up for chat templates:
// sandboxed, trim_blocks, lstrip_blocks, break and continue, {% generation %}, its own tojson, raise_exception and
// strftime_now.
//
// What a template writes and what it passes on from its data stay apart (Rendered): only the former may become markers.
// A template is a program from somewhere else: it reaches nothing of the host and its means are bounded (Limits).
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "core/json.h"
#include "text/jinja/budget.h"
#include "text/jinja/clock.h"

namespace sparkx::jinja {

// A template that cannot be read, or whose render failed: Error{invalid_argument}, Error{unsupported} for a part of
// Python or Jinja that this interpreter leaves out. what() has all of it:
//   chat_template.jinja:3:5: TypeError: can only concatenate str (not "list") to str, in `'a' + message.content`
class TemplateError : public Error {
 public:
  TemplateError(ErrorCode code, Fault fault, std::string message, std::string name, int line, int column,
                std::string expression);

  Fault fault() const { return fault_; }
  const std::string& message() const { return message_; }  // alone: what raise_exception was given
  const std::string& template_name() const { return name_; }
  int line() const { return line_; }      // from 1
  int column() const { return column_; }  // from 1, in characters
  const std::string& expression() const { return expression_; }

 private:
  Fault fault_;
  std::string message_;
  std::string name_;
  int line_;
  int column_;
  std::string expression_;
};

struct Stretch {
  std::string text;
  bool from_template;
  bool operator==(const Stretch&) const = default;
};

struct Rendered {
  std::vector<Stretch> stretches;  // none is empty; neighbours differ in their origin
  std::string text() const;
};

struct RenderOptions {
  Limits limits;
  std::vector<std::string> trusted;  // variables whose text counts as the template's own
  Clock clock = local_time_now;
};

struct Tree;

// Renders may run on several threads at once.
class Template {
 public:
  // Throws TemplateError; `name` stands in the messages.
  static Template parse(std::string_view source, std::string name);

  Template(Template&&) noexcept;
  Template& operator=(Template&&) noexcept;
  ~Template();

  // `context`, an object, has the variables. Throws TemplateError.
  Rendered render(const json::Value& context, const RenderOptions& options = {}) const;

 private:
  explicit Template(std::unique_ptr<const Tree> tree);

  std::unique_ptr<const Tree> tree_;
};

}  // namespace sparkx::jinja
