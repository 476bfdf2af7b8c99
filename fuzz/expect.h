// What the fuzz targets demand.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <initializer_list>

#include "core/error.h"

namespace sparkx::fuzz {

// A broken promise ends the program, which is how a fuzzer learns of it.
inline void require(bool condition) {
  if (!condition) std::abort();
}

// Runs an action that may refuse its input, in these ways only.
template <typename Action>
void run(std::initializer_list<ErrorCode> refusals, Action action) {
  try {
    action();
  } catch (const Error& error) {
    require(std::find(refusals.begin(), refusals.end(), error.code()) != refusals.end());
  }
}

}  // namespace sparkx::fuzz
