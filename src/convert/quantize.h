// Quantizing as MLX does it (docs/model.md, MLX checkpoint format).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "core/dtype.h"

namespace sparkx {

struct ColumnWeights;

// A way to quantize a matrix, in the terms of MLX's config.json.
struct MlxMode {
  std::string mode;  // "affine", "mxfp4", "mxfp8", "nvfp4"
  int bits;
  int group;

  bool is_affine() const { return mode == "affine"; }
  std::string name() const;  // "4-bit, groups of 64", "mxfp4"
  bool operator==(const MlxMode&) const = default;
};

// "4bit", "mxfp4", …; absent for "none". `group` is for the affine modes, 64 when absent. Throws
// Error{invalid_argument}.
std::optional<MlxMode> parse_mlx_mode(std::string_view name, std::optional<int> group);

// Quantizes a row of `columns` elements of a type. `weight` is packed codes, `scales` one element a group (of the row's
// type, or a byte), `biases` likewise, of affine only. Throws Error{corrupt} where the row has values that are not
// finite.
void quantize_row(const MlxMode& mode, Dtype type, const std::byte* row, std::int64_t columns, std::byte* weight,
                  std::byte* scales, std::byte* biases);

// Quantizes rows of `columns` values in an affine mode by what is known about the columns: scales and biases, which are
// of `type`, so that the nearest codes cost least where it matters, then the codes with what feedback there is. `out`
// is weight, scales and biases. The caller is in a ScopedFloatEnvironment. Throws Error{corrupt} as above.
void quantize_rows(const MlxMode& mode, Dtype type, std::span<const float> values, std::int64_t columns,
                   const ColumnWeights& weights, std::span<std::byte* const> out);

}  // namespace sparkx
