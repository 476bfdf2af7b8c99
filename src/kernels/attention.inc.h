// Rule 9 of docs/numerics.md: attention over one span of 512 positions, and how spans are put together.
//
//   scores   keys are lanes:      K panel  [channel][16 keys]  ·  q[row][channel]  ->  16 scores of a row
//   output   channels are lanes:  V        [key][16 channels]  ·  p[row][key]      ->  16 channels of a row
//
// Rows that share a KV head share every load. A masked key is never computed with: scores are selected away, and the
// sum over values runs over visible keys only, since a stale slot of the cache may hold a NaN.
#pragma once

#include "kernels/dot.inc.h"
#include "kernels/elementwise.inc.h"
#include "kernels/kernels.h"
#include "kernels/lanes.inc.h"

namespace sparkx::kernels {
namespace {

constexpr int kBlockPanels = kBlockPositions / kLanes;

// The cache kind as the kind of weight that a key panel is packed like.
template <KvKind kind>
constexpr WeightKind kKeyPanel = kind == KvKind::float32 ? WeightKind::float32 : WeightKind::bfloat16;

template <KvKind kind>
constexpr std::size_t kElementBytes = kind == KvKind::float32 ? 4 : 2;

// What rows [row, row + count) see of the span, together and in common.
struct Visible {
  int any_begin, any_end;        // every key that some row sees
  int common_begin, common_end;  // the keys that all rows see; begin >= end: none
};

inline Visible visible_keys(const AttentionSpan& args, int row, int count) {
  Visible v{kSpanPositions, 0, 0, kSpanPositions};
  for (int r = row; r < row + count; ++r) {
    const int first = args.first_visible[r], end = args.end_visible[r];
    if (first < end) {
      if (first < v.any_begin) v.any_begin = first;
      if (end > v.any_end) v.any_end = end;
    }
    if (first > v.common_begin) v.common_begin = first;
    if (end < v.common_end) v.common_end = end;
  }
  return v;
}

// Scaled scores of R rows for the key panels of one block that one of them sees, into scores[row][position].
template <KvKind kind, int P, int R>
inline void score_panels(const AttentionSpan& args, int row, int panel, float* scores) {
  const std::size_t panel_bytes = kLanes * kElementBytes<kind> * args.head_dim;
  const std::byte* keys = args.keys[panel / kBlockPanels] + panel % kBlockPanels * panel_bytes;
  F32x16 s[P][R];
  panel_chains<kKeyPanel<kind>, P, R>(keys, panel_bytes, {}, args.queries + row * args.query_stride, args.query_stride,
                                      args.head_dim, s);
  const F32x16 scale = splat<F32x16>(args.scale);
  for (int p = 0; p < P; ++p) {
    for (int r = 0; r < R; ++r) store(scores + r * kSpanPositions + (panel + p) * kLanes, s[p][r] * scale);
  }
}

template <KvKind kind, int R>
void score_tile(const AttentionSpan& args, int row, float* scores) {
  constexpr int P = tile_panels(R, kTileVectors);
  const Visible seen = visible_keys(args, row, R);
  for (int block = seen.any_begin / kBlockPositions; block * kBlockPositions < seen.any_end; ++block) {
    if (args.keys[block] == nullptr) continue;  // between what two rows see
    int panel = block * kBlockPanels;
    int panel_end = panel + kBlockPanels;
    if (panel < seen.any_begin / kLanes) panel = seen.any_begin / kLanes;
    if (panel_end > (seen.any_end + kLanes - 1) / kLanes) panel_end = (seen.any_end + kLanes - 1) / kLanes;
    for (; panel + P <= panel_end; panel += P) score_panels<kind, P, R>(args, row, panel, scores);
    for (; panel < panel_end; ++panel) score_panels<kind, 1, R>(args, row, panel, scores);
  }
}

// Turns one row of scores into p = exp(s - m) in place, m and l: masked keys get a score of -inf, which leaves both
// alone.
inline void softmax_row(float* scores, int first, int end, float* max_out, float* sum_out) {
  const float infinity = __builtin_inff();
  const int panel_begin = first / kLanes, panel_end = (end + kLanes - 1) / kLanes;
  F32x16 m = splat<F32x16>(-infinity);
  for (int panel = panel_begin; panel < panel_end; ++panel) {
    const I32x16 position = lane_numbers() + splat<I32x16>(panel * kLanes);
    const Mask16 visible = less(splat<I32x16>(first - 1), position) & less(position, splat<I32x16>(end));
    const F32x16 s = select(visible, load(scores + panel * kLanes), splat<F32x16>(-infinity));
    store(scores + panel * kLanes, s);
    m = max(m, s);
  }
  *max_out = tree_max(m);
  const F32x16 maximum = splat<F32x16>(*max_out);
  F32x16 l = splat<F32x16>(0.0f);
  for (int panel = panel_begin; panel < panel_end; ++panel) {
    const F32x16 p = exp_lanes(load(scores + panel * kLanes) - maximum);
    store(scores + panel * kLanes, p);
    l = l + p;
  }
  *sum_out = tree_sum(l);
}

// One vector of channels of V; `count` of them exist.
template <KvKind kind>
inline F32x16 load_values(const std::byte* p, int count) {
  if constexpr (kind == KvKind::float32) {
    return load_lanes(reinterpret_cast<const float*>(p), count);
  } else {
    return count == kLanes ? load_bfloat16(p) : load_bfloat16_first(p, count);
  }
}

// Carries on the chains over keys [begin, end) of a block: R rows, C vectors of channels of which the last has
// `last_count` channels. p: [R][kSpanPositions], from the block's first key on.
template <KvKind kind, int R, int C>
inline void value_chains(const std::byte* values, int head_dim, const float* p, int begin, int end, int last_count,
                         float* output, std::int64_t output_stride) {
  F32x16 o[R][C];
  SPARKX_UNROLL
  for (int r = 0; r < R; ++r) {
    SPARKX_UNROLL
    for (int c = 0; c < C; ++c) o[r][c] = load(output + r * output_stride + c * kLanes);
  }
  for (int key = begin; key < end; ++key) {
    const std::byte* row = values + static_cast<std::size_t>(key) * head_dim * kElementBytes<kind>;
    SPARKX_UNROLL
    for (int c = 0; c < C; ++c) {
      const F32x16 v = load_values<kind>(row + c * kLanes * kElementBytes<kind>, c + 1 < C ? kLanes : last_count);
      SPARKX_UNROLL
      for (int r = 0; r < R; ++r) o[r][c] = fma(splat<F32x16>(p[r * kSpanPositions + key]), v, o[r][c]);
    }
  }
  SPARKX_UNROLL
  for (int r = 0; r < R; ++r) {
    SPARKX_UNROLL
    for (int c = 0; c < C; ++c) store(output + r * output_stride + c * kLanes, o[r][c]);
  }
}

// The keys [begin, end) of a block for R rows and all channels.
template <KvKind kind, int R>
void sum_values(const std::byte* values, int head_dim, const float* p, int begin, int end, float* output,
                std::int64_t output_stride) {
  constexpr int kWide = kChannelVectors * kLanes;
  int channel = 0;
  for (; channel + kWide <= head_dim; channel += kWide) {
    value_chains<kind, R, kChannelVectors>(values + channel * kElementBytes<kind>, head_dim, p, begin, end, kLanes,
                                           output + channel, output_stride);
  }
  for (; channel < head_dim; channel += kLanes) {
    const int count = head_dim - channel < kLanes ? head_dim - channel : kLanes;
    value_chains<kind, R, 1>(values + channel * kElementBytes<kind>, head_dim, p, begin, end, count, output + channel,
                             output_stride);
  }
}

// The output of R rows, block by block. Keys that all rows see are summed together; before and behind them each row
// goes alone, so that every chain runs in key order over the row's own keys.
template <KvKind kind, int R>
void output_tile(const AttentionSpan& args, int row, const float* p, float* output, std::int64_t output_stride) {
  const Visible seen = visible_keys(args, row, R);
  const auto sum_own = [&](int block, int r, int begin, int end) {
    const int start = block * kBlockPositions;
    if (begin < args.first_visible[row + r]) begin = args.first_visible[row + r];
    if (end > args.end_visible[row + r]) end = args.end_visible[row + r];
    if (begin >= end) return;
    sum_values<kind, 1>(args.values[block], args.head_dim, p + r * kSpanPositions + start, begin - start, end - start,
                        output + r * output_stride, output_stride);
  };
  for (int block = seen.any_begin / kBlockPositions; block * kBlockPositions < seen.any_end; ++block) {
    const int start = block * kBlockPositions, stop = start + kBlockPositions;
    const int common_begin = seen.common_begin > start ? seen.common_begin : start;
    const int common_end = seen.common_end < stop ? seen.common_end : stop;
    if (R == 1 || common_begin >= common_end) {
      for (int r = 0; r < R; ++r) sum_own(block, r, start, stop);
      continue;
    }
    for (int r = 0; r < R; ++r) sum_own(block, r, start, common_begin);
    sum_values<kind, R>(args.values[block], args.head_dim, p + start, common_begin - start, common_end - start, output,
                        output_stride);
    for (int r = 0; r < R; ++r) sum_own(block, r, common_end, stop);
  }
}

// The tile of `rows` rows, at most R.
template <KvKind kind, int R>
inline void score_some_rows(const AttentionSpan& args, int row, int rows, float* scores) {
  if constexpr (R > 1) {
    if (rows < R) return score_some_rows<kind, R - 1>(args, row, rows, scores);
  }
  score_tile<kind, R>(args, row, scores);
}
template <KvKind kind, int R>
inline void output_some_rows(const AttentionSpan& args, int row, int rows, const float* p, float* output,
                             std::int64_t output_stride) {
  if constexpr (R > 1) {
    if (rows < R) return output_some_rows<kind, R - 1>(args, row, rows, p, output, output_stride);
  }
  output_tile<kind, R>(args, row, p, output, output_stride);
}

template <KvKind kind>
void attention_rows(const AttentionSpan& args, int row, int rows, const AttentionState& span, float* scores) {
  for (int r = 0; r < rows; r += kTokenTile) {
    const int tile = rows - r < kTokenTile ? rows - r : kTokenTile;
    score_some_rows<kind, kTokenTile>(args, row + r, tile, scores + r * kSpanPositions);
  }
  for (int r = 0; r < rows; ++r) {
    const int first = args.first_visible[row + r], end = args.end_visible[row + r];
    if (first >= end) {
      span.max[row + r] = -__builtin_inff();
      continue;
    }
    softmax_row(scores + r * kSpanPositions, first, end, &span.max[row + r], &span.sum[row + r]);
    float* output = span.output + (row + r) * span.output_stride;
    for (int c = 0; c < args.head_dim; c += kLanes) store(output + c, splat<F32x16>(0.0f));
  }
  for (int r = 0; r < rows; r += kValueRows) {
    const int tile = rows - r < kValueRows ? rows - r : kValueRows;
    output_some_rows<kind, kValueRows>(args, row + r, tile, scores + r * kSpanPositions,
                                       span.output + (row + r) * span.output_stride, span.output_stride);
  }
}

void attention_span(const AttentionSpan& args, const AttentionState& span, float* scratch) {
  for (int row = 0; row < args.rows; row += kAttentionRows) {
    const int rows = args.rows - row < kAttentionRows ? args.rows - row : kAttentionRows;
    if (args.kind == KvKind::float32) {
      attention_rows<KvKind::float32>(args, row, rows, span, scratch);
    } else {
      attention_rows<KvKind::bfloat16>(args, row, rows, span, scratch);
    }
  }
}

void attention_merge(const AttentionState& state, const AttentionState& span, int rows, int head_dim) {
  for (int r = 0; r < rows; ++r) {
    if (span.max[r] == -__builtin_inff()) continue;
    float* total = state.output + r * state.output_stride;
    const float* part = span.output + r * span.output_stride;
    if (state.max[r] == -__builtin_inff()) {
      state.max[r] = span.max[r];
      state.sum[r] = span.sum[r];
      for (int c = 0; c < head_dim; c += kLanes) store(total + c, load(part + c));
      continue;
    }
    const F32x16 old_max = splat<F32x16>(state.max[r]), new_max = splat<F32x16>(span.max[r]);
    const F32x16 maximum = max(old_max, new_max);
    const F32x16 alpha = exp_lanes(old_max - maximum);
    const F32x16 beta = exp_lanes(new_max - maximum);
    store_first(state.max + r, maximum, 1);
    store_first(state.sum + r, fma(splat<F32x16>(state.sum[r]), alpha, splat<F32x16>(span.sum[r]) * beta), 1);
    for (int c = 0; c < head_dim; c += kLanes) store(total + c, fma(load(total + c), alpha, load(part + c) * beta));
  }
}

void attention_finish(const AttentionState& state, int rows, int head_dim, const float* gate, std::int64_t gate_stride,
                      float* out, std::int64_t out_stride) {
  for (int r = 0; r < rows; ++r) {
    const F32x16 sum = splat<F32x16>(state.sum[r]);
    const F32x16 g = sigmoid_lanes(splat<F32x16>(gate[r * gate_stride]));
    const float* output = state.output + r * state.output_stride;
    each_vector(head_dim, [&](std::int64_t c, int count) {
      store_lanes(out + r * out_stride + c, (load(output + c) / sum) * g, count);
    });
  }
}

}  // namespace
}  // namespace sparkx::kernels
