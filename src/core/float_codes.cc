#include "core/float_codes.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <iterator>
#include <limits>

#include "core/bfloat16.h"

namespace sparkx {
namespace {

constexpr std::uint8_t kE4m3Largest = 0x7E;
constexpr std::uint8_t kE4m3Nan = 0x7F;
constexpr std::uint8_t kE8m0Nan = 255;
constexpr int kE8m0Bias = 127;
constexpr float kLargestE2m1 = 6, kLargestE4m3 = 448;

constexpr const char* kModeNames[] = {"mxfp4", "mxfp8", "nvfp4"};

// MLX computes scales in the type of the weights.
float rounded(Dtype type, float value) {
  if (type == Dtype::float16) return float16_to_float(float_to_float16(value));
  return type == Dtype::bfloat16 ? bfloat16_to_float(float_to_bfloat16(value)) : value;
}

}  // namespace

std::uint8_t float_to_e2m1(float value) {
  // Halfway between two neighbours the smaller one wins.
  constexpr float kMiddles[] = {0.25f, 0.75f, 1.25f, 1.75f, 2.5f, 3.5f, 5};
  const float magnitude = std::fabs(value);
  const auto code = static_cast<std::uint8_t>(
      std::count_if(std::begin(kMiddles), std::end(kMiddles), [magnitude](float m) { return magnitude > m; }));
  return code != 0 && value < 0 ? code | 8 : code;
}

float e4m3_to_float(std::uint8_t code) {
  const std::uint32_t sign = std::uint32_t{code} >> 7 << 31;
  const std::uint32_t exponent = code >> 3 & 15, mantissa = code & 7;
  if (exponent == 15 && mantissa == 7) return std::numeric_limits<float>::quiet_NaN();
  if (exponent == 0) return (sign != 0 ? -1.0f : 1.0f) * static_cast<float>(mantissa) * 0x1p-9f;
  constexpr std::uint32_t kBiasDifference = 127 - 7;
  return std::bit_cast<float>(sign | (exponent + kBiasDifference) << 23 | mantissa << 20);
}

std::uint8_t float_to_e4m3(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint8_t>(bits >> 31 << 7);
  const float magnitude = std::fabs(value);
  if (std::isnan(value)) return sign | kE4m3Nan;
  if (magnitude >= kLargestE4m3) return sign | kE4m3Largest;
  // Among denormals, multiples of 2^-9, adding a number with that unit rounds; a carry into the exponent is right.
  if (magnitude < 0x1p-6f)
    return sign | static_cast<std::uint8_t>(std::bit_cast<std::uint32_t>(magnitude + 0x1p14f) & 15);
  constexpr std::uint32_t kRebias = (127 - 7) << 3;
  const std::uint32_t kept = (bits & 0x7FFFFFFF) >> 20, dropped = bits & 0xFFFFF;
  const bool up = dropped > 0x80000 || (dropped == 0x80000 && (kept & 1) != 0);
  return sign | static_cast<std::uint8_t>(std::min<std::uint32_t>(kept - kRebias + (up ? 1 : 0), kE4m3Largest));
}

float e8m0_to_float(std::uint8_t code) {
  if (code == kE8m0Nan) return std::numeric_limits<float>::quiet_NaN();
  return code == 0 ? 0x1p-127f : std::bit_cast<float>(std::uint32_t{code} << 23);
}

std::uint8_t float_to_e8m0(float value) {
  int exponent = 0;
  const bool power = std::frexp(value, &exponent) == 0.5f;  // value = fraction * 2^exponent
  return static_cast<std::uint8_t>(std::clamp(exponent - (power ? 1 : 0) + kE8m0Bias, 0, kE8m0Nan - 1));
}

std::optional<FloatMode> float_mode(std::string_view name) {
  for (int i = 0; i < 3; ++i) {
    if (name == kModeNames[i]) return static_cast<FloatMode>(i);
  }
  return std::nullopt;
}

const char* float_mode_name(FloatMode mode) {
  return kModeNames[static_cast<int>(mode)];
}

QuantizationSpec float_mode_spec(FloatMode mode) {
  switch (mode) {
    case FloatMode::mxfp4:
      return {CodeScheme::offset, 4, 32, Dtype::float8_e8m0, 0, CodeValues::e2m1};
    case FloatMode::mxfp8:
      return {CodeScheme::offset, 8, 32, Dtype::float8_e8m0, 0, CodeValues::e4m3};
    default:
      return {CodeScheme::offset, 4, 16, Dtype::float8_e4m3, 0, CodeValues::e2m1};
  }
}

std::uint8_t float_mode_scale_code(FloatMode mode, float scale) {
  if (mode == FloatMode::nvfp4) return float_to_e4m3(scale);
  return std::isnan(scale) ? kE8m0Nan : float_to_e8m0(scale);
}

void quantize_floats(FloatMode mode, Dtype source, const float* row, std::int64_t columns, std::uint8_t* codes,
                     float* scales) {
  const int group = float_mode_spec(mode).group;
  const float largest = mode == FloatMode::mxfp8 ? kLargestE4m3 : kLargestE2m1;
  for (std::int64_t g = 0; g < columns / group; ++g, row += group, codes += group) {
    float amax = 0;
    bool finite = true;
    for (int k = 0; k < group; ++k) {
      amax = std::max(amax, std::fabs(row[k]));
      finite = finite && std::isfinite(row[k]);
    }
    const float wanted = rounded(source, amax / largest);
    if (!finite) {
      scales[g] = std::numeric_limits<float>::quiet_NaN();
    } else if (mode == FloatMode::nvfp4) {
      scales[g] = e4m3_to_float(float_to_e4m3(wanted));
    } else {
      scales[g] = wanted == 0 ? 1.0f : e8m0_to_float(float_to_e8m0(wanted));
    }
    if (!(scales[g] > 0)) {
      std::fill_n(codes, group, std::uint8_t{0});
      continue;
    }
    for (int k = 0; k < group; ++k) {
      codes[k] = mode == FloatMode::mxfp8 ? float_to_e4m3(row[k] / scales[g]) : float_to_e2m1(row[k] / scales[g]);
    }
  }
}

}  // namespace sparkx
