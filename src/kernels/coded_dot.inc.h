// Rules 3 and 5 of docs/numerics.md: weights that are codes times activations that are codes, multiplied as integers.
//
// K goes in runs: stretches of columns inside one group of the weights and one of the activations. Of a run
//   D = sum of q * c    exact, in 32 bits, 16 rows in 16 lanes (kernels/simd/*_stretch.h)
//   S = sum of q        which no row needs to compute again: it comes with the activations
// and only then come floats: acc = fma(s, s_a * float(D), acc), and what the scheme does with S.
#pragma once

#include "kernels/code_layout.inc.h"
#include "kernels/kernels.h"
#include "kernels/one_token.inc.h"
#include "kernels/stretch.inc.h"
#include "kernels/sub_blocks.inc.h"
#include "kernels/tiles.inc.h"

namespace sparkx::kernels {
namespace {

template <WeightKind kind, RunTerms terms>
struct CodeTile {
  using Input = CodedActivations;
  static constexpr int kTokens = kCodeTokens;
  static constexpr int kVectors = kCodeVectors;
  static constexpr int kPanels = 1;  // one stream of memory: its groups already hide each other's latency
  static constexpr int kGroup = has_8_bits(kind) ? 32 : 64;  // of the activations

  template <int P, int T>
  static void sum(const PanelMatrix& w, std::int64_t panel, const Input& x, std::int64_t token, F32x16 (&total)[P][T]) {
    sum_blocks<CodeTile, P, T>(w, panel, x, token, total);
    if constexpr (terms == RunTerms::rows) scale_rows<P, T>(w, panel, x, token, total);
  }

  // sums = those of block [block_begin, block_begin + columns) of K.
  template <int P, int T>
  static void block(const PanelMatrix& w, std::int64_t panel, std::int64_t block_begin, std::int64_t columns,
                    const Input& x, std::int64_t token, F32x16 (&sums)[P][T]) {
    if constexpr (T == 1) {
      one_token<P>(w, panel, block_begin, columns, x, token, sums);
    } else {
      many_tokens<P, T>(w, panel, block_begin, columns, x, token, sums);
    }
  }

  template <int P>
  static void one_token(const PanelMatrix& w, std::int64_t panel, std::int64_t block_begin, std::int64_t columns,
                        const Input& x, std::int64_t token, F32x16 (&sums)[P][1]) {
    const CodeLayout layout = code_layout<kind>(w.format, block_begin);
    const int run = layout.group < kGroup ? layout.group : kGroup;
    const std::byte* group = w.panels + panel * w.panel_bytes + layout.block_offset;
    const bool stretches = run < kGroup;
    const std::int64_t first = token * (stretches ? x.stretch_stride : x.group_stride) + block_begin / run;
    const TokenBlock one{
        x.codes + token * x.code_stride + block_begin, x.scales + token * x.group_stride + block_begin / kGroup,
        (stretches ? x.stretch_sums : x.sums) + first, (stretches ? x.scaled_stretch_sums : x.scaled_sums) + first};
    for (int p = 0; p < P; ++p) {
      sums[p][0] = one_token_block<kind, terms, kGroup>(group + p * w.panel_bytes, layout, columns, one);
    }
  }

