#include "model/attention.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace sparkx {

using kernels::AttentionSpan;
using kernels::AttentionState;
using kernels::kBlockPositions;
using kernels::kLanes;
using kernels::kSpanBlocks;
using kernels::kSpanPositions;

namespace {

constexpr std::int64_t kTileRows = 64;    // (token, query head) pairs that share a walk: their results stay in L2
constexpr std::int64_t kWaveRows = 4096;  // rows of partial results that are in memory at once
constexpr std::int64_t kShares = 4;       // a tile with more than one kShares-th of a thread's work is split

std::int64_t tile_tokens(const AttentionShape& shape) {
  return std::max<std::int64_t>(1, kTileRows / shape.group());
}

std::int64_t rows_of_largest_tile(const AttentionShape& shape) {
  return tile_tokens(shape) * shape.group();
}

// Room for the result so far and a few spans of the largest tile at least.
std::int64_t rows_of_wave(const AttentionShape& shape) {
  return std::max(kWaveRows, 4 * rows_of_largest_tile(shape) * shape.kv_heads);
}

std::int64_t round_up(std::int64_t n, std::int64_t step) {
  return (n + step - 1) / step * step;
}

}  // namespace

AttentionPlan::AttentionPlan(LayerType type, const AttentionShape& shape, std::int64_t max_tokens)
    : type_(type), shape_(shape) {
  tiles_.reserve(max_tokens);
}

std::int64_t AttentionPlan::first_key(std::int64_t position) const {
  return type_ == LayerType::full_attention ? 0 : std::max<std::int64_t>(0, position - shape_.window + 1);
}

void AttentionPlan::make(std::span<const AttentionChunk> chunks, int threads) {
  tiles_.clear();
  std::int64_t most = tile_tokens(shape_);
  auto work = [](const AttentionTile& tile) { return tile.tokens * (tile.end_span - tile.first_span); };
  std::int64_t all_work = 0;
  for (const AttentionChunk& chunk : chunks) {
    for (std::int64_t token = 0; token < chunk.tokens; token += most) {
      AttentionTile tile{};
      tile.sequence = chunk.sequence;
      tile.first_row = chunk.first_row + token;
      tile.tokens = std::min(most, chunk.tokens - token);
      tile.position = chunk.sequence->length + token;
      tile.first_span = first_key(tile.position) / kSpanPositions;
      tile.end_span = (tile.position + tile.tokens - 1) / kSpanPositions + 1;
      tiles_.push_back(tile);
      all_work += work(tile);
    }
  }
  for (AttentionTile& tile : tiles_) {
    tile.split = threads > 1 && tile.end_span - tile.first_span > 1 &&
                 work(tile) * kShares * threads > all_work * shape_.kv_heads;
  }
}

Attention::Attention(const AttentionShape& shape, std::int64_t max_tokens, const kernels::KernelTable& kernels,
                     ThreadPool& threads)
    : shape_(shape),
      kernels_(kernels),
      threads_(threads),
      row_stride_(round_up(shape.head_dim, kLanes)),
      worker_rows_(rows_of_largest_tile(shape)),
      partial_rows_(rows_of_wave(shape)) {
  for (int i = 0; i < threads.size(); ++i) {
    workers_.push_back(
        {make_rows(worker_rows_), make_rows(worker_rows_),
         AlignedBuffer<float>(kernels::attention_scratch_floats(static_cast<int>(worker_rows_), shape.head_dim)),
         AlignedBuffer<std::int32_t>(worker_rows_), AlignedBuffer<std::int32_t>(worker_rows_)});
  }
  partial_ = make_rows(partial_rows_);
  walks_.reserve(max_tokens);
  units_.reserve(partial_rows_);
  segments_.reserve(max_tokens);
}

std::size_t Attention::buffer_bytes(const AttentionShape& shape, int threads) {
  auto rows_bytes = [&](std::int64_t rows) { return rows * (round_up(shape.head_dim, kLanes) + 2) * sizeof(float); };
  std::size_t scores =
      kernels::attention_scratch_floats(static_cast<int>(rows_of_largest_tile(shape)), shape.head_dim) * sizeof(float);
  return rows_bytes(rows_of_wave(shape)) + threads * (2 * rows_bytes(rows_of_largest_tile(shape)) + scores);
}

Attention::Rows Attention::make_rows(std::int64_t rows) const {
  return {AlignedBuffer<float>(rows), AlignedBuffer<float>(rows), AlignedBuffer<float>(rows * row_stride_)};
}

AttentionState Attention::state(Rows& rows, std::int64_t first_row) const {
  return {rows.max.data() + first_row, rows.sum.data() + first_row, rows.output.data() + first_row * row_stride_,
          row_stride_};
}

