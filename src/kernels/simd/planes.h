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

// What codes of 4 bits stand for. The layer has lookup for them.
template <class Byte>
struct Table {
  Byte value[16];
};
template <class Byte>
constexpr Table<Byte> values_plus(const std::int8_t (&values)[16], int zero) {
  Table<Byte> table{};
  for (int i = 0; i < 16; ++i) table.value[i] = static_cast<Byte>(values[i] + zero);
  return table;
}
template <WeightKind kind>
constexpr auto kSignedTable = values_plus<std::int8_t>(kind == WeightKind::e2m1 ? kE2m1Halves : kIq4Values, 0);
// With what makes them positive added.
template <WeightKind kind>
constexpr auto kUnsignedTable = values_plus<std::uint8_t>(kind == WeightKind::e2m1 ? kE2m1Halves : kIq4Values,
                                                          table_zero(kind));

// Codes of word i as they are stored. `load(offset)` gives 64 bytes of the stretch, or those of 8 lanes; the layer has
// pick and either for them.
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

// Calls function<i>() for words begin … end - 1 of a stretch.
template <int begin, int end, class Function>
inline __attribute__((always_inline)) void each_word(const Function& function) {
  if constexpr (begin < end) {
    function.template operator()<begin>();
    each_word<begin + 1, end>(function);
  }
}

}  // namespace
}  // namespace sparkx::kernels
