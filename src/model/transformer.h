// The forward pass: the equations of docs/model.md (Architecture) by the sums of docs/numerics.md.
//
// Tokens of all sequences of a pass go through the projections together; attention alone looks at who is whose. Every
// stage is a ThreadPool::parallel_for; all buffers are made with the Transformer, so that a pass neither allocates nor
// throws.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "core/aligned_buffer.h"
#include "core/thread_pool.h"
#include "formats/model_config.h"
#include "kernels/kernels.h"
#include "model/attention.h"
#include "model/input_observer.h"
#include "model/kv_cache.h"
#include "model/packed_weights.h"
#include "model/rope.h"
#include "model/rows.h"
#include "sparkx/types.hpp"

namespace sparkx {

// Tokens of one sequence in a pass. The cache has placed them (KvCache::place) and they are not yet committed.
struct Chunk {
  const KvSequence* sequence;
  std::span<const TokenId> tokens;  // each in [0, vocab_size)
  std::int64_t first_logits;        // logits are wanted of tokens [first_logits, tokens.size())
  float* logits;                    // [tokens.size() - first_logits][vocab_size]
};

inline constexpr std::int64_t kPassTokens = 512;  // of all chunks of a pass: bounds the buffers

class Transformer {
 public:
  // The weights, the kernels, the threads and the observer, if there is one, outlive the Transformer.
  Transformer(const ModelConfig& config, const PackedWeights& weights, const kernels::KernelTable& kernels,
              ThreadPool& threads, InputObserver* observer = nullptr);
  Transformer(const Transformer&) = delete;
  Transformer& operator=(const Transformer&) = delete;

  // Appends the chunks' keys and values to the cache and writes the logits asked for. At most kPassTokens tokens, each
  // sequence at most once; the caller is in a ScopedFloatEnvironment. False when *cancel (which may be nullptr) became
  // true: a pass of a large model takes seconds, so that each layer looks at it.
  bool forward(std::span<const Chunk> chunks, KvCache& cache, const std::atomic<bool>* cancel);

  // What a Transformer for this model takes beside weights and cache; of the weights, their formats count.
  static std::size_t buffer_bytes(const ModelConfig& config, const PackedWeights& weights, int threads);

 private:
  // The place of one layer: its type, its index among the layers of that type.
  struct LayerPlace {
    LayerType type;
    int index;
  };
  struct TokenPlace {
    TokenId id;
    const KvSequence* sequence;
    std::int64_t position;
  };
  struct LogitsRow {
    std::int64_t token;
    float* logits;  // [vocab_size]
  };
  // What differs between the layer types within a pass.
  struct TypeState {
    RopeTable rope;
    AttentionPlan plan;
    Rows cos;  // [token][rotary_dims / 2]
    Rows sin;
  };

  void plan_pass(std::span<const Chunk> chunks);
  void embed(Rows& x);
  void rms_norm(const Rows& x, const float* weight, ActivationForms forms, InputRows& out);
  // What a projection reads of the first `tokens` rows: `in`, or their columns in its own order, for which there is
  // `sorted`.
  const InputRows& in_order(const InputRows& in, const Linear& projection, std::int64_t tokens, InputRows& sorted);
  void linear_both(const InputRows& in, const Linear& first, Rows& first_out, const Linear& second, Rows& second_out);
  void linear_add(const InputRows& all, InputRows& sorted, const Linear& projection, Rows& x);
  void linear_gelu_mul(const InputRows& in, const Linear& gate_proj, const Linear& up_proj, ActivationForms forms,
                       InputRows& out);
  void rotate_and_store(const Rows& qkv, LayerPlace place, KvCache& cache);
  void gated_attention(LayerPlace place, const KvCache& cache, ActivationForms forms, InputRows& out);
  void write_logits(const Rows& x, InputRows& normed);
  void observe(LinearInput input, std::size_t layer, const InputRows& rows, std::int64_t tokens) const {
    if (observer_ != nullptr) observer_->observe({input, static_cast<std::int64_t>(layer)}, rows.values(tokens));
  }
  TypeState& state(LayerType type) { return *types_[static_cast<int>(type)]; }

  // Cuts `panels` x `tokens` into tiles, whole numbers of register tiles of `token_tile` tokens, and calls body(Tile,
  // worker) for each, in parallel.
  struct Tile {
    std::int64_t panel_begin;
    std::int64_t panel_end;
    std::int64_t token_begin;
    std::int64_t token_end;
  };
  template <typename Body>
  void for_each_tile(std::int64_t panels, std::int64_t tokens, int token_tile, Body&& body);

  const ModelConfig config_;
  const PackedWeights& weights_;
  const kernels::KernelTable& kernels_;
  ThreadPool& threads_;
  InputObserver* const observer_;
  std::vector<LayerPlace> places_;                           // [layer]
  std::array<std::optional<TypeState>, kLayerTypes> types_;  // those that the model has
  Attention attention_;

  // The pass in work.
  std::int64_t tokens_ = 0;
  std::vector<TokenPlace> token_places_;
  std::vector<AttentionChunk> attention_chunks_;  // [chunk]
  std::vector<LogitsRow> wanted_;

  Rows x_;  // the residual stream
  InputRows normed_;
  Rows qkv_;
  Rows gates_;
  InputRows heads_;   // gated attention, head after head
  InputRows hidden_;  // gelu(gate_proj) · up_proj
  // The same in the order that a projection wants (in_order), without rows where none does. Two projections read
  // normed_ at a time.
  InputRows sorted_normed_[2];
  InputRows sorted_heads_;
  InputRows sorted_hidden_;
  Rows queries_;             // [kv_head][kPassTokens][head of the group], rotated
  std::vector<Rows> tiles_;  // [worker] two projection tiles
};

}  // namespace sparkx
