// What a conversion to a GGUF file writes.
#include <algorithm>
#include <cmath>
#include <exception>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include "convert/calibration.h"
#include "convert/gguf_calibrated.h"
#include "convert/gguf_codes.h"
#include "convert/gguf_encode.h"
#include "convert/gguf_metadata.h"
#include "convert/gguf_recipe.h"
#include "convert/source.h"
#include "convert/target.h"
#include "core/cpu_features.h"
#include "core/error.h"
#include "core/float_environment.h"
#include "core/printable.h"
#include "core/regex.h"
#include "core/thread_pool.h"
#include "formats/gguf_model.h"
#include "formats/gguf_writer.h"

namespace sparkx {
namespace {

constexpr std::string_view kWeight = ".weight";
constexpr std::string_view kHighestQuality = "Q8_0";  // for codes that have no place as they are
// Codes stay with scales rounded to float16 while that moves the weights by less than this, relative to them: a scale's
// own rounding, half a unit in the last of 11 bits, is below it.
constexpr double kMostMoved = 1e-3;
constexpr std::int64_t kRowsAtATime = 64;

void check_options(const Checkpoint& checkpoint, const ConvertOptions& options) {
  for (const auto& [bias, name] :
       {std::pair(checkpoint.config().attention_bias, "attention_bias"), {checkpoint.config().mlp_bias, "mlp_bias"}}) {
    if (bias) {
      throw_error(ErrorCode::unsupported, "{} is true, but GGUF files of Spark-X2.5 models have no names for biases",
                  name);
    }
  }
  if (options.group_size) {
    throw_error(ErrorCode::invalid_argument,
                "the types of GGUF files have groups of their own; --group-size is for MLX");
  }
  if (!options.recipe.empty()) {
    throw_error(ErrorCode::invalid_argument,
                "{} is a recipe of MLX's; those of GGUF files are called Q4_K_M, Q5_K_M, …", in_quotes(options.recipe));
  }
}

// "4" and "4bit" as GGUF has it; of a mixture the type of most matrices.
std::string_view type_of_rule(const std::string& mode) {
  const bool number = !mode.empty() && mode.find_first_not_of("0123456789") == mode.npos;
  return find_gguf_recipe(number ? mode + "bit" : mode).type;
}

// What is asked for, module by module.
class Wishes {
 public:
  explicit Wishes(const ConvertOptions& options) {
    if (options.quantize != "none") recipe_ = &find_gguf_recipe(options.quantize);
    for (const QuantizationRule& rule : options.rules) {
      const std::optional<std::string_view> type =
          rule.mode == "none" ? std::nullopt : std::optional(type_of_rule(rule.mode));
      rules_.push_back({Regex(rule.pattern, RegexSyntax::python), type});
    }
  }

  const GgufRecipe* recipe() const { return recipe_; }

  // Null: as it is. `reason` is set when its rows do not fit the type that is wanted.
  const GgufType* type(const std::string& path, std::int64_t columns, const ModelConfig& config, std::string* reason) {
    const Rule* decides = nullptr;
    for (Rule& rule : rules_) {
      if (!RegexScanner(rule.pattern, path).next()) continue;
      rule.used = true;
      decides = &rule;
    }
    if (decides != nullptr) return decides->type ? &fitting_gguf_type(*decides->type, columns, reason) : nullptr;
    return recipe_ != nullptr ? &gguf_recipe_type(*recipe_, path, columns, config, reason) : nullptr;
  }

  void note_unused_rules(std::vector<std::string>& notes) const {
    for (const Rule& rule : rules_) {
      if (!rule.used) notes.push_back(fmt::format("no module matches {}", rule.pattern.pattern()));
    }
  }

