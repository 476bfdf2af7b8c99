#include "text/jinja/budget.h"

#include <fmt/core.h>

namespace sparkx::jinja {

const char* fault_name(Fault fault) {
  switch (fault) {
    case Fault::syntax_error:
      return "TemplateSyntaxError";
    case Fault::type_error:
      return "TypeError";
    case Fault::value_error:
      return "ValueError";
    case Fault::key_error:
      return "KeyError";
    case Fault::undefined_error:
      return "UndefinedError";
    case Fault::runtime_error:
      return "TemplateRuntimeError";
    case Fault::security_error:
      return "SecurityError";
    case Fault::overflow_error:
      return "OverflowError";
    case Fault::zero_division:
      return "ZeroDivisionError";
    case Fault::recursion_error:
      return "RecursionError";
    case Fault::template_error:
      return "TemplateError";
    case Fault::unsupported:
      return "unsupported";
    case Fault::limit:
      return "limit";
  }
  return "error";
}

void Budget::out_of_steps() const {
  throw Failure{Fault::limit, fmt::format("the template takes more than {} steps", limits_.steps)};
}

void Budget::out_of_memory() const {
  throw Failure{Fault::limit, fmt::format("the template needs more than {} bytes of memory", limits_.memory_bytes)};
}

void Budget::too_deep() const {
  throw Failure{Fault::recursion_error, fmt::format("nested deeper than {} levels", limits_.depth)};
}

}  // namespace sparkx::jinja