  template <int P, int T>
  static void many_tokens(const PanelMatrix& w, std::int64_t panel, std::int64_t block_begin, std::int64_t columns,
                          const Input& x, std::int64_t token, F32x16 (&sums)[P][T]) {
    const CodeLayout layout = code_layout<kind>(w.format, block_begin);
    const int run = layout.group < kGroup ? layout.group : kGroup;
    const std::byte* group = w.panels + panel * w.panel_bytes + layout.block_offset;
    const std::int64_t block_end = block_begin + columns;
    const std::int8_t* codes = x.codes + token * x.code_stride;
    const std::int64_t sum_stride = run < kGroup ? x.stretch_stride : x.group_stride;  // of sums of runs
    F32x16 acc[P][T];
    SPARKX_UNROLL
    for (int p = 0; p < P; ++p) {
      SPARKX_UNROLL
      for (int t = 0; t < T; ++t) acc[p][t] = splat<F32x16>(0.0f);
    }
    for (std::int64_t k = block_begin; k < block_end; k += layout.group, group += layout.group_bytes) {
      const std::byte* step = group + layout.codes_offset;
      const std::int64_t group_end = block_end - k < layout.group ? block_end : k + layout.group;
      for (std::int64_t begin = k; begin < group_end; begin += run) {
        const std::int64_t end = group_end - begin < run ? group_end : begin + run;
        I32x16 d[P][T];
        SPARKX_UNROLL
        for (int p = 0; p < P; ++p) {
          SPARKX_UNROLL
          for (int t = 0; t < T; ++t) d[p][t] = splat<I32x16>(0);
        }
        for (std::int64_t s = begin; s < end; s += kStretchColumns, step += kStretchBytes<kind>) {
          stretch<kind, P, T>(step, w.panel_bytes, codes + s, x.code_stride, d);
        }
        const float* scales = x.scales + token * x.group_stride + begin / kGroup;
        const float* run_sums = run < kGroup ? x.stretch_sums + token * x.stretch_stride + begin / kStretchColumns
                                             : x.sums + token * x.group_stride + begin / kGroup;
        SPARKX_UNROLL
        for (int p = 0; p < P; ++p) {
          const std::byte* panel_group = group + p * w.panel_bytes;
          const F32x16 scale = load_group_scales<kind>(panel_group, layout);
          if constexpr (terms == RunTerms::biases) {
            SPARKX_UNROLL
            for (int t = 0; t < T; ++t) {
              acc[p][t] = fma(scale, splat<F32x16>(scales[t * x.group_stride]) * to_float(d[p][t]), acc[p][t]);
            }
          } else {
            const F32x16 minus_zero = negate(load_group_zeros(panel_group, layout));
            SPARKX_UNROLL
            for (int t = 0; t < T; ++t) {
              // I has at most 24 bits, as D and z·S have: the fma is exact.
              const F32x16 i = fma(minus_zero, splat<F32x16>(run_sums[t * sum_stride]), to_float(d[p][t]));
              const F32x16 s_a = splat<F32x16>(scales[t * x.group_stride]);
              acc[p][t] = terms == RunTerms::rows ? fma(s_a, i, acc[p][t]) : fma(scale, s_a * i, acc[p][t]);
            }
          }
        }
      }
      if constexpr (terms == RunTerms::biases) {
        // T of the rule: the runs of the group, in order.
        const float* scaled_sums = run < kGroup ? x.scaled_stretch_sums + token * x.stretch_stride + k / kStretchColumns
                                                : x.scaled_sums + token * x.group_stride + k / kGroup;
        float group_sums[T];
        SPARKX_UNROLL
        for (int t = 0; t < T; ++t) group_sums[t] = scaled_sums[t * sum_stride];
        for (int i = 1; i * run < group_end - k; ++i) {
          SPARKX_UNROLL
          for (int t = 0; t < T; ++t) group_sums[t] += scaled_sums[t * sum_stride + i];
        }
        SPARKX_UNROLL
        for (int p = 0; p < P; ++p) {
          const F32x16 bias = load_group_biases(group + p * w.panel_bytes, layout);
          SPARKX_UNROLL
          for (int t = 0; t < T; ++t) acc[p][t] = fma(bias, splat<F32x16>(group_sums[t]), acc[p][t]);
        }
      }
    }
    SPARKX_UNROLL
    for (int p = 0; p < P; ++p) {
      SPARKX_UNROLL
      for (int t = 0; t < T; ++t) sums[p][t] = acc[p][t];
    }
  }

  // total = s·total, with biases fma(b, totalS, s·total).
  template <int P, int T>
  static void scale_rows(const PanelMatrix& w, std::int64_t panel, const Input& x, std::int64_t token,
                         F32x16 (&total)[P][T]) {
    const CodeLayout layout = code_layout<kind>(w.format, 0);
    for (int p = 0; p < P; ++p) {
      const F32x16 scale = load_group_scales<kind>(w.panels + (panel + p) * w.panel_bytes, layout);
      for (int t = 0; t < T; ++t) total[p][t] = scale * total[p][t];
    }
    if (layout.scheme != CodeScheme::affine) return;
    for (int t = 0; t < T; ++t) {
      const F32x16 total_s = activation_total(x, token + t, w.columns);
      for (int p = 0; p < P; ++p) {
        const F32x16 bias = load_group_biases(w.panels + (panel + p) * w.panel_bytes, layout);
        total[p][t] = fma(bias, total_s, total[p][t]);
      }
    }
  }

