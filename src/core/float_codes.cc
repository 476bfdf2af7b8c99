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
constexpr std::uint32_t kInfinityBits = 0x7F800000;
constexpr float kLargestE2m1 = 6, kLargestE4m3 = 448;

constexpr const char* kModeNames[] = {"mxfp4", "mxfp8", "nvfp4"};

// MLX computes scales in the type of the weights.
float rounded(Dtype type, float value) {
  if (type == Dtype::float16) return float16_to_float(float_to_float16(value));
  return type == Dtype::bfloat16 ? bfloat16_to_float(float_to_bfloat16(value)) : value;
}

constexpr std::uint32_t bits_of(float value) {
  return std::bit_cast<std::uint32_t>(value);
}

// These two choose among integers, without branches and comparisons of floats: that lets compilers do many at once.
// A carry out of the mantissa counts the exponent up, which is right.
inline std::uint8_t nearest_e2m1(float value) {
  constexpr std::uint32_t kRebias = (127 - 1) << 1, kLargest = 7;
  const std::uint32_t sign = bits_of(value) >> 31 << 3, magnitude = bits_of(value) & 0x7FFFFFFF;
  // 0, 1/2 and 1; halfway the smaller one wins, here and above.
  const std::uint32_t small = (magnitude > bits_of(0.25f) ? 1u : 0u) + (magnitude > bits_of(0.75f) ? 1u : 0u);
  std::uint32_t code = std::min(((magnitude + 0x1FFFFF) >> 22) - kRebias, kLargest);
  code = magnitude < bits_of(1) ? small : code;
  code = magnitude > kInfinityBits ? 0u : code;
  return static_cast<std::uint8_t>(code == 0 ? 0u : sign | code);
}

inline std::uint8_t nearest_e4m3(float value) {
  constexpr std::uint32_t kRebias = (127 - 7) << 3;
  const std::uint32_t sign = bits_of(value) >> 31 << 7, magnitude = bits_of(value) & 0x7FFFFFFF;
  // Among denormals, multiples of 2^-9, adding a number with that unit rounds.
  const std::uint32_t small = bits_of(std::bit_cast<float>(magnitude) + 0x1p14f) & 15;
  const std::uint32_t odd = magnitude >> 20 & 1;
  std::uint32_t code = std::min<std::uint32_t>(((magnitude + 0x7FFFF + odd) >> 20) - kRebias, kE4m3Largest);
  code = magnitude < bits_of(0x1p-6f) ? small : code;
  code = magnitude > kInfinityBits ? std::uint32_t{kE4m3Nan} : code;
  return static_cast<std::uint8_t>(sign | code);
}

// The codes of a group that share a scale.
template <int group, std::uint8_t (*nearest)(float)>
void encode_group(const float* values, float scale, std::uint8_t* codes) {
  for (int k = 0; k < group; ++k) codes[k] = nearest(values[k] / scale);
}

}  // namespace

std::uint8_t float_to_e2m1(float value) {
  return nearest_e2m1(value);
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
  return nearest_e4m3(value);
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
  const auto encode = mode == FloatMode::mxfp4   ? encode_group<32, nearest_e2m1>
                      : mode == FloatMode::mxfp8 ? encode_group<32, nearest_e4m3>
                                                 : encode_group<16, nearest_e2m1>;
  for (std::int64_t g = 0; g < columns / group; ++g, row += group, codes += group) {
    std::uint32_t most = 0;  // magnitudes are ordered as their bits
    for (int k = 0; k < group; ++k) most = std::max(most, bits_of(row[k]) & 0x7FFFFFFF);
    const float wanted = rounded(source, std::bit_cast<float>(most) / largest);
    if (most >= kInfinityBits) {
      scales[g] = std::numeric_limits<float>::quiet_NaN();
    } else if (mode == FloatMode::nvfp4) {
      scales[g] = e4m3_to_float(float_to_e4m3(wanted));
    } else {
      scales[g] = wanted == 0 ? 1.0f : e8m0_to_float(float_to_e8m0(wanted));
    }
    if (scales[g] > 0) {
      encode(row, scales[g], codes);
    } else {
      std::fill_n(codes, group, std::uint8_t{0});
    }
  }
}

}  // namespace sparkx
