#include "model/packed_weights.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <exception>
#include <mutex>
#include <set>
#include <string>
#include <utility>

#include "core/bfloat16.h"
#include "core/error.h"
#include "kernels/pack.h"

namespace sparkx {

using kernels::kLanes;
using kernels::WeightKind;

namespace {

WeightKind kind_of(Dtype dtype) {
  switch (dtype) {
    case Dtype::bfloat16:
      return WeightKind::bfloat16;
    case Dtype::float16:
      return WeightKind::float16;
    default:
      return WeightKind::float32;  // Checkpoint admits no other
  }
}

Dtype dtype_of(WeightKind kind) {
  switch (kind) {
    case WeightKind::float32:
      return Dtype::float32;
    case WeightKind::bfloat16:
      return Dtype::bfloat16;
    case WeightKind::float16:
      return Dtype::float16;
  }
  return Dtype::float32;
}

template <typename T>
T load(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

template <typename T>
void store(std::byte* to, T value) {
  std::memcpy(to, &value, sizeof value);
}

float element(WeightKind kind, const std::byte* elements, std::int64_t i) {
  switch (kind) {
    case WeightKind::float32:
      return load<float>(elements + 4 * i);
    case WeightKind::bfloat16:
      return bfloat16_to_float(load<std::uint16_t>(elements + 2 * i));
    case WeightKind::float16:
      return float16_to_float(load<std::uint16_t>(elements + 2 * i));
  }
  return 0.0f;
}

void set_element(WeightKind kind, std::byte* elements, std::int64_t i, float value) {
  switch (kind) {
    case WeightKind::float32:
      return store(elements + 4 * i, value);
    case WeightKind::bfloat16:
      return store(elements + 2 * i, float_to_bfloat16(value));
    case WeightKind::float16:
      return store(elements + 2 * i, float_to_float16(value));
  }
}

void convert(WeightKind from, const std::byte* source, std::int64_t count, WeightKind to, std::byte* out) {
  if (from == to) {
    std::memcpy(out, source, count * dtype_size(dtype_of(to)));
    return;
  }
  for (std::int64_t i = 0; i < count; ++i) set_element(to, out, i, element(from, source, i));
}

// One tensor and where it goes.
struct Packing {
  const TensorInfo* tensor;
  WeightKind kind;
  bool panels;  // else row after row
  std::size_t panel_bytes;
  std::byte* out;
};

// Gives every tensor its place, one after another from `base` on, and fills in `weights`. From a null base it only
// counts.
class Layout {
 public:
  Layout(const Checkpoint& checkpoint, std::optional<WeightKind> dtype, std::byte* base)
      : checkpoint_(checkpoint), dtype_(dtype), base_(base) {
    const ModelConfig& config = checkpoint.config();
    for (std::int64_t i = 0; i < config.num_hidden_layers; ++i) {
      std::string layer = "model.layers." + std::to_string(i) + ".";
      LayerWeights w{};
      w.input_layernorm = vector(layer + "input_layernorm.weight");
      w.q_k_v_proj = linear(layer + "self_attn.q_k_v_proj");
      w.g_proj = linear(layer + "self_attn.g_proj");
      w.out_proj = linear(layer + "self_attn.out_proj");
      w.post_attention_layernorm = vector(layer + "post_attention_layernorm.weight");
      w.gate_proj = linear(layer + "mlp.gate_proj");
      w.up_proj = linear(layer + "mlp.up_proj");
      w.down_proj = linear(layer + "mlp.down_proj");
      weights.layers.push_back(w);
    }
    weights.norm = vector("model.norm.weight");
    if (config.tie_word_embeddings) {
      weights.lm_head = linear("model.embedding");
    } else {
      weights.embedding = rows("model.embedding.weight");
      weights.lm_head = linear("lm_head");
    }
    weights.bytes = size_;
    for (const std::string& kind : kinds_) weights.kinds += (weights.kinds.empty() ? "" : ", ") + kind;
  }

  PackedWeights weights{};
  std::vector<Packing> packings;

 private:
  std::byte* take(std::size_t bytes) {
    std::size_t offset = size_;
    size_ += (bytes + 63) / 64 * 64;
    return base_ == nullptr ? nullptr : base_ + offset;
  }

  WeightKind matrix_kind(const TensorInfo& tensor) {
    WeightKind kind = dtype_.value_or(kind_of(tensor.dtype));
    kinds_.insert(dtype_name(dtype_of(kind)));
    return kind;
  }

  const float* vector(const std::string& name) {
    const TensorInfo& tensor = checkpoint_.tensor(name);
    std::size_t padded = (tensor.rows() + kLanes - 1) / kLanes * kLanes;
    std::byte* out = take(padded * sizeof(float));
    packings.push_back({&tensor, WeightKind::float32, false, 0, out});
    return reinterpret_cast<const float*>(out);
  }

  Linear linear(const std::string& path) {
    const TensorInfo& tensor = checkpoint_.tensor(path + ".weight");
    Linear linear{};
    linear.matrix.kind = matrix_kind(tensor);
    linear.matrix.rows = tensor.rows();
    linear.matrix.columns = tensor.columns();
    linear.matrix.panel_bytes = kernels::panel_bytes(linear.matrix.kind, tensor.columns());
    std::byte* out = take(linear.matrix.panel_count() * linear.matrix.panel_bytes);
    linear.matrix.panels = out;
    packings.push_back({&tensor, linear.matrix.kind, true, linear.matrix.panel_bytes, out});
    bool biased = checkpoint_.find_tensor(path + ".bias") != nullptr;
    linear.matrix.bias = biased ? vector(path + ".bias") : nullptr;
    return linear;
  }

  RowMatrix rows(const std::string& name) {
    const TensorInfo& tensor = checkpoint_.tensor(name);
    RowMatrix matrix{matrix_kind(tensor), tensor.columns(), nullptr};
    std::byte* out = take(tensor.rows() * tensor.columns() * dtype_size(dtype_of(matrix.kind)));
    matrix.rows = out;
    packings.push_back({&tensor, matrix.kind, false, 0, out});
    return matrix;
  }

  const Checkpoint& checkpoint_;
  std::optional<WeightKind> dtype_;
  std::byte* base_;
  std::size_t size_ = 0;
  std::set<std::string> kinds_;
};

// Reads tensors and packs them, 16 rows at a time, on all threads.
class Packer {
 public:
  Packer(const Checkpoint& checkpoint, ThreadPool& threads, ProgressCallback callback)
      : checkpoint_(checkpoint), threads_(threads), progress_(std::move(callback), checkpoint.weight_bytes()) {
    std::uint64_t most = 0;
    for (const TensorInfo& tensor : checkpoint.tensors()) most = std::max(most, kLanes * tensor.row_bytes());
    for (int i = 0; i < threads.size(); ++i) buffers_.emplace_back(most);
  }

  void pack(const Packing& packing) {
    std::int64_t rows = packing.tensor->rows();
    threads_.parallel_for((rows + kLanes - 1) / kLanes, 1, [&](std::int64_t begin, std::int64_t end, int worker) {
      for (std::int64_t panel = begin; panel < end && !failed_ && !progress_.cancelled(); ++panel) {
        try {
          pack_rows(packing, panel * kLanes, std::min(rows, (panel + 1) * kLanes), buffers_[worker]);
        } catch (...) {
          std::lock_guard lock(mutex_);
          if (!failed_.exchange(true)) error_ = std::current_exception();
        }
      }
    });
    if (failed_) std::rethrow_exception(error_);
    progress_.check();
  }

 private:
  void pack_rows(const Packing& packing, std::int64_t row_begin, std::int64_t row_end,
                 AlignedBuffer<std::byte>& buffer) {
    const TensorInfo& tensor = *packing.tensor;
    std::span<std::byte> source = buffer.span().first((row_end - row_begin) * tensor.row_bytes());
    checkpoint_.read(tensor, row_begin, row_end, source);
    WeightKind from = kind_of(tensor.dtype);
    std::int64_t columns = tensor.columns();
    if (packing.panels) {
      kernels::pack_panel(from, source, static_cast<int>(row_end - row_begin), columns, packing.kind,
                          packing.out + row_begin / kLanes * packing.panel_bytes);
    } else {
      std::size_t row_bytes = columns * dtype_size(dtype_of(packing.kind));
      convert(from, source.data(), (row_end - row_begin) * columns, packing.kind, packing.out + row_begin * row_bytes);
    }
    progress_.add(source.size());
  }

  const Checkpoint& checkpoint_;
  ThreadPool& threads_;
  Progress progress_;
  std::vector<AlignedBuffer<std::byte>> buffers_;  // [worker] 16 rows as stored
  std::atomic<bool> failed_{false};
  std::mutex mutex_;
  std::exception_ptr error_;
};

}  // namespace

void RowMatrix::decode_row(std::int64_t row, float* out) const {
  const std::byte* elements = rows + row * columns * dtype_size(dtype_of(kind));
  for (std::int64_t i = 0; i < columns; ++i) out[i] = element(kind, elements, i);
}

PackedWeights pack_weights(const Checkpoint& checkpoint, std::optional<WeightKind> dtype, ThreadPool& threads,
                           ProgressCallback progress) {
  AlignedBuffer<std::byte> storage(packed_weight_bytes(checkpoint, dtype));
  Layout layout(checkpoint, dtype, storage.data());
  Packer packer(checkpoint, threads, std::move(progress));
  for (const Packing& packing : layout.packings) packer.pack(packing);
  layout.weights.storage = std::move(storage);
  return std::move(layout.weights);
}

std::size_t packed_weight_bytes(const Checkpoint& checkpoint, std::optional<WeightKind> dtype) {
  return Layout(checkpoint, dtype, nullptr).weights.bytes;
}

}  // namespace sparkx
