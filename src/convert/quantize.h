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

}  // namespace sparkx
