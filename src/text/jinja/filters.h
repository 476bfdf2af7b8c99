// The filters, by what they work on.
#pragma once

#include <span>

#include "text/jinja/builtins.h"

namespace sparkx::jinja {

std::span<const NamedNative> text_filters();
std::span<const NamedNative> sequence_filters();
std::span<const NamedNative> value_filters();

Value filter_wordwrap(Interpreter& interpreter, const Value& value, Call& call);

}  // namespace sparkx::jinja
