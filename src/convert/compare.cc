// How far the weights of two checkpoints are from each other (sparkx/compare.hpp).

#include "sparkx/compare.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <exception>
#include <limits>
#include <mutex>
#include <span>

#include "convert/source.h"
#include "core/cpu_features.h"
#include "core/error.h"
#include "core/json.h"
#include "core/progress.h"
#include "core/thread_pool.h"
#include "engine/text_tokenizer.h"
#include "formats/checkpoint.h"

namespace sparkx {
namespace {

constexpr const char* kEmbedding = "model.embedding.weight";
constexpr const char* kHead = "lm_head.weight";
constexpr std::int64_t kStretchElements = std::int64_t{1} << 18;  // that a thread takes at once: 1 MiB of each side

Checkpoint open(const std::filesystem::path& path) {
  return path.empty() ? Checkpoint::open(kBuiltinName, builtin_files()) : Checkpoint::open(path);
}

void check_shapes(const ModelConfig& a, const ModelConfig& b) {
  const auto check = [](const char* field, std::int64_t ours, std::int64_t theirs) {
    if (ours == theirs) return;
    throw_error(ErrorCode::invalid_argument,
                "the models have different shapes: {} is {} in the one and {} in the other", field, ours, theirs);
  };
  check("num_hidden_layers", a.num_hidden_layers, b.num_hidden_layers);
  check("hidden_size", a.hidden_size, b.hidden_size);
  check("intermediate_size", a.intermediate_size, b.intermediate_size);
  check("num_attention_heads", a.num_attention_heads, b.num_attention_heads);
  check("num_key_value_heads", a.num_key_value_heads, b.num_key_value_heads);
  check("head_dim", a.head_dim, b.head_dim);
  check("vocab_size", a.vocab_size, b.vocab_size);
  check("attention_bias", a.attention_bias, b.attention_bias);
  check("mlp_bias", a.mlp_bias, b.mlp_bias);
}

std::vector<std::string> configuration_differences(const ModelConfig& a, const ModelConfig& b) {
  std::vector<std::string> differences;
  const auto compare = [&](const std::string& field, const auto& ours, const auto& theirs) {
    if (ours != theirs) differences.push_back(fmt::format("{}: {} and {}", field, ours, theirs));
  };
  compare("sliding_window", a.sliding_window, b.sliding_window);
  compare("rms_norm_eps", json::repr(a.rms_norm_eps), json::repr(b.rms_norm_eps));
  compare("max_position_embeddings", a.max_position_embeddings, b.max_position_embeddings);
  for (std::size_t i = 0; i < a.layer_types.size(); ++i) {
    compare(fmt::format("layer_types[{}]", i), std::string(layer_type_name(a.layer_types[i])),
            std::string(layer_type_name(b.layer_types[i])));
  }
  for (const LayerType type : {LayerType::sliding_attention, LayerType::full_attention}) {
    const RopeParameters &ours = a.rope(type), &theirs = b.rope(type);
    if (ours.rotary_dims == 0 || theirs.rotary_dims == 0) continue;  // the layer types have said it
    const std::string name = fmt::format("rope_parameters.{}.", layer_type_name(type));
    compare(name + "rope_theta", json::repr(ours.rope_theta), json::repr(theirs.rope_theta));
    compare(name + "partial_rotary_factor, in channels", ours.rotary_dims, theirs.rotary_dims);
  }
  return differences;
}

struct Sums {
  double squares = 0;      // of the reference
  double differences = 0;  // their squares
  double largest = 0;

  void add(const Sums& other) {
    squares += other.squares;
    differences += other.differences;
    largest = std::max(largest, other.largest);
  }
  double relative_rms() const {
    if (differences == 0) return 0;
    return squares == 0 ? std::numeric_limits<double>::infinity() : std::sqrt(differences / squares);
  }
};

Sums sums_of(std::span<const float> reference, std::span<const float> other) {
  Sums sums;
  for (std::size_t i = 0; i < reference.size(); ++i) {
    const double r = reference[i], d = other[i] - r;
    sums.squares += r * r;
    sums.differences += d * d;
    sums.largest = std::max(sums.largest, std::abs(d));
  }
  return sums;
}

// The same tensor of two checkpoints, on all threads.
class Comparer {
 public:
  Comparer(const Checkpoint& reference, const Checkpoint& other, ThreadPool& threads, Progress& progress)
      : reference_(reference), other_(other), threads_(threads), progress_(progress) {
    for (int i = 0; i < threads.size(); ++i) workers_.emplace_back();
  }

