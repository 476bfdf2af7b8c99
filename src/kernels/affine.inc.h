// Panels of the affine kinds (layout: kernels/kernels.h): where things lie in them, and codes as floats.
//
//   group   [ 16 scales | 16 biases | 64 bytes of codes | 64 bytes | … ]     the next group, …
//
//   affine4, 64 bytes of codes, 8 columns         affine8, 4 columns
//   lane 0            lane 1         … lane 15    lane 0      lane 1      … lane 15
//   |0 4|1 5|2 6|3 7| |0 4|1 5|2 6|3 7|           |0|1|2|3|   |0|1|2|3|
//    low and high half of a byte: columns
#pragma once

#include "kernels/kernels.h"

namespace sparkx::kernels {
namespace {

// Columns in 64 bytes.
template <WeightKind kind>
constexpr int kStepColumns = kind == WeightKind::affine4   ? 8
                             : kind == WeightKind::affine8 ? 4
                             : kind == WeightKind::float32 ? 1
                                                           : 2;

struct AffineLayout {
  int group;  // columns
  WeightKind scale_kind;
  std::int64_t bias_offset;   // bytes from a group's start
  std::int64_t codes_offset;  // likewise
  std::int64_t group_bytes;
};

template <WeightKind kind>
inline AffineLayout affine_layout(const WeightFormat& format) {
  if constexpr (is_dense(kind)) return {};
  const std::int64_t scale_bytes = format.scale_kind == WeightKind::float32 ? 64 : 32;
  return {format.group, format.scale_kind, scale_bytes, 2 * scale_bytes,
          2 * scale_bytes + format.group / kStepColumns<kind> * 64};
}

// Bytes from a panel's start to column k, a multiple of kBlockColumns.
template <WeightKind kind>
inline std::int64_t block_offset(std::int64_t k, const AffineLayout& layout) {
  if constexpr (is_dense(kind)) return k / kStepColumns<kind> * 64;
  return k / layout.group * layout.group_bytes;
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
  if constexpr (kind == WeightKind::affine4) {
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
  if constexpr (kind == WeightKind::affine4) return static_cast<float>(k % 8 < 4 ? code & 15 : code >> 4);
  return static_cast<float>(code);
}

}  // namespace
}  // namespace sparkx::kernels
