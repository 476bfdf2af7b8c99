// The model on the CPU: steps of any mix of sequences, cut into passes of bounded size.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/aligned_buffer.h"
#include "core/memory_lock.h"
#include "core/thread_pool.h"
#include "formats/model_config.h"
#include "kernels/kernels.h"
#include "model/kv_cache.h"
#include "model/model.h"
#include "model/packed_weights.h"
#include "model/transformer.h"

namespace sparkx {

struct CpuModelParts {
  ModelConfig config;
  PackedWeights weights;
  const kernels::KernelTable* kernels;
  std::unique_ptr<ThreadPool> threads;
  kernels::KvKind kv_kind;
  std::int64_t context;        // positions that a sequence may have
  std::size_t kv_limit_bytes;  // of all sequences together
  std::int64_t locked_sequences =
      0;  // keep weights and cache resident, the cache of so many whole sequences from now on
  InputObserver* observer = nullptr;  // outlives the model
};

// Errors of a step's items: invalid_argument for no tokens, a token outside the vocabulary, or more positions than the
// context has; out_of_memory when cache blocks or room for the logits are lacking.
class CpuModel final : public Model {
 public:
  // Throws Error{out_of_memory} when memory that is to stay resident cannot.
  explicit CpuModel(CpuModelParts parts);

  const ModelInfo& info() const override { return info_; }
  SequenceId create_sequence() override;
  void free_sequence(SequenceId sequence) override;
  std::int64_t length(SequenceId sequence) const override;
  std::span<const StepOutput> step(std::span<const StepItem> items) override;
  void cancel_steps_on(const std::atomic<bool>* cancel) override { cancel_ = cancel; }
  std::int64_t truncate(SequenceId sequence, std::int64_t length) override;
  SequenceId create_synthetic_sequence(std::int64_t length) override;
  StepWork work(std::span<const StepItem> items) const override;
  double read_bandwidth() override;

  const KvCache& cache() const { return cache_; }

 private:
  struct Sequence {
    KvSequence kv;
    std::int64_t last_step = 0;
  };
  // What is left of one item.
  struct Work {
    std::size_t item;
    KvSequence* sequence;
    std::span<const TokenId> tokens;
    std::int64_t first_logits;  // counted from the first of `tokens`; negative once logits are under way
    float* logits;              // for the next token that logits are wanted of
  };

  void check_items(std::span<const StepItem> items);
  void refuse(std::size_t item, ErrorCode code, std::string message);
  void check_tokens(std::size_t item, const StepItem& step_item);
  void make_room_for_logits(std::span<const StepItem> items);
  void run_passes();
  void fill(const KvSequence& sequence);

  ModelConfig config_;
  PackedWeights weights_;
  MemoryLock weights_lock_;
  const kernels::KernelTable& kernels_;
  std::unique_ptr<ThreadPool> threads_;
  KvCache cache_;
  Transformer transformer_;
  ModelInfo info_;

  std::unordered_map<SequenceId, Sequence> sequences_;
  SequenceId next_sequence_ = 1;
  std::int64_t steps_ = 0;
  const std::atomic<bool>* cancel_ = nullptr;

  // The step in work.
  std::vector<StepOutput> outputs_;
  std::vector<Work> work_;
  std::vector<Chunk> chunks_;
  std::vector<Work*> in_pass_;  // [chunk]
  AlignedBuffer<float> logits_;
};

// "cpu: avx2, 2 threads"
std::string cpu_device_name(const kernels::KernelTable& kernels, int threads);

KvLayout kv_layout(const ModelConfig& config, kernels::KvKind kind);

}  // namespace sparkx
