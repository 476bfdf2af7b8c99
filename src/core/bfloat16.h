// 16-bit floats <-> float32 by integer arithmetic: exact, denormals kept, whatever the floating-point environment says.
// Conversion instructions may flush (docs/numerics.md, rule 0).
#pragma once

#include <bit>
#include <cstdint>

namespace sparkx {

constexpr float bfloat16_to_float(std::uint16_t bits) {
  return std::bit_cast<float>(std::uint32_t{bits} << 16);
}

// Nearest, ties to even; NaN stays NaN (quiet, same sign).
constexpr std::uint16_t float_to_bfloat16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7FFFFFFFu) > 0x7F800000u) return static_cast<std::uint16_t>((bits >> 16) | 0x40u);
  return static_cast<std::uint16_t>((bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16);
}

// Exact; NaN stays NaN with its payload.
constexpr float float16_to_float(std::uint16_t half) {
  const std::uint32_t sign = std::uint32_t{half & 0x8000u} << 16;
  const std::uint32_t exponent = (half >> 10) & 0x1Fu;
  std::uint32_t fraction = half & 0x3FFu;
  if (exponent == 0x1F) return std::bit_cast<float>(sign | 0x7F800000u | fraction << 13);
  if (exponent != 0) return std::bit_cast<float>(sign | (exponent + 112) << 23 | fraction << 13);
  if (fraction == 0) return std::bit_cast<float>(sign);
  // A denormal, fraction · 2^-24, is a normal float32: shift its leading bit to the place of the implied one.
  const int shift = std::countl_zero(fraction) - 21;
  fraction = (fraction << shift) & 0x3FFu;
  return std::bit_cast<float>(sign | static_cast<std::uint32_t>(113 - shift) << 23 | fraction << 13);
}

// Nearest, ties to even, beyond the largest to infinity; NaN stays NaN (quiet, same sign).
constexpr std::uint16_t float_to_float16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits >> 16) & 0x8000u;
  const std::uint32_t magnitude = bits & 0x7FFFFFFFu;
  if (magnitude > 0x7F800000u) return static_cast<std::uint16_t>(sign | 0x7E00u | ((magnitude >> 13) & 0x3FFu));
  if (magnitude >= 0x47800000u) return static_cast<std::uint16_t>(sign | 0x7C00u);  // 2^16 and above
  std::uint32_t dropped_bits = 13;
  std::uint32_t significand = magnitude - (112u << 23);  // exponent and fraction, rebased
  if (magnitude < 0x38800000u) {  // below 2^-14: a denormal, significand · 2^-24 after the shift
    if (magnitude < 0x33000000u) return static_cast<std::uint16_t>(sign);  // below 2^-25
    dropped_bits = 126 - (magnitude >> 23);
    significand = 0x800000u | (magnitude & 0x7FFFFFu);
  }
  const std::uint32_t kept = significand >> dropped_bits;
  const std::uint32_t dropped = significand & ((1u << dropped_bits) - 1);
  const std::uint32_t half = 1u << (dropped_bits - 1);
  const std::uint32_t up = dropped > half || (dropped == half && (kept & 1u)) ? 1 : 0;
  return static_cast<std::uint16_t>(sign | (kept + up));  // a carry runs into the exponent, up to infinity
}

}  // namespace sparkx
