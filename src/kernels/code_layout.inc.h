// Panels of codes (layout: kernels/kernels.h): where things lie in them, and what stands in front of a group.
//
//   group   [ 16 scales | 16 biases | 64 bytes of codes | 64 bytes | … ]     the next group, …      affine
//           [ 16 scales | 16 zeros  | 64 bytes of codes | … ]                                       zero_point
//           [ 16 scales | 64 bytes of codes | … ]                                                   offset
//           [ 4 times 16 scales | 64 bytes of codes | … ]                                           offset, groups of
//           16 [ 16 d | 16 dmin | 4 times 64 bytes of sub-scales | 64 bytes of codes | … ]             two_level
//   row     [ what a group has in front, up to a multiple of 64 bytes | all codes ]                 kWholeRow
//
//   codes4, 64 bytes, 8 columns                   codes8, 4 columns                 others: simd/planes.h
//   lane 0            lane 1         … lane 15    lane 0      lane 1      … lane 15
//   |0 4|1 5|2 6|3 7| |0 4|1 5|2 6|3 7|           |0|1|2|3|   |0|1|2|3|
//    low and high half of a byte: columns
//
//   sub-scales of 64 columns, four bytes a lane; of iq4 two of them, so that 64 bytes are 128 columns
//   codes2                  |sc0 m0|sc1 m1|sc2 m2|sc3 m3|       low and high half of a byte; sub-blocks of 16 columns
//   codes3, codes6          |sc0|sc1|sc2|sc3|                   signed; sub-blocks of 16
//   codes4, codes5          |sc0|m0|sc1|m1|                     sub-blocks of 32
//   iq4                     |sc0|sc1|sc2|sc3|                   signed; sub-blocks of 32
#pragma once

#include "kernels/kernels.h"

namespace sparkx::kernels {
namespace {

template <WeightKind kind>
constexpr int kLowPlaneBits = low_plane_bits(kind);
template <WeightKind kind>
constexpr int kHighPlaneBits = high_plane_bits(kind);
template <WeightKind kind>
constexpr std::int64_t kStretchBytes = 64 * code_bits(kind);
// 64 bytes of sub-scales in front of a super-block.
template <WeightKind kind>
constexpr int kSubScaleWords = kind == WeightKind::iq4 ? 2 : 4;

// Where things lie, seen from the start of a block of kBlockColumns. A panel of whole rows is one of groups as long as
// a block, whose scales stand far in front of them; four groups of 16 columns count as one of 64.
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
  std::int64_t second_offset;  // of biases, zeros or dmin
  std::int64_t sub_scales_offset;
  std::int64_t codes_offset;
};

// `block` is a multiple of kBlockColumns.
template <WeightKind kind>
inline CodeLayout code_layout(const WeightFormat& format, std::int64_t block) {
  CodeLayout layout{};
  if constexpr (is_dense(kind)) {
    layout.block_offset = block / (kind == WeightKind::float32 ? 1 : 2) * 64;
    return layout;
  }
  const bool whole_row = format.group == kWholeRow, two_levels = format.scheme == CodeScheme::two_level;
  const bool sixteens = format.group == 16 && !two_levels;
  layout.group = whole_row ? kBlockColumns : two_levels ? kSuperBlock : sixteens ? 64 : format.group;
  layout.shift = __builtin_ctz(static_cast<unsigned>(layout.group));
  layout.scale_kind = format.scale_kind;
  layout.scheme = format.scheme;
  layout.zero = format.scheme == CodeScheme::affine ? 0 : format.zero;
  const std::int64_t scale_bytes = format.scale_kind == WeightKind::float32 ? 64
                                   : format.scale_kind == WeightKind::e4m3  ? 16
                                                                            : 32;
  std::int64_t header = scale_bytes;
  if (sixteens) header = 4 * scale_bytes;
  if (format.scheme == CodeScheme::affine) header += scale_bytes;
  if (format.scheme == CodeScheme::zero_point) header += kLanes;
  if (two_levels) {
    if (has_minima(kind)) header += scale_bytes;
    layout.sub_scales_offset = header;
    header += kSubScaleWords<kind> * 64;
  }
  layout.codes_offset = whole_row ? (header + 63) / 64 * 64 : header;
  layout.group_bytes = (whole_row ? 0 : header) + layout.group / kStretchColumns * kStretchBytes<kind>;
  layout.block_offset = (block >> layout.shift) * layout.group_bytes;
  layout.scale_offset = whole_row ? -layout.block_offset : 0;
  layout.second_offset = layout.scale_offset + scale_bytes;
  return layout;
}

// A float of 8 bits, byte `byte` of each lane, whose exponent is 120 too small: a product with kE4m3Factor sets it
// right, and a denormal with it. Not a NaN: whoever packs refuses that.
constexpr float kE4m3Factor = 0x1p120f;
template <int byte>
inline F32x16 small_e4m3_values(I32x16 word) {
  // In a half of the lane, with the byte on top, a shift by 4 leaves the sign there and brings the rest to its place
  // below four copies of the sign. Bytes 0 and 2 go together, and 1 and 3.
  if constexpr (byte % 2 == 0) word = shift_halves_left<8>(word);
  word = shift_halves_right_arithmetic<4>(word);
  if constexpr (byte < 2) word = shift_left<16>(word);
  return from_bits(word & splat<I32x16>(static_cast<std::int32_t>(0x87f00000)));
}

inline F32x16 load_scales(WeightKind kind, const std::byte* p) {
  switch (kind) {
    case WeightKind::bfloat16:
      return load_bfloat16(p);
    case WeightKind::float16:
      return load_float16(p);
    case WeightKind::e4m3:
      return load_e4m3(p);
    default:
      return load(reinterpret_cast<const float*>(p));
  }
}

// What a group has in front. Scales: of e2m1, whose values are stored doubled, halves of them. Zeros: those of
// zero_point, offset and w8a8; of affine 0. `sixteen` counts groups of 16 columns.
template <WeightKind kind>
inline F32x16 load_group_scales(const std::byte* group, const CodeLayout& layout, int sixteen = 0) {
  const F32x16 scales = load_scales(layout.scale_kind, group + layout.scale_offset + sixteen * kLanes);
  return kind == WeightKind::e2m1 ? splat<F32x16>(0.5f) * scales : scales;
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
