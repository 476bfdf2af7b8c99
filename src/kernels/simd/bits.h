// The bits of single floats, and the 16-bit kinds by integers: exact widening, rounding to nearest even. NaN stays NaN.
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

inline std::uint16_t round_to_float16(float value) {
  const std::uint32_t bits = float_bits(value);
  const std::uint32_t sign = bits >> 16 & 0x8000;
  const std::uint32_t magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000) return static_cast<std::uint16_t>(sign | 0x7e00 | (magnitude >> 13 & 0x3ff));
  if (magnitude >= 0x477ff000) return static_cast<std::uint16_t>(sign | 0x7c00);  // 65520 and more
  if (magnitude < 0x38800000) {
    // Below the normal range: adding 0.5 leaves the value in units of 2^-24 in the low bits, rounded by the addition.
    const float shifted = float_from_bits(magnitude) + 0.5f;
    return static_cast<std::uint16_t>(sign | (float_bits(shifted) - 0x3f000000));
  }
  const std::uint32_t rounded = magnitude + 0xfff + (magnitude >> 13 & 1);
  return static_cast<std::uint16_t>(sign | (rounded - 0x38000000) >> 13);
}

}  // namespace
}  // namespace sparkx::kernels
