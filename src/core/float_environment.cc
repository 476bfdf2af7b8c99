#include "core/float_environment.h"

#if defined(__x86_64__)
#include <xmmintrin.h>
#elif !defined(__aarch64__)
#error "float_environment.cc: this processor's floating-point control register is not known"
#endif

namespace sparkx {

namespace {

#if defined(__x86_64__)
// All exceptions masked, round to nearest even, neither flush-to-zero nor denormals-are-zero.
constexpr std::uint64_t kControl = 0x1f80;
std::uint64_t read_control() {
  return _mm_getcsr();
}
void write_control(std::uint64_t value) {
  _mm_setcsr(static_cast<unsigned>(value));
}
#else
// FPCR: no traps, round to nearest even, no flushing, NaNs propagate.
constexpr std::uint64_t kControl = 0;
std::uint64_t read_control() {
  std::uint64_t value;
  asm volatile("mrs %0, fpcr" : "=r"(value));
  return value;
}
void write_control(std::uint64_t value) {
  asm volatile("msr fpcr, %0" : : "r"(value));
}
#endif

}  // namespace

ScopedFloatEnvironment::ScopedFloatEnvironment() : saved_(read_control()) {
  write_control(kControl);
}
ScopedFloatEnvironment::~ScopedFloatEnvironment() {
  write_control(saved_);
}

}  // namespace sparkx
