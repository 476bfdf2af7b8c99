// Rule 1 of docs/numerics.md: weights times activations, for every kind of dense weight.
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

#include "kernels/kernels.h"

namespace sparkx::kernels {
namespace {

// The weights of one step: kColumns columns in 64 bytes of a panel.
template <WeightKind kind>
struct Step;

template <>
struct Step<WeightKind::float32> {
  static constexpr int kColumns = 1;
  F32x16 column[1];
  void read(const std::byte* p) { column[0] = load(reinterpret_cast<const float*>(p)); }
};

template <>
struct Step<WeightKind::bfloat16> {
  static constexpr int kColumns = 2;
  F32x16 column[2];
  void read(const std::byte* p) {
    const Pairs pairs = load_bfloat16_pairs(p);
    column[0] = pairs.first;
    column[1] = pairs.second;
  }
};

template <>
struct Step<WeightKind::float16> {
  static constexpr int kColumns = 2;
  F32x16 column[2];
  void read(const std::byte* p) {
    const Pairs pairs = load_float16_pairs(p);
    column[0] = pairs.first;
    column[1] = pairs.second;
  }
};

// sums[p][t] = the chains of `columns` columns of panel p and token t, from +0. Panels are `panel_stride` bytes apart,
// tokens `token_stride` floats. Nothing behind the last column is multiplied, not even zeros: that could turn -0 to +0.
template <WeightKind kind, int P, int T>
void panel_chains(const std::byte* panel, std::size_t panel_stride, const float* x, std::int64_t token_stride,
                  std::int64_t columns, F32x16 (&sums)[P][T]) {
  constexpr int kColumns = Step<kind>::kColumns;
  F32x16 s[P][T];
  SPARKX_UNROLL
  for (int p = 0; p < P; ++p) {
    SPARKX_UNROLL
    for (int t = 0; t < T; ++t) s[p][t] = splat<F32x16>(0.0f);
  }
  const auto step = [&](std::int64_t k, int columns_here) __attribute__((always_inline)) {
    Step<kind> weights[P];
    SPARKX_UNROLL
    for (int p = 0; p < P; ++p) weights[p].read(panel + p * panel_stride + k / kColumns * 64);
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
  if (kColumns == 2 && whole < columns) step(whole, 1);
  SPARKX_UNROLL
  for (int p = 0; p < P; ++p) {
    SPARKX_UNROLL
    for (int t = 0; t < T; ++t) sums[p][t] = s[p][t];
  }
}

template <WeightKind kind, int P, int T>
void dot_tile(const PanelMatrix& w, std::int64_t panel, const float* x, std::int64_t token_stride, float* out,
              std::int64_t out_stride) {
  const std::byte* weights = w.panels + panel * w.panel_bytes;
  const auto block = [&](std::int64_t k, F32x16(&sums)[P][T]) {
    const std::int64_t columns = w.columns - k < kBlockColumns ? w.columns - k : kBlockColumns;
    panel_chains<kind, P, T>(weights + k / Step<kind>::kColumns * 64, w.panel_bytes, x + k, token_stride, columns,
                             sums);
  };
  F32x16 total[P][T];
  block(0, total);
  for (std::int64_t k = kBlockColumns; k < w.columns; k += kBlockColumns) {
    F32x16 sums[P][T];
    block(k, sums);
    for (int p = 0; p < P; ++p) {
      for (int t = 0; t < T; ++t) total[p][t] = total[p][t] + sums[p][t];
    }
  }
  for (int p = 0; p < P; ++p) {
    const F32x16 bias = w.bias != nullptr ? load(w.bias + (panel + p) * kLanes) : splat<F32x16>(0.0f);
    for (int t = 0; t < T; ++t) store(out + t * out_stride + p * kLanes, total[p][t] + bias);
  }
}

// Panels that a tile of so many tokens has registers for.
constexpr int tile_panels(int tokens) {
  const int panels = kTileVectors / tokens;
  return panels < 1 ? 1 : panels > 4 ? 4 : panels;
}

// One tile: `tokens` tokens, at most T, and as many of the `panels` panels as a tile holds. Returns that number.
template <WeightKind kind, int T>
inline int dot_some_panels(const PanelMatrix& w, std::int64_t panel, std::int64_t panels, int tokens, const float* x,
                           std::int64_t token_stride, float* out, std::int64_t out_stride) {
  if constexpr (T > 1) {
    if (tokens < T) return dot_some_panels<kind, T - 1>(w, panel, panels, tokens, x, token_stride, out, out_stride);
  }
  constexpr int P = tile_panels(T);
  if (panels < P) {
    dot_tile<kind, 1, T>(w, panel, x, token_stride, out, out_stride);
    return 1;
  }
  dot_tile<kind, P, T>(w, panel, x, token_stride, out, out_stride);
  return P;
}

// Tokens whose activations stay in the second-level cache while the panels pass by.
constexpr std::int64_t kTokenGroup = 4 * kTokenTile;

template <WeightKind kind>
void dot(const PanelMatrix& w, std::int64_t panel_begin, std::int64_t panel_end, const Activations& x,
         std::int64_t token_begin, std::int64_t token_end, float* out, std::int64_t out_stride) {
  for (std::int64_t group = token_begin; group < token_end; group += kTokenGroup) {
    const std::int64_t tokens = token_end - group < kTokenGroup ? token_end - group : kTokenGroup;
    // Balanced tiles: 16 tokens are 8 + 8, not 12 + 4.
    const std::int64_t tiles = (tokens + kTokenTile - 1) / kTokenTile;
    const std::int64_t panel_step = tile_panels(static_cast<int>((tokens + tiles - 1) / tiles));
    for (std::int64_t chunk = panel_begin; chunk < panel_end; chunk += panel_step) {
      const std::int64_t chunk_end = panel_end - chunk < panel_step ? panel_end : chunk + panel_step;
      for (std::int64_t tile = 0; tile < tiles; ++tile) {
        const std::int64_t token = group + tokens * tile / tiles;
        const int tile_tokens = static_cast<int>(group + tokens * (tile + 1) / tiles - token);
        for (std::int64_t panel = chunk; panel < chunk_end;) {
          panel += dot_some_panels<kind, kTokenTile>(
              w, panel, chunk_end - panel, tile_tokens, x.values + token * x.stride, x.stride,
              out + (token - token_begin) * out_stride + (panel - panel_begin) * kLanes, out_stride);
        }
      }
    }
  }
}

// One row of a matrix as floats: lane row % 16 of its panel.
template <WeightKind kind>
void decode_row(const PanelMatrix& w, std::int64_t row, float* out) {
  const std::byte* panel = w.panels + row / kLanes * w.panel_bytes;
  const std::int64_t lane = row % kLanes;
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
