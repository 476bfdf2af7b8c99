// The methods of each type, for find_method.
#pragma once

#include <span>
#include <string_view>

#include "text/jinja/builtins.h"

namespace sparkx::jinja {

std::span<const NamedNative> string_methods();

bool is_lower_text(std::string_view text);  // str.islower
bool is_upper_text(std::string_view text);

}  // namespace sparkx::jinja