void Attention::compute_span(const AttentionPlan& plan, const SpanOfHead& work, const SpanOfHead* next,
                             const KvCache& cache, int layer, const AttentionBuffers& buffers, Worker& worker,
                             const AttentionState& result) const {
  const AttentionTile& tile = *work.tile;
  std::int64_t start = work.span * kSpanPositions;
  std::int32_t* first_visible = worker.first_visible.data();
  std::int32_t* end_visible = worker.end_visible.data();
  int row = 0;
  for (std::int64_t position = tile.position; position < tile.position + tile.tokens; ++position) {
    auto first =
        static_cast<std::int32_t>(std::clamp<std::int64_t>(plan.first_key(position) - start, 0, kSpanPositions));
    auto end = static_cast<std::int32_t>(std::clamp<std::int64_t>(position + 1 - start, 0, kSpanPositions));
    for (int head = 0; head < shape_.group(); ++head, ++row) {
      first_visible[row] = first;
      end_visible[row] = end;
    }
  }

  AttentionSpan args{};
  args.kind = cache.layout().kind;
  args.head_dim = shape_.head_dim;
  args.rows = row;
  args.queries =
      buffers.queries + (work.kv_head * buffers.query_tokens + tile.first_row) * shape_.group() * buffers.query_stride;
  args.query_stride = buffers.query_stride;
  args.first_visible = first_visible;
  args.end_visible = end_visible;
  args.scale = 1.0f / std::sqrt(static_cast<float>(shape_.head_dim));
  // Of the blocks of a span, those that the tile sees.
  auto each_block = [&](const SpanOfHead& of, auto&& body) {
    const AttentionTile& seeing = *of.tile;
    const std::vector<BlockId>& blocks =
        plan.type() == LayerType::full_attention ? seeing.sequence->full : seeing.sequence->sliding;
    std::int64_t first_key = plan.first_key(seeing.position);
    std::int64_t end_key = seeing.position + seeing.tokens;
    for (int i = 0; i < kSpanBlocks; ++i) {
      std::int64_t block = of.span * kSpanBlocks + i;
      if (block * kBlockPositions < end_key && (block + 1) * kBlockPositions > first_key) body(i, blocks[block]);
    }
  };
  each_block(work, [&](int i, BlockId block) {
    args.keys[i] = cache.keys(plan.type(), block, layer, work.kv_head);
    args.values[i] = cache.values(plan.type(), block, layer, work.kv_head);
  });
  if (next != nullptr) {
    each_block(*next,
               [&](int i, BlockId block) { args.next_keys[i] = cache.keys(plan.type(), block, layer, next->kv_head); });
  }
  kernels_.attention_span(args, result, worker.scores.data());
}

void Attention::finish(const AttentionTile& tile, int kv_head, const AttentionBuffers& buffers, Worker& worker,
                       const AttentionState& result) const {
  int group = shape_.group();
  float* heads = worker.span.output.data();  // aligned, which a head in `out` need not be
  for (std::int64_t token = 0; token < tile.tokens; ++token) {
    std::int64_t row = token * group;
    AttentionState of_token{result.max + row, result.sum + row, result.output + row * row_stride_, row_stride_};
    const float* gates = buffers.gates + (tile.first_row + token) * buffers.gate_stride + kv_head * group;
    kernels_.attention_finish(of_token, group, shape_.head_dim, gates, 1, heads, row_stride_);
    float* out = buffers.out + (tile.first_row + token) * buffers.out_stride + kv_head * group * shape_.head_dim;
    for (int head = 0; head < group; ++head) {
      std::memcpy(out + head * shape_.head_dim, heads + head * row_stride_, shape_.head_dim * sizeof(float));
    }
  }
}

void Attention::run_walks(const AttentionPlan& plan, const KvCache& cache, int layer, const AttentionBuffers& buffers) {
  walks_.clear();
  for (const AttentionTile& tile : plan.tiles()) {
    if (!tile.split) walks_.push_back(&tile);
  }
  auto count = static_cast<std::int64_t>(walks_.size()) * shape_.kv_heads;
  threads_.parallel_for(count, 1, [&](std::int64_t begin, std::int64_t end, int worker_index) {
    Worker& worker = workers_[worker_index];
    for (std::int64_t unit = begin; unit < end; ++unit) {
      const AttentionTile& tile = *walks_[unit / shape_.kv_heads];
      int kv_head = static_cast<int>(unit % shape_.kv_heads);
      auto rows = static_cast<int>(tile_rows(tile));
      AttentionState running = state(worker.running, 0);
      AttentionState next = state(worker.span, 0);
      std::fill_n(running.max, rows, -std::numeric_limits<float>::infinity());
      for (std::int64_t span = tile.first_span; span < tile.end_span; ++span) {
        SpanOfHead work{&tile, span, kv_head}, following{&tile, span + 1, kv_head};
        compute_span(plan, work, span + 1 < tile.end_span ? &following : nullptr, cache, layer, buffers, worker, next);
        kernels_.attention_merge(running, next, rows, shape_.head_dim);
      }
      finish(tile, kv_head, buffers, worker, running);
    }
  });
}

