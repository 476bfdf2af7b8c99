// Round to nearest even, denormals kept (docs/numerics.md, rule 0): set for a scope and restored behind it, whatever
// the embedding program had chosen.
#pragma once

#include <cstdint>

namespace sparkx {

class ScopedFloatEnvironment {
 public:
  ScopedFloatEnvironment();
  ~ScopedFloatEnvironment();
  ScopedFloatEnvironment(const ScopedFloatEnvironment&) = delete;
  ScopedFloatEnvironment& operator=(const ScopedFloatEnvironment&) = delete;

 private:
  std::uint64_t saved_;
};

}  // namespace sparkx
