// Floats of 4 and 8 bits, and MLX's quantization to them (docs/model.md, MLX checkpoint format).
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "core/quantization.h"

namespace sparkx {

// E2M1: a sign, 2 bits of exponent, 1 of mantissa, up to 6; the low 4 bits count.
constexpr float e2m1_to_float(std::uint8_t code) {
  return 0.5f * static_cast<float>(kE2m1Halves[code & 15]);
}
// The nearest, of two the one nearer to 0; what becomes 0 is code 0, NaN too.
std::uint8_t float_to_e2m1(float value);

// E4M3: a sign, 4 bits of exponent, 3 of mantissa, up to 448; no infinity; all ones is NaN.
float e4m3_to_float(std::uint8_t code);
// The nearest, ties to even, at most 448; zero keeps its sign.
std::uint8_t float_to_e4m3(float value);

// E8M0: 2^(code - 127); 255 is NaN.
float e8m0_to_float(std::uint8_t code);
// The least that is not below a positive number, or the last one.
std::uint8_t float_to_e8m0(float value);

// MLX's modes of quantization whose codes are floats.
enum class FloatMode { mxfp4, mxfp8, nvfp4 };
std::optional<FloatMode> float_mode(std::string_view name);
const char* float_mode_name(FloatMode mode);
QuantizationSpec float_mode_spec(FloatMode mode);

// The byte that stores a scale of such a mode.
std::uint8_t float_mode_scale_code(FloatMode mode, float scale);

// Quantizes a row of weights of type `source` (float32, float16 or bfloat16) as MLX does, `columns` a multiple of the
// group: codes [columns], scales [groups], decoded. A group with a NaN or infinity gets NaN as scale. Scales below
// 2^-127, where MLX's wrap around, are 2^-127.
void quantize_floats(FloatMode mode, Dtype source, const float* row, std::int64_t columns, std::uint8_t* codes,
                     float* scales);

}  // namespace sparkx
