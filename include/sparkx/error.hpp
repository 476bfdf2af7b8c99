// sparkx::Error: what every function of sparkx throws when it cannot do what it was asked.
#pragma once

#include <stdexcept>
#include <string>

namespace sparkx {

enum class ErrorCode {
  invalid_argument,  // the caller asked for something that makes no sense
  not_found,         // a file, tensor or model that is not there
  corrupt,           // a file that contradicts itself or its format
  unsupported,       // a well-formed request for something sparkx does not do
  out_of_memory,
  io,
  network,
  cancelled,
  unavailable,  // a resource is busy; trying later may help
};

class Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  ErrorCode code() const { return code_; }

 private:
  ErrorCode code_;
};

}  // namespace sparkx