 private:
  struct Rule {
    Regex pattern;
    std::optional<std::string_view> type;
    bool used = false;
  };
  const GgufRecipe* recipe_ = nullptr;
  std::vector<Rule> rules_;
};

const GgufType& plain_type(const TensorInfo& tensor, std::string_view wanted) {
  const std::string_view dtype = wanted == "auto" ? dtype_name(tensor.dtype) : wanted;
  constexpr std::pair<std::string_view, const char*> kTypes[] = {
      {"float32", "F32"}, {"float16", "F16"}, {"bfloat16", "BF16"}};
  for (const auto& [name, type] : kTypes) {
    if (dtype == name) return *find_gguf_type(type);
  }
  throw_error(ErrorCode::invalid_argument, "{} is no type of weights: float32, bfloat16, float16", in_quotes(wanted));
}

// How far the weights of a matrix move when its codes go into blocks of this type, relative to the weights of the rows
// where any does.
double relative_loss(const QuantizedMatrix& matrix, const GgufType& type, const TensorInfo& tensor, ThreadPool& pool) {
  if (matrix.spec.scale_dtype == Dtype::float16) return 0;
  std::mutex mutex;
  TransferLoss sum;
  std::exception_ptr error;
  const std::int64_t pieces = (tensor.rows() + kRowsAtATime - 1) / kRowsAtATime;
  pool.parallel_for(pieces, 1, [&](std::int64_t begin, std::int64_t end, int) {
    try {
      const ScopedFloatEnvironment environment;
      const TransferLoss loss = transfer_loss(matrix, type, tensor.columns(), begin * kRowsAtATime,
                                              std::min(end * kRowsAtATime, tensor.rows()));
      const std::lock_guard lock(mutex);
      sum.moved += loss.moved;
      sum.weights += loss.weights;
    } catch (...) {
      const std::lock_guard lock(mutex);
      error = std::current_exception();
    }
  });
  if (error) std::rethrow_exception(error);
  return sum.moved > 0 ? std::sqrt(sum.moved / sum.weights) : 0;
}

class Planner {
 public:
  Planner(const Checkpoint& checkpoint, const ConvertOptions& options, Calibration* calibration)
      : checkpoint_(checkpoint),
        options_(options),
        calibration_(calibration),
        wishes_(options),
        pool_(std::max(options.threads.value_or(default_thread_count()), 1)) {}

  Target plan() {
    std::map<const GgufType*, std::int64_t> weights;  // in matrices, by type
    std::vector<const GgufType*> types;
    for (const TensorInfo& tensor : checkpoint_.tensors()) {
      types.push_back(&add(tensor));
      if (tensor.shape.size() == 2) weights[types.back()] += tensor.rows() * tensor.columns();
    }
    const auto most = std::max_element(weights.begin(), weights.end(),
                                       [](const auto& a, const auto& b) { return a.second < b.second; });
    const std::uint32_t file_type =
        wishes_.recipe() != nullptr ? wishes_.recipe()->file_type : gguf_file_type(*most->first);
    GgufWriter writer;
    add_gguf_metadata(checkpoint_, file_type, writer, target_.notes);
    for (std::size_t i = 0; i < types.size(); ++i) {
      const TensorInfo& tensor = *target_.tensors[i].tensor;
      writer.add_tensor(*to_gguf_tensor_name(tensor.name), *types[i], tensor.shape);
    }
    const std::vector<GgufTensor> placed = writer.tensors();
    for (std::size_t i = 0; i < placed.size(); ++i) {
      const GgufTensor& tensor = placed[i];
      const std::uint64_t row_bytes = tensor.bytes / static_cast<std::uint64_t>(target_.tensors[i].tensor->rows());
      target_.tensors[i].parts.push_back({.name = tensor.name,
                                          .type = tensor.type->name,
                                          .shape = tensor.shape,
                                          .row_bytes = row_bytes,
                                          .dtype = gguf_dtype(*tensor.type),
                                          .offset = tensor.offset});
    }
    target_.single_file = true;
    target_.files = {{"model.gguf", writer.head(), writer.file_bytes()}};
    wishes_.note_unused_rules(target_.notes);
    note_codes();
    return std::move(target_);
  }

 private:
  // Plans a tensor; the type that it has in the file.
  const GgufType& add(const TensorInfo& tensor) {
    TensorPlan& plan = target_.tensors.emplace_back();
    plan.tensor = &tensor;
    plan.source = storage_name(checkpoint_, tensor);
    if (tensor.shape.size() == 1) return encode_as(*find_gguf_type("F32"), plan);
    const std::string path = tensor.name.substr(0, tensor.name.size() - kWeight.size());
    const GgufType* wanted = wishes_.type(path, tensor.columns(), checkpoint_.config(), &plan.reason);
    const QuantizedMatrix* matrix = checkpoint_.find_quantized(tensor.name);
    if (matrix == nullptr) return encode_as(wanted != nullptr ? *wanted : plain_type(tensor, options_.dtype), plan);
    if (!matrix->block_type.empty() && (wanted == nullptr || matrix->block_type == wanted->name)) {
      return copy_blocks(*matrix, *find_gguf_type(matrix->block_type), plan);
    }
    if (matrix->spec.scheme == CodeScheme::w8a8) ++activation_codes_;
    const GgufType* holds = gguf_type_for_codes(*matrix, tensor.columns());
    if (holds != nullptr && (wanted == nullptr || wanted == holds)) {
      const double loss = relative_loss(*matrix, *holds, tensor, pool_);
      if (loss < kMostMoved) return keep_codes(*matrix, *holds, loss, plan);
    }
    if (wanted == nullptr || wanted->block_size > 1) ++quantized_again_;
    if (wanted != nullptr) return encode_as(*wanted, plan);
    plan.reason =
        holds != nullptr ? "its scales are beyond float16, which is what GGUF has" : "GGUF has no type for such codes";
    std::string shape_reason;
    return encode_as(fitting_gguf_type(kHighestQuality, tensor.columns(), &shape_reason), plan);
  }

