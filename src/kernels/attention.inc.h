// Rules 9 and 10 of docs/numerics.md: attention over one span of 512 positions, and how spans are put together.
//
//   scores   keys are lanes:      K panel  [channel][16 keys]  ·  q[row][channel]  ->  16 scores of a row
//   output   channels are lanes:  V        [key][16 channels]  ·  p[row][key]      ->  16 channels of a row
//
// Rows that share a KV head share every load: a register tile of scores is P panels by R rows, one of the output R rows
// by C vectors of channels. A masked key is never computed with: scores are selected away, and the sum over values runs
// over visible keys only, since a stale slot of the cache may hold a NaN.
//
// int8 multiplies codes by codes. D = sum of q * k is exact; keys are stored as unsigned bytes k + 128, as the byte
// products of all instruction sets want them, and what that adds, 128 * sum of q, is taken off before the first
// product:
//
//   K panel  [16 scales][channel / 4][16 keys][4] [16 scales] …       one group of 64 channels after the other
//   q        [row][channel] codes; of each group the scale and -128 * sum of the codes
#pragma once

#include "kernels/cache_block.inc.h"
#include "kernels/cache_layout.inc.h"
#include "kernels/coded_dot.inc.h"
#include "kernels/codes.inc.h"
#include "kernels/elementwise.inc.h"
#include "kernels/kernels.h"
#include "kernels/lanes.inc.h"

namespace sparkx::kernels {
namespace {

// A register tile of scores: its rows and its accumulators.
template <KvKind kind>
constexpr int kScoreRows = kind == KvKind::int8 ? kCodeTokens : kTokenTile;
template <KvKind kind>
constexpr int kScoreVectors = kind == KvKind::int8 ? kCodeVectors : kTileVectors;

// The queries of some rows as codes (rule 10).
struct QueryCodes {
  int groups;
  std::int8_t* codes;         // [row][groups * 64], zero behind the channels
  float* scales;              // [row][groups]
  std::int32_t* corrections;  // [row][groups]: -kKeyCodeOffset * sum of the codes

  const std::int8_t* row_codes(int row) const { return codes + row * groups * kKvGroup; }
};

// The scratch of attention_span.
struct Workspace {
  float* scores;  // [row][kSpanPositions]
  QueryCodes queries;
};

inline Workspace workspace(float* scratch, int rows, int head_dim) {
  const int groups = kv_groups(head_dim);
  const int rows_at_once = rows < kAttentionRows ? rows : kAttentionRows;
  float* scales = scratch + rows_at_once * kSpanPositions;
  float* corrections = scales + rows_at_once * groups;
  float* codes = corrections + rows_at_once * groups;
  return {scratch,
          {groups, reinterpret_cast<std::int8_t*>(codes), scales, reinterpret_cast<std::int32_t*>(corrections)}};
}

void code_queries(const AttentionSpan& args, int row, int rows, const QueryCodes& out) {
  for (int r = 0; r < rows; ++r) {
    const float* query = args.queries + (row + r) * args.query_stride;
    each_coded_group(query, args.head_dim, [&](int group, int, const std::int8_t* codes, float scale) {
      std::int8_t* to = out.codes + (r * out.groups + group) * kKvGroup;
      std::int32_t sum = 0;
      for (int c = 0; c < kKvGroup; ++c) {
        to[c] = codes[c];
        sum += codes[c];
      }
      out.scales[r * out.groups + group] = scale;
      out.corrections[r * out.groups + group] = -kKeyCodeOffset * sum;
    });
  }
}

// Calls body(Count<rows>()) for `rows` of at most R: the number of rows as a constant.
template <int N>
struct Count {
  static constexpr int value = N;
};
template <int R, class Body>
inline void with_constant(int rows, Body body) {
  if constexpr (R > 1) {
    if (rows < R) return with_constant<R - 1>(rows, body);
  }
  body(Count<R>());
}
// Calls body(first row, Count<rows>()) for tiles of at most R rows and about one size.
template <int R, class Body>
inline void each_row_tile(int rows, Body body) {
  const int tiles = (rows + R - 1) / R;
  for (int tile = 0; tile < tiles; ++tile) {
    const int begin = rows * tile / tiles, end = rows * (tile + 1) / tiles;
    with_constant<R>(end - begin, [&](auto count) { body(begin, count); });
  }
}

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

// Memory that is wanted soon after a block of keys, as far from these pointers as the keys in work are from the block's
// first one: a token that is decoded meets every line of the cache for the first time.
struct Ahead {
  const std::byte* values;     // of the same block
  const std::byte* next_keys;  // of the block behind it, or of this one when nobody wants that

