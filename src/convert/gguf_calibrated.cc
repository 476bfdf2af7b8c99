#include "convert/gguf_calibrated.h"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <vector>

#include "convert/calibration.h"
#include "convert/code_grid.h"
#include "convert/gguf_encode.h"
#include "convert/gguf_k_quants.h"
#include "core/bfloat16.h"

namespace sparkx {
namespace {

// Columns that share a scale, and bits of their codes.
struct Calibrated {
  std::string_view type;
  int bits;
  int group;
};
constexpr Calibrated kTypes[] = {{"Q4_0", 4, kGgufBlockColumns},
                                 {"Q4_1", 4, kGgufBlockColumns},
                                 {"Q5_0", 5, kGgufBlockColumns},
                                 {"Q5_1", 5, kGgufBlockColumns},
                                 {"Q4_K", 4, 32},
                                 {"Q5_K", 5, 32},
                                 {"Q6_K", 6, 16}};

const Calibrated* find(const GgufType& type) {
  const auto found =
      std::find_if(std::begin(kTypes), std::end(kTypes), [&](const Calibrated& c) { return c.type == type.name; });
  return found == std::end(kTypes) ? nullptr : found;
}

// Rows in the making: all scales first, since codes of a column may make up for errors of any other.
struct Rows {
  std::span<const float> values;
  std::int64_t columns;
  const ColumnWeights& weights;

  // The first column of a group, and its importance.
  const float* group(std::int64_t i, int size) const { return values.data() + i * size; }
  const float* importance(std::int64_t i, int size) const { return weights.importance.data() + i * size % columns; }

  std::vector<std::uint8_t> codes(std::span<const CodeGrid> grids, const Calibrated& form) const {
    return weights.codes(values, grids, form.group, (1 << form.bits) - 1);
  }
};

bool encode_k(const Calibrated& form, const Rows& rows, std::uint64_t block_bytes, std::byte* out) {
  if (!std::all_of(rows.values.begin(), rows.values.end(), [](float v) { return std::fabs(v) <= kMaxKWeight; })) {
    return false;
  }
  const auto blocks = static_cast<std::int64_t>(rows.values.size()) / kSuperBlock;
  std::vector<KScales> scales;
  std::vector<CodeGrid> grids;
  for (std::int64_t b = 0; b < blocks; ++b) {
    scales.push_back(search_k_scales(form.bits, rows.group(b, kSuperBlock), rows.importance(b, kSuperBlock)));
    const auto& found = scales.back().grids;
    grids.insert(grids.end(), found.begin(), found.begin() + kSuperBlock / form.group);
  }
  const std::vector<std::uint8_t> codes = rows.codes(grids, form);
  for (std::int64_t b = 0; b < blocks; ++b) {
    pack_k_block(form.bits, scales[static_cast<std::size_t>(b)], codes.data() + b * kSuperBlock,
                 out + static_cast<std::uint64_t>(b) * block_bytes);
  }
  return true;
}

bool encode_simple(const GgufType& type, const Calibrated& form, const Rows& rows, std::byte* out) {
  const bool with_minima = form.type.ends_with("_1");
  const int highest = (1 << form.bits) - 1;
  const auto blocks = static_cast<std::int64_t>(rows.values.size()) / form.group;
  std::vector<CodeGrid> grids;
  for (std::int64_t b = 0; b < blocks; ++b) {
    const float* values = rows.group(b, form.group);
    const float* importance = rows.importance(b, form.group);
    grids.push_back(with_minima ? search_grid(values, importance, form.group, highest, Dtype::float16)
                                : search_centered_grid(values, importance, form.group, highest, Dtype::float16));
    if (!std::isfinite(grids.back().scale) || !std::isfinite(grids.back().offset)) return false;
  }
  const std::vector<std::uint8_t> codes = rows.codes(grids, form);
  for (std::int64_t b = 0; b < blocks; ++b, out += type.block_bytes) {
    const CodeGrid grid = grids[static_cast<std::size_t>(b)];
    pack_gguf_block(type, codes.data() + b * form.group, float_to_float16(grid.scale), float_to_float16(grid.offset),
                    out);
  }
  return true;
}

}  // namespace

bool can_calibrate_gguf(const GgufType& type) {
  return find(type) != nullptr;
}

bool encode_calibrated_gguf_rows(const GgufType& type, std::span<const float> values, std::int64_t columns,
                                 const ColumnWeights& weights, std::byte* out) {
  if (!std::all_of(values.begin(), values.end(), [](float v) { return std::isfinite(v); })) return false;
  const Calibrated& form = *find(type);
  const Rows rows{values, columns, weights};
  return form.type.ends_with("_K") ? encode_k(form, rows, type.block_bytes, out) : encode_simple(type, form, rows, out);
}

}  // namespace sparkx
