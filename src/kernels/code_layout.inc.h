// Panels of codes (layout: kernels/kernels.h): where things lie in them, and codes as floats.
//
//   group   [ 16 scales | 16 biases | 64 bytes of codes | 64 bytes | … ]     the next group, …      affine
//           [ 16 scales | 16 zeros  | 64 bytes of codes | … ]                                       zero_point
//           [ 16 scales | 64 bytes of codes | … ]                                                   offset
//   row     [ what a group has in front, up to a multiple of 64 bytes | all codes ]                 kWholeRow
//
//   codes4, 64 bytes, 8 columns                   codes8, 4 columns                 others: simd/planes.h
//   lane 0            lane 1         … lane 15    lane 0      lane 1      … lane 15
//   |0 4|1 5|2 6|3 7| |0 4|1 5|2 6|3 7|           |0|1|2|3|   |0|1|2|3|
//    low and high half of a byte: columns
#pragma once

#include "kernels/kernels.h"

namespace sparkx::kernels {
namespace {

// Columns that are decoded at once.
template <WeightKind kind>
constexpr int kStepColumns = kind == WeightKind::float32  ? 1
                             : is_dense(kind)             ? 2
                             : kind == WeightKind::codes4 ? 8
                                                          : 4;

template <WeightKind kind>
constexpr int kLowPlaneBits = low_plane_bits(kind);
template <WeightKind kind>
constexpr int kHighPlaneBits = high_plane_bits(kind);
template <WeightKind kind>
constexpr std::int64_t kStretchBytes = 64 * code_bits(kind);

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
  layout.group_bytes = (whole_row ? 0 : header) + layout.group / kStretchColumns * kStretchBytes<kind>;
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

// Four columns of all lanes, one a byte: word `i` of a plane of `bits` bits, of which a load has 8 / bits.
template <int bits>
inline I32x16 plane_word(const std::byte* plane, std::int64_t i) {
  constexpr int kWords = 8 / bits;
  const I32x16 words = shift_right_arithmetic(load_int(plane + i / kWords * 64), static_cast<int>(i % kWords) * bits);
  return words & splat<I32x16>(0x01010101 * ((1 << bits) - 1));
}

// The codes of one step as floats, column after column: from column k of a group whose codes begin at `codes`.
template <WeightKind kind>
inline __attribute__((always_inline)) void decode_codes(const std::byte* codes, std::int64_t k,
                                                        F32x16 (&column)[kStepColumns<kind>]) {
  if constexpr (kind == WeightKind::codes4) {
    const I32x16 words = load_int(codes + k / 8 * 64), mask = splat<I32x16>(15);
    column[0] = codes_at<0>(words, mask);
    column[1] = codes_at<8>(words, mask);
    column[2] = codes_at<16>(words, mask);
    column[3] = codes_at<24>(words, mask);
    column[4] = codes_at<4>(words, mask);
    column[5] = codes_at<12>(words, mask);
    column[6] = codes_at<20>(words, mask);
    column[7] = codes_at<28>(words, mask);
  } else {
    const std::byte* stretch = codes + k / kStretchColumns * kStretchBytes<kind>;
    const std::int64_t i = k % kStretchColumns / 4;
    I32x16 words{};
    if constexpr (kind == WeightKind::codes8) {
      words = load_int(stretch + i * 64);
    } else {
      words = plane_word<kLowPlaneBits<kind>>(stretch, i);
      if constexpr (kHighPlaneBits<kind> != 0) {
        const I32x16 high = plane_word<kHighPlaneBits<kind>>(stretch + 64 * kLowPlaneBits<kind>, i);
        words = words | shift_left<kLowPlaneBits<kind>>(high);
      }
    }
    const I32x16 mask = splat<I32x16>(255);
    column[0] = codes_at<0>(words, mask);
    column[1] = codes_at<8>(words, mask);
    column[2] = codes_at<16>(words, mask);
    column[3] = codes_at<24>(words, mask);
  }
}

// Bits of column k % 32 of one lane in a plane of `bits` bits.
inline int plane_bits_of(const std::byte* plane, int bits, std::int64_t k, std::int64_t lane) {
  const std::int64_t word = k % kStretchColumns / 4, words = 8 / bits;
  const int byte = static_cast<int>(plane[word / words * 64 + lane * 4 + k % 4]);
  return byte >> (word % words * bits) & ((1 << bits) - 1);
}

// Column k of one lane; `codes` are those of its group.
template <WeightKind kind>
inline float code_of(const std::byte* codes, std::int64_t k, std::int64_t lane) {
  const std::byte* stretch = codes + k / kStretchColumns * kStretchBytes<kind>;
  int code = plane_bits_of(stretch, kLowPlaneBits<kind>, k, lane);
  if constexpr (kHighPlaneBits<kind> != 0) {
    const std::byte* high = stretch + 64 * kLowPlaneBits<kind>;
    code |= plane_bits_of(high, kHighPlaneBits<kind>, k, lane) << kLowPlaneBits<kind>;
  }
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
