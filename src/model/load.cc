#include "model/load.h"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <string>
#include <utility>

#include "core/cpu_features.h"
#include "core/error.h"
#include "core/memory_info.h"
#include "core/thread_pool.h"
#include "model/cpu_model.h"

namespace sparkx {

using kernels::KvKind;
using kernels::WeightKind;

namespace {

// A default context below this is no use to anybody: better say what is missing.
constexpr std::int64_t kLeastDefaultContext = 512;
constexpr int kDefaultGroup = 64;  // of columns that share a scale, where nobody says otherwise

std::string human(std::size_t bytes) {
  double value = static_cast<double>(bytes);
  const char* unit = "B";
  for (const char* next : {"KiB", "MiB", "GiB", "TiB"}) {
    if (value < 1024.0) break;
    value /= 1024.0;
    unit = next;
  }
  return unit[0] == 'B' ? fmt::format("{} B", bytes) : fmt::format("{:.1f} {}", value, unit);
}

}  // namespace

std::int64_t choose_context(const MemoryNeed& need, std::optional<std::int64_t> wanted, std::int64_t most,
                            const std::function<std::size_t(std::int64_t)>& kv_bytes) {
  if (wanted && (*wanted < 1 || *wanted > most)) {
    throw_error(ErrorCode::invalid_argument, "a context of {} positions: this model can have 1 to {}", *wanted, most);
  }
  const auto sequences = static_cast<std::size_t>(need.sequences);
  auto fits = [&](std::int64_t context) {
    std::size_t fixed = need.weight_bytes + need.buffer_bytes;
    return fixed <= need.available_bytes && kv_bytes(context) <= (need.available_bytes - fixed) / sequences;
  };
  // The largest context that fits, 0 for none.
  std::int64_t largest = 0;
  for (std::int64_t low = 1, high = most; low <= high;) {
    std::int64_t middle = low + (high - low) / 2;
    if (fits(middle)) {
      largest = middle;
      low = middle + 1;
    } else {
      high = middle - 1;
    }
  }
  std::int64_t least = wanted.value_or(std::min(most, kLeastDefaultContext));
  if (largest >= least) return wanted.value_or(std::min({most, kDefaultContext, largest}));

  std::size_t kv = sequences * kv_bytes(least);
  std::string caches = need.sequences == 1
                           ? fmt::format("the KV cache of {} positions", least)
                           : fmt::format("the KV caches of {} sequences of {} positions", sequences, least);
  std::string message =
      fmt::format("not enough memory: {} for the weights, {} for buffers and {} for {} make {}, but {} are free",
                  human(need.weight_bytes), human(need.buffer_bytes), human(kv), caches,
                  human(need.weight_bytes + need.buffer_bytes + kv), human(need.available_bytes));
  if (largest > 0) message += fmt::format("; a context of {} (--ctx) would fit", largest);
  throw Error(ErrorCode::out_of_memory, message);
}

LoadPlan plan_load(const Checkpoint& checkpoint, const LoadOptions& options) {
  LoadPlan plan{};
  plan.kernels = options.kernels ? options.kernels : &kernels::kernel_table();
  if (options.weights.fast_bfloat16 && !kernels::has_fast_bfloat16(*plan.kernels)) {
    throw_error(ErrorCode::unsupported,
                "dtype \"bfloat16-fast\" needs a CPU with dot products of bfloat16 (AVX512_BF16), and instruction set "
                "\"{}\" on this one has none; bfloat16 runs everywhere",
                plan.kernels->name);
  }
  plan.threads = options.threads;
  if (plan.threads == 0) {
    plan.threads = options.cpus.empty() ? default_thread_count() : static_cast<int>(options.cpus.size());
  }
  const bool exact =
      options.weights.dtype == WeightKind::float32 || options.weights.activations == ActivationMode::float32;
  plan.kv = kv_layout(checkpoint.config(), options.kv_kind.value_or(exact ? KvKind::float32 : KvKind::bfloat16));

  plan.weights = plan_weights(checkpoint, options.weights);
  plan.need.sequences = options.sequences;
  plan.need.weight_bytes = plan.weights.bytes;
  plan.need.buffer_bytes = Transformer::buffer_bytes(checkpoint.config(), plan.weights, plan.threads);
  const std::optional<MemoryInfo> memory = memory_info();
  plan.need.available_bytes = options.available_bytes.value_or(memory ? static_cast<std::size_t>(memory->available)
                                                                      : std::numeric_limits<std::size_t>::max());
  return plan;
}

std::int64_t choose_context(const LoadPlan& plan, std::optional<std::int64_t> wanted, std::int64_t most) {
  return choose_context(plan.need, wanted, most,
                        [&](std::int64_t positions) { return kv_sequence_bytes(plan.kv, positions, kPassTokens); });
}

std::unique_ptr<Model> load_model(const Checkpoint& checkpoint, LoadOptions options) {
  const LoadPlan plan = plan_load(checkpoint, options);
  auto threads = std::make_unique<ThreadPool>(plan.threads, options.cpus);
  const std::int64_t context = choose_context(plan, options.context, checkpoint.config().max_position_embeddings);
  const std::size_t left = plan.need.available_bytes - plan.need.weight_bytes - plan.need.buffer_bytes;

  PackedWeights weights =
      pack_weights(checkpoint, options.weights, *plan.kernels, *threads, std::move(options.progress));
  return std::make_unique<CpuModel>(CpuModelParts{
      checkpoint.config(), std::move(weights), plan.kernels, std::move(threads), plan.kv.kind, context,
      options.kv_limit_bytes.value_or(left), options.lock_memory ? options.sequences : 0, options.observer});
}

void parse_dtype(std::string_view name, WeightOptions& weights) {
  weights.fast_bfloat16 = name == "bfloat16-fast";
  weights.dtype = parse_weight_kind(weights.fast_bfloat16 ? "bfloat16" : name);
}

std::optional<WeightKind> parse_weight_kind(std::string_view name) {
  if (name == "auto") return std::nullopt;
  if (name == "float32") return WeightKind::float32;
  if (name == "bfloat16") return WeightKind::bfloat16;
  if (name == "float16") return WeightKind::float16;
  throw_error(ErrorCode::invalid_argument, "dtype \"{}\": auto, bfloat16, bfloat16-fast, float16 and float32 are known",
              name);
}

std::optional<Quantization> parse_quantization(std::string_view mode, std::optional<int> group, bool head) {
  if (mode == "none") return std::nullopt;
  if (const std::optional<FloatMode> floats = float_mode(mode)) {
    const QuantizationSpec spec = float_mode_spec(*floats);
    if (group && *group != spec.group) {
      throw_error(ErrorCode::invalid_argument, "quantization \"{}\" in groups of {}: it has groups of {}", mode, *group,
                  spec.group);
    }
    return Quantization{spec.bits, spec.group, head, floats};
  }
  constexpr std::pair<std::string_view, int> kModes[] = {{"2bit", 2}, {"3bit", 3}, {"4bit", 4},
                                                         {"5bit", 5}, {"6bit", 6}, {"8bit", 8}};
  const auto known = std::find_if(std::begin(kModes), std::end(kModes), [&](const auto& m) { return m.first == mode; });
  if (known == std::end(kModes)) {
    throw_error(ErrorCode::invalid_argument,
                "quantization \"{}\": none, 2bit to 6bit, 8bit, mxfp4, mxfp8 and nvfp4 are known", mode);
  }
  const int columns = group.value_or(kDefaultGroup);
  if (columns != 32 && columns != 64 && columns != 128) {
    throw_error(ErrorCode::invalid_argument, "quantization in groups of {}: 32, 64 and 128 are possible", columns);
  }
  return Quantization{known->second, columns, head};
}

ActivationMode parse_activation_mode(std::string_view name) {
  if (name == "int8") return ActivationMode::int8;
  if (name == "float32") return ActivationMode::float32;
  throw_error(ErrorCode::invalid_argument, "activations \"{}\": int8 and float32 are known", name);
}

KvKind parse_kv_kind(std::string_view name) {
  for (KvKind kind : {KvKind::float32, KvKind::bfloat16, KvKind::int8}) {
    if (name == kv_kind_name(kind)) return kind;
  }
  throw_error(ErrorCode::invalid_argument, "KV cache dtype \"{}\": bfloat16, float32 and int8 are known", name);
}

}  // namespace sparkx
