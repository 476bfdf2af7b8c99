// One stretch of 32 columns of any kind of codes, by the layer's innermost loops (kernels/simd/*_stretch.h).
#pragma once

#include "kernels/kernels.h"

namespace sparkx::kernels {
namespace {

template <WeightKind kind, int P, int T>
inline __attribute__((always_inline)) void stretch(const std::byte* codes, std::size_t panel_stride,
                                                   const std::int8_t* x, std::int64_t token_stride,
                                                   I32x16 (&sums)[P][T]) {
  if constexpr (kind == WeightKind::codes4) {
    half_byte_stretch<P, T>(codes, panel_stride, x, token_stride, sums);
  } else if constexpr (kind == WeightKind::codes8) {
    byte_stretch<P, T>(codes, panel_stride, x, token_stride, sums);
  } else {
    plane_stretch<kind, 0, 8, P, T>(codes, panel_stride, x, token_stride, sums);
  }
}

}  // namespace
}  // namespace sparkx::kernels
