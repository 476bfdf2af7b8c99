#include "convert/mlx_codes.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "convert/calibration.h"
#include "convert/folder.h"
#include "convert/source.h"
#include "core/error.h"
#include "core/float_codes.h"
#include "core/float_environment.h"
#include "formats/bit_stream.h"

namespace sparkx {
namespace {

constexpr int kRepeatedGroup = 32;  // for one scale a row

// The fewest of MLX's bits that hold codes of so many.
int mlx_bits(int bits) {
  return bits == 1 ? 2 : bits == 7 ? 8 : bits;
}

std::int64_t weight_bytes(std::int64_t columns, const MlxMode& mode) {
  return columns * mode.bits / 8;
}

// Coefficients as they are stored, and how far they had to be rounded.
class Coefficients {
 public:
  Coefficients(Dtype type, std::size_t count) : type_(type), values_(count) {}

  void set(std::size_t i, double exact) {
    if (!std::isfinite(exact)) throw_error(ErrorCode::corrupt, "a scale or bias is not finite");
    values_[i] = static_cast<float>(exact);
    exact_.push_back(exact);
  }

  // Returns the largest relative error.
  double store(std::byte* out) const {
    store_values(type_, values_.data(), values_.size(), out);
    std::vector<float> stored(values_.size());
    load_values(type_, out, stored.size(), stored.data());
    double error = 0;
    for (std::size_t i = 0; i < exact_.size(); ++i) {
      if (exact_[i] != 0) error = std::max(error, std::fabs(stored[i] - exact_[i]) / std::fabs(exact_[i]));
    }
    return error;
  }

