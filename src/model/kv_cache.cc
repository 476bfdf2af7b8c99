#include "model/kv_cache.h"

#include <algorithm>
#include <exception>
#include <new>

#include "core/error.h"

namespace sparkx {

using kernels::kBlockPositions;

namespace {

constexpr const char* kCacheName = "the KV cache";
constexpr std::size_t kSlabBytes = std::size_t{16} << 20;
constexpr std::int64_t kSlackPositions = kBlockPositions;  // that truncate can always take back

std::int64_t blocks_for(std::int64_t positions) {
  return (positions + kBlockPositions - 1) / kBlockPositions;
}

std::size_t block_bytes(const KvLayout& layout, int layers) {
  return 2 * kernels::kv_block_bytes(layout.kind, layout.head_dim) * layout.kv_heads * layers;
}

// The most sliding blocks that a sequence holds while a chunk is in work: from the first key that the chunk's first
// query, or one kSlackPositions before it, sees to the chunk's last position, both anywhere in their blocks.
std::int64_t sliding_blocks_at_most(std::int64_t window, std::int64_t chunk) {
  return blocks_for(kSlackPositions + window - 1 + chunk) + 1;
}

// Without sliding layers nothing ever goes out of sight.
std::int64_t window_of(const KvLayout& layout) {
  return layout.sliding_layers == 0 ? kMaxPositions : layout.window;
}

}  // namespace

BlockPool::BlockPool(std::size_t block_bytes, ByteBudget& budget)
    : block_bytes_(block_bytes),
      budget_(budget),
      slab_blocks_(
          static_cast<std::int64_t>(std::max<std::size_t>(1, kSlabBytes / std::max<std::size_t>(1, block_bytes)))) {}

BlockId BlockPool::acquire() {
  if (!free_.empty()) {
    BlockId block = free_.back();
    free_.pop_back();
    references_[block] = 1;
    return block;
  }
  if (budget_.left < block_bytes_) return kNoBlock;
  auto block = static_cast<BlockId>(references_.size());
  try {
    references_.push_back(1);
    free_.reserve(references_.size());  // so that release never allocates
    if (block / slab_blocks_ == static_cast<std::int64_t>(slabs_.size())) {
      slabs_.reserve(slabs_.size() + 1);
      memory_.emplace_back(slab_blocks_ * block_bytes_);
      if (locked_) locks_.emplace_back(memory_.back().span(), kCacheName);
      slabs_.push_back(memory_.back().data());
    }
  } catch (const std::exception&) {  // Error{out_of_memory} or std::bad_alloc
    references_.resize(block);
    budget_.system_refused = true;
    return kNoBlock;
  }
  budget_.left -= block_bytes_;
  return block;
}

void BlockPool::lock_memory() {
  for (std::size_t i = locks_.size(); i < memory_.size(); ++i) locks_.emplace_back(memory_[i].span(), kCacheName);
  locked_ = true;
}

void BlockPool::release(BlockId block) {
  if (--references_[block] == 0) free_.push_back(block);
}

KvCache::KvCache(const KvLayout& layout, std::size_t limit_bytes)
    : layout_(layout),
      window_(window_of(layout)),
      budget_{limit_bytes},
      head_bytes_(kernels::kv_block_bytes(layout.kind, layout.head_dim)),
      full_(block_bytes(layout, layout.full_layers), budget_),
      sliding_(block_bytes(layout, layout.sliding_layers), budget_) {}

std::int64_t KvCache::first_block_in_sight(std::int64_t length) const {
  return std::max<std::int64_t>(0, length - kSlackPositions - (window_ - 1)) / kBlockPositions;
}

bool KvCache::reserve(KvSequence& sequence, std::int64_t tokens, std::int64_t chunk) {
  budget_.system_refused = false;
  std::int64_t blocks = blocks_for(sequence.length + tokens);
  std::int64_t held = static_cast<std::int64_t>(sequence.sliding.size()) - sequence.first_sliding;
  std::int64_t needed =
      std::min(blocks - sequence.first_sliding, sliding_blocks_at_most(window_, std::min(tokens, chunk)));
  auto had_full = static_cast<std::int64_t>(sequence.full.size());
  auto take = [](BlockPool& pool, std::vector<BlockId>& blocks) {
    BlockId block = pool.acquire();
    if (block != kNoBlock) blocks.push_back(block);
    return block != kNoBlock;
  };
  // Looked at first: blocks that a pool has once made do not go to the other one.
  auto missing_full = std::max<std::int64_t>(0, blocks - had_full);
  auto missing_sliding = std::max<std::int64_t>(0, needed - held);
  if (full_.bytes_for(missing_full) + sliding_.bytes_for(missing_sliding) > budget_.left) return false;
  try {
    sequence.full.reserve(blocks);
    sequence.sliding.reserve(blocks);
    sequence.spare.reserve(needed);
  } catch (const std::bad_alloc&) {
    budget_.system_refused = true;
    return false;
  }
  bool enough = true;
  while (enough && static_cast<std::int64_t>(sequence.full.size()) < blocks) enough = take(full_, sequence.full);
  while (enough && static_cast<std::int64_t>(sequence.spare.size()) < missing_sliding) {
    enough = take(sliding_, sequence.spare);
  }
  if (enough) return true;

  finish(sequence);
  for (; static_cast<std::int64_t>(sequence.full.size()) > had_full; sequence.full.pop_back()) {
    full_.release(sequence.full.back());
  }
  return false;
}

void KvCache::place(KvSequence& sequence, std::int64_t tokens) const {
  std::int64_t blocks = blocks_for(sequence.length + tokens);
  while (static_cast<std::int64_t>(sequence.sliding.size()) < blocks) {
    sequence.sliding.push_back(sequence.spare.back());
    sequence.spare.pop_back();
  }
}

void KvCache::commit(KvSequence& sequence, std::int64_t tokens) const {
  sequence.length += tokens;
  for (std::int64_t in_sight = first_block_in_sight(sequence.length); sequence.first_sliding < in_sight;
       ++sequence.first_sliding) {
    sequence.spare.push_back(sequence.sliding[sequence.first_sliding]);
    sequence.sliding[sequence.first_sliding] = kNoBlock;
  }
}

void KvCache::finish(KvSequence& sequence) {
  for (BlockId block : sequence.spare) sliding_.release(block);
  sequence.spare.clear();
}

std::int64_t KvCache::truncate(KvSequence& sequence, std::int64_t length) {
  if (length >= sequence.length) return sequence.length;
  std::int64_t first_visible = std::max<std::int64_t>(0, length - (window_ - 1));  // to the query at position `length`
  if (first_visible < sequence.first_sliding * kBlockPositions) length = 0;
  std::int64_t blocks = blocks_for(length);
  for (; static_cast<std::int64_t>(sequence.full.size()) > blocks; sequence.full.pop_back()) {
    full_.release(sequence.full.back());
  }
  for (; static_cast<std::int64_t>(sequence.sliding.size()) > blocks; sequence.sliding.pop_back()) {
    if (sequence.sliding.back() != kNoBlock) sliding_.release(sequence.sliding.back());
  }
  if (length == 0) sequence.first_sliding = 0;
  sequence.length = length;
  return length;
}

void KvCache::lock_memory(std::int64_t sequences, std::int64_t positions, std::int64_t chunk) {
  std::vector<KvSequence> taken(static_cast<std::size_t>(sequences));
  const auto release = [&] {
    for (KvSequence& sequence : taken) {
      for (BlockId block : sequence.full) full_.release(block);
      finish(sequence);
    }
  };
  for (KvSequence& sequence : taken) {
    if (reserve(sequence, positions, chunk)) continue;
    release();
    throw_error(ErrorCode::out_of_memory, "no memory for {} KV cache{} of {} positions", sequences,
                sequences == 1 ? "" : "s", positions);
  }
  release();
  full_.lock_memory();
  sliding_.lock_memory();
}

std::byte* KvCache::keys(LayerType type, BlockId block, int layer, int kv_head) const {
  return pool(type).data(block) + 2 * head_bytes_ * (static_cast<std::size_t>(layer) * layout_.kv_heads + kv_head);
}

std::byte* KvCache::values(LayerType type, BlockId block, int layer, int kv_head) const {
  return keys(type, block, layer, kv_head) + head_bytes_;
}

std::string_view kv_kind_name(kernels::KvKind kind) {
  switch (kind) {
    case kernels::KvKind::float32:
      return "float32";
    case kernels::KvKind::bfloat16:
      return "bfloat16";
    case kernels::KvKind::int8:
      return "int8";
  }
  return {};
}

std::size_t kv_sequence_bytes(const KvLayout& layout, std::int64_t positions, std::int64_t chunk) {
  std::int64_t full = blocks_for(positions);
  std::int64_t sliding = std::min(full, sliding_blocks_at_most(window_of(layout), std::min(positions, chunk)));
  return full * block_bytes(layout, layout.full_layers) + sliding * block_bytes(layout, layout.sliding_layers);
}

}  // namespace sparkx
