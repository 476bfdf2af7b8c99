// What an embedding program may have done to its floating-point control register.
#pragma once

#include <cstdint>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace sparkx::testing {

// While it lives, this thread flushes denormals to zero, operands and results.
class FlushDenormals {
 public:
#if defined(__x86_64__)
  FlushDenormals() : saved_(_mm_getcsr()) {
    _mm_setcsr(static_cast<unsigned>(saved_) | 0x8040);
  }
  ~FlushDenormals() {
    _mm_setcsr(static_cast<unsigned>(saved_));
  }
#elif defined(__aarch64__)
  FlushDenormals() {
    asm volatile("mrs %0, fpcr" : "=r"(saved_));
    asm volatile("msr fpcr, %0" : : "r"(saved_ | 1u << 24));
  }
  ~FlushDenormals() {
    asm volatile("msr fpcr, %0" : : "r"(saved_));
  }
#endif
  FlushDenormals(const FlushDenormals&) = delete;
  FlushDenormals& operator=(const FlushDenormals&) = delete;

 private:
  std::uint64_t saved_;
};

}  // namespace sparkx::testing