  void fetch(std::size_t offset) const {
    __builtin_prefetch(values + offset, 0, 2);  // into the second-level cache: it holds a span, the first one does not
    __builtin_prefetch(next_keys + offset, 0, 2);
  }
};

// 64 bytes of a key panel.
template <KvKind kind>
struct KeyStep;
template <>
struct KeyStep<KvKind::float32> {
  static constexpr int kChannels = 1;
  F32x16 channel[1];
  explicit KeyStep(const std::byte* p) : channel{load(reinterpret_cast<const float*>(p))} {}
};
template <>
struct KeyStep<KvKind::bfloat16> {
  static constexpr int kChannels = 2;
  F32x16 channel[2];
  explicit KeyStep(const std::byte* p) {
    const Pairs pairs = load_bfloat16_pairs(p);
    channel[0] = pairs.first;
    channel[1] = pairs.second;
  }
};

// Chains of rule 9 for R rows of queries and P key panels, which begin `offset` bytes behind their block.
template <KvKind kind, int P, int R>
inline void float_chains(const std::byte* block, std::size_t offset, std::size_t panel_bytes, const Ahead& ahead,
                         const float* queries, std::int64_t query_stride, int head_dim, F32x16 (&scores)[P][R]) {
  constexpr int kChannels = KeyStep<kind>::kChannels;
  F32x16 s[P][R];
  SPARKX_UNROLL
  for (int p = 0; p < P; ++p) {
    SPARKX_UNROLL
    for (int r = 0; r < R; ++r) s[p][r] = splat<F32x16>(0.0f);
  }
  for (int c = 0; c < head_dim; c += kChannels, offset += kLanes * sizeof(float)) {
    F32x16 key[P][kChannels];
    SPARKX_UNROLL
    for (int p = 0; p < P; ++p) {
      ahead.fetch(offset + p * panel_bytes);
      const KeyStep<kind> step(block + offset + p * panel_bytes);
      SPARKX_UNROLL
      for (int i = 0; i < kChannels; ++i) key[p][i] = step.channel[i];
    }
    SPARKX_UNROLL
    for (int i = 0; i < kChannels; ++i) {
      SPARKX_UNROLL
      for (int r = 0; r < R; ++r) {
        const F32x16 query = splat<F32x16>(queries[r * query_stride + c + i]);
        SPARKX_UNROLL
        for (int p = 0; p < P; ++p) s[p][r] = fma(query, key[p][i], s[p][r]);
      }
    }
  }
  SPARKX_UNROLL
  for (int p = 0; p < P; ++p) {
    SPARKX_UNROLL
    for (int r = 0; r < R; ++r) scores[p][r] = s[p][r];
  }
}

// Chains of rule 10 for R rows of codes and P key panels, which begin `offset` bytes behind their block.
template <int P, int R>
inline void coded_chains(const std::byte* block, std::size_t offset, std::size_t panel_bytes, const Ahead& ahead,
                         const QueryCodes& queries, int row, int head_dim, F32x16 (&scores)[P][R]) {
  F32x16 s[P][R];
  SPARKX_UNROLL
  for (int p = 0; p < P; ++p) {
    SPARKX_UNROLL
    for (int r = 0; r < R; ++r) s[p][r] = splat<F32x16>(0.0f);
  }
  const int code_stride = queries.groups * kKvGroup;
  const std::int8_t* codes = queries.row_codes(row);
  for (int group = 0; group < queries.groups; ++group, offset += kKeyGroupBytes, codes += kKvGroup) {
    const std::byte* keys = block + offset;
    SPARKX_UNROLL
    for (int p = 0; p < P; ++p) ahead.fetch(offset + p * panel_bytes);
    const float* scales = queries.scales + row * queries.groups + group;
    const std::int32_t* corrections = queries.corrections + row * queries.groups + group;
    I32x16 d[P][R];
    SPARKX_UNROLL
    for (int p = 0; p < P; ++p) {
      SPARKX_UNROLL
      for (int r = 0; r < R; ++r) d[p][r] = splat<I32x16>(corrections[r * queries.groups]);
    }
    const int channels = head_dim - group * kKvGroup < kKvGroup ? head_dim - group * kKvGroup : kKvGroup;
    std::size_t step = offset + kLanes * sizeof(float);
    for (int c = 0; c < channels; c += kStretchColumns, step += kLanes * kStretchColumns) {
      SPARKX_UNROLL
      for (int p = 0; p < P; ++p) {
        for (int line = 0; line < kLanes * kStretchColumns; line += 64) ahead.fetch(step + p * panel_bytes + line);
      }
      byte_stretch<P, R>(block + step, panel_bytes, codes + c, code_stride, d);
    }
    SPARKX_UNROLL
    for (int p = 0; p < P; ++p) {
      const F32x16 key_scale = load(reinterpret_cast<const float*>(keys + p * panel_bytes));
      SPARKX_UNROLL
      for (int r = 0; r < R; ++r) {
        s[p][r] = fma(key_scale, splat<F32x16>(scales[r * queries.groups]) * to_float(d[p][r]), s[p][r]);
      }
    }
  }
  SPARKX_UNROLL
  for (int p = 0; p < P; ++p) {
    SPARKX_UNROLL
    for (int r = 0; r < R; ++r) scores[p][r] = s[p][r];
  }
}

// Scaled scores of R rows, from `row` + `tile` on, for P key panels of one block: scores[tile + r][position].
template <KvKind kind, int P, int R>
__attribute__((noinline)) void score_panels(const AttentionSpan& args, int row, int tile, int panel,
                                            const Workspace& work) {
  const std::size_t panel_bytes = key_panel_bytes(kind, args.head_dim);
  const int block = panel / kBlockPanels;
  const std::size_t offset = panel % kBlockPanels * panel_bytes;
  const bool more = block + 1 < kSpanBlocks && args.keys[block + 1] != nullptr;
  const Ahead ahead{args.values[block], args.keys[block + more]};
  F32x16 s[P][R];
  if constexpr (kind == KvKind::int8) {
    coded_chains<P, R>(args.keys[block], offset, panel_bytes, ahead, work.queries, tile, args.head_dim, s);
  } else {
    float_chains<kind, P, R>(args.keys[block], offset, panel_bytes, ahead,
                             args.queries + (row + tile) * args.query_stride, args.query_stride, args.head_dim, s);
  }
  const F32x16 scale = splat<F32x16>(args.scale);
  float* scores = work.scores + tile * kSpanPositions + panel * kLanes;
  for (int p = 0; p < P; ++p) {
    for (int r = 0; r < R; ++r) store(scores + r * kSpanPositions + p * kLanes, s[p][r] * scale);
  }
}

// The key panels that one of the R rows sees.
template <KvKind kind, int R>
void score_tile(const AttentionSpan& args, int row, int tile, const Workspace& work) {
  constexpr int P = tile_panels(R, kScoreVectors<kind>);
  const Visible seen = visible_keys(args, row + tile, R);
  for (int block = seen.any_begin / kBlockPositions; block * kBlockPositions < seen.any_end; ++block) {
    if (args.keys[block] == nullptr) continue;  // between what two rows see
    int panel = block * kBlockPanels;
    int panel_end = panel + kBlockPanels;
    if (panel < seen.any_begin / kLanes) panel = seen.any_begin / kLanes;
    if (panel_end > (seen.any_end + kLanes - 1) / kLanes) panel_end = (seen.any_end + kLanes - 1) / kLanes;
    for (; panel + P <= panel_end; panel += P) score_panels<kind, P, R>(args, row, tile, panel, work);
    for (; panel < panel_end; ++panel) score_panels<kind, 1, R>(args, row, tile, panel, work);
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

// A tile of a few rows fetches keys of the next span while it sums values. One of many rows multiplies longer than it
// reads.
constexpr int kFetchingRows = 4;
template <int R>
inline void fetch_next(const std::byte* p, std::size_t bytes) {
  if constexpr (R <= kFetchingRows) {
    for (std::size_t line = 0; line < bytes; line += 64) __builtin_prefetch(p + line, 0, 2);
  }
}

// One vector of channels of V; `count` of them exist.
template <KvKind kind>
inline F32x16 load_values(const std::byte* p, int count) {
  if constexpr (kind == KvKind::float32) {
    return load_lanes(reinterpret_cast<const float*>(p), count);
  } else if constexpr (kind == KvKind::bfloat16) {
    return count == kLanes ? load_bfloat16(p) : load_bfloat16_first(p, count);
  } else {
    return load_int8(p);
  }
}

// Carries on the chains over keys [begin, end) of a block and fetches as much of `next_keys`: R rows, C vectors of
// channels of which the last has `last_count` channels. weights: [R][weight_stride], from the block's first key on.
template <KvKind kind, int R, int C>
__attribute__((noinline)) void value_chains(const std::byte* values, const std::byte* next_keys, int head_dim,
                                            const float* weights, int weight_stride, int begin, int end, int last_count,
                                            float* output, std::int64_t output_stride) {
  F32x16 o[R][C];
  SPARKX_UNROLL
  for (int r = 0; r < R; ++r) {
    SPARKX_UNROLL
    for (int c = 0; c < C; ++c) o[r][c] = load(output + r * output_stride + c * kLanes);
  }
  for (int key = begin; key < end; ++key) {
    const std::byte* row = values + static_cast<std::size_t>(key) * value_bytes(kind, head_dim);
    fetch_next<R>(next_keys + (row - values), C * kLanes * element_bytes(kind));
    SPARKX_UNROLL
    for (int c = 0; c < C; ++c) {
      const F32x16 v = load_values<kind>(row + c * kLanes * element_bytes(kind), c + 1 < C ? kLanes : last_count);
      SPARKX_UNROLL
      for (int r = 0; r < R; ++r) o[r][c] = fma(splat<F32x16>(weights[r * weight_stride + key]), v, o[r][c]);
    }
  }
  SPARKX_UNROLL
  for (int r = 0; r < R; ++r) {
    SPARKX_UNROLL
    for (int c = 0; c < C; ++c) store(output + r * output_stride + c * kLanes, o[r][c]);
  }
}

// Rule 10: scaled[r][key] = p[r][key] · s_v of the key, for keys [begin, end) of a block and their vectors.
template <int R>
inline void scale_weights(const float* p, const float* value_scales, int begin, int end, float* scaled) {
  for (int key = begin / kLanes * kLanes; key < end; key += kLanes) {
    const F32x16 scale = load(value_scales + key);
    for (int r = 0; r < R; ++r) store(scaled + r * kBlockPositions + key, load(p + r * kSpanPositions + key) * scale);
  }
}

// The keys [begin, end) of a block for R rows and all channels. p: [R][kSpanPositions], from the block's first key on.
template <KvKind kind, int R>
void sum_values(const std::byte* values, const std::byte* next_keys, int head_dim, const float* p, int begin, int end,
                float* output, std::int64_t output_stride) {
  constexpr int kWide = kChannelVectors * kLanes;
  static_assert(kKvGroup % kWide == 0);  // one scale for each row and key
  float scaled[kind == KvKind::int8 ? R * kBlockPositions : 1];
  const float* weights = kind == KvKind::int8 ? scaled : p;
  constexpr int kWeightStride = kind == KvKind::int8 ? kBlockPositions : kSpanPositions;
  for (int channel = 0; channel < head_dim;) {
    if constexpr (kind == KvKind::int8) {
      if (channel % kKvGroup == 0) {
        const std::size_t scales = value_scales_offset(head_dim) + channel / kKvGroup * kValueScaleBytes;
        fetch_next<R>(next_keys + scales, kValueScaleBytes);
        scale_weights<R>(p, reinterpret_cast<const float*>(values + scales), begin, end, scaled);
      }
    }
    const std::size_t offset = channel * element_bytes(kind);
    if (channel + kWide <= head_dim) {
      value_chains<kind, R, kChannelVectors>(values + offset, next_keys + offset, head_dim, weights, kWeightStride,
                                             begin, end, kLanes, output + channel, output_stride);
      channel += kWide;
    } else {
      const int count = head_dim - channel < kLanes ? head_dim - channel : kLanes;
      value_chains<kind, R, 1>(values + offset, next_keys + offset, head_dim, weights, kWeightStride, begin, end, count,
                               output + channel, output_stride);
      channel += kLanes;
    }
  }
}

// What to fetch while the values of a block are summed: keys of the next span, or what is there already.
inline const std::byte* keys_to_fetch(const AttentionSpan& args, int block) {
  return args.next_keys[block] != nullptr ? args.next_keys[block] : args.values[block];
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
    sum_values<kind, 1>(args.values[block], keys_to_fetch(args, block), args.head_dim, p + r * kSpanPositions + start,
                        begin - start, end - start, output + r * output_stride, output_stride);
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
    sum_values<kind, R>(args.values[block], keys_to_fetch(args, block), args.head_dim, p + start, common_begin - start,
                        common_end - start, output, output_stride);
    for (int r = 0; r < R; ++r) sum_own(block, r, common_end, stop);
  }
}

template <KvKind kind>
void attention_rows(const AttentionSpan& args, int row, int rows, const AttentionState& span, const Workspace& work) {
  if constexpr (kind == KvKind::int8) code_queries(args, row, rows, work.queries);
  each_row_tile<kScoreRows<kind>>(rows,
                                  [&](int tile, auto count) { score_tile<kind, count.value>(args, row, tile, work); });
  for (int r = 0; r < rows; ++r) {
    const int first = args.first_visible[row + r], end = args.end_visible[row + r];
    if (first >= end) {
      span.max[row + r] = -__builtin_inff();
      continue;
    }
    softmax_row(work.scores + r * kSpanPositions, first, end, &span.max[row + r], &span.sum[row + r]);
    float* output = span.output + (row + r) * span.output_stride;
    for (int c = 0; c < args.head_dim; c += kLanes) store(output + c, splat<F32x16>(0.0f));
  }
  each_row_tile<kValueRows>(rows, [&](int tile, auto count) {
    output_tile<kind, count.value>(args, row + tile, work.scores + tile * kSpanPositions,
                                   span.output + (row + tile) * span.output_stride, span.output_stride);
  });
}

void attention_span(const AttentionSpan& args, const AttentionState& span, float* scratch) {
  const Workspace work = workspace(scratch, args.rows, args.head_dim);
  for (int row = 0; row < args.rows; row += kAttentionRows) {
    const int rows = args.rows - row < kAttentionRows ? args.rows - row : kAttentionRows;
    switch (args.kind) {
      case KvKind::float32:
        attention_rows<KvKind::float32>(args, row, rows, span, work);
        break;
      case KvKind::bfloat16:
        attention_rows<KvKind::bfloat16>(args, row, rows, span, work);
        break;
      case KvKind::int8:
        attention_rows<KvKind::int8>(args, row, rows, span, work);
        break;
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
