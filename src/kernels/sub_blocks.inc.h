// Rule 3 of docs/numerics.md for weights whose scales change within a run of 64 columns: two levels of scales, and
// groups of 16. Each 64 columns are sub-blocks j of 16 or 32, of which
//   I_j = D_j - z * S_j
// comes from the stretches at once, since their sums begin at -z * S_j.
#pragma once

#include "kernels/code_layout.inc.h"
#include "kernels/kernels.h"
#include "kernels/simd/planes.h"
#include "kernels/tiles.inc.h"
#include "kernels/two_level_scales.inc.h"

namespace sparkx::kernels {
namespace {

constexpr int kQuarters = 4;  // sums of 16 columns in 64

// Tokens of a tile: each has two registers of integers and one of floats.
constexpr int kSubBlockTokens = kCodeTokens < 8 ? kCodeTokens : 8;

// d[p][t] = I of sub-block j of the 64 columns whose codes begin at `codes` and whose activations at `x`; `sums` are
// the quarter sums of the first token, in the order 0, 2, 1, 3.
template <WeightKind kind, int columns, int zero, int j, int P, int T>
inline __attribute__((always_inline)) void sub_block(const std::byte* codes, std::size_t panel_stride,
                                                     const std::int8_t* x, std::int64_t token_stride,
                                                     const std::int16_t* sums, std::int64_t sum_stride,
                                                     I32x16 (&d)[P][T]) {
  constexpr int kQuarter = columns == 16 ? j : 2 * j;  // the first one of the sub-block
  SPARKX_UNROLL
  for (int t = 0; t < T; ++t) {
    I32x16 begin = splat<I32x16>(0);
    if constexpr (zero != 0) {
      // Quarters 0 and 2 lie beside each other, and 1 and 3; of each pair one counts.
      const I32x16 minus_zero = splat<I32x16>(kQuarter < 2 ? -zero & 0xffff : -zero * 0x10000);
      const std::int16_t* token_sums = sums + t * sum_stride;
      if constexpr (columns == 32 || kQuarter % 2 == 0) begin = dot2(begin, minus_zero, token_sums);
      if constexpr (columns == 32 || kQuarter % 2 == 1) begin = dot2(begin, minus_zero, token_sums + 2);
    }
    SPARKX_UNROLL
    for (int p = 0; p < P; ++p) d[p][t] = begin;
  }
  constexpr int kStretch = kQuarter / 2;
  constexpr int kBegin = columns == 16 && j % 2 == 1 ? 4 : 0, kEnd = columns == 16 && j % 2 == 0 ? 4 : 8;
  plane_stretch<kind, kBegin, kEnd, P, T>(codes + kStretch * kStretchBytes<kind>, panel_stride,
                                          x + kStretch * kStretchColumns, token_stride, d);
}

template <int P, int T>
inline __attribute__((always_inline)) void clear_sums(F32x16 (&sums)[P][T]) {
  SPARKX_UNROLL
  for (int p = 0; p < P; ++p) {
    SPARKX_UNROLL
    for (int t = 0; t < T; ++t) sums[p][t] = splat<F32x16>(0.0f);
  }
}

// Two levels: acc = fma(d, s_a * float(sum of sc_j * I_j), acc), then with minima acc = fma(-dmin, s_a * float(sum of
// m_j * S_j), acc), all in 32 bits. Columns are whole super-blocks.
template <WeightKind kind>
struct TwoLevelTile {
  using Input = CodedActivations;
  static constexpr int kTokens = kSubBlockTokens;
  static constexpr int kVectors = kCodeVectors;
  static constexpr int kPanels = 1;
  static constexpr int kSubBlock = sub_block_columns(kind);

  template <int P, int T>
  static void sum(const PanelMatrix& w, std::int64_t panel, const Input& x, std::int64_t token, F32x16 (&total)[P][T]) {
    sum_blocks<TwoLevelTile, P, T>(w, panel, x, token, total);
  }

