// --dtype bfloat16-fast: bfloat16 weights times activations rounded to bfloat16, by the CPU's dot product of pairs. It
// adds in an order of its own, so its bits are promised by nobody (docs/numerics.md, Beside the rules).
//
//   panel   [ k, k+1 of row 0 | k, k+1 of row 1 | … ]     as packed for the exact dot; times
//   token   [ x[k], x[k+1] ]                              in all lanes, two products added to each lane
#pragma once

#include "kernels/kernels.h"
#include "kernels/tiles.inc.h"

namespace sparkx::kernels {
namespace {

struct Bfloat16Tile {
  using Input = Bfloat16Activations;
  static constexpr int kTokens = kTokenTile;
  static constexpr int kVectors = kTileVectors;
  static constexpr int kPanels = 4;

  template <int P, int T>
  static void sum(const PanelMatrix& w, std::int64_t panel, const Input& x, std::int64_t token, F32x16 (&total)[P][T]) {
    const std::byte* weights = w.panels + panel * w.panel_bytes;
    const std::uint16_t* values = x.values + token * x.stride;
    F32x16 s[P][T];
    SPARKX_UNROLL
    for (int p = 0; p < P; ++p) {
      SPARKX_UNROLL
      for (int t = 0; t < T; ++t) s[p][t] = splat<F32x16>(0.0f);
    }
    for (std::int64_t k = 0; k < w.columns; k += 2, weights += 64) {
      Bfloat16Pairs pairs[P];
      SPARKX_UNROLL
      for (int p = 0; p < P; ++p) pairs[p] = load_pairs(weights + p * w.panel_bytes);
      SPARKX_UNROLL
      for (int t = 0; t < T; ++t) {
        const Bfloat16Pairs activation = splat_pair(values + t * x.stride + k);
        SPARKX_UNROLL
        for (int p = 0; p < P; ++p) s[p][t] = dot2(s[p][t], pairs[p], activation);
      }
    }
    SPARKX_UNROLL
    for (int p = 0; p < P; ++p) {
      SPARKX_UNROLL
      for (int t = 0; t < T; ++t) total[p][t] = s[p][t];
    }
  }
};

}  // namespace
}  // namespace sparkx::kernels
