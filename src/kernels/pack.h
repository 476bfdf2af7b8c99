// Packing weight rows into panels (layout: kernels/kernels.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/kernels.h"

namespace sparkx::kernels {

// Bytes of one packed panel of a matrix with so many columns, a multiple of 64.
std::size_t panel_bytes(WeightKind kind, std::int64_t columns);

// Packs up to 16 consecutive rows into one panel at `out` (panel_bytes long, all of it written; rows and columns that
// do not exist become zero). `rows` holds them one after another, little-endian elements of the source kind: row_count
// * columns elements. Source and panel may differ in kind: float32 is rounded to nearest even, 16-bit kinds widen
// exactly; bfloat16 -> float16 and back go through float32.
void pack_panel(WeightKind source, std::span<const std::byte> rows, int row_count, std::int64_t columns,
                WeightKind kind, std::byte* out);

}  // namespace sparkx::kernels