 private:
  Dtype type_;
  std::vector<float> values_;
  std::vector<double> exact_;
};

double encode_affine(const QuantizedMatrix& matrix, std::int64_t row_begin, std::int64_t row_end, std::int64_t columns,
                     const MlxMode& mode, Dtype type, std::span<std::byte* const> out) {
  const QuantizationSpec& spec = matrix.spec;
  const std::int64_t rows = row_end - row_begin;
  CodeStorage storage(spec, rows, columns);
  const CodeBuffers source = storage.buffers();
  matrix.read(row_begin, row_end, source);
  pack_codes(source.codes, mode.bits, rows * columns, out[0]);
  const std::int64_t groups = columns / mode.group, source_groups = spec.groups(columns);
  const auto count = static_cast<std::size_t>(rows * groups);
  Coefficients scales(type, count), biases(type, count);
  for (std::int64_t i = 0; i < rows * groups; ++i) {
    const std::int64_t from = i / groups * source_groups + i % groups * source_groups / groups;
    const double scale = source.scales[from];
    const int zero = spec.scheme == CodeScheme::zero_point ? source.zeros[from] : spec.zero;
    scales.set(static_cast<std::size_t>(i), scale);
    biases.set(static_cast<std::size_t>(i),
               spec.scheme == CodeScheme::affine ? double{source.biases[from]} : -zero * scale);
  }
  const double error = scales.store(out[1]);
  return std::max(error, biases.store(out[2]));
}

void encode_floats(const QuantizedMatrix& matrix, std::int64_t row_begin, std::int64_t row_end, std::int64_t columns,
                   const MlxMode& mode, std::span<std::byte* const> out) {
  const std::int64_t rows = row_end - row_begin;
  CodeStorage storage(matrix.spec, rows, columns);
  const CodeBuffers source = storage.buffers();
  matrix.read(row_begin, row_end, source);
  pack_codes(source.codes, mode.bits, rows * columns, out[0]);
  const FloatMode float_mode = sparkx::float_mode(mode.mode).value();
  for (std::int64_t i = 0; i < rows * (columns / mode.group); ++i) {
    if (!std::isfinite(source.scales[i])) throw_error(ErrorCode::corrupt, "a scale is not finite");
    out[1][i] = static_cast<std::byte>(float_mode_scale_code(float_mode, source.scales[i]));
  }
}

}  // namespace

std::optional<MlxMode> mlx_mode_of(const QuantizedMatrix& matrix, std::int64_t columns) {
  const QuantizationSpec& spec = matrix.spec;
  if (spec.scheme == CodeScheme::two_level || !matrix.column_order.empty()) return std::nullopt;
  const int group = spec.group == kWholeRow ? kRepeatedGroup : spec.group;
  if (columns % group != 0) return std::nullopt;
  switch (spec.values) {
    case CodeValues::integers:
      if (group != 32 && group != 64 && group != 128) return std::nullopt;
      return MlxMode{"affine", mlx_bits(spec.bits), group};
    case CodeValues::e2m1:
    case CodeValues::e4m3:
      for (const char* name : {"mxfp4", "mxfp8", "nvfp4"}) {
        if (spec == float_mode_spec(float_mode(name).value())) return parse_mlx_mode(name, std::nullopt);
      }
      return std::nullopt;
    case CodeValues::iq4:
      return std::nullopt;
  }
  return std::nullopt;
}

std::vector<OutputPart> mlx_parts(const TensorInfo& tensor, const MlxMode& mode, Dtype type) {
  const std::string path = tensor.name.substr(0, tensor.name.size() - std::string_view("weight").size());
  const std::int64_t columns = tensor.columns(), groups = columns / mode.group;
  std::vector<OutputPart> parts{array_part(tensor.name, Dtype::uint32, tensor, weight_bytes(columns, mode) / 4),
                                array_part(path + "scales", mode.is_affine() ? type : Dtype::uint8, tensor, groups)};
  if (mode.is_affine()) parts.push_back(array_part(path + "biases", type, tensor, groups));
  return parts;
}

namespace {

// What every plan of a tensor in MLX's codes says, all but how they are made.
TensorPlan plan_without_encode(const Checkpoint& checkpoint, const TensorInfo& tensor, const MlxMode& mode,
                               Dtype type) {
  TensorPlan plan;
  plan.tensor = &tensor;
  plan.source = storage_name(checkpoint, tensor);
  plan.target = mode.name();
  plan.parts = mlx_parts(tensor, mode, type);
  return plan;
}

}  // namespace

TensorPlan kept_codes_plan(const Checkpoint& checkpoint, const TensorInfo& tensor, const MlxMode& mode, Dtype type) {
  TensorPlan plan = plan_without_encode(checkpoint, tensor, mode, type);
  plan.encode = [matrix = checkpoint.find_quantized(tensor.name), &tensor, mode, type](
                    std::int64_t begin, std::int64_t end, std::span<std::byte* const> out) {
    if (mode.is_affine()) return encode_affine(*matrix, begin, end, tensor.columns(), mode, type, out);
    encode_floats(*matrix, begin, end, tensor.columns(), mode, out);
    return 0.0;
  };
  return plan;
}

TensorPlan calibrated_plan(const Checkpoint& checkpoint, const TensorInfo& tensor, const MlxMode& mode, Dtype type,
                           const Calibration& calibration) {
  TensorPlan plan = plan_without_encode(checkpoint, tensor, mode, type);
  plan.calibrated = true;
  plan.encode = [&checkpoint, &tensor, &calibration, mode, type](std::int64_t begin, std::int64_t end,
                                                                 std::span<std::byte* const> out) {
    const ScopedFloatEnvironment environment;
    const auto count = static_cast<std::size_t>((end - begin) * tensor.columns());
    std::vector<float> values(count);
    std::vector<std::byte> elements(count * dtype_size(type));
    read_elements(checkpoint, tensor, begin, end, type, elements.data());
    load_values(type, elements.data(), count, values.data());
    quantize_rows(mode, type, values, tensor.columns(), calibration.weights(), out);
    return 0.0;
  };
  return plan;
}

TensorPlan quantized_plan(const Checkpoint& checkpoint, const TensorInfo& tensor, const MlxMode& mode, Dtype type) {
  TensorPlan plan = plan_without_encode(checkpoint, tensor, mode, type);
  plan.encode = [&checkpoint, &tensor, mode, type, parts = plan.parts](std::int64_t begin, std::int64_t end,
                                                                       std::span<std::byte* const> out) {
    const std::size_t row_bytes = static_cast<std::size_t>(tensor.columns()) * dtype_size(type);
    std::vector<std::byte> elements(static_cast<std::size_t>(end - begin) * row_bytes);
    read_elements(checkpoint, tensor, begin, end, type, elements.data());
    for (std::int64_t i = 0; i < end - begin; ++i) {
      const auto row = static_cast<std::size_t>(i);
      quantize_row(mode, type, elements.data() + row * row_bytes, tensor.columns(), out[0] + row * parts[0].row_bytes,
                   out[1] + row * parts[1].row_bytes, mode.is_affine() ? out[2] + row * parts[2].row_bytes : nullptr);
    }
    return 0.0;
  };
  return plan;
}

}  // namespace sparkx
