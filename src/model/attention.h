// Grouped query attention with the output gate (docs/model.md, Attention; docs/numerics.md, rule 9): who computes which
// part of it, and in what order the parts meet.
//
// Queries are cut into tiles: some consecutive tokens of one sequence and all query heads that share a KV head. Keys
// are cut into spans of 512 absolute positions. A tile either walks its spans in order with a running result, or, when
// its work would keep one thread busy while others wait (decoding with a long context), its spans are computed in
// parallel and then merged in the same order. Both do the same arithmetic, so the choice never shows in the bits.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/aligned_buffer.h"
#include "core/thread_pool.h"
#include "kernels/kernels.h"
#include "model/kv_cache.h"

namespace sparkx {

struct AttentionShape {
  int heads;
  int kv_heads;
  int head_dim;
  std::int64_t window;  // sliding_window

  int group() const { return heads / kv_heads; }  // query heads that share a KV head
};

// Tokens of one sequence in a forward pass: rows [first_row, first_row + tokens) of its buffers, at positions
// [sequence->length, sequence->length + tokens).
struct AttentionChunk {
  const KvSequence* sequence;
  std::int64_t first_row;
  std::int64_t tokens;
};

// Consecutive tokens of one chunk.
struct AttentionTile {
  const KvSequence* sequence;
  std::int64_t first_row;
  std::int64_t tokens;
  std::int64_t position;    // of the first token
  std::int64_t first_span;  // the spans that any of its tokens sees: [first_span, end_span)
  std::int64_t end_span;
  bool split;  // spans in parallel, not in a walk
};

// The tiles of one forward pass, for the layers of one type.
class AttentionPlan {
 public:
  // At most max_tokens tokens a pass.
  AttentionPlan(LayerType type, const AttentionShape& shape, std::int64_t max_tokens);

  // Never allocates.
  void make(std::span<const AttentionChunk> chunks, int threads);

  LayerType type() const { return type_; }
  std::span<const AttentionTile> tiles() const { return tiles_; }
  // The first key that the query at `position` sees.
  std::int64_t first_key(std::int64_t position) const;

 private:
  LayerType type_;
  AttentionShape shape_;
  std::vector<AttentionTile> tiles_;
};

// Where the queries come from and the result goes.
struct AttentionBuffers {
  const float* queries;  // [kv_head][token][head of the group][query_stride], rotated
  std::int64_t query_stride;
  std::int64_t query_tokens;  // tokens between two KV heads
  const float* gates;         // [token][gate_stride], before the sigmoid
  std::int64_t gate_stride;
  float* out;  // [token][out_stride]: head after head, head_dim floats each
  std::int64_t out_stride;
};

class Attention {
 public:
  Attention(const AttentionShape& shape, std::int64_t max_tokens, const kernels::KernelTable& kernels,
            ThreadPool& threads);

  // out = gate · attention(queries, cache) for all tiles of the plan and one layer, counted among those of its type.
  // The keys and values of the pass itself are in the cache already. Never allocates.
  void run(const AttentionPlan& plan, const KvCache& cache, int layer, const AttentionBuffers& buffers);

  // What an Attention takes beside the cache.
  static std::size_t buffer_bytes(const AttentionShape& shape, int threads);

 private:
  // Room for the results of some rows.
  struct Rows {
    AlignedBuffer<float> max;
    AlignedBuffer<float> sum;
    AlignedBuffer<float> output;  // [row][row_stride_]
  };
  struct Worker {
    Rows running;
    Rows span;
    AlignedBuffer<float> scores;                // scratch of the kernel
    AlignedBuffer<std::int32_t> first_visible;  // [row]
    AlignedBuffer<std::int32_t> end_visible;
  };
  // The piece of work that the kernel does at once.
  struct SpanOfHead {
    const AttentionTile* tile;
    std::int64_t span;
    int kv_head;
  };
  // A span of a split tile in the wave that is in work; its rows of all KV heads begin at row `slot` of partial_.
  struct SpanUnit {
    const AttentionTile* tile;
    std::int64_t span;
    std::int64_t slot;
  };
  // The spans of one split tile in a wave: units [first, end), merged into the first one's slot.
  struct Segment {
    std::int64_t first;
    std::int64_t end;
    bool carried;   // the slot before the first unit holds the result of earlier waves
    bool complete;  // the tile's last span is among them
  };

  Rows make_rows(std::int64_t rows) const;
  kernels::AttentionState state(Rows& rows, std::int64_t first_row) const;
  std::int64_t tile_rows(const AttentionTile& tile) const { return tile.tokens * shape_.group(); }  // of one KV head
  // `next` is what the worker probably computes after it; its keys are fetched meanwhile. Null: nothing.
  void compute_span(const AttentionPlan& plan, const SpanOfHead& work, const SpanOfHead* next, const KvCache& cache,
                    int layer, const AttentionBuffers& buffers, Worker& worker,
                    const kernels::AttentionState& result) const;
  void finish(const AttentionTile& tile, int kv_head, const AttentionBuffers& buffers, Worker& worker,
              const kernels::AttentionState& result) const;
  void run_walks(const AttentionPlan& plan, const KvCache& cache, int layer, const AttentionBuffers& buffers);
  void run_splits(const AttentionPlan& plan, const KvCache& cache, int layer, const AttentionBuffers& buffers);

  AttentionShape shape_;
  const kernels::KernelTable& kernels_;
  ThreadPool& threads_;
  std::int64_t row_stride_;    // floats from one row to the next
  std::int64_t worker_rows_;   // rows of the largest tile, one KV head
  std::int64_t partial_rows_;  // rows of a wave
  std::vector<Worker> workers_;
  Rows partial_;
  std::vector<const AttentionTile*> walks_;
  std::vector<SpanUnit> units_;
  std::vector<Segment> segments_;
};

}  // namespace sparkx