  // totalS of the rule, in all lanes: s_a·S of all runs, in blocks.
  static F32x16 activation_total(const Input& x, std::int64_t token, std::int64_t columns) {
    const float* scales = x.scales + token * x.group_stride;
    const float* sums = x.sums + token * x.group_stride;
    F32x16 total = splat<F32x16>(0.0f);
    for (std::int64_t block = 0; block < columns; block += kBlockColumns) {
      const std::int64_t end = columns - block < kBlockColumns ? columns : block + kBlockColumns;
      F32x16 acc = splat<F32x16>(0.0f);
      for (std::int64_t k = block; k < end; k += kGroup) {
        acc = fma(splat<F32x16>(scales[k / kGroup]), splat<F32x16>(sums[k / kGroup]), acc);
      }
      total = block == 0 ? acc : total + acc;
    }
    return total;
  }
};

// Rule 5. Stored codes are 128 more than the rule's, which leaves by S.
struct TokenCodeTile {
  using Input = CodedActivations;
  static constexpr int kTokens = kCodeTokens;
  static constexpr int kVectors = kCodeVectors;
  static constexpr int kPanels = 1;

  template <int P, int T>
  static void sum(const PanelMatrix& w, std::int64_t panel, const Input& x, std::int64_t token, F32x16 (&total)[P][T]) {
    const CodeLayout layout = code_layout<WeightKind::codes8>(w.format, 0);
    const std::byte* first = w.panels + panel * w.panel_bytes;
    const std::byte* step = first + layout.codes_offset;
    const std::int8_t* codes = x.codes + token * x.code_stride;
    I32x16 d[P][T];
    SPARKX_UNROLL
    for (int p = 0; p < P; ++p) {
      SPARKX_UNROLL
      for (int t = 0; t < T; ++t) d[p][t] = splat<I32x16>(0);
    }
    for (std::int64_t k = 0; k < w.columns; k += kStretchColumns, step += kStretchBytes<WeightKind::codes8>) {
      stretch<WeightKind::codes8, P, T>(step, w.panel_bytes, codes + k, x.code_stride, d);
    }
    SPARKX_UNROLL
    for (int p = 0; p < P; ++p) {
      const F32x16 scale = load_group_scales<WeightKind::codes8>(first + p * w.panel_bytes, layout);
      SPARKX_UNROLL
      for (int t = 0; t < T; ++t) {
        const auto zeros = layout.zero * static_cast<std::int32_t>(x.sums[(token + t) * x.group_stride]);
        total[p][t] =
            to_float(d[p][t] - splat<I32x16>(zeros)) * (splat<F32x16>(x.scales[(token + t) * x.group_stride]) * scale);
      }
    }
  }
};

template <WeightKind kind>
void dot_codes(const PanelMatrix& w, std::int64_t panel_begin, std::int64_t panel_end, const CodedActivations& x,
               std::int64_t token_begin, std::int64_t token_end, float* out, std::int64_t out_stride) {
  const auto tiles = [&]<class Tile>() {
    dot_tiles<Tile>(w, panel_begin, panel_end, x, token_begin, token_end, out, out_stride);
  };
  if constexpr (kind == WeightKind::codes8) {
    if (w.format.scheme == CodeScheme::w8a8) return tiles.template operator()<TokenCodeTile>();
  }
  if constexpr (has_two_levels(kind)) {
    if (w.format.scheme == CodeScheme::two_level) return tiles.template operator()<TwoLevelTile<kind>>();
  }
  if constexpr (table_zero(kind) != 0) {
    if (w.format.group == 16) return tiles.template operator()<SixteenTile<kind>>();
    return tiles.template operator()<CodeTile<kind, RunTerms::zeros>>();
  }
  if (w.format.group == kWholeRow) {
    tiles.template operator()<CodeTile<kind, RunTerms::rows>>();
  } else if (w.format.scheme == CodeScheme::affine) {
    tiles.template operator()<CodeTile<kind, RunTerms::biases>>();
  } else {
    tiles.template operator()<CodeTile<kind, RunTerms::zeros>>();
  }
}

}  // namespace
}  // namespace sparkx::kernels
