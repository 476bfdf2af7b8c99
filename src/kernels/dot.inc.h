// Rule 1 of docs/numerics.md: weights times activations as floats, for every kind of weight. Codes are decoded on the
// way (rule 4), a few columns at a time, and go on as float32.
//
//        one step of K: 64 bytes of weights
//   panel  [ row 0 | row 1 | … | row 15 ]      16 lanes; a 16-bit kind has two columns in each lane
//                x                             multiplied by the token's value for that column, in all lanes,
//   token  x[k], x[k], …          x[k]         and added to the lane's chain
//
// A register tile is P panels by T tokens: each weight vector that is loaded serves T tokens, each activation P panels
// (on a Zen 4 core, 3 x 8 with AVX-512 gets 97 % of the multiply-adds there are, 1 x 12 gets 70 %). One token (decode)
// walks several panels at once, so that their chains hide each other's latency.
#pragma once

#include "kernels/code_layout.inc.h"
#include "kernels/decode.inc.h"
#include "kernels/kernels.h"
#include "kernels/tiles.inc.h"

namespace sparkx::kernels {
namespace {

// The weights of one step: kColumns columns in 64 bytes of a panel.
template <WeightKind kind>
struct Step;

template <>
struct Step<WeightKind::float32> {
  static constexpr int kColumns = 1;
  F32x16 column[1];
  void read(const std::byte* block, std::int64_t k) {
    column[0] = load(reinterpret_cast<const float*>(block + k * 64));
  }
};

template <>
struct Step<WeightKind::bfloat16> {
  static constexpr int kColumns = 2;
  F32x16 column[2];
  void read(const std::byte* block, std::int64_t k) {
    const Pairs pairs = load_bfloat16_pairs(block + k / 2 * 64);
    column[0] = pairs.first;
    column[1] = pairs.second;
  }
};

template <>
struct Step<WeightKind::float16> {
  static constexpr int kColumns = 2;
  F32x16 column[2];
  void read(const std::byte* block, std::int64_t k) {
    const Pairs pairs = load_float16_pairs(block + k / 2 * 64);
    column[0] = pairs.first;
    column[1] = pairs.second;
  }
};

// sums[p][t] goes on with the chains of `columns` columns of panel p and token t. Panels are `panel_stride` bytes
// apart, tokens `token_stride` floats. Nothing behind the last column is multiplied, not even zeros: that could turn -0
// to +0.
template <WeightKind kind, int P, int T, bool fetch_ahead = true>
inline void panel_chains(const std::byte* panel, std::size_t panel_stride, const float* x, std::int64_t token_stride,
                         std::int64_t columns, F32x16 (&sums)[P][T]) {
  constexpr int kColumns = Step<kind>::kColumns;
  F32x16 s[P][T];
  SPARKX_UNROLL
  for (int p = 0; p < P; ++p) {
    SPARKX_UNROLL
    for (int t = 0; t < T; ++t) s[p][t] = sums[p][t];
  }
  Step<kind> weights[P];
  const auto step = [&](std::int64_t k, int columns_here) __attribute__((always_inline)) {
    SPARKX_UNROLL
    for (int p = 0; p < P; ++p) {
      // The panels that come next; tiles of few tokens read too fast to gain.
      if constexpr (fetch_ahead && P * T > 4) {
        __builtin_prefetch(panel + (P + p) * panel_stride + k / kColumns * 64, 0, 2);
      }
      weights[p].read(panel + p * panel_stride, k);
    }
    SPARKX_UNROLL
    for (int c = 0; c < columns_here; ++c) {
      SPARKX_UNROLL
      for (int t = 0; t < T; ++t) {
        const F32x16 activation = splat<F32x16>(x[t * token_stride + k + c]);
        SPARKX_UNROLL
        for (int p = 0; p < P; ++p) s[p][t] = fma(weights[p].column[c], activation, s[p][t]);
      }
    }
  };
  const std::int64_t whole = columns / kColumns * kColumns;
  for (std::int64_t k = 0; k < whole; k += kColumns) step(k, kColumns);
  if constexpr (kColumns == 2) {
    if (whole < columns) step(whole, 1);
  }
  SPARKX_UNROLL
  for (int p = 0; p < P; ++p) {
    SPARKX_UNROLL
    for (int t = 0; t < T; ++t) sums[p][t] = s[p][t];
  }
}

// The same for decoded columns [panel][a stretch of columns][16 rows]. Not inlined: one for all kinds of codes.
template <int P, int T>
__attribute__((noinline)) void decoded_chains(const float* weights, const float* x, std::int64_t token_stride,
                                              std::int64_t columns, F32x16 (&sums)[P][T]) {
  panel_chains<WeightKind::float32, P, T, false>(reinterpret_cast<const std::byte*>(weights),
                                                 kStretchColumns * kLanes * sizeof(float), x, token_stride, columns,
                                                 sums);
}

template <WeightKind kind>
struct FloatTile {
  using Input = Activations;
  static constexpr int kTokens = kTokenTile;
  static constexpr int kVectors = kTileVectors;
  static constexpr int kPanels = 4;  // chains that hide each other's latency

