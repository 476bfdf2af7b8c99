// Rule 4 of docs/numerics.md: weights of codes as floats, 16 columns of 16 rows at a time.
#pragma once

#include "kernels/code_layout.inc.h"
#include "kernels/kernels.h"
#include "kernels/lanes.inc.h"
#include "kernels/simd/planes.h"
#include "kernels/two_level_scales.inc.h"

namespace sparkx::kernels {
namespace {

constexpr int kDecodedColumns = 16;

// Four columns of all lanes, one a byte: word i of a plane of `bits` bits.
template <int bits, int i>
inline I32x16 plane_word(const std::byte* plane) {
  constexpr int kWords = 8 / bits;  // in 64 bytes
  const I32x16 words = shift_right_arithmetic<i % kWords * bits>(load_int(plane + i / kWords * 64));
  return words & splat<I32x16>(0x01010101 * ((1 << bits) - 1));
}

// Word i of a stretch.
template <WeightKind kind, int i>
inline I32x16 code_word(const std::byte* stretch) {
  constexpr int kLow = kLowPlaneBits<kind>, kHigh = kHighPlaneBits<kind>;
  if constexpr (kLow == 8) {
    return load_int(stretch + i * 64);
  } else if constexpr (kHigh == 0) {
    return plane_word<kLow, i>(stretch);
  } else {
    return plane_word<kLow, i>(stretch) | shift_left<kLow>(plane_word<kHigh, i>(stretch + 64 * kLow));
  }
}

// What byte `byte` of each lane stands for, as a float: an integer less `zero`, or its value, that of E2M1 doubled,
// that of E4M3 times 2^-120.
template <WeightKind kind, int byte>
inline F32x16 code_values(I32x16 word, F32x16 zero) {
  if constexpr (kind == WeightKind::e4m3) {
    return small_e4m3_values<byte>(word);
  } else {
    const I32x16 codes = shift_right_arithmetic<8 * byte>(word) & splat<I32x16>(255);
    if constexpr (table_zero(kind) != 0) {
      return to_float(lookup(codes, kSignedTable<kind>.value));
    } else {
      return to_float(codes) - zero;
    }
  }
}

// Calls write(column, values less zero) for the 16 columns of half a stretch.
template <WeightKind kind, int half, class Write>
inline __attribute__((always_inline)) void half_stretch_values(const std::byte* stretch, F32x16 zero,
                                                               const Write& write) {
  each_word<4 * half, 4 * half + 4>([&]<int i>() __attribute__((always_inline)) {
    const I32x16 word = code_word<kind, i>(stretch);
    const int column = 4 * (i - 4 * half);
    write(column, code_values<kind, 0>(word, zero));
    write(column + 1, code_values<kind, 1>(word, zero));
    write(column + 2, code_values<kind, 2>(word, zero));
    write(column + 3, code_values<kind, 3>(word, zero));
  });
}

// Half a stretch of two levels, `j` its sub-block of 64 columns.
template <WeightKind kind, int j, int half, class Write>
inline __attribute__((always_inline)) void decode_two_levels(const std::byte* stretch, F32x16 d, F32x16 dmin,
                                                             const SubScales<kind>& sub, const Write& write) {
  const F32x16 scale = d * to_float(sub.template scales<j>());
  const F32x16 zero = splat<F32x16>(static_cast<float>(two_level_zero(kind)));
  if constexpr (has_minima(kind)) {
    const F32x16 minimum = negate(dmin * to_float(sub.template minimum<j>()));
    half_stretch_values<kind, half>(
        stretch, zero, [&](int column, F32x16 value) __attribute__((always_inline)) {
          write(column, fma(scale, value, minimum));
        });
  } else {
    half_stretch_values<kind, half>(
        stretch, zero, [&](int column, F32x16 value) __attribute__((always_inline)) { write(column, scale * value); });
  }
}

// Scales of E4M3 with the factor that its values lack: one product for two. Infinite where a scale is 256 or more;
// there the factor has to go to the value.
inline F32x16 e4m3_scales(F32x16 scales) {
  return scales * splat<F32x16>(kE4m3Factor);
}
inline I32x16 magnitude_bits(F32x16 a) {
  return bits(a) & splat<I32x16>(INT32_MAX);
}
inline bool are_finite(I32x16 magnitudes) {
  return all(less(magnitudes, splat<I32x16>(0x7f800000)));
}

// Calls write(column, weights) for columns 0 … 15 from column k of a block on, whose codes begin at `block`; k is a
// multiple of 16.
template <WeightKind kind, class Write>
inline __attribute__((always_inline)) void each_decoded_column(const std::byte* block, const CodeLayout& layout,
                                                               std::int64_t k, const Write& write) {
  const std::byte* group = block + (k >> layout.shift) * layout.group_bytes;
  const std::int64_t in_group = k & (layout.group - 1);
  const std::byte* stretch = group + layout.codes_offset + in_group / kStretchColumns * kStretchBytes<kind>;
  const bool second_half = in_group % kStretchColumns != 0;
  if constexpr (has_two_levels(kind)) {
    if (layout.scheme == CodeScheme::two_level) {
      const F32x16 d = load_group_scales<kind>(group, layout);
      const F32x16 dmin = has_minima(kind) ? load_group_biases(group, layout) : d;
      const auto sub = SubScales<kind>::load(group, layout, in_group / 64 * 64);
      constexpr int kSecond = sub_block_columns(kind) == 16 ? 1 : 0, kThird = 1 + kSecond;
      switch (in_group % 64 / 16) {
        case 0:
          return decode_two_levels<kind, 0, 0>(stretch, d, dmin, sub, write);
        case 1:
          return decode_two_levels<kind, kSecond, 1>(stretch, d, dmin, sub, write);
        case 2:
          return decode_two_levels<kind, kThird, 0>(stretch, d, dmin, sub, write);
        default:
          return decode_two_levels<kind, kThird + kSecond, 1>(stretch, d, dmin, sub, write);
      }
    }
  }
  const bool sixteens = layout.scale_kind == WeightKind::e4m3;
  const F32x16 scale = load_group_scales<kind>(group, layout, sixteens ? static_cast<int>(in_group / 16) : 0);
  const auto decode = [&](F32x16 zero, auto weight) __attribute__((always_inline)) {
    const auto write_weight = [&](int column, F32x16 value) __attribute__((always_inline)) {
      write(column, weight(value));
    };
    if (second_half) {
      half_stretch_values<kind, 1>(stretch, zero, write_weight);
    } else {
      half_stretch_values<kind, 0>(stretch, zero, write_weight);
    }
  };
  if constexpr (kind == WeightKind::e4m3) {
    const F32x16 factor = e4m3_scales(scale);
    if (are_finite(magnitude_bits(factor))) {
      decode(splat<F32x16>(0.0f), [&](F32x16 value) { return factor * value; });
    } else {
      decode(splat<F32x16>(0.0f), [&](F32x16 value) { return scale * (splat<F32x16>(kE4m3Factor) * value); });
    }
    return;
  }
  if (layout.scheme == CodeScheme::affine) {
    const F32x16 bias = load_group_biases(group, layout);
    decode(splat<F32x16>(0.0f), [&](F32x16 value) { return fma(scale, value, bias); });
  } else {
    decode(load_group_zeros(group, layout), [&](F32x16 value) { return scale * value; });
  }
}

// The same: out [16 columns][16 rows].
template <WeightKind kind>
void decode_columns(const std::byte* block, const CodeLayout& layout, std::int64_t k, float* out) {
  each_decoded_column<kind>(
      block, layout,
      k, [out](int column, F32x16 weights) __attribute__((always_inline)) { store(out + column * kLanes, weights); });
}

// The same for one token: `sum` goes on with the chain of these columns.
template <WeightKind kind>
__attribute__((noinline)) F32x16 decoded_chain(const std::byte* block, const CodeLayout& layout, std::int64_t k,
                                               const float* x, F32x16 sum) {
  each_decoded_column<kind>(
      block, layout, k, [&](int column, F32x16 weights) __attribute__((always_inline)) {
        sum = fma(weights, splat<F32x16>(x[column]), sum);
      });
  return sum;
}

// The same of P panels of E4M3 side by side, whose chains hide each other's latency: for as many of the columns from
// the start of a block on as whole groups have. Returns how many.
template <int P>
__attribute__((noinline)) std::int64_t e4m3_chains(const std::byte* blocks, std::size_t panel_stride,
                                                   const CodeLayout& layout, std::int64_t columns, const float* x,
                                                   F32x16 (&sums)[P][1]) {
  const std::int64_t whole = columns >> layout.shift << layout.shift;
  F32x16 s[P];
  SPARKX_UNROLL
  for (int p = 0; p < P; ++p) s[p] = sums[p][0];
  const std::byte* group = blocks;
  for (std::int64_t begin = 0; begin < whole; begin += layout.group, group += layout.group_bytes) {
    F32x16 scale[P];
    I32x16 largest = splat<I32x16>(0);
    SPARKX_UNROLL
    for (int p = 0; p < P; ++p) {
      scale[p] = e4m3_scales(load_group_scales<WeightKind::e4m3>(group + p * panel_stride, layout));
      largest = max(largest, magnitude_bits(scale[p]));
    }
    if (!are_finite(largest)) {
      SPARKX_UNROLL
      for (int p = 0; p < P; ++p) {
        for (std::int64_t k = begin; k < begin + layout.group; k += kDecodedColumns) {
          s[p] = decoded_chain<WeightKind::e4m3>(blocks + p * panel_stride, layout, k, x + k, s[p]);
        }
      }
      continue;
    }
    const std::byte* words = group + layout.codes_offset;
    for (std::int64_t k = begin; k < begin + layout.group; k += 4, words += 64) {
      I32x16 four[P];
      SPARKX_UNROLL
      for (int p = 0; p < P; ++p) four[p] = load_int(words + p * panel_stride);
      each_word<0, 4>([&]<int byte>() __attribute__((always_inline)) {
        const F32x16 activation = splat<F32x16>(x[k + byte]);
        SPARKX_UNROLL
        for (int p = 0; p < P; ++p) s[p] = fma(scale[p] * small_e4m3_values<byte>(four[p]), activation, s[p]);
      });
    }
  }
  SPARKX_UNROLL
  for (int p = 0; p < P; ++p) sums[p][0] = s[p];
  return whole;
}

// One row of a matrix as floats: lane row % 16 of its panel.
template <WeightKind kind>
void decode_row(const PanelMatrix& w, std::int64_t row, float* out) {
  const std::byte* panel = w.panels + row / kLanes * w.panel_bytes;
  const std::int64_t lane = row % kLanes;
  if constexpr (!is_dense(kind)) {
    float decoded[kDecodedColumns * kLanes];
    for (std::int64_t k = 0; k < w.columns; k += kDecodedColumns) {
      const std::int64_t block = k / kBlockColumns * kBlockColumns;
      const CodeLayout layout = code_layout<kind>(w.format, block);
      decode_columns<kind>(panel + layout.block_offset, layout, k - block, decoded);
      for (int i = 0; i < kDecodedColumns && k + i < w.columns; ++i) out[k + i] = decoded[i * kLanes + lane];
    }
    return;
  }
  for (std::int64_t k = 0; k < w.columns; ++k) {
    if constexpr (kind == WeightKind::float32) {
      out[k] = reinterpret_cast<const float*>(panel)[k * kLanes + lane];
    } else {
      const std::int64_t index = (k / 2 * kLanes + lane) * 2 + k % 2;
      const std::uint16_t value = reinterpret_cast<const std::uint16_t*>(panel)[index];
      out[k] = kind == WeightKind::bfloat16 ? widen_bfloat16(value) : widen_float16(value);
    }
  }
}

}  // namespace
}  // namespace sparkx::kernels
