// How fast attention is over a long cache: one layer of the 1.7B model (8 query heads, 2 KV heads of 256), all threads.
// "decode" is one token at a depth, "prompt" a chunk of 512 tokens behind it.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <vector>

#include "core/aligned_buffer.h"
#include "core/float_environment.h"
#include "core/thread_pool.h"
#include "kernels/kernels.h"
#include "model/attention.h"
#include "model/kv_cache.h"

namespace sparkx {
namespace {

using kernels::KvKind;

constexpr AttentionShape kShape{8, 2, 256, 512};
constexpr std::size_t kCacheBytes = std::size_t{256} << 20;  // layers enough that none is in the processor's caches

std::int64_t keys_seen(LayerType type, std::int64_t position) {
  return type == LayerType::full_attention ? position + 1 : std::min(position + 1, kShape.window);
}

void attention(benchmark::State& state, LayerType type, KvKind kind) {
  const std::int64_t depth = state.range(0), tokens = state.range(1);
  const int threads = static_cast<int>(state.range(2));
  ScopedFloatEnvironment float_environment;
  ThreadPool pool(threads);
  const std::size_t layer_bytes =
      kv_sequence_bytes({kind, kShape.head_dim, kShape.kv_heads, type == LayerType::full_attention,
                         type == LayerType::sliding_attention, kShape.window},
                        depth + tokens, tokens);
  const int layers = static_cast<int>(std::clamp<std::size_t>(kCacheBytes / layer_bytes, 1, 64));
  const KvLayout layout{kind,
                        kShape.head_dim,
                        kShape.kv_heads,
                        type == LayerType::full_attention ? layers : 0,
                        type == LayerType::sliding_attention ? layers : 0,
                        kShape.window};
  KvCache cache(layout, std::numeric_limits<std::size_t>::max());
  KvSequence sequence;
  for (std::int64_t step = 0; sequence.length < depth; sequence.length += step) {
    step = std::min(depth - sequence.length, tokens);
    cache.reserve(sequence, step, tokens);
    cache.place(sequence, step);
    cache.commit(sequence, step);
    sequence.length -= step;
  }
  cache.reserve(sequence, tokens, tokens);
  cache.place(sequence, tokens);
  for (const BlockId block : type == LayerType::full_attention ? sequence.full : sequence.sliding) {
    if (block != kNoBlock) std::memset(cache.pool(type).data(block), 0x3c, cache.pool(type).block_bytes());
  }

  const kernels::KernelTable& table = kernels::kernel_table();
  Attention attention(kShape, tokens, table, pool);
  AttentionPlan plan(type, kShape, tokens);
  const AttentionChunk chunk{&sequence, 0, tokens};
  plan.make({&chunk, 1}, threads);
  AlignedBuffer<float> queries(tokens * kShape.heads * kShape.head_dim), gates(tokens * 16);
  AlignedBuffer<float> out(tokens * kShape.heads * kShape.head_dim);
  for (std::size_t i = 0; i < queries.size(); ++i) queries[i] = static_cast<float>(i % 37) - 18.0f;
  const std::int64_t width = kShape.heads * kShape.head_dim;
  const AttentionBuffers buffers{queries.data(), kShape.head_dim, tokens, gates.data(), 16, out.data(), width};
  int layer = 0;
  for (auto _ : state) {
    attention.run(plan, cache, layer, buffers);
    layer = (layer + 1) % layers;
  }

  double pairs = 0;
  for (std::int64_t t = 0; t < tokens; ++t) pairs += static_cast<double>(keys_seen(type, depth + t));
  const double keys = static_cast<double>(keys_seen(type, depth) + tokens - 1);
  const double key_bytes = 2.0 * kShape.kv_heads * static_cast<double>(kernels::kv_block_bytes(kind, kShape.head_dim)) /
                           kernels::kBlockPositions;
  state.counters["mac/s"] =
      benchmark::Counter(2 * pairs * kShape.heads * kShape.head_dim, benchmark::Counter::kIsIterationInvariantRate);
  state.SetBytesProcessed(static_cast<std::int64_t>(keys * key_bytes) * state.iterations());
  state.SetLabel(table.name);
}

void shapes(benchmark::internal::Benchmark* benchmark) {
  benchmark->UseRealTime()->ArgNames({"depth", "tokens", "threads"});
  for (const std::int64_t threads : {1, 2}) {
    for (const std::int64_t depth : {0, 4096, 32256}) {
      for (const std::int64_t tokens : {1, 512}) {
        if (depth + tokens > 1) benchmark->Args({depth, tokens, threads});
      }
    }
  }
}
BENCHMARK_CAPTURE(attention, full_float32, LayerType::full_attention, KvKind::float32)->Apply(shapes);
BENCHMARK_CAPTURE(attention, full_bfloat16, LayerType::full_attention, KvKind::bfloat16)->Apply(shapes);
BENCHMARK_CAPTURE(attention, full_int8, LayerType::full_attention, KvKind::int8)->Apply(shapes);
BENCHMARK_CAPTURE(attention, sliding_bfloat16, LayerType::sliding_attention, KvKind::bfloat16)->Apply(shapes);
BENCHMARK_CAPTURE(attention, sliding_int8, LayerType::sliding_attention, KvKind::int8)->Apply(shapes);

// What a thread reads from memory at most: the bound of decode.
void read_memory(benchmark::State& state) {
  const int threads = static_cast<int>(state.range(0));
  ThreadPool pool(threads);
  AlignedBuffer<std::uint64_t> memory(kCacheBytes / sizeof(std::uint64_t));
  std::fill(memory.begin(), memory.end(), 1);
  constexpr std::int64_t kPiece = 1 << 16;
  for (auto _ : state) {
    pool.parallel_for(static_cast<std::int64_t>(memory.size()) / kPiece, 1,
                      [&](std::int64_t begin, std::int64_t end, int) {
                        std::uint64_t sums[8] = {};
                        for (std::int64_t i = begin * kPiece; i < end * kPiece; i += 8) {
                          for (int j = 0; j < 8; ++j) sums[j] += memory[i + j];
                        }
                        for (std::uint64_t& sum : sums) benchmark::DoNotOptimize(sum);
                      });
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(kCacheBytes) * state.iterations());
}
BENCHMARK(read_memory)->Arg(1)->Arg(2)->UseRealTime()->ArgName("threads");

}  // namespace
}  // namespace sparkx
