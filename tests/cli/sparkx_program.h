// The built program, run with arguments.
#pragma once

#include <string>
#include <vector>

#include "support/process.h"

namespace sparkx::testing {

inline std::vector<std::string> sparkx_arguments(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), SPARKX_BINARY_DIR "/sparkx");
  return arguments;
}

inline ProcessResult sparkx(const std::vector<std::string>& arguments, const ProcessOptions& options = {}) {
  return run_process(sparkx_arguments(arguments), options);
}

}  // namespace sparkx::testing
