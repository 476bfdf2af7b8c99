// Sub-scales and minima of two levels (layout: kernels/code_layout.inc.h).
#pragma once

#include "kernels/code_layout.inc.h"
#include "kernels/kernels.h"

namespace sparkx::kernels {
namespace {

// Those of 64 columns of 16 rows, four bytes a lane.
template <WeightKind kind>
struct SubScales {
  I32x16 bytes;

  // Of the 64 columns that begin at column k of a super-block.
  static SubScales load(const std::byte* group, const CodeLayout& layout, std::int64_t k) {
    const std::byte* words = group + layout.sub_scales_offset;
    if constexpr (kind == WeightKind::iq4) {
      const I32x16 two = load_int(words + k / 128 * 64);
      return {k % 128 == 0 ? two : shift_right_arithmetic<16>(two)};
    } else {
      return {load_int(words + k)};
    }
  }

  // The scales of sub-block j.
  template <int j>
  I32x16 scales() const {
    if constexpr (kind == WeightKind::codes2) {
      return shift_right_arithmetic<8 * j>(bytes) & splat<I32x16>(15);
    } else if constexpr (has_minima(kind)) {
      return shift_right_arithmetic<16 * j>(bytes) & splat<I32x16>(255);
    } else {
      return shift_right_arithmetic<24>(shift_left<24 - 8 * j>(bytes));
    }
  }

  // Two minima a lane, 16 bits each: of sub-blocks of 16 columns those of 0 and 2 (`which` 0) or of 1 and 3, of
  // sub-blocks of 32 both. The sums of activations lie so that they fit (CodedActivations::quarter_sums).
  template <int which>
  I32x16 minima() const {
    if constexpr (kind == WeightKind::codes2) {
      return shift_right_arithmetic<4 + 8 * which>(bytes) & splat<I32x16>(0x000f000f);
    } else {
      return shift_right_arithmetic<8>(bytes) & splat<I32x16>(0x00ff00ff);
    }
  }
  // The minima of sub-block j.
  template <int j>
  I32x16 minimum() const {
    if constexpr (kind == WeightKind::codes2) {
      return shift_right_arithmetic<4 + 8 * j>(bytes) & splat<I32x16>(15);
    } else {
      return shift_right_arithmetic<8 + 16 * j>(bytes) & splat<I32x16>(255);
    }
  }
};

}  // namespace
}  // namespace sparkx::kernels