  template <int P, int T>
  static void sum(const PanelMatrix& w, std::int64_t panel, const Input& x, std::int64_t token, F32x16 (&total)[P][T]) {
    sum_blocks<FloatTile, P, T>(w, panel, x, token, total);
  }

  // sums = the chains of block [k, k + columns) of K.
  template <int P, int T>
  static void block(const PanelMatrix& w, std::int64_t panel, std::int64_t k, std::int64_t columns, const Input& x,
                    std::int64_t token, F32x16 (&sums)[P][T]) {
    SPARKX_UNROLL
    for (int p = 0; p < P; ++p) {
      SPARKX_UNROLL
      for (int t = 0; t < T; ++t) sums[p][t] = splat<F32x16>(0.0f);
    }
    const CodeLayout layout = code_layout<kind>(w.format, k);
    const std::byte* panels = w.panels + panel * w.panel_bytes + layout.block_offset;
    const float* values = x.values + token * x.stride + k;
    if constexpr (is_dense(kind)) {
      panel_chains<kind, P, T>(panels, w.panel_bytes, values, x.stride, columns, sums);
    } else {
      std::int64_t c = 0;
      if constexpr (T == 1) {  // weights meet their one activation at once; the panels hide each other's latency
        if constexpr (kind == WeightKind::e4m3)
          c = e4m3_chains<P>(panels, w.panel_bytes, layout, columns, values, sums);
        for (; c + kDecodedColumns <= columns; c += kDecodedColumns) {
          for (int p = 0; p < P; ++p) {
            sums[p][0] = decoded_chain<kind>(panels + p * w.panel_bytes, layout, c, values + c, sums[p][0]);
          }
        }
      }
      alignas(64) float decoded[P * kStretchColumns * kLanes];
      for (; c < columns; c += kStretchColumns) {
        const std::int64_t count = columns - c < kStretchColumns ? columns - c : kStretchColumns;
        for (int p = 0; p < P; ++p) {
          for (std::int64_t i = 0; i < count; i += kDecodedColumns) {
            decode_columns<kind>(panels + p * w.panel_bytes, layout, c + i,
                                 decoded + (p * kStretchColumns + i) * kLanes);
          }
        }
        decoded_chains<P, T>(decoded, values + c, x.stride, count, sums);
      }
    }
  }
};

template <WeightKind kind>
void dot(const PanelMatrix& w, std::int64_t panel_begin, std::int64_t panel_end, const Activations& x,
         std::int64_t token_begin, std::int64_t token_end, float* out, std::int64_t out_stride) {
  dot_tiles<FloatTile<kind>>(w, panel_begin, panel_end, x, token_begin, token_end, out, out_stride);
}

}  // namespace
}  // namespace sparkx::kernels
