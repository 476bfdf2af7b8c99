// Codes out of planes (kernels/code_layout.inc.h): word i of a stretch is four columns of all lanes.
//
//   2 bits   [ load 0: words 0 1 2 3 at bits 0 2 4 6 ][ load 1: words 4 … 7 ]
//   4 bits   [ words 0 1 at bits 0 4 ] … four loads
//   1 bit    [ words 0 … 7 at bits 0 … 7 ]
//   3 = 2 + 1    5 = 4 + 1    6 = 4 + 2: the second plane lies behind the first and holds the upper bits
#pragma once

#include "kernels/code_layout.inc.h"
#include "kernels/kernels.h"

namespace sparkx::kernels {
namespace {

// `load(offset)` gives 64 bytes of the stretch, or those of 8 lanes; the layer has pick and either for them.
template <WeightKind kind, int i, class Load>
inline __attribute__((always_inline)) auto plane_codes(const Load& load) {
  constexpr int kLow = kLowPlaneBits<kind>, kHigh = kHighPlaneBits<kind>;
  constexpr int kLowWords = 8 / kLow;  // words of a load
  const auto low = pick<kLow*(i % kLowWords), (1 << kLow) - 1>(load(i / kLowWords * 64));
  if constexpr (kHigh == 0) {
    return low;
  } else {
    constexpr int kHighWords = 8 / kHigh;
    constexpr int kShift = kHigh * (i % kHighWords) - kLow;
    return either(low, pick<kShift, ((1 << kHigh) - 1) << kLow>(load(64 * kLow + i / kHighWords * 64)));
  }
}

// Calls function<i>() for the eight words of a stretch.
template <class Function>
inline __attribute__((always_inline)) void each_word(const Function& function) {
  function.template operator()<0>();
  function.template operator()<1>();
  function.template operator()<2>();
  function.template operator()<3>();
  function.template operator()<4>();
  function.template operator()<5>();
  function.template operator()<6>();
  function.template operator()<7>();
}

}  // namespace
}  // namespace sparkx::kernels
