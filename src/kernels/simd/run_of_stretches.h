// D of a run of one token on layers whose stretches leave nothing to gain from doing two at once; dot4_stretch.h has
// its own.
#pragma once

#include "kernels/code_layout.inc.h"
#include "kernels/kernels.h"
#include "kernels/stretch.inc.h"

namespace sparkx::kernels {
namespace {

template <WeightKind kind>
inline __attribute__((always_inline)) I32x16 run_products(const std::byte* codes, const std::int8_t* x, int stretches) {
  I32x16 sum[1][1] = {{splat<I32x16>(0)}};
  for (int i = 0; i < stretches; ++i, codes += kStretchBytes<kind>, x += kStretchColumns) {
    stretch<kind, 1, 1>(codes, 0, x, 0, sum);
  }
  return sum[0][0];
}

}  // namespace
}  // namespace sparkx::kernels
