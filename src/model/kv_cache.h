// The paged key and value cache: blocks of 64 positions for all layers of a layer type, one pool for each type.
//
// Full-attention layers keep every block of a sequence. A block of the sliding layers goes back as soon as no query to
// come can see it, so a sequence holds the window, the chunk in work, and one block of slack: taking back up to 64
// positions never needs a key that is gone.
//
// Memory is taken as blocks are first used, up to a limit over both pools. Blocks are reserved before a step and only
// placed inside it: a step itself cannot run out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "core/aligned_buffer.h"
#include "core/memory_lock.h"
#include "formats/model_config.h"
#include "kernels/kernels.h"

namespace sparkx {

using BlockId = std::int32_t;
inline constexpr BlockId kNoBlock = -1;

// What both pools may take together.
struct ByteBudget {
  std::size_t left;
  bool system_refused = false;  // the last time there was no block, it was the system that had no memory
};

// Blocks of one size. A block is counted: every holder of a shared block has one reference to it. (An index from hashes
// to blocks belongs beside the free list, when prefixes are shared.)
class BlockPool {
 public:
  // block_bytes: a multiple of 64. The budget outlives the pool.
  BlockPool(std::size_t block_bytes, ByteBudget& budget);

  // A block with one reference and whatever its last holder left in it; kNoBlock when the budget is used up or the
  // system has no memory.
  BlockId acquire();
  // Locks the blocks that have memory, and from then on those that get some. Throws Error{out_of_memory}.
  void lock_memory();
  // What so many blocks would take from the budget, beside those that are free.
  std::size_t bytes_for(std::int64_t blocks) const {
    std::int64_t fresh = blocks - static_cast<std::int64_t>(free_.size());
    return fresh > 0 ? fresh * block_bytes_ : 0;
  }
  void add_reference(BlockId block) { ++references_[block]; }
  void release(BlockId block);

  std::byte* data(BlockId block) const { return slabs_[block / slab_blocks_] + block % slab_blocks_ * block_bytes_; }
  std::size_t block_bytes() const { return block_bytes_; }
  std::int64_t used() const { return static_cast<std::int64_t>(references_.size() - free_.size()); }

 private:
  std::size_t block_bytes_;
  ByteBudget& budget_;
  std::int64_t slab_blocks_;  // blocks that are allocated together, so that huge pages pay
  std::vector<AlignedBuffer<std::byte>> memory_;
  std::vector<MemoryLock> locks_;  // of memory_, when it is locked
  bool locked_ = false;
  std::vector<std::byte*> slabs_;         // the beginnings of memory_
  std::vector<std::int32_t> references_;  // of every block that was ever used
  std::vector<BlockId> free_;
};

// The blocks of one sequence, for positions [0, length). KvCache changes it, attention reads it.
struct KvSequence {
  std::int64_t length = 0;
  std::vector<BlockId> full;       // [position / 64]
  std::vector<BlockId> sliding;    // [position / 64], kNoBlock before first_sliding
  std::int64_t first_sliding = 0;  // index of the first block that is still there
  std::vector<BlockId> spare;      // sliding blocks reserved for the step in work
};

struct KvLayout {
  kernels::KvKind kind;
  int head_dim;
  int kv_heads;
  int full_layers;
  int sliding_layers;
  std::int64_t window;  // sliding_window: a query sees itself and window - 1 positions before it; 0 without such layers
};

class KvCache {
 public:
  KvCache(const KvLayout& layout, std::size_t limit_bytes);
  KvCache(const KvCache&) = delete;
  KvCache& operator=(const KvCache&) = delete;

  // Whether a sequence could have a first block.
  bool has_room() const { return full_.bytes_for(1) + sliding_.bytes_for(1) <= budget_.left; }

  // Reserves what `tokens` further positions need when they are placed in chunks of at most `chunk`. False, and nothing
  // changed, when there are not enough blocks.
  bool reserve(KvSequence& sequence, std::int64_t tokens, std::int64_t chunk);
  // Whether the last reserve() failed for want of memory, not of budget.
  bool system_refused() const { return budget_.system_refused; }
  // Makes room for the next `tokens` positions, at most those reserved. Neither allocates nor fails.
  void place(KvSequence& sequence, std::int64_t tokens) const;
  // The placed positions are written: they belong to the sequence, and sliding blocks that are out of sight become
  // spare.
  void commit(KvSequence& sequence, std::int64_t tokens) const;
  // Ends the reservation: spare blocks go back to the pool.
  void finish(KvSequence& sequence);

  // Shortens to `length` >= 0 and returns what could be kept: all of it, or 0 when the sliding layers no longer have
  // the keys that the next position sees.
  std::int64_t truncate(KvSequence& sequence, std::int64_t length);
  void free(KvSequence& sequence) { truncate(sequence, 0); }

  // Takes the memory that so many sequences of `positions` need, and keeps all that the cache has or will have
  // resident. Throws Error{out_of_memory} when there is not so much, or the system does not let it be locked.
  void lock_memory(std::int64_t sequences, std::int64_t positions, std::int64_t chunk);

  // K or V of one block for one layer of its type and one KV head (kernels.h has the layout inside). `layer` counts the
  // layers of that type from 0.
  std::byte* keys(LayerType type, BlockId block, int layer, int kv_head) const;
  std::byte* values(LayerType type, BlockId block, int layer, int kv_head) const;

  const KvLayout& layout() const { return layout_; }
  const BlockPool& pool(LayerType type) const { return type == LayerType::full_attention ? full_ : sliding_; }
  BlockPool& pool(LayerType type) { return type == LayerType::full_attention ? full_ : sliding_; }

 private:
  std::int64_t first_block_in_sight(std::int64_t length) const;

  KvLayout layout_;
  std::int64_t window_;
  ByteBudget budget_;
  std::size_t head_bytes_;  // of K, and of V, of one block, layer and KV head
  BlockPool full_;
  BlockPool sliding_;
};

// "float32", "bfloat16", "int8".
std::string_view kv_kind_name(kernels::KvKind kind);

// Bytes that a sequence of `positions` takes when it is stepped in chunks of at most `chunk`.
std::size_t kv_sequence_bytes(const KvLayout& layout, std::int64_t positions, std::int64_t chunk);

}  // namespace sparkx
