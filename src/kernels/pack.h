// Packing weight rows into panels (layout: kernels/kernels.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/kernels.h"

namespace sparkx::kernels {

// Bytes of one packed panel of a matrix with so many columns, a multiple of 64.
std::size_t panel_bytes(const WeightFormat& format, std::int64_t columns);

// Packs up to 16 consecutive rows into one panel at `out` (panel_bytes long, all of it written; rows and columns that
// do not exist become zero). `rows` holds them one after another, little-endian elements of the source kind: row_count
// * columns elements. Source and panel may differ in kind, both dense: float32 is rounded to nearest even, 16-bit kinds
// widen exactly; bfloat16 -> float16 and back go through float32.
void pack_panel(WeightKind source, std::span<const std::byte> rows, int row_count, std::int64_t columns,
                WeightKind kind, std::byte* out);

// Up to 16 rows that are codes already.
struct CodeRows {
  const std::uint8_t* codes;            // [row_count][columns]
  const float* scales;                  // [row_count][scales of a row], rounded to the format's scale_kind
  const float* biases = nullptr;        // likewise, of an affine format; of two levels with minima dmin
  const std::uint8_t* zeros = nullptr;  // [row_count][groups of a row], of a zero_point format
  // Of two levels, [row_count][groups of a row].
  const std::int8_t* sub_scales = nullptr;   // of codes2 below 16
  const std::uint8_t* sub_minima = nullptr;  // where there are minima; of codes2 below 16
};

// Groups of a row: 1 with kWholeRow.
std::int64_t group_count(const WeightFormat& format, std::int64_t columns);
// Scales of a row: one a group, with two levels one a super-block.
std::int64_t scale_count(const WeightFormat& format, std::int64_t columns);

// The same for codes.
void pack_code_panel(const WeightFormat& format, const CodeRows& rows, int row_count, std::int64_t columns,
                     std::byte* out);

}  // namespace sparkx::kernels
