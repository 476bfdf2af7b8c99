// Panels of codes (layout: kernels/kernels.h): where things lie in them, and codes as floats.
//
//   group   [ 16 scales | 16 biases | 64 bytes of codes | 64 bytes | … ]     the next group, …      affine
//           [ 16 scales | 16 zeros  | 64 bytes of codes | … ]                                       zero_point
//           [ 16 scales | 64 bytes of codes | … ]                                                   offset
//   row     [ what a group has in front, up to a multiple of 64 bytes | all codes ]                 kWholeRow
//
//   codes4, 64 bytes, 8 columns                   codes8, 4 columns
//   lane 0            lane 1         … lane 15    lane 0      lane 1      … lane 15
//   |0 4|1 5|2 6|3 7| |0 4|1 5|2 6|3 7|           |0|1|2|3|   |0|1|2|3|
//    low and high half of a byte: columns
#pragma once

#include "kernels/kernels.h"

namespace sparkx::kernels {
namespace {

// Columns in 64 bytes.
template <WeightKind kind>
constexpr int kStepColumns = kind == WeightKind::codes4    ? 8
                             : kind == WeightKind::codes8  ? 4
                             : kind == WeightKind::float32 ? 1
                                                           : 2;

// Where things lie, seen from the start of a block of kBlockColumns. A panel of whole rows is one of groups as long as
// a block, whose scales stand far in front of them.
struct CodeLayout {
  int group;  // columns, a power of two
  int shift;  // its logarithm
  WeightKind scale_kind;
  CodeScheme scheme;
  int zero;
  std::int64_t block_offset;  // bytes from the panel's start to the block's first group
  std::int64_t group_bytes;
  // Bytes from a group's start:
  std::int64_t scale_offset;
  std::int64_t second_offset;  // of biases or zeros
  std::int64_t codes_offset;
};

// `block` is a multiple of kBlockColumns.
template <WeightKind kind>
inline CodeLayout code_layout(const WeightFormat& format, std::int64_t block) {
  CodeLayout layout{};
  if constexpr (is_dense(kind)) {
    layout.block_offset = block / kStepColumns<kind> * 64;
    return layout;
  }
  const bool whole_row = format.group == kWholeRow;
  layout.group = whole_row ? kBlockColumns : format.group;
  layout.shift = __builtin_ctz(static_cast<unsigned>(layout.group));
  layout.scale_kind = format.scale_kind;
  layout.scheme = format.scheme;
  layout.zero = format.scheme == CodeScheme::affine ? 0 : format.zero;
  const std::int64_t scale_bytes = format.scale_kind == WeightKind::float32 ? 64 : 32;
  const std::int64_t header = scale_bytes + (format.scheme == CodeScheme::affine       ? scale_bytes
                                             : format.scheme == CodeScheme::zero_point ? kLanes
                                                                                       : 0);
  layout.codes_offset = whole_row ? (header + 63) / 64 * 64 : header;
  layout.group_bytes = (whole_row ? 0 : header) + layout.group / kStepColumns<kind> * 64;
  layout.block_offset = (block >> layout.shift) * layout.group_bytes;
  layout.scale_offset = whole_row ? -layout.block_offset : 0;
  layout.second_offset = layout.scale_offset + scale_bytes;
  return layout;
}

inline F32x16 load_scales(WeightKind kind, const std::byte* p) {
  switch (kind) {
    case WeightKind::bfloat16:
      return load_bfloat16(p);
    case WeightKind::float16:
      return load_float16(p);
    default:
      return load(reinterpret_cast<const float*>(p));
  }
}

template <int shift>
inline F32x16 codes_at(I32x16 words, I32x16 mask) {
  return to_float(shift_right_arithmetic<shift>(words) & mask);
}

// The codes of one step as floats, column after column.
template <WeightKind kind>
inline __attribute__((always_inline)) void decode_codes(I32x16 words, F32x16 (&column)[kStepColumns<kind>]) {
  if constexpr (kind == WeightKind::codes4) {
    const I32x16 mask = splat<I32x16>(15);
    column[0] = codes_at<0>(words, mask);
    column[1] = codes_at<8>(words, mask);
    column[2] = codes_at<16>(words, mask);
    column[3] = codes_at<24>(words, mask);
    column[4] = codes_at<4>(words, mask);
    column[5] = codes_at<12>(words, mask);
    column[6] = codes_at<20>(words, mask);
    column[7] = codes_at<28>(words, mask);
  } else {
    const I32x16 mask = splat<I32x16>(255);
    column[0] = codes_at<0>(words, mask);
    column[1] = codes_at<8>(words, mask);
    column[2] = codes_at<16>(words, mask);
    column[3] = codes_at<24>(words, mask);
  }
}

// Column k of one lane; `codes` are those of its group.
template <WeightKind kind>
inline float code_of(const std::byte* codes, std::int64_t k, std::int64_t lane) {
  constexpr int kColumns = kStepColumns<kind>;
  const int code = static_cast<int>(codes[(k / kColumns * kLanes + lane) * 4 + k % 4]);
  if constexpr (kind == WeightKind::codes4) return static_cast<float>(k % 8 < 4 ? code & 15 : code >> 4);
  return static_cast<float>(code);
}

// What a group has beside its scales. zeros: those of zero_point, offset and w8a8; of affine 0.
inline F32x16 load_group_scales(const std::byte* group, const CodeLayout& layout) {
  return load_scales(layout.scale_kind, group + layout.scale_offset);
}
inline F32x16 load_group_biases(const std::byte* group, const CodeLayout& layout) {
  return load_scales(layout.scale_kind, group + layout.second_offset);
}
inline F32x16 load_group_zeros(const std::byte* group, const CodeLayout& layout) {
  if (layout.scheme == CodeScheme::zero_point) return to_float(load_bytes(group + layout.second_offset));
  return splat<F32x16>(static_cast<float>(layout.zero));
}

}  // namespace
}  // namespace sparkx::kernels
