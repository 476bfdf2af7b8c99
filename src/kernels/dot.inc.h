// Rule 1 of docs/numerics.md: weights times activations as floats, for every kind of weight.
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
#include "kernels/kernels.h"
#include "kernels/lanes.inc.h"
#include "kernels/tiles.inc.h"

namespace sparkx::kernels {
namespace {

// How codes are decoded.
enum class CodeForm { none, biased, zeroed };

// The weights of one step: kColumns columns in 64 bytes of a panel.
template <WeightKind kind, CodeForm form>
struct CodeStep;
template <WeightKind kind, CodeForm form = CodeForm::none>
struct Step : CodeStep<kind, form> {};

template <>
struct Step<WeightKind::float32> {
  static constexpr int kColumns = 1;
  F32x16 column[1];
  void read(const std::byte* block, std::int64_t k, const CodeLayout&) {
    column[0] = load(reinterpret_cast<const float*>(block + k * 64));
  }
};

template <>
struct Step<WeightKind::bfloat16> {
  static constexpr int kColumns = 2;
  F32x16 column[2];
  void read(const std::byte* block, std::int64_t k, const CodeLayout&) {
    const Pairs pairs = load_bfloat16_pairs(block + k / 2 * 64);
    column[0] = pairs.first;
    column[1] = pairs.second;
  }
};

template <>
struct Step<WeightKind::float16> {
  static constexpr int kColumns = 2;
  F32x16 column[2];
  void read(const std::byte* block, std::int64_t k, const CodeLayout&) {
    const Pairs pairs = load_float16_pairs(block + k / 2 * 64);
    column[0] = pairs.first;
    column[1] = pairs.second;
  }
};

// Rule 4: codes are decoded on the way. Steps must be read in order, since the first one of a group reads its scales.
template <WeightKind kind, CodeForm form>
struct CodeStep {
  static constexpr int kColumns = kStepColumns<kind>;
  F32x16 column[kColumns];
  F32x16 scale{}, second{};
  void read(const std::byte* block, std::int64_t k, const CodeLayout& layout) {
    const std::byte* group = block + (k >> layout.shift) * layout.group_bytes;
    const std::int64_t in_group = k & (layout.group - 1);
    if (in_group == 0) {
      scale = load_group_scales(group, layout);
      second = form == CodeForm::biased ? load_group_biases(group, layout) : load_group_zeros(group, layout);
    }
    decode_codes<kind>(group + layout.codes_offset, in_group, column);
    SPARKX_UNROLL
    for (int c = 0; c < kColumns; ++c) {
      column[c] = form == CodeForm::biased ? fma(scale, column[c], second) : scale * (column[c] - second);
    }
  }
};

// sums[p][t] = the chains of `columns` columns of panel p and token t, from +0. Panels are `panel_stride` bytes apart,
// tokens `token_stride` floats. Nothing behind the last column is multiplied, not even zeros: that could turn -0 to +0.
template <WeightKind kind, int P, int T, CodeForm form = CodeForm::none>
void panel_chains(const std::byte* panel, std::size_t panel_stride, const CodeLayout& layout, const float* x,
                  std::int64_t token_stride, std::int64_t columns, F32x16 (&sums)[P][T]) {
  constexpr int kColumns = Step<kind, form>::kColumns;
  F32x16 s[P][T];
  SPARKX_UNROLL
  for (int p = 0; p < P; ++p) {
    SPARKX_UNROLL
    for (int t = 0; t < T; ++t) s[p][t] = splat<F32x16>(0.0f);
  }
  Step<kind, form> weights[P];
  const auto step = [&](std::int64_t k, int columns_here) __attribute__((always_inline)) {
    SPARKX_UNROLL
    for (int p = 0; p < P; ++p) {
      // The panels that come next; tiles of few tokens read too fast to gain.
      if constexpr (is_dense(kind) && P * T > 4) {
        __builtin_prefetch(panel + (P + p) * panel_stride + k / kColumns * 64, 0, 2);
      }
      weights[p].read(panel + p * panel_stride, k, layout);
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
  } else if constexpr (kColumns > 2) {
    if (whole < columns) step(whole, static_cast<int>(columns - whole));
  }
  SPARKX_UNROLL
  for (int p = 0; p < P; ++p) {
    SPARKX_UNROLL
    for (int t = 0; t < T; ++t) sums[p][t] = s[p][t];
  }
}

template <WeightKind kind, CodeForm form>
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
    const CodeLayout layout = code_layout<kind>(w.format, k);
    panel_chains<kind, P, T, form>(w.panels + panel * w.panel_bytes + layout.block_offset, w.panel_bytes, layout,
                                   x.values + token * x.stride + k, x.stride, columns, sums);
  }
};

template <WeightKind kind>
void dot(const PanelMatrix& w, std::int64_t panel_begin, std::int64_t panel_end, const Activations& x,
         std::int64_t token_begin, std::int64_t token_end, float* out, std::int64_t out_stride) {
  const auto tiles = [&]<CodeForm form>() {
    dot_tiles<FloatTile<kind, form>>(w, panel_begin, panel_end, x, token_begin, token_end, out, out_stride);
  };
  if constexpr (is_dense(kind)) {
    tiles.template operator()<CodeForm::none>();
  } else if (w.format.scheme == CodeScheme::affine) {
    tiles.template operator()<CodeForm::biased>();
  } else {
    tiles.template operator()<CodeForm::zeroed>();
  }
}

// Lane `lane` in all lanes.
inline F32x16 one_lane(F32x16 a, std::int64_t lane) {
  float lanes[kLanes];
  store(lanes, a);
  return splat<F32x16>(lanes[lane]);
}

// One row of a matrix as floats: lane row % 16 of its panel.
template <WeightKind kind>
void decode_row(const PanelMatrix& w, std::int64_t row, float* out) {
  const std::byte* panel = w.panels + row / kLanes * w.panel_bytes;
  const std::int64_t lane = row % kLanes;
  if constexpr (!is_dense(kind)) {
    for (std::int64_t k = 0; k < w.columns; k += kLanes) {
      const std::int64_t in_block = k % kBlockColumns;
      const CodeLayout layout = code_layout<kind>(w.format, k - in_block);
      const std::byte* group = panel + layout.block_offset + (in_block >> layout.shift) * layout.group_bytes;
      const std::int64_t in_group = in_block & (layout.group - 1);
      float codes[kLanes];
      for (int i = 0; i < kLanes; ++i) codes[i] = code_of<kind>(group + layout.codes_offset, in_group + i, lane);
      const F32x16 scale = one_lane(load_group_scales(group, layout), lane);
      F32x16 values = load(codes);
      if (layout.scheme == CodeScheme::affine) {
        values = fma(scale, values, one_lane(load_group_biases(group, layout), lane));
      } else {
        values = scale * (values - one_lane(load_group_zeros(group, layout), lane));
      }
      store_lanes(out + k, values, w.columns - k < kLanes ? static_cast<int>(w.columns - k) : kLanes);
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
