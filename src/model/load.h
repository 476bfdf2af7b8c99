// From a checkpoint to a model that can step: memory is looked at first, then the weights are packed.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "core/progress.h"
#include "formats/checkpoint.h"
#include "kernels/kernels.h"
#include "model/input_observer.h"
#include "model/kv_cache.h"
#include "model/model.h"
#include "model/packed_weights.h"

namespace sparkx {

inline constexpr std::int64_t kDefaultContext = 32768;

struct LoadOptions {
  WeightOptions weights;
  std::optional<kernels::KvKind> kv_kind;         // absent: float32 when dtype or activations are, else bfloat16
  std::optional<std::int64_t> context;            // absent: the least of the model's, what fits, and kDefaultContext
  std::int64_t sequences = 1;                     // of the context that must fit into memory together
  int threads = 0;                                // 0: one for each of `cpus`, else default_thread_count()
  std::vector<int> cpus = {};                     // that the threads stay on (core/thread_pool.h); none: any
  bool lock_memory = false;                       // keep weights and cache, of `sequences`, resident
  const kernels::KernelTable* kernels = nullptr;  // null: kernels::kernel_table()
  std::optional<std::size_t> available_bytes;     // absent: what the system has free
  std::optional<std::size_t> kv_limit_bytes;      // of all sequences together; absent: what is free beside the weights
  ProgressCallback progress = {};                 // false cancels
  InputObserver* observer = nullptr;              // of what linear modules read; outlives the model
};

// Throws Error{out_of_memory} when weights, cache and buffers do not fit, Error{invalid_argument} for a context or
// thread count that makes no sense, Error{unsupported} for SPARKX_ISA and for bfloat16-fast on a CPU without it,
// Error{cancelled}, and what Checkpoint::read throws.
std::unique_ptr<Model> load_model(const Checkpoint& checkpoint, LoadOptions options = {});

// What a model takes and what it may have.
struct MemoryNeed {
  std::size_t weight_bytes;
  std::size_t buffer_bytes;
  std::size_t available_bytes;
  std::int64_t sequences = 1;  // of the context that are to fit together
};

// The context for this need: `wanted` when it is given, else the least of `most`, kDefaultContext and what fits.
// kv_bytes(positions) is what a sequence takes. Throws Error{out_of_memory} with all the sizes when it does not fit.
std::int64_t choose_context(const MemoryNeed& need, std::optional<std::int64_t> wanted, std::int64_t most,
                            const std::function<std::size_t(std::int64_t)>& kv_bytes);

// What loading decides, and what it takes, before any weight is read.
struct LoadPlan {
  const kernels::KernelTable* kernels;
  int threads;
  KvLayout kv;
  PackedWeights weights;  // without storage
  MemoryNeed need;
};

// Throws Error{unsupported} as load_model does.
LoadPlan plan_load(const Checkpoint& checkpoint, const LoadOptions& options);
std::int64_t choose_context(const LoadPlan& plan, std::optional<std::int64_t> wanted, std::int64_t most);

// "float32", "bfloat16", "float16"; absent for "auto". Throws Error{invalid_argument}.
std::optional<kernels::WeightKind> parse_weight_kind(std::string_view name);
// The same and "bfloat16-fast", into dtype and fast_bfloat16.
void parse_dtype(std::string_view name, WeightOptions& weights);
// "2bit" to "6bit" and "8bit", in groups of 32, 64 (when `group` is absent) or 128; "mxfp4", "mxfp8", "nvfp4" in their
// own; absent for "none". Throws Error{invalid_argument}.
std::optional<Quantization> parse_quantization(std::string_view mode, std::optional<int> group, bool head);
// "int8", "float32". Throws Error{invalid_argument}.
ActivationMode parse_activation_mode(std::string_view name);
// "float32", "bfloat16", "int8". Throws Error{invalid_argument}.
kernels::KvKind parse_kv_kind(std::string_view name);

}  // namespace sparkx
