// The one exception type of sparkx: a code for programs and a message a person can act on.
#pragma once

#include <fmt/core.h>

#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "sparkx/error.hpp"

namespace sparkx {

// throw_error(ErrorCode::corrupt, "{}: tensor {} has shape {}, expected {}", file, name, found, expected)
template <typename... Args>
[[noreturn]] void throw_error(ErrorCode code, fmt::format_string<Args...> format, Args&&... args) {
  throw Error(code, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace sparkx
