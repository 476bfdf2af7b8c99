#include "model/packed_weights.h"

#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <exception>
#include <mutex>
#include <set>
#include <string>
#include <utility>

#include "core/bfloat16.h"
#include "core/error.h"
#include "core/float_environment.h"
#include "kernels/pack.h"

namespace sparkx {

using kernels::kLanes;
using kernels::WeightFormat;
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

Dtype dtype_of(WeightKind dense) {
  switch (dense) {
    case WeightKind::bfloat16:
      return Dtype::bfloat16;
    case WeightKind::float16:
      return Dtype::float16;
    default:
      return Dtype::float32;
  }
}

WeightKind codes_of(int bits) {
  constexpr WeightKind kKinds[] = {WeightKind::codes2, WeightKind::codes3, WeightKind::codes4,
                                   WeightKind::codes5, WeightKind::codes6, WeightKind::codes8};
  return *std::find_if(std::begin(kKinds), std::end(kKinds) - 1,
                       [&](WeightKind kind) { return kernels::code_bits(kind) == bits; });
}

WeightKind codes_of(const QuantizationSpec& spec) {
  switch (spec.values) {
    case CodeValues::e2m1:
      return WeightKind::e2m1;
    case CodeValues::iq4:
      return WeightKind::iq4;
    case CodeValues::e4m3:
      return WeightKind::e4m3;
    default:
      return codes_of(spec.bits);
  }
}

// How a matrix that is stored as codes is packed. Throws Error{unsupported} for codes that no kernel multiplies: those
// that no format has.
WeightFormat format_of(const std::string& name, const QuantizationSpec& spec) {
  const auto refuse = [&](const char* what) { throw_error(ErrorCode::unsupported, "{}: {}", name, what); };
  WeightFormat format{codes_of(spec), spec.group, WeightKind::float32, spec.scheme, spec.zero};
  if (spec.values != CodeValues::integers) {
    // What makes the values of a table positive leaves like a zero point.
    format.zero = kernels::table_zero(format.kind);
    if (spec.group == kWholeRow) refuse("codes that are no integers have groups of columns");
    if (spec.values == CodeValues::e2m1 && spec.scale_dtype == Dtype::float32) {
      refuse("E2M1 codes have scales of 8 or 16 bits");  // whose halves are exact
    }
  }
  if (spec.scheme == CodeScheme::two_level) {
    if (!kernels::has_two_levels(format.kind) || spec.group != kernels::sub_block_columns(format.kind) ||
        spec.minima != kernels::has_minima(format.kind) || format.zero != kernels::two_level_zero(format.kind)) {
      refuse("two levels of scales other than those of Q2_K to Q6_K and IQ4_XS");
    }
  }
  switch (spec.scale_dtype) {
    case Dtype::float8_e8m0:  // a bfloat16 holds both
      format.scale_kind = WeightKind::bfloat16;
      break;
    case Dtype::float8_e4m3:
      format.scale_kind = spec.group == 16 ? WeightKind::e4m3 : WeightKind::bfloat16;
      break;
    default:
      format.scale_kind = kind_of(spec.scale_dtype);
  }
  if (spec.group == 16 && spec.scheme == CodeScheme::offset && format.scale_kind != WeightKind::e4m3) {
    refuse("groups of 16 columns with scales that are no E4M3");
  }
  return format;
}

std::string codes_name(const WeightFormat& format) {
  switch (format.kind) {
    case WeightKind::e2m1:
      return "E2M1";
    case WeightKind::iq4:
      return "IQ4";
    case WeightKind::e4m3:
      return "E4M3";
    default:
      return fmt::format("{}-bit", kernels::code_bits(format.kind));
  }
}

std::string format_name(const WeightFormat& format) {
  if (kernels::is_dense(format.kind)) return dtype_name(dtype_of(format.kind));
  if (format.scheme == CodeScheme::w8a8) return "W8A8";
  std::string group = format.group == kWholeRow                ? "one scale a row"
                      : format.scheme == CodeScheme::two_level ? fmt::format("two levels, groups of {}", format.group)
                                                               : fmt::format("groups of {}", format.group);
  return fmt::format("{} ({})", codes_name(format), group);
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

// Element i of a dense kind.
float element(WeightKind kind, const std::byte* elements, std::int64_t i) {
  switch (kind) {
    case WeightKind::bfloat16:
      return bfloat16_to_float(load<std::uint16_t>(elements + 2 * i));
    case WeightKind::float16:
      return float16_to_float(load<std::uint16_t>(elements + 2 * i));
    default:
      return load<float>(elements + 4 * i);
  }
}

void set_element(WeightKind kind, std::byte* elements, std::int64_t i, float value) {
  switch (kind) {
    case WeightKind::bfloat16:
      return store(elements + 2 * i, float_to_bfloat16(value));
    case WeightKind::float16:
      return store(elements + 2 * i, float_to_float16(value));
    default:
      return store(elements + 4 * i, value);
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
  const QuantizedMatrix* quantized;  // null when it is stored dense
  WeightFormat format;
  bool panels;  // else a vector of floats
  std::size_t panel_bytes;
  std::byte* out;
};

// Gives every tensor its place, one after another from `base` on, and fills in `weights`. From a null base it only
// counts.
class Layout {
 public:
  Layout(const Checkpoint& checkpoint, const WeightOptions& options, std::byte* base)
      : checkpoint_(checkpoint), options_(options), base_(base) {
    const ModelConfig& config = checkpoint.config();
    for (std::int64_t i = 0; i < config.num_hidden_layers; ++i) {
      std::string layer = "model.layers." + std::to_string(i) + ".";
      LayerWeights w{};
      w.input_layernorm = vector(layer + "input_layernorm.weight");
      w.q_k_v_proj = linear(layer + "self_attn.q_k_v_proj");
      w.g_proj = linear(layer + "self_attn.g_proj", false);
      w.out_proj = linear(layer + "self_attn.out_proj");
      w.post_attention_layernorm = vector(layer + "post_attention_layernorm.weight");
      w.gate_proj = linear(layer + "mlp.gate_proj");
      w.up_proj = linear(layer + "mlp.up_proj");
      w.down_proj = linear(layer + "mlp.down_proj");
      weights.layers.push_back(w);
    }
    weights.norm = vector("model.norm.weight");
    bool head = options.quantize && options.quantize->head;
    if (config.tie_word_embeddings) {
      weights.lm_head = linear("model.embedding", head);
    } else {
      weights.embedding = linear("model.embedding");
      weights.lm_head = linear("lm_head", head);
    }
    if ((weights.embedding ? *weights.embedding : weights.lm_head).column_order != nullptr) {
      throw_error(ErrorCode::unsupported,
                  "model.embedding: sparkx does not read rows of an embedding whose columns are "
                  "reordered (weight_g_idx)");
    }
    weights.bytes = size_;
    for (const std::string& kind : kinds_) weights.kinds += (weights.kinds.empty() ? "" : ", ") + kind;
    weights.activations = coded_ ? "int8" : "float32";
  }

  PackedWeights weights{};
  std::vector<Packing> packings;

 private:
  std::byte* take(std::size_t bytes) {
    std::size_t offset = size_;
    size_ += (bytes + 63) / 64 * 64;
    return base_ == nullptr ? nullptr : base_ + offset;
  }

  WeightFormat matrix_format(const TensorInfo& tensor, const QuantizedMatrix* quantized, bool quantize) {
    if (quantized != nullptr) {
      const WeightFormat format = format_of(tensor.name, quantized->spec);
      kinds_.insert(format_name(format));
      return format;
    }
    WeightFormat format{options_.dtype.value_or(kind_of(tensor.dtype))};
    if (quantize && options_.quantize && tensor.columns() % options_.quantize->group == 0) {
      const Quantization& to = *options_.quantize;
      format = to.floats ? format_of(tensor.name, float_mode_spec(*to.floats))
                         : WeightFormat{codes_of(to.bits), to.group, format.kind};
    }
    kinds_.insert(format_name(format) + (options_.fast_bfloat16 && format.kind == WeightKind::bfloat16 ? "-fast" : ""));
    return format;
  }

  const float* vector(const std::string& name) {
    const TensorInfo& tensor = checkpoint_.tensor(name);
    std::size_t padded = (tensor.rows() + kLanes - 1) / kLanes * kLanes;
    std::byte* out = take(padded * sizeof(float));
    packings.push_back({&tensor, nullptr, {WeightKind::float32}, false, 0, out});
    return reinterpret_cast<const float*>(out);
  }

  Linear linear(const std::string& path, bool quantize = true) {
    const TensorInfo& tensor = checkpoint_.tensor(path + ".weight");
    const QuantizedMatrix* quantized = checkpoint_.find_quantized(tensor.name);
    Linear linear{};
    linear.matrix.format = matrix_format(tensor, quantized, quantize);
    linear.form = kernels::ActivationForm::values;
    // Rule 5 has one form in either mode.
    const bool int8 = options_.activations == ActivationMode::int8;
    if (int8 || linear.matrix.format.scheme == CodeScheme::w8a8) {
      linear.form = kernels::coded_form(linear.matrix.format);
    }
    if (options_.fast_bfloat16 && linear.matrix.format.kind == WeightKind::bfloat16) {
      linear.form = kernels::ActivationForm::bfloat16;
    }
    if (int8 && !kernels::is_dense(linear.matrix.format.kind) && linear.form != kernels::ActivationForm::values)
      coded_ = true;
    if (quantized != nullptr && !quantized->column_order.empty()) {
      linear.column_order = weights.column_orders.emplace_back(quantized->column_order).data();
    }
    linear.matrix.rows = tensor.rows();
    linear.matrix.columns = tensor.columns();
    linear.matrix.panel_bytes = kernels::panel_bytes(linear.matrix.format, tensor.columns());
    std::byte* out = take(linear.matrix.panel_count() * linear.matrix.panel_bytes);
    linear.matrix.panels = out;
    packings.push_back({&tensor, quantized, linear.matrix.format, true, linear.matrix.panel_bytes, out});
    bool biased = checkpoint_.find_tensor(path + ".bias") != nullptr;
    linear.matrix.bias = biased ? vector(path + ".bias") : nullptr;
    return linear;
  }

  const Checkpoint& checkpoint_;
  const WeightOptions& options_;
  std::byte* base_;
  std::size_t size_ = 0;
  std::set<std::string> kinds_;
  bool coded_ = false;
};

// Reads tensors and packs them, 16 rows at a time, on all threads.
class Packer {
 public:
  Packer(const Checkpoint& checkpoint, const WeightOptions& options, std::span<const Packing> packings,
         const kernels::KernelTable& kernels, ThreadPool& threads, ProgressCallback callback)
      : checkpoint_(checkpoint),
        options_(options),
        kernels_(kernels),
        threads_(threads),
        progress_(std::move(callback), checkpoint.weight_bytes()) {
    std::size_t stored = 0, converted = 0, codes = 0, groups = 0;
    for (const Packing& packing : packings) {
      const TensorInfo& tensor = *packing.tensor;
      stored = std::max<std::size_t>(stored, kLanes * tensor.row_bytes());
      if (kernels::is_dense(packing.format.kind)) continue;
      codes = std::max<std::size_t>(codes, kLanes * tensor.columns());
      groups = std::max<std::size_t>(groups, kLanes * kernels::group_count(packing.format, tensor.columns()));
      if (packing.quantized == nullptr && options_.dtype.value_or(kind_of(tensor.dtype)) != kind_of(tensor.dtype))
        converted = std::max(converted, codes * sizeof(float));
    }
    for (int i = 0; i < threads.size(); ++i) {
      workers_.push_back({AlignedBuffer<std::byte>(stored), AlignedBuffer<std::byte>(converted),
                          AlignedBuffer<std::uint8_t>(codes), AlignedBuffer<float>(groups),
                          AlignedBuffer<float>(groups), AlignedBuffer<std::uint8_t>(groups),
                          AlignedBuffer<std::int8_t>(groups), AlignedBuffer<std::uint8_t>(groups)});
    }
  }

  void pack(const Packing& packing) {
    std::int64_t rows = packing.tensor->rows();
    threads_.parallel_for((rows + kLanes - 1) / kLanes, 1, [&](std::int64_t begin, std::int64_t end, int worker) {
      for (std::int64_t panel = begin; panel < end && !failed_ && !progress_.cancelled(); ++panel) {
        try {
          pack_rows(packing, panel * kLanes, std::min(rows, (panel + 1) * kLanes), workers_[worker]);
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
  // 16 rows on their way.
  struct Worker {
    AlignedBuffer<std::byte> stored;
    AlignedBuffer<std::byte> converted;  // to the type that is quantized, where it is another
    AlignedBuffer<std::uint8_t> codes;
    AlignedBuffer<float> scales;
    AlignedBuffer<float> biases;
    AlignedBuffer<std::uint8_t> zeros;
    AlignedBuffer<std::int8_t> sub_scales;
    AlignedBuffer<std::uint8_t> sub_minima;
  };

  void pack_rows(const Packing& packing, std::int64_t row_begin, std::int64_t row_end, Worker& worker) {
    const TensorInfo& tensor = *packing.tensor;
    std::int64_t columns = tensor.columns();
    auto row_count = static_cast<int>(row_end - row_begin);
    std::byte* panel = packing.out + row_begin / kLanes * packing.panel_bytes;
    const std::size_t source_bytes = row_count * tensor.row_bytes();
    if (packing.quantized != nullptr) {
      packing.quantized->read(row_begin, row_end,
                              {worker.codes.data(), worker.scales.data(), worker.biases.data(), worker.zeros.data(),
                               worker.sub_scales.data(), worker.sub_minima.data()});
      check_numbers(packing, row_count, worker);
      pack_codes(packing.format, row_count, columns, worker, panel);
      progress_.add(source_bytes);
      return;
    }
    std::span<std::byte> source = worker.stored.span().first(source_bytes);
    checkpoint_.read(tensor, row_begin, row_end, source);
    WeightKind from = kind_of(tensor.dtype);
    if (!packing.panels) {
      convert(from, source.data(), row_count * columns, WeightKind::float32,
              packing.out + row_begin * columns * sizeof(float));
    } else if (kernels::is_dense(packing.format.kind)) {
      kernels::pack_panel(from, source, row_count, columns, packing.format.kind, panel);
    } else {
      quantize_rows(packing, row_count, worker, panel);
    }
    progress_.add(source_bytes);
  }

  // Floats of 8 bits have one pattern that is no number. Kernels do not know it.
  static void check_numbers(const Packing& packing, int row_count, const Worker& worker) {
    const std::int64_t columns = packing.tensor->columns();
    bool numbers = true;
    if (packing.format.kind == WeightKind::e4m3) {
      for (std::int64_t i = 0; i < row_count * columns; ++i) numbers &= (worker.codes[i] & 0x7f) != 0x7f;
    }
    if (packing.format.scale_kind == WeightKind::e4m3) {
      const std::int64_t scales = row_count * kernels::scale_count(packing.format, columns);
      for (std::int64_t i = 0; i < scales; ++i) numbers &= !std::isnan(worker.scales[i]);
    }
    if (!numbers) throw_error(ErrorCode::corrupt, "tensor {} has an E4M3 that is no number", packing.tensor->name);
  }

  void quantize_rows(const Packing& packing, int row_count, Worker& worker, std::byte* panel) {
    const WeightFormat& format = packing.format;
    const std::int64_t columns = packing.tensor->columns();
    const WeightKind from = kind_of(packing.tensor->dtype), kind = options_.dtype.value_or(from);
    const std::byte* rows = worker.stored.data();
    if (from != kind) {
      convert(from, rows, row_count * columns, kind, worker.converted.data());
      rows = worker.converted.data();
    }
    // Stored weights are rounded to nearest whatever the caller's environment says; so are quantized ones.
    ScopedFloatEnvironment environment;
    std::int64_t groups = columns / format.group;
    std::size_t row_bytes = columns * dtype_size(dtype_of(kind));
    std::vector<float> values(options_.quantize->floats ? static_cast<std::size_t>(columns) : 0);
    for (int row = 0; row < row_count; ++row) {
      if (options_.quantize->floats) {
        convert(kind, rows + row * row_bytes, columns, WeightKind::float32,
                reinterpret_cast<std::byte*>(values.data()));
        quantize_floats(*options_.quantize->floats, dtype_of(kind), values.data(), columns,
                        worker.codes.data() + row * columns, worker.scales.data() + row * groups);
        continue;
      }
      kernels_.quantize_affine[static_cast<int>(kind)](rows + row * row_bytes, columns, kernels::code_bits(format.kind),
                                                       format.group, worker.codes.data() + row * columns,
                                                       worker.scales.data() + row * groups,
                                                       worker.biases.data() + row * groups);
    }
    check_numbers(packing, row_count, worker);
    pack_codes(format, row_count, columns, worker, panel);
  }

  static void pack_codes(const WeightFormat& format, int row_count, std::int64_t columns, const Worker& worker,
                         std::byte* panel) {
    kernels::pack_code_panel(format,
                             {worker.codes.data(), worker.scales.data(), worker.biases.data(), worker.zeros.data(),
                              worker.sub_scales.data(), worker.sub_minima.data()},
                             row_count, columns, panel);
  }

  const Checkpoint& checkpoint_;
  const WeightOptions& options_;
  const kernels::KernelTable& kernels_;
  ThreadPool& threads_;
  Progress progress_;
  std::vector<Worker> workers_;
  std::atomic<bool> failed_{false};
  std::mutex mutex_;
  std::exception_ptr error_;
};

}  // namespace

PackedWeights pack_weights(const Checkpoint& checkpoint, const WeightOptions& options,
                           const kernels::KernelTable& kernels, ThreadPool& threads, ProgressCallback progress) {
  AlignedBuffer<std::byte> storage(plan_weights(checkpoint, options).bytes);
  Layout layout(checkpoint, options, storage.data());
  Packer packer(checkpoint, options, layout.packings, kernels, threads, std::move(progress));
  for (const Packing& packing : layout.packings) packer.pack(packing);
  layout.weights.storage = std::move(storage);
  return std::move(layout.weights);
}

PackedWeights plan_weights(const Checkpoint& checkpoint, const WeightOptions& options) {
  return std::move(Layout(checkpoint, options, nullptr).weights);
}

}  // namespace sparkx