void Attention::run_splits(const AttentionPlan& plan, const KvCache& cache, int layer,
                           const AttentionBuffers& buffers) {
  std::span<const AttentionTile> tiles = plan.tiles();
  std::size_t next_tile = 0;
  std::int64_t next_span = -1;  // of that tile; -1: none done yet
  auto skip_walks = [&] {
    while (next_tile < tiles.size() && !tiles[next_tile].split) ++next_tile;
  };
  for (skip_walks(); next_tile < tiles.size();) {
    // A wave: as many spans as partial_ has room for. A tile that an earlier wave began has its result in slot 0.
    units_.clear();
    segments_.clear();
    std::int64_t row = next_span < 0 ? 0 : tile_rows(tiles[next_tile]) * shape_.kv_heads;
    while (next_tile < tiles.size()) {
      const AttentionTile& tile = tiles[next_tile];
      std::int64_t rows = tile_rows(tile) * shape_.kv_heads;
      if (row + rows > partial_rows_) break;
      Segment segment{static_cast<std::int64_t>(units_.size()), 0, next_span >= 0, false};
      std::int64_t span = next_span >= 0 ? next_span : tile.first_span;
      for (; span < tile.end_span && row + rows <= partial_rows_; ++span, row += rows)
        units_.push_back({&tile, span, row});
      segment.end = static_cast<std::int64_t>(units_.size());
      segment.complete = span == tile.end_span;
      segments_.push_back(segment);
      next_span = segment.complete ? -1 : span;
      if (!segment.complete) break;
      ++next_tile;
      skip_walks();
    }

    auto spans = static_cast<std::int64_t>(units_.size()) * shape_.kv_heads;
    auto span_of_head = [&](std::int64_t i) {
      const SpanUnit& unit = units_[i / shape_.kv_heads];
      return SpanOfHead{unit.tile, unit.span, static_cast<int>(i % shape_.kv_heads)};
    };
    threads_.parallel_for(spans, 1, [&](std::int64_t begin, std::int64_t end, int worker_index) {
      for (std::int64_t i = begin; i < end; ++i) {
        SpanOfHead work = span_of_head(i), following = span_of_head(std::min(i + 1, spans - 1));
        compute_span(plan, work, &following, cache, layer, buffers, workers_[worker_index],
                     state(partial_, units_[i / shape_.kv_heads].slot + work.kv_head * tile_rows(*work.tile)));
      }
    });

    auto merges = static_cast<std::int64_t>(segments_.size()) * shape_.kv_heads;
    threads_.parallel_for(merges, 1, [&](std::int64_t begin, std::int64_t end, int worker_index) {
      for (std::int64_t i = begin; i < end; ++i) {
        const Segment& segment = segments_[i / shape_.kv_heads];
        int kv_head = static_cast<int>(i % shape_.kv_heads);
        const AttentionTile& tile = *units_[segment.first].tile;
        std::int64_t rows = tile_rows(tile);
        std::int64_t first_merged = segment.carried ? segment.first : segment.first + 1;
        AttentionState running = state(partial_, (segment.carried ? 0 : units_[segment.first].slot) + kv_head * rows);
        for (std::int64_t unit = first_merged; unit < segment.end; ++unit) {
          kernels_.attention_merge(running, state(partial_, units_[unit].slot + kv_head * rows), static_cast<int>(rows),
                                   shape_.head_dim);
        }
        if (segment.complete) finish(tile, kv_head, buffers, workers_[worker_index], running);
      }
    });

    const Segment& last = segments_.back();
    if (!last.complete && !last.carried && units_[last.first].slot != 0) {
      AttentionState from = state(partial_, units_[last.first].slot);
      AttentionState to = state(partial_, 0);
      std::int64_t rows = tile_rows(*units_[last.first].tile) * shape_.kv_heads;
      std::memmove(to.max, from.max, rows * sizeof(float));
      std::memmove(to.sum, from.sum, rows * sizeof(float));
      std::memmove(to.output, from.output, rows * row_stride_ * sizeof(float));
    }
  }
}

void Attention::run(const AttentionPlan& plan, const KvCache& cache, int layer, const AttentionBuffers& buffers) {
  run_walks(plan, cache, layer, buffers);
  run_splits(plan, cache, layer, buffers);
}

}  // namespace sparkx
