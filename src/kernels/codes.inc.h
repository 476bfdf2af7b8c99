// Making codes: of activations (rule 2 of docs/numerics.md), and of weights as MLX does (docs/model.md, MLX checkpoint
// format).
#pragma once

#include "kernels/affine.inc.h"
#include "kernels/kernels.h"
#include "kernels/lanes.inc.h"

namespace sparkx::kernels {
namespace {

// The integer nearest to x, ties to even, for |x| < 2^22: adding 1.5 * 2^23 leaves it in the low bits.
inline I32x16 nearest_integer(F32x16 x) {
  const F32x16 shifter = splat<F32x16>(0x1.8p23f);
  return bits(x + shifter) - bits(shifter);
}
// The same for any float, as a float.
inline float nearest_float(float x) {
  const float magnitude = __builtin_fabsf(x);
  if (!(magnitude < 0x1p23f)) return x;
  return __builtin_copysignf((magnitude + 0x1p23f) - 0x1p23f, x);
}

// Codes of `count` columns, at most a stretch, and zeros up to its end. Returns their sum.
inline std::int32_t code_stretch(const float* x, int count, float factor, bool zero, std::int8_t* codes) {
  std::int32_t sum = 0;
  for (int i = 0; i < kStretchColumns; i += kLanes) {
    I32x16 q = splat<I32x16>(0);
    if (!zero && i < count) {
      const F32x16 values = load_lanes(x + i, count - i < kLanes ? count - i : kLanes);
      q = nearest_integer(values * splat<F32x16>(factor));
    }
    store_bytes(codes + i, q);
    sum += sum_lanes(q);
  }
  return sum;
}

void code_activations(const float* x, std::int64_t n, int group, std::int8_t* codes, float* scales, float* sums,
                      float* stretch_sums) {
  const std::int64_t padded = (n + 63) / 64 * 64;
  for (std::int64_t begin = 0; begin < padded; begin += group) {
    const std::int64_t end = begin + group < n ? begin + group : n;
    // Largest magnitude, as an integer: a NaN counts more than an infinity, that more than any number.
    I32x16 largest = splat<I32x16>(0);
    for (std::int64_t k = begin; k < end; k += kLanes) {
      const F32x16 values = load_lanes(x + k, end - k < kLanes ? static_cast<int>(end - k) : kLanes);
      largest = max(largest, bits(values) & splat<I32x16>(INT32_MAX));
    }
    const std::int32_t amax_bits = max_lanes(largest);
    const float amax = float_from_bits(static_cast<std::uint32_t>(amax_bits));
    const bool finite = amax_bits < 0x7f800000;
    const bool zero = !finite || amax < 0x1p-100f;
    const float scale = zero ? (finite ? 0.0f : __builtin_nanf("")) : amax / 127.0f;
    const float factor = zero ? 0.0f : 127.0f / amax;
    std::int32_t sum = 0;
    for (std::int64_t k = begin; k < begin + group; k += kStretchColumns) {
      const int count = static_cast<int>(end - k < 0 ? 0 : end - k < kStretchColumns ? end - k : kStretchColumns);
      const std::int32_t stretch = code_stretch(x + k, count, factor, zero, codes + k);
      stretch_sums[k / kStretchColumns] = scale * static_cast<float>(stretch);
      sum += stretch;
    }
    scales[begin / group] = scale;
    sums[begin / group] = scale * static_cast<float>(sum);
  }
}

template <WeightKind kind>
inline F32x16 load_row(const std::byte* row, std::int64_t k) {
  return load_scales(kind, row + k * (kind == WeightKind::float32 ? 4 : 2));
}

template <WeightKind kind>
void quantize_affine(const std::byte* row, std::int64_t columns, int bits_per_code, int group, std::uint8_t* codes,
                     float* scales, float* biases) {
  const float largest_code = bits_per_code == 8 ? 255.0f : 15.0f;
  for (std::int64_t begin = 0; begin < columns; begin += group) {
    F32x16 high = splat<F32x16>(-__builtin_inff()), low = splat<F32x16>(-__builtin_inff());
    for (std::int64_t k = begin; k < begin + group; k += kLanes) {
      high = max(load_row<kind>(row, k), high);
      low = max(negate(load_row<kind>(row, k)), low);
    }
    const float w_max = tree_max(high), w_min = -tree_max(low);
    const bool from_min = __builtin_fabsf(w_min) > __builtin_fabsf(w_max);
    float scale = (w_max - w_min) / largest_code;
    if (!(scale > 1e-7f)) scale = 1e-7f;
    if (!from_min) scale = -scale;
    const float edge = from_min ? w_min : w_max;
    const float q0 = nearest_float(edge / scale);
    float bias = 0.0f;
    if (q0 != 0.0f) {
      scale = edge / q0;
      bias = edge;
    }
    scales[begin / group] = scale;
    biases[begin / group] = bias;
    for (std::int64_t k = begin; k < begin + group; k += kLanes) {
      const F32x16 quotient = (load_row<kind>(row, k) - splat<F32x16>(bias)) / splat<F32x16>(scale);
      // Clipped first: rounding keeps the order, and a NaN becomes 0.
      const F32x16 clipped = min(max(quotient, splat<F32x16>(0.0f)), splat<F32x16>(largest_code));
      store_bytes(codes + k, nearest_integer(clipped));
    }
  }
}

}  // namespace
}  // namespace sparkx::kernels
