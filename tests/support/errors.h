// What an action throws, for tests that compare messages.
#pragma once

#include <functional>
#include <string>

#include "core/error.h"

namespace sparkx::testing {

inline const char* code_name(ErrorCode code) {
  switch (code) {
    case ErrorCode::invalid_argument:
      return "invalid_argument";
    case ErrorCode::not_found:
      return "not_found";
    case ErrorCode::corrupt:
      return "corrupt";
    case ErrorCode::unsupported:
      return "unsupported";
    case ErrorCode::out_of_memory:
      return "out_of_memory";
    case ErrorCode::io:
      return "io";
    case ErrorCode::network:
      return "network";
    case ErrorCode::cancelled:
      return "cancelled";
    case ErrorCode::unavailable:
      return "unavailable";
  }
  return "?";
}

// "corrupt: t.json:1:1: expected a value", or "no error".
inline std::string error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return std::string(code_name(error.code())) + ": " + error.what();
  }
  return "no error";
}

}  // namespace sparkx::testing
