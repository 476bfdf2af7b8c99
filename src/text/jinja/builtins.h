// The tables of what templates can call by name.
#pragma once

#include <string_view>

#include "text/jinja/value.h"

namespace sparkx::jinja {

struct NamedNative {
  std::string_view name;
  Native native;
};

// Null when there is none of that name.
Native find_filter(std::string_view name);
Native find_test(std::string_view name);

// The method `name` of a string, list, tuple, dict, number...: what `value.name` calls, or null.
const NamedNative* find_method(const Value& value, std::string_view name);

}  // namespace sparkx::jinja