  Sums compare(const TensorInfo& ours, const TensorInfo& theirs) {
    const std::int64_t rows = std::max<std::int64_t>(1, kStretchElements / ours.columns());
    std::vector<Sums> stretches(static_cast<std::size_t>((ours.rows() + rows - 1) / rows));
    threads_.parallel_for(static_cast<std::int64_t>(stretches.size()), 1,
                          [&](std::int64_t begin, std::int64_t end, int worker) {
                            for (std::int64_t i = begin; i < end && !failed_ && !progress_.cancelled(); ++i) {
                              stretches[static_cast<std::size_t>(i)] =
                                  stretch(ours, theirs, i * rows, std::min(ours.rows(), (i + 1) * rows),
                                          workers_[static_cast<std::size_t>(worker)]);
                            }
                          });
    if (failed_) std::rethrow_exception(error_);
    progress_.check();
    Sums sums;
    for (const Sums& s : stretches) sums.add(s);
    return sums;
  }

 private:
  struct Worker {
    std::vector<float> reference;
    std::vector<float> other;
  };

  Sums stretch(const TensorInfo& ours, const TensorInfo& theirs, std::int64_t begin, std::int64_t end, Worker& worker) {
    try {
      const auto count = static_cast<std::size_t>((end - begin) * ours.columns());
      worker.reference.resize(count);
      worker.other.resize(count);
      read_values(reference_, ours, begin, end, worker.reference.data());
      read_values(other_, theirs, begin, end, worker.other.data());
      progress_.add(2 * count * sizeof(float));
      return sums_of(worker.reference, worker.other);
    } catch (...) {
      const std::lock_guard lock(mutex_);
      if (!failed_.exchange(true)) error_ = std::current_exception();
      return {};
    }
  }

  const Checkpoint& reference_;
  const Checkpoint& other_;
  ThreadPool& threads_;
  Progress& progress_;
  std::vector<Worker> workers_;
  std::atomic<bool> failed_ = false;
  std::mutex mutex_;
  std::exception_ptr error_;
};

// What a checkpoint has for a tensor of the other one: a tied head is the embedding.
const TensorInfo& counterpart(const Checkpoint& checkpoint, const std::string& name) {
  const TensorInfo* found = checkpoint.find_tensor(name);
  return found != nullptr || name != kHead ? checkpoint.tensor(name) : checkpoint.tensor(kEmbedding);
}

}  // namespace

CheckpointDifference compare_checkpoints(const std::filesystem::path& reference_path,
                                         const std::filesystem::path& other_path, const CompareOptions& options) {
  if (options.threads && *options.threads < 1) throw_error(ErrorCode::invalid_argument, "threads must be 1 or more");
  const Checkpoint reference = open(reference_path), other = open(other_path);
  check_shapes(reference.config(), other.config());
  CheckpointDifference difference;
  difference.configuration = configuration_differences(reference.config(), other.config());

  // The names of both: one of them may have a head where the other's is tied.
  const Checkpoint& with_head = other.find_tensor(kHead) != nullptr ? other : reference;
  std::uint64_t total = 0;
  for (const TensorInfo& tensor : with_head.tensors()) {
    total +=
        2 * sizeof(float) * static_cast<std::uint64_t>(tensor.rows()) * static_cast<std::uint64_t>(tensor.columns());
  }
  ThreadPool threads(options.threads.value_or(default_thread_count()));
  Progress progress(options.progress, total);
  Comparer comparer(reference, other, threads, progress);
  Sums all;
  for (const TensorInfo& tensor : with_head.tensors()) {
    const TensorInfo &ours = counterpart(reference, tensor.name), &theirs = counterpart(other, tensor.name);
    const Sums sums = comparer.compare(ours, theirs);
    difference.tensors.push_back({tensor.name, tensor.shape, storage_name(reference, ours), storage_name(other, theirs),
                                  sums.relative_rms(), sums.largest});
    all.add(sums);
  }
  difference.relative_rms = all.relative_rms();
  difference.largest = all.largest;
  return difference;
}

}  // namespace sparkx
