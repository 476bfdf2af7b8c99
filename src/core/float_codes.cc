#include "core/float_codes.h"

#include <bit>
#include <limits>

namespace sparkx {

float e4m3_to_float(std::uint8_t code) {
  const std::uint32_t sign = std::uint32_t{code} >> 7 << 31;
  const std::uint32_t exponent = code >> 3 & 15, mantissa = code & 7;
  if (exponent == 15 && mantissa == 7) return std::numeric_limits<float>::quiet_NaN();
  if (exponent == 0) return (sign != 0 ? -1.0f : 1.0f) * static_cast<float>(mantissa) * 0x1p-9f;
  constexpr std::uint32_t kBiasDifference = 127 - 7;
  return std::bit_cast<float>(sign | (exponent + kBiasDifference) << 23 | mantissa << 20);
}

float e8m0_to_float(std::uint8_t code) {
  if (code == 255) return std::numeric_limits<float>::quiet_NaN();
  return code == 0 ? 0x1p-127f : std::bit_cast<float>(std::uint32_t{code} << 23);
}

}  // namespace sparkx