  // Not inlined, so that its pointers have the registers for themselves.
  template <int P, int T>
  __attribute__((noinline)) static void block(const PanelMatrix& w, std::int64_t panel, std::int64_t block_begin,
                                              std::int64_t columns, const Input& x, std::int64_t token,
                                              F32x16 (&sums)[P][T]) {
    static_assert(P == 1);
    const CodeLayout layout = code_layout<kind>(w.format, block_begin);
    const std::byte* group = w.panels + panel * w.panel_bytes + layout.block_offset;
    F32x16 acc[P][T];
    clear_sums(acc);
    for (std::int64_t k = 0; k < columns; k += kSuperBlock, group += layout.group_bytes) {
      const F32x16 d = load_group_scales<kind>(group, layout);
      const F32x16 minus_dmin = has_minima(kind) ? negate(load_group_biases(group, layout)) : d;
      for (std::int64_t run = 0; run < kSuperBlock; run += 64) {
        const std::int64_t column = block_begin + k + run;
        const auto sub = SubScales<kind>::load(group, layout, run);
        const std::byte* codes = group + layout.codes_offset + run / kStretchColumns * kStretchBytes<kind>;
        const std::int64_t quarter_stride = 2 * x.stretch_stride;
        const std::int16_t* quarters = x.quarter_sums + token * quarter_stride + column / kLanes;
        I32x16 i[P][T];
        each_word<0, 64 / kSubBlock>([&]<int j>() __attribute__((always_inline)) {
          I32x16 d_j[P][T];
          sub_block<kind, kSubBlock, two_level_zero(kind), j>(codes, w.panel_bytes,
                                                              x.codes + token * x.code_stride + column, x.code_stride,
                                                              quarters, quarter_stride, d_j);
          const I32x16 scale = sub.template scales<j>();
          SPARKX_UNROLL
          for (int t = 0; t < T; ++t) i[0][t] = j == 0 ? scale * d_j[0][t] : i[0][t] + scale * d_j[0][t];
        });
        const float* scales = x.scales + token * x.group_stride + column / 64;
        SPARKX_UNROLL
        for (int t = 0; t < T; ++t) {
          const F32x16 s_a = splat<F32x16>(scales[t * x.group_stride]);
          acc[0][t] = fma(d, s_a * to_float(i[0][t]), acc[0][t]);
          if constexpr (has_minima(kind)) {
            const std::int16_t* token_quarters = quarters + t * quarter_stride;
            const I32x16 first = dot2(splat<I32x16>(0), sub.template minima<0>(), token_quarters);
            const I32x16 m = dot2(first, sub.template minima<1>(), token_quarters + 2);
            acc[0][t] = fma(minus_dmin, s_a * to_float(m), acc[0][t]);
          }
        }
      }
    }
    SPARKX_UNROLL
    for (int t = 0; t < T; ++t) sums[0][t] = acc[0][t];
  }
};

// Groups of 16 columns with an offset: acc = fma(s, s_a * float(I), acc), group after group.
template <WeightKind kind>
struct SixteenTile {
  using Input = CodedActivations;
  static constexpr int kTokens = kSubBlockTokens;
  static constexpr int kVectors = kCodeVectors;
  static constexpr int kPanels = 1;

  template <int P, int T>
  static void sum(const PanelMatrix& w, std::int64_t panel, const Input& x, std::int64_t token, F32x16 (&total)[P][T]) {
    sum_blocks<SixteenTile, P, T>(w, panel, x, token, total);
  }

  // Not inlined, so that its pointers have the registers for themselves.
  template <int P, int T>
  __attribute__((noinline)) static void block(const PanelMatrix& w, std::int64_t panel, std::int64_t block_begin,
                                              std::int64_t columns, const Input& x, std::int64_t token,
                                              F32x16 (&sums)[P][T]) {
    const CodeLayout layout = code_layout<kind>(w.format, block_begin);
    const std::byte* group = w.panels + panel * w.panel_bytes + layout.block_offset;
    const std::int64_t quarter_stride = 2 * x.stretch_stride;
    F32x16 acc[P][T];
    clear_sums(acc);
    for (std::int64_t k = 0; k < columns; k += 64, group += layout.group_bytes) {
      const std::int64_t column = block_begin + k;
      const float* scales = x.scales + token * x.group_stride + column / 64;
      each_word<0, kQuarters>([&]<int j>() __attribute__((always_inline)) {
        if (k + j * 16 >= columns) return;  // the last group is short: nothing lies there, and nothing is added
        I32x16 d[P][T];
        sub_block<kind, 16, table_zero(kind), j>(
            group + layout.codes_offset, w.panel_bytes, x.codes + token * x.code_stride + column, x.code_stride,
            x.quarter_sums + token * quarter_stride + column / kLanes, quarter_stride, d);
        SPARKX_UNROLL
        for (int p = 0; p < P; ++p) {
          const F32x16 scale = load_group_scales<kind>(group + p * w.panel_bytes, layout, j);
          SPARKX_UNROLL
          for (int t = 0; t < T; ++t) {
            acc[p][t] = fma(scale, splat<F32x16>(scales[t * x.group_stride]) * to_float(d[p][t]), acc[p][t]);
          }
        }
      });
    }
    SPARKX_UNROLL
    for (int p = 0; p < P; ++p) {
      SPARKX_UNROLL
      for (int t = 0; t < T; ++t) sums[p][t] = acc[p][t];
    }
  }
};

}  // namespace
}  // namespace sparkx::kernels
