// How a dot walks over panels and tokens: register tiles of P panels by T tokens, inside groups of tokens whose
// activations stay in the second-level cache. What a tile computes is a policy:
//
//   using Input               the activations
//   kTokens, kPanels          most tokens and panels of a tile
//   kVectors                  accumulators that its registers hold
//   sum<P, T>(…, total)       the sums over all of K, most often
//                               sum_blocks, for which it has block<P, T>(…, sums), the sums of one block of 1024
//                               columns
//
// Blocks are added in order, and the bias last (rule 1 of docs/numerics.md).
#pragma once

#include "kernels/kernels.h"

namespace sparkx::kernels {
namespace {

// Panels that a tile of so many tokens has registers for.
constexpr int tile_panels(int tokens, int vectors, int limit = 4) {
  const int panels = vectors / tokens;
  return panels < 1 ? 1 : panels > limit ? limit : panels;
}

template <class Tile, int P, int T>
inline void sum_blocks(const PanelMatrix& w, std::int64_t panel, const typename Tile::Input& x, std::int64_t token,
                       F32x16 (&total)[P][T]) {
  for (std::int64_t k = 0; k < w.columns; k += kBlockColumns) {
    const std::int64_t columns = w.columns - k < kBlockColumns ? w.columns - k : kBlockColumns;
    F32x16 sums[P][T];
    Tile::template block<P, T>(w, panel, k, columns, x, token, sums);
    for (int p = 0; p < P; ++p) {
      for (int t = 0; t < T; ++t) total[p][t] = k == 0 ? sums[p][t] : total[p][t] + sums[p][t];
    }
  }
}

template <class Tile, int P, int T>
void dot_tile(const PanelMatrix& w, std::int64_t panel, const typename Tile::Input& x, std::int64_t token, float* out,
              std::int64_t out_stride) {
  F32x16 total[P][T] = {};
  Tile::template sum<P, T>(w, panel, x, token, total);
  for (int p = 0; p < P; ++p) {
    const F32x16 bias = w.bias != nullptr ? load(w.bias + (panel + p) * kLanes) : splat<F32x16>(0.0f);
    for (int t = 0; t < T; ++t) store(out + t * out_stride + p * kLanes, total[p][t] + bias);
  }
}

// Tiles have Tile::kTokens tokens or a power of two below it: with every number of tokens there would be three times
// the code, and the time to compile it.
constexpr int lower_size(int tokens) {
  int size = 0;
  for (int power = 1; power < tokens; power *= 2) size = power;
  return size;
}
// Tokens of the next tile when so many are left, at most `most`.
constexpr int tile_size(std::int64_t left, int most) {
  const int lower = lower_size(most);
  if (left < most) return lower <= left ? lower : tile_size(left, lower);
  // 16 are 8 + 8, not 12 + 4.
  return 2 * lower > most && 2 * lower <= left && left < most + lower ? lower : most;
}

// One tile: `tokens` tokens, T or a lower size, and as many of the `panels` panels as a tile holds. Returns that
// number.
template <class Tile, int T>
inline int dot_some_panels(const PanelMatrix& w, std::int64_t panel, std::int64_t panels, const typename Tile::Input& x,
                           std::int64_t token, int tokens, float* out, std::int64_t out_stride) {
  if constexpr (T > 1) {
    if (tokens < T) return dot_some_panels<Tile, lower_size(T)>(w, panel, panels, x, token, tokens, out, out_stride);
  }
  constexpr int P = tile_panels(T, Tile::kVectors, Tile::kPanels);
  if (panels < P) {
    dot_tile<Tile, 1, T>(w, panel, x, token, out, out_stride);
    return 1;
  }
  dot_tile<Tile, P, T>(w, panel, x, token, out, out_stride);
  return P;
}

template <class Tile>
void dot_tiles(const PanelMatrix& w, std::int64_t panel_begin, std::int64_t panel_end, const typename Tile::Input& x,
               std::int64_t token_begin, std::int64_t token_end, float* out, std::int64_t out_stride) {
  // Tokens whose activations stay in the second-level cache while the panels pass by.
  constexpr std::int64_t kTokenGroup = 4 * Tile::kTokens;
  for (std::int64_t group = token_begin; group < token_end; group += kTokenGroup) {
    const std::int64_t group_end = token_end - group < kTokenGroup ? token_end : group + kTokenGroup;
    const std::int64_t panel_step =
        tile_panels(tile_size(group_end - group, Tile::kTokens), Tile::kVectors, Tile::kPanels);
    for (std::int64_t chunk = panel_begin; chunk < panel_end; chunk += panel_step) {
      const std::int64_t chunk_end = panel_end - chunk < panel_step ? panel_end : chunk + panel_step;
      for (std::int64_t token = group; token < group_end;) {
        const int tokens = tile_size(group_end - token, Tile::kTokens);
        for (std::int64_t panel = chunk; panel < chunk_end;) {
          panel += dot_some_panels<Tile, Tile::kTokens>(
              w, panel, chunk_end - panel, x, token, tokens,
              out + (token - token_begin) * out_stride + (panel - panel_begin) * kLanes, out_stride);
        }
        token += tokens;
      }
    }
  }
}

}  // namespace
}  // namespace sparkx::kernels
