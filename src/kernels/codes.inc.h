// Making codes: of activations (rules 2 and 5 of docs/numerics.md), and of weights as MLX does (docs/model.md, MLX
// checkpoint format).
#pragma once

#include "kernels/code_layout.inc.h"
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

// The bits of the largest magnitude, compared as integers: a NaN counts more than an infinity, that more than any
// number.
inline std::int32_t largest_magnitude(const float* x, std::int64_t n) {
  I32x16 largest = splat<I32x16>(0);
  for (std::int64_t k = 0; k < n; k += kLanes) {
    const F32x16 values = load_lanes(x + k, n - k < kLanes ? static_cast<int>(n - k) : kLanes);
    largest = max(largest, bits(values) & splat<I32x16>(INT32_MAX));
  }
  return max_lanes(largest);
}

// The codes of the two halves of a stretch.
struct Halves {
  I32x16 first, second;
  std::int32_t total() const { return sum_lanes(first + second); }
};

// Codes of `count` columns, at most a stretch, and zeros up to its end; `code` makes integers of 16 values.
template <class Code>
inline Halves code_stretch(const float* x, int count, bool zero, const Code& code, std::int8_t* codes) {
  const auto half = [&](int i) {
    I32x16 q = splat<I32x16>(0);
    if (!zero && i < count) q = code(load_lanes(x + i, count - i < kLanes ? count - i : kLanes));
    store_bytes(codes + i, q);
    return q;
  };
  const I32x16 first = half(0);
  return {first, half(kLanes)};
}

// Columns of a stretch that begins at k.
inline int stretch_columns(std::int64_t k, std::int64_t end) {
  return static_cast<int>(end - k < 0 ? 0 : end - k < kStretchColumns ? end - k : kStretchColumns);
}

void code_activations(const float* x, std::int64_t n, int group, const CodedRow& out) {
  const std::int64_t padded = (n + 63) / 64 * 64;
  for (std::int64_t begin = 0; begin < padded; begin += group) {
    const std::int64_t end = begin + group < n ? begin + group : n;
    const std::int32_t amax_bits = largest_magnitude(x + begin, end - begin);
    const float amax = float_from_bits(static_cast<std::uint32_t>(amax_bits));
    const bool finite = amax_bits < 0x7f800000;
    const bool zero = !finite || amax < 0x1p-100f;
    const float scale = zero ? (finite ? 0.0f : __builtin_nanf("")) : amax / 127.0f;
    const float factor = zero ? 0.0f : 127.0f / amax;
    const auto code = [&](F32x16 values) { return nearest_integer(values * splat<F32x16>(factor)); };
    std::int32_t sum = 0;
    for (std::int64_t k = begin; k < begin + group; k += kStretchColumns) {
      const Halves halves = code_stretch(x + k, stretch_columns(k, end), zero, code, out.codes + k);
      const std::int32_t stretch = halves.total();
      if (group != kStretchColumns) {  // two stretches a group: 0, 2, 1, 3
        std::int16_t* quarters = out.quarter_sums + begin / kLanes + (k - begin) / kStretchColumns;
        const std::int32_t first = sum_lanes(halves.first);
        quarters[0] = static_cast<std::int16_t>(first);
        quarters[2] = static_cast<std::int16_t>(stretch - first);
      }
      out.stretch_sums[k / kStretchColumns] = static_cast<float>(stretch);
      out.scaled_stretch_sums[k / kStretchColumns] = scale * static_cast<float>(stretch);
      sum += stretch;
    }
    out.scales[begin / group] = scale;
    if (group == kStretchColumns) continue;
    out.sums[begin / group] = static_cast<float>(sum);
    out.scaled_sums[begin / group] = scale * static_cast<float>(sum);
  }
}

void code_token(const float* x, std::int64_t n, const CodedRow& out) {
  const std::int32_t amax_bits = largest_magnitude(x, n);
  const bool finite = amax_bits < 0x7f800000;
  const float scale = finite ? float_from_bits(static_cast<std::uint32_t>(amax_bits)) / 127.5f : __builtin_nanf("");
  const bool zero = !(scale > 0.0f);
  // Clipping first gives the same, since rounding keeps the order.
  const auto code = [&](F32x16 values) {
    const F32x16 quotient = values / splat<F32x16>(scale);
    return nearest_integer(min(max(quotient, splat<F32x16>(-128.0f)), splat<F32x16>(127.0f)));
  };
  std::int32_t sum = 0;
  for (std::int64_t k = 0; k < (n + 63) / 64 * 64; k += kStretchColumns) {
    sum += code_stretch(x + k, stretch_columns(k, n), zero, code, out.codes + k).total();
  }
  out.scales[0] = scale;
  out.sums[0] = static_cast<float>(sum);
}

template <WeightKind kind>
inline F32x16 load_row(const std::byte* row, std::int64_t k) {
  return load_scales(kind, row + k * (kind == WeightKind::float32 ? 4 : 2));
}

template <WeightKind kind>
void quantize_affine(const std::byte* row, std::int64_t columns, int bits_per_code, int group, std::uint8_t* codes,
                     float* scales, float* biases) {
  const float largest_code = static_cast<float>((1 << bits_per_code) - 1);
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
