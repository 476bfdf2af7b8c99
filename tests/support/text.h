// Looking for something in what a program or a message says.
#pragma once

#include <string>

namespace sparkx::testing {

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace sparkx::testing
