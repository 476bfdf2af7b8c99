// Floats of 4 and 8 bits (docs/model.md, MLX checkpoint format).
#pragma once

#include <cstdint>

#include "core/code_scheme.h"

namespace sparkx {

// E2M1: a sign, 2 bits of exponent, 1 of mantissa; the low 4 bits count.
constexpr float e2m1_to_float(std::uint8_t code) {
  return 0.5f * static_cast<float>(kE2m1Halves[code & 15]);
}

// E4M3: a sign, 4 bits of exponent, 3 of mantissa, up to 448; no infinity; all ones is NaN.
float e4m3_to_float(std::uint8_t code);

// E8M0: 2^(code - 127); 255 is NaN.
float e8m0_to_float(std::uint8_t code);

}  // namespace sparkx
