// Single floats as the kernels need them: their bits, exact widening of the 16-bit kinds, rounding to bfloat16 (nearest
// even, NaN stays NaN). The same as in core/bfloat16.h, but with internal linkage, for files that are compiled for more
// than the baseline.
#pragma once

#include <cstdint>

namespace sparkx::kernels {
namespace {

inline std::uint32_t float_bits(float value) {
  return __builtin_bit_cast(std::uint32_t, value);
}
inline float float_from_bits(std::uint32_t bits) {
  return __builtin_bit_cast(float, bits);
}

inline float widen_bfloat16(std::uint16_t value) {
  return float_from_bits(static_cast<std::uint32_t>(value) << 16);
}
inline float widen_float16(std::uint16_t value) {
  const std::uint32_t sign = static_cast<std::uint32_t>(value & 0x8000) << 16;
  const std::uint32_t magnitude = value & 0x7fff;
  if (magnitude >= 0x7c00) return float_from_bits(sign | 0x7f800000 | (magnitude & 0x3ff) << 13);
  // The exponent is 112 too small; the product sets it right, and a denormal with it.
  return float_from_bits(sign | float_bits(float_from_bits(magnitude << 13) * 0x1p112f));
}

inline std::uint16_t round_to_bfloat16(float value) {
  const std::uint32_t bits = float_bits(value);
  if ((bits & 0x7fffffff) > 0x7f800000) return static_cast<std::uint16_t>(bits >> 16 | 0x40);
  return static_cast<std::uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

}  // namespace
}  // namespace sparkx::kernels
