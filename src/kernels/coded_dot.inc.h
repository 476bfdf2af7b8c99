// Rule 3 of docs/numerics.md: weights that are codes times activations that are codes, multiplied as integers.
//
// K goes in runs: stretches of columns inside one group of the weights and one of the activations. Of a run
//   D = sum of q * c    exact, in 32 bits, 16 rows in 16 lanes (kernels/simd/*_stretch.h)
// and only then come floats: acc = fma(s, s_a * float(D), acc). The biases of a weight group meet the sum of its
// activations, T, which no row needs to compute again.
#pragma once

#include "kernels/affine.inc.h"
#include "kernels/kernels.h"
#include "kernels/tiles.inc.h"

namespace sparkx::kernels {
namespace {

template <WeightKind kind, int P, int T>
inline __attribute__((always_inline)) void stretch(const std::byte* codes, std::size_t panel_stride,
                                                   const std::int8_t* x, std::int64_t token_stride,
                                                   I32x16 (&sums)[P][T]) {
  if constexpr (kind == WeightKind::affine4) {
    half_byte_stretch<P, T>(codes, panel_stride, x, token_stride, sums);
  } else {
    byte_stretch<P, T>(codes, panel_stride, x, token_stride, sums);
  }
}

template <WeightKind kind>
struct CodeTile {
  using Input = CodedActivations;
  static constexpr int kTokens = kCodeTokens;
  static constexpr int kVectors = kCodeVectors;
  static constexpr int kPanels = 1;  // one stream of memory: its groups already hide each other's latency
  static constexpr int kGroup = activation_group(kind);
  static constexpr std::int64_t kStretchBytes = kStretchColumns / kStepColumns<kind> * 64;

  // sums = those of block [k, k + columns) of K.
  template <int P, int T>
  static void block(const PanelMatrix& w, std::int64_t panel, std::int64_t block_begin, std::int64_t columns,
                    const Input& x, std::int64_t token, F32x16 (&sums)[P][T]) {
    const AffineLayout layout = affine_layout<kind>(w.format);
    const int run = layout.group < kGroup ? layout.group : kGroup;
    const std::byte* group = w.panels + panel * w.panel_bytes + block_offset<kind>(block_begin, layout);
    const std::int64_t block_end = block_begin + columns;
    const std::int8_t* codes = x.codes + token * x.code_stride;
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
        for (std::int64_t s = begin; s < end; s += kStretchColumns, step += kStretchBytes) {
          stretch<kind, P, T>(step, w.panel_bytes, codes + s, x.code_stride, d);
        }
        const float* scales = x.scales + token * x.group_stride + begin / kGroup;
        SPARKX_UNROLL
        for (int p = 0; p < P; ++p) {
          const F32x16 scale = load_scales(layout.scale_kind, group + p * w.panel_bytes);
          SPARKX_UNROLL
          for (int t = 0; t < T; ++t) {
            acc[p][t] = fma(scale, splat<F32x16>(scales[t * x.group_stride]) * to_float(d[p][t]), acc[p][t]);
          }
        }
      }
      SPARKX_UNROLL
      for (int p = 0; p < P; ++p) {
        const F32x16 bias = load_scales(layout.scale_kind, group + p * w.panel_bytes + layout.bias_offset);
        SPARKX_UNROLL
        for (int t = 0; t < T; ++t) {
          acc[p][t] = fma(bias, splat<F32x16>(group_sum(x, token + t, k, group_end, run)), acc[p][t]);
        }
      }
    }
    SPARKX_UNROLL
    for (int p = 0; p < P; ++p) {
      SPARKX_UNROLL
      for (int t = 0; t < T; ++t) sums[p][t] = acc[p][t];
    }
  }

  // T of the rule: the runs of one weight group, in order.
  static float group_sum(const Input& x, std::int64_t token, std::int64_t begin, std::int64_t end, int run) {
    if (run < kGroup) return x.stretch_sums[token * x.stretch_stride + begin / kStretchColumns];
    const float* sums = x.sums + token * x.group_stride;
    float sum = sums[begin / kGroup];
    for (std::int64_t k = begin + kGroup; k < end; k += kGroup) sum += sums[k / kGroup];
    return sum;
  }
};

template <WeightKind kind>
void dot_codes(const PanelMatrix& w, std::int64_t panel_begin, std::int64_t panel_end, const CodedActivations& x,
               std::int64_t token_begin, std::int64_t token_end, float* out, std::int64_t out_stride) {
  dot_tiles<CodeTile<kind>>(w, panel_begin, panel_end, x, token_begin, token_end, out, out_stride);
}

}  // namespace
}  // namespace sparkx::kernels
