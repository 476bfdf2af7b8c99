#include "convert/quantize.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

#include "convert/source.h"
#include "core/bfloat16.h"
#include "core/error.h"
#include "core/float_codes.h"
#include "core/float_environment.h"
#include "kernels/kernels.h"

namespace sparkx {
namespace {

constexpr float kLargestE2m1 = 6.0f;
constexpr float kLargestE4m3 = 448.0f;

kernels::WeightKind kind_of(Dtype type) {
  return type == Dtype::bfloat16  ? kernels::WeightKind::bfloat16
         : type == Dtype::float16 ? kernels::WeightKind::float16
                                  : kernels::WeightKind::float32;
}

// The least E8M0 whose value is not below x, for x >= 0; 1 for 0.
std::uint8_t e8m0_from(float x) {
  constexpr std::uint8_t kOne = 127, kLargest = 254;
  if (x == 0.0f) return kOne;
  const auto bits = std::bit_cast<std::uint32_t>(x);
  if (bits <= 0x400000) return 0;  // 2^-127
  return static_cast<std::uint8_t>(std::min<std::uint32_t>(kLargest, (bits + 0x7FFFFF) >> 23));
}

// Nearest, ties to even, beyond the largest the largest; the sign of zero stays.
std::uint8_t e4m3_from(float x) {
  const auto sign = static_cast<std::uint8_t>(std::signbit(x) ? 0x80 : 0);
  const float magnitude = std::fabs(x);
  if (magnitude >= 464.0f) return sign | 0x7E;  // half way to the next, were there one
  // A denormal is a multiple of 2^-9.
  if (magnitude < 0x1p-6f) return sign | static_cast<std::uint8_t>(std::nearbyintf(magnitude * 0x1p9f));
  const auto bits = std::bit_cast<std::uint32_t>(magnitude);
  constexpr std::uint32_t kBiasDifference = 127 - 7;
  const std::uint32_t rounded = bits + 0x7FFFF + ((bits >> 20) & 1);
  return sign | static_cast<std::uint8_t>((rounded >> 20) - (kBiasDifference << 3));
}

// Nearest, ties toward zero; a zero has no sign.
std::uint8_t e2m1_from(float x) {
  constexpr float kMiddles[] = {0.25f, 0.75f, 1.25f, 1.75f, 2.5f, 3.5f, 5.0f};
  const float magnitude = std::fabs(x);
  std::uint8_t code = 0;
  for (float middle : kMiddles) code = static_cast<std::uint8_t>(code + (magnitude > middle ? 1 : 0));
  return code != 0 && std::signbit(x) ? code | 8 : code;
}

bool has_e4m3_scales(const MlxMode& mode) {
  return mode.mode == "nvfp4";
}

void quantize_affine(const MlxMode& mode, Dtype type, const std::byte* row, std::int64_t columns, std::byte* weight,
                     std::byte* scales, std::byte* biases) {
  const auto groups = static_cast<std::size_t>(columns / mode.group);
  std::vector<std::uint8_t> codes(static_cast<std::size_t>(columns));
  std::vector<float> row_scales(groups), row_biases(groups);
  kernels::kernel_table().quantize_affine[static_cast<int>(kind_of(type))](
      row, columns, mode.bits, mode.group, codes.data(), row_scales.data(), row_biases.data());
  pack_codes(codes.data(), columns, mode.bits, weight);
  store_values(type, row_scales.data(), groups, scales);
  store_values(type, row_biases.data(), groups, biases);
}

float rounded_to(Dtype type, float value) {
  return type == Dtype::float16    ? float16_to_float(float_to_float16(value))
         : type == Dtype::bfloat16 ? bfloat16_to_float(float_to_bfloat16(value))
                                   : value;
}

void quantize_floats(const MlxMode& mode, Dtype type, std::span<const float> values, std::int64_t columns,
                     std::byte* weight, std::byte* scales) {
  std::vector<std::uint8_t> codes(values.size());
  const bool small = mode.bits == 4;
  for (std::int64_t begin = 0; begin < columns; begin += mode.group) {
    float largest = 0.0f;
    for (std::int64_t k = begin; k < begin + mode.group; ++k) largest = std::max(largest, std::fabs(values[k]));
    // MLX divides in the type of the row.
    const float wanted = rounded_to(type, largest / (small ? kLargestE2m1 : kLargestE4m3));
    const std::uint8_t code = scale_code(mode, wanted);
    const float scale = has_e4m3_scales(mode) ? e4m3_to_float(code) : e8m0_to_float(code);
    scales[begin / mode.group] = static_cast<std::byte>(code);
    for (std::int64_t k = begin; k < begin + mode.group; ++k) {
      const float value = scale == 0.0f ? 0.0f : values[k] / scale;
      codes[k] = small ? e2m1_from(value) : e4m3_from(value);
    }
  }
  pack_codes(codes.data(), columns, mode.bits, weight);
}

}  // namespace

std::string MlxMode::name() const {
  return is_affine() ? fmt::format("{}-bit, groups of {}", bits, group) : mode;
}

std::optional<MlxMode> parse_mlx_mode(std::string_view name, std::optional<int> group) {
  struct Known {
    std::string_view name;
    MlxMode mode;
  };
  constexpr int kDefaultGroup = 64;
  const int columns = group.value_or(kDefaultGroup);
  const Known known[] = {
      {"2bit", {"affine", 2, columns}}, {"3bit", {"affine", 3, columns}}, {"4bit", {"affine", 4, columns}},
      {"5bit", {"affine", 5, columns}}, {"6bit", {"affine", 6, columns}}, {"8bit", {"affine", 8, columns}},
      {"mxfp4", {"mxfp4", 4, 32}},      {"mxfp8", {"mxfp8", 8, 32}},      {"nvfp4", {"nvfp4", 4, 16}}};
  if (name == "none") return std::nullopt;
  const auto found = std::find_if(std::begin(known), std::end(known), [&](const Known& k) { return k.name == name; });
  if (found == std::end(known)) {
    throw_error(ErrorCode::invalid_argument,
                "\"{}\" is no way to quantize: 2bit, 3bit, 4bit, 5bit, 6bit, 8bit, mxfp4, mxfp8, nvfp4, none", name);
  }
  if (found->mode.is_affine() ? columns != 32 && columns != 64 && columns != 128
                              : group && *group != found->mode.group) {
    throw_error(ErrorCode::invalid_argument, "{} in groups of {}: {}", name, columns,
                found->mode.is_affine() ? "they are of 32, 64 or 128"
                                        : fmt::format("they are always of {}", found->mode.group));
  }
  return found->mode;
}

void pack_codes(const std::uint8_t* codes, std::int64_t count, int bits, std::byte* out) {
  std::uint32_t pending = 0;
  int held = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    pending |= std::uint32_t{codes[i]} << held;
    for (held += bits; held >= 8; held -= 8, pending >>= 8) *out++ = static_cast<std::byte>(pending);
  }
}

std::uint8_t scale_code(const MlxMode& mode, float scale) {
  return has_e4m3_scales(mode) ? e4m3_from(scale) : e8m0_from(scale);
}

void quantize_row(const MlxMode& mode, Dtype type, const std::byte* row, std::int64_t columns, std::byte* weight,
                  std::byte* scales, std::byte* biases) {
  const ScopedFloatEnvironment environment;
  std::vector<float> values(static_cast<std::size_t>(columns));
  load_values(type, row, values.size(), values.data());
  if (!std::all_of(values.begin(), values.end(), [](float value) { return std::isfinite(value); })) {
    throw_error(ErrorCode::corrupt, "it has values that are not finite, which cannot be quantized");
  }
  if (mode.is_affine()) {
    quantize_affine(mode, type, row, columns, weight, scales, biases);
  } else {
    quantize_floats(mode, type, values, columns, weight, scales);
  }
}

}  // namespace sparkx
