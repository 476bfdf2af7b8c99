#include "convert/quantize.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "convert/calibration.h"
#include "convert/code_grid.h"
#include "convert/source.h"
#include "core/error.h"
#include "core/float_codes.h"
#include "core/float_environment.h"
#include "formats/bit_stream.h"
#include "kernels/kernels.h"

namespace sparkx {
namespace {

kernels::WeightKind kind_of(Dtype type) {
  return type == Dtype::bfloat16  ? kernels::WeightKind::bfloat16
         : type == Dtype::float16 ? kernels::WeightKind::float16
                                  : kernels::WeightKind::float32;
}

void quantize_affine(const MlxMode& mode, Dtype type, const std::byte* row, std::int64_t columns, std::byte* weight,
                     std::byte* scales, std::byte* biases) {
  const auto groups = static_cast<std::size_t>(columns / mode.group);
  std::vector<std::uint8_t> codes(static_cast<std::size_t>(columns));
  std::vector<float> row_scales(groups), row_biases(groups);
  kernels::kernel_table().quantize_affine[static_cast<int>(kind_of(type))](
      row, columns, mode.bits, mode.group, codes.data(), row_scales.data(), row_biases.data());
  pack_codes(codes.data(), mode.bits, columns, weight);
  store_values(type, row_scales.data(), groups, scales);
  store_values(type, row_biases.data(), groups, biases);
}

void quantize_to_floats(const MlxMode& mode, Dtype type, std::span<const float> values, std::byte* weight,
                        std::byte* scales) {
  const FloatMode float_mode = sparkx::float_mode(mode.mode).value();
  const auto columns = static_cast<std::int64_t>(values.size());
  const auto groups = static_cast<std::size_t>(columns / mode.group);
  std::vector<std::uint8_t> codes(values.size());
  std::vector<float> row_scales(groups);
  quantize_floats(float_mode, type, values.data(), columns, codes.data(), row_scales.data());
  pack_codes(codes.data(), mode.bits, columns, weight);
  for (std::size_t g = 0; g < groups; ++g) {
    scales[g] = static_cast<std::byte>(float_mode_scale_code(float_mode, row_scales[g]));
  }
}

void check_finite(std::span<const float> values) {
  if (std::all_of(values.begin(), values.end(), [](float value) { return std::isfinite(value); })) return;
  throw_error(ErrorCode::corrupt, "it has values that are not finite, which cannot be quantized");
}

}  // namespace

std::string MlxMode::name() const {
  return is_affine() ? fmt::format("{}-bit, groups of {}", bits, group) : mode;
}

std::optional<MlxMode> parse_mlx_mode(std::string_view name, std::optional<int> group) {
  struct Known {
    std::string_view name;
    MlxMode mode;
  };
  constexpr int kDefaultGroup = 64;
  const int columns = group.value_or(kDefaultGroup);
  const Known known[] = {
      {"2bit", {"affine", 2, columns}}, {"3bit", {"affine", 3, columns}}, {"4bit", {"affine", 4, columns}},
      {"5bit", {"affine", 5, columns}}, {"6bit", {"affine", 6, columns}}, {"8bit", {"affine", 8, columns}},
      {"mxfp4", {"mxfp4", 4, 32}},      {"mxfp8", {"mxfp8", 8, 32}},      {"nvfp4", {"nvfp4", 4, 16}}};
  if (name == "none") return std::nullopt;
  const auto found = std::find_if(std::begin(known), std::end(known), [&](const Known& k) { return k.name == name; });
  if (found == std::end(known)) {
    throw_error(ErrorCode::invalid_argument,
                "\"{}\" is no way to quantize: 2bit, 3bit, 4bit, 5bit, 6bit, 8bit, mxfp4, mxfp8, nvfp4, none", name);
  }
  if (found->mode.is_affine() ? columns != 32 && columns != 64 && columns != 128
                              : group && *group != found->mode.group) {
    throw_error(ErrorCode::invalid_argument, "{} in groups of {}: {}", name, columns,
                found->mode.is_affine() ? "they are of 32, 64 or 128"
                                        : fmt::format("they are always of {}", found->mode.group));
  }
  return found->mode;
}

void quantize_row(const MlxMode& mode, Dtype type, const std::byte* row, std::int64_t columns, std::byte* weight,
                  std::byte* scales, std::byte* biases) {
  const ScopedFloatEnvironment environment;
  std::vector<float> values(static_cast<std::size_t>(columns));
  load_values(type, row, values.size(), values.data());
  check_finite(values);
  if (mode.is_affine()) {
    quantize_affine(mode, type, row, columns, weight, scales, biases);
  } else {
    quantize_to_floats(mode, type, values, weight, scales);
  }
}

void quantize_rows(const MlxMode& mode, Dtype type, std::span<const float> values, std::int64_t columns,
                   const ColumnWeights& weights, std::span<std::byte* const> out) {
  check_finite(values);
  const auto count = static_cast<std::int64_t>(values.size());
  const std::int64_t groups = count / mode.group;
  const int highest = (1 << mode.bits) - 1;
  std::vector<CodeGrid> grids(static_cast<std::size_t>(groups));
  std::vector<float> scales, biases;
  for (std::int64_t g = 0; g < groups; ++g) {
    const CodeGrid grid = search_grid(values.data() + g * mode.group,
                                      weights.importance.data() + g * mode.group % columns, mode.group, highest, type);
    grids[static_cast<std::size_t>(g)] = grid;
    scales.push_back(grid.scale);
    biases.push_back(grid.offset);
  }
  const std::vector<std::uint8_t> codes = weights.codes(values, grids, mode.group, highest);
  pack_codes(codes.data(), mode.bits, count, out[0]);
  store_values(type, scales.data(), scales.size(), out[1]);
  store_values(type, biases.data(), biases.size(), out[2]);
}

}  // namespace sparkx
