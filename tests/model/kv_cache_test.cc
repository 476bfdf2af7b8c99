#include "model/kv_cache.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <set>

namespace sparkx {
namespace {

constexpr std::int64_t kWindow = 100;
constexpr std::size_t kNoLimit = std::numeric_limits<std::size_t>::max();

KvLayout layout() {
  return {kernels::KvKind::bfloat16, 8, 1, 1, 2, kWindow};
}

// What a step does, without the step.
bool grow(KvCache& cache, KvSequence& sequence, std::int64_t tokens, std::int64_t chunk) {
  if (!cache.reserve(sequence, tokens, chunk)) return false;
  for (std::int64_t done = 0; done < tokens; done += chunk) {
    std::int64_t take = std::min(chunk, tokens - done);
    cache.place(sequence, take);
    for (std::int64_t position = sequence.length; position < sequence.length + take; ++position) {
      // Every key that a query of the chunk sees has a block.
      EXPECT_NE(sequence.full.at(position / 64), kNoBlock);
      for (std::int64_t key = std::max<std::int64_t>(0, position - kWindow + 1); key <= position; ++key) {
        EXPECT_NE(sequence.sliding.at(key / 64), kNoBlock) << "query " << position << ", key " << key;
      }
    }
    cache.commit(sequence, take);
  }
  cache.finish(sequence);
  return true;
}

std::int64_t held(const KvSequence& sequence) {
  return std::count_if(sequence.sliding.begin(), sequence.sliding.end(), [](BlockId b) { return b != kNoBlock; });
}

TEST(KvCache, SlidingBlocksAreBoundedByWindowChunkAndSlack) {
  for (std::int64_t chunk : {1, 5, 64, 200, 512}) {
    KvCache cache(layout(), kNoLimit);
    KvSequence sequence;
    for (int i = 0; i < 40; ++i) {
      ASSERT_TRUE(grow(cache, sequence, chunk, chunk));
      EXPECT_EQ(cache.pool(LayerType::full_attention).used(), (sequence.length + 63) / 64);
      EXPECT_EQ(cache.pool(LayerType::sliding_attention).used(), held(sequence));
      // Between steps: the window, the slack, and a begun block at either end.
      EXPECT_LE(held(sequence), (kWindow - 1 + 64 + 63) / 64 + 1)
          << "chunk " << chunk << ", length " << sequence.length;
    }
    EXPECT_LE(
        kv_sequence_bytes(layout(), 100000, chunk) - kv_sequence_bytes({layout().kind, 8, 1, 1, 0, 0}, 100000, chunk),
        ((kWindow + 64 + chunk + 63) / 64 + 1) * 2 * 2 * kernels::kv_block_bytes(layout().kind, 8));
  }
}

TEST(KvCache, AllBlocksComeBack) {
  KvCache cache(layout(), kNoLimit);
  KvSequence first, second;
  ASSERT_TRUE(grow(cache, first, 700, 512));
  ASSERT_TRUE(grow(cache, second, 64, 10));
  cache.free(first);
  cache.free(second);
  EXPECT_EQ(cache.pool(LayerType::full_attention).used(), 0);
  EXPECT_EQ(cache.pool(LayerType::sliding_attention).used(), 0);
}

TEST(KvCache, FreedBlocksAreUsedAgain) {
  KvCache cache(layout(), 100 * 1024);
  for (int i = 0; i < 100; ++i) {
    KvSequence sequence;
    ASSERT_TRUE(grow(cache, sequence, 300, 512)) << i;
    cache.free(sequence);
  }
}

TEST(KvCache, ReservationThatFailsChangesNothing) {
  KvCache cache(layout(), 40 * 1024);
  KvSequence sequence;
  ASSERT_TRUE(grow(cache, sequence, 100, 512));
  std::int64_t full = cache.pool(LayerType::full_attention).used();
  std::int64_t sliding = cache.pool(LayerType::sliding_attention).used();
  EXPECT_FALSE(cache.reserve(sequence, 5000, 512));
  EXPECT_EQ(sequence.length, 100);
  EXPECT_TRUE(sequence.spare.empty());
  EXPECT_EQ(cache.pool(LayerType::full_attention).used(), full);
  EXPECT_EQ(cache.pool(LayerType::sliding_attention).used(), sliding);
  EXPECT_TRUE(grow(cache, sequence, 100, 512));
}

// A float32 for each 64 channels beside a byte a channel: 17 / 32 of bfloat16, when nothing has to be padded.
TEST(KvCache, BytesOfAPosition) {
  const auto bytes = [](kernels::KvKind kind, int head_dim) {
    return kv_sequence_bytes({kind, head_dim, 2, 7, 0, 0}, 32768, 512);
  };
  constexpr std::size_t kNumbers = std::size_t{2} * 7 * 2 * 32768;  // times head_dim
  EXPECT_EQ(bytes(kernels::KvKind::float32, 256), 4 * 256 * kNumbers);
  EXPECT_EQ(bytes(kernels::KvKind::bfloat16, 256), 2 * 256 * kNumbers);
  EXPECT_EQ(bytes(kernels::KvKind::int8, 256), (256 + 4 * 4) * kNumbers);
  EXPECT_EQ(bytes(kernels::KvKind::int8, 72), (96 + 2 * 4) * kNumbers);  // keys go in stretches of 32 channels
}

TEST(KvCache, KnowsWhetherTheBudgetOrTheSystemHasNoMore) {
  KvSequence sequence;
  KvCache small(layout(), 1000);
  EXPECT_FALSE(small.reserve(sequence, 64, 64));
  EXPECT_FALSE(small.system_refused());
  KvLayout huge = layout();
  huge.kv_heads = 1 << 30;
  huge.full_layers = 1 << 20;
  KvCache endless(huge, kNoLimit);
  EXPECT_FALSE(endless.reserve(sequence, 64, 64));
  EXPECT_TRUE(endless.system_refused());
}

TEST(KvCache, SequencesDoNotShareMemory) {
  KvCache cache(layout(), kNoLimit);
  KvSequence first, second;
  ASSERT_TRUE(grow(cache, first, 130, 512));
  ASSERT_TRUE(grow(cache, second, 130, 512));
  std::set<std::byte*> places;
  std::size_t bytes = kernels::kv_block_bytes(layout().kind, 8);
  for (const KvSequence* sequence : {&first, &second}) {
    for (BlockId block : sequence->sliding) {
      for (int layer = 0; layer < 2; ++layer) {
        places.insert(cache.keys(LayerType::sliding_attention, block, layer, 0));
        places.insert(cache.values(LayerType::sliding_attention, block, layer, 0));
      }
    }
  }
  ASSERT_EQ(places.size(), 2u * 3 * 2 * 2);
  for (auto place = places.begin(), next = std::next(place); next != places.end(); place = next++) {
    EXPECT_GE(static_cast<std::size_t>(*next - *place), bytes);
  }
}

TEST(KvCache, TruncatingBySixtyFourKeepsEverythingElse) {
  for (std::int64_t length : {65, 100, 163, 164, 165, 191, 192, 193, 400, 1000}) {
    for (std::int64_t back : {1, 2, 63, 64}) {
      KvCache cache(layout(), kNoLimit);
      KvSequence sequence;
      ASSERT_TRUE(grow(cache, sequence, length, 512));
      EXPECT_EQ(cache.truncate(sequence, length - back), length - back) << length << " back " << back;
      EXPECT_TRUE(grow(cache, sequence, 200, 7));  // checks that every visible key has a block
    }
  }
}

TEST(KvCache, TruncatingFurtherThanTheKeysReachGoesBackToTheBeginning) {
  KvCache cache(layout(), kNoLimit);
  KvSequence sequence;
  ASSERT_TRUE(grow(cache, sequence, 1000, 512));
  EXPECT_EQ(cache.truncate(sequence, 500), 0);
  EXPECT_EQ(sequence.length, 0);
  EXPECT_EQ(cache.pool(LayerType::full_attention).used(), 0);
  EXPECT_EQ(cache.pool(LayerType::sliding_attention).used(), 0);
  EXPECT_TRUE(grow(cache, sequence, 300, 64));
}

TEST(KvCache, TruncatingToTheLengthOrBeyondChangesNothing) {
  KvCache cache(layout(), kNoLimit);
  KvSequence sequence;
  ASSERT_TRUE(grow(cache, sequence, 1000, 512));
  EXPECT_EQ(cache.truncate(sequence, 1000), 1000);
  EXPECT_EQ(cache.truncate(sequence, 2000), 1000);
}

TEST(KvCache, WithoutSlidingLayersEveryLengthCanBeKept) {
  KvCache cache({kernels::KvKind::float32, 8, 1, 1, 0, 0}, kNoLimit);
  KvSequence sequence;
  ASSERT_TRUE(cache.reserve(sequence, 1000, 512));
  for (std::int64_t take : {512, 488}) {
    cache.place(sequence, take);
    cache.commit(sequence, take);
  }
  cache.finish(sequence);
  EXPECT_EQ(cache.truncate(sequence, 3), 3);
  EXPECT_EQ(cache.pool(LayerType::full_attention).used(), 1);
}

TEST(BlockPool, SharedBlockComesBackWithItsLastReference) {
  ByteBudget budget{1024};
  BlockPool pool(1024, budget);
  BlockId block = pool.acquire();
  pool.add_reference(block);
  EXPECT_EQ(pool.acquire(), kNoBlock);
  pool.release(block);
  EXPECT_EQ(pool.used(), 1);
  EXPECT_EQ(pool.acquire(), kNoBlock);
  pool.release(block);
  EXPECT_EQ(pool.used(), 0);
  EXPECT_EQ(pool.acquire(), block);
}

}  // namespace
}  // namespace sparkx