  static const GgufType& copy_blocks(const QuantizedMatrix& matrix, const GgufType& type, TensorPlan& plan) {
    plan.target = type.name;
    plan.encode = [&matrix](std::int64_t begin, std::int64_t end, std::span<std::byte* const> out) {
      matrix.read_blocks(begin, end, out[0]);
      return 0.0;
    };
    return type;
  }

  const GgufType& keep_codes(const QuantizedMatrix& matrix, const GgufType& type, double loss, TensorPlan& plan) {
    ++kept_codes_;
    if (loss > 0) {
      ++rounded_scales_;
      plan.reason = fmt::format("codes kept; scales as float16 move the weights by {:.1e} of their size", loss);
    }
    plan.target = type.name;
    plan.encode = [&matrix, &type, columns = plan.tensor->columns()](std::int64_t begin, std::int64_t end,
                                                                     std::span<std::byte* const> out) {
      const ScopedFloatEnvironment environment;
      return transfer_codes(matrix, type, columns, begin, end, out[0]);
    };
    return type;
  }

  const GgufType& encode_as(const GgufType& type, TensorPlan& plan) {
    plan.target = type.name;
    if (calibration_ != nullptr && can_calibrate_gguf(type)) {
      plan.calibrated = calibration_->want(*plan.tensor);
      if (!plan.reason.empty()) plan.reason += "; ";
      plan.reason += plan.calibrated ? "calibrated" : "not calibrated";
    }
    plan.encode = [&checkpoint = checkpoint_, &type, &tensor = *plan.tensor,
                   calibration = plan.calibrated ? calibration_ : nullptr](std::int64_t begin, std::int64_t end,
                                                                           std::span<std::byte* const> out) {
      const ScopedFloatEnvironment environment;
      const auto columns = static_cast<std::size_t>(tensor.columns());
      std::vector<float> values(static_cast<std::size_t>(end - begin) * columns);
      read_values(checkpoint, tensor, begin, end, values.data());
      if (calibration != nullptr) {
        if (encode_calibrated_gguf_rows(type, values, tensor.columns(), calibration->weights(), out[0])) return 0.0;
        throw_error(ErrorCode::corrupt, "rows {} to {} have values that are not finite or too large for {}", begin,
                    end - 1, type.name);
      }
      const std::uint64_t row_bytes = columns / static_cast<std::size_t>(type.block_size) * type.block_bytes;
      for (std::int64_t row = begin; row < end; ++row) {
        const auto index = static_cast<std::size_t>(row - begin);
        const std::span<const float> weights = std::span(values).subspan(index * columns, columns);
        if (encode_gguf_row(type, weights, out[0] + index * row_bytes)) continue;
        throw_error(ErrorCode::corrupt, "row {} has values that are not finite or too large for {}", row, type.name);
      }
      return 0.0;
    };
    return type;
  }

  void note_codes() {
    std::vector<std::string>& notes = target_.notes;
    if (kept_codes_ > 0) {
      notes.push_back(fmt::format("matrices that keep their codes: {}, of which {} have scales rounded to float16",
                                  kept_codes_, rounded_scales_));
    }
    if (quantized_again_ > 0) {
      notes.push_back(
          fmt::format("matrices that are codes already and are quantized a second time: {}", quantized_again_));
    }
    if (activation_codes_ > 0) {
      notes.push_back(
          fmt::format("GGUF cannot say that activations are codes (W8A8); matrices where they become floats: {}",
                      activation_codes_));
    }
  }

  const Checkpoint& checkpoint_;
  const ConvertOptions& options_;
  Calibration* calibration_;
  Wishes wishes_;
  ThreadPool pool_;
  Target target_;
  int kept_codes_ = 0;
  int rounded_scales_ = 0;
  int quantized_again_ = 0;
  int activation_codes_ = 0;
};

}  // namespace

Target plan_gguf(const Checkpoint& checkpoint, const ConvertOptions& options, Calibration* calibration) {
  check_options(checkpoint, options);
  return Planner(checkpoint, options, calibration).plan();
}

}  // namespace sparkx
