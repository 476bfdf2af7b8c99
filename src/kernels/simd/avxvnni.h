// AVX-VNNI on top of the AVX2 layer: dot4, two registers of eight lanes. Compiled without AVX-VNNI, its one instruction
// is put together from AVX2's, for the table that tests the rest where there is none.
#pragma once

#include "kernels/simd/avx2.h"

namespace sparkx::kernels {
namespace {

struct Codes {
  __m256i low, high;
};
inline Codes load_codes(const std::byte* p) {
  const auto* halves = reinterpret_cast<const __m256i*>(p);
  return {_mm256_loadu_si256(halves), _mm256_loadu_si256(halves + 1)};
}
inline Codes low_halves(Codes a) {
  const __m256i mask = _mm256_set1_epi8(15);
  return {_mm256_and_si256(a.low, mask), _mm256_and_si256(a.high, mask)};
}
inline Codes high_halves(Codes a) {
  const __m256i mask = _mm256_set1_epi8(15);
  return {_mm256_and_si256(_mm256_srli_epi16(a.low, 4), mask), _mm256_and_si256(_mm256_srli_epi16(a.high, 4), mask)};
}
inline __m256i dpbusd(__m256i sum, __m256i codes, __m256i x) {
#if defined(__AVXVNNI__)
  return _mm256_dpbusd_avx_epi32(sum, codes, x);
#else
  const __m256i even =
      _mm256_madd_epi16(_mm256_and_si256(codes, _mm256_set1_epi16(255)), _mm256_srai_epi16(_mm256_slli_epi16(x, 8), 8));
  const __m256i odd = _mm256_madd_epi16(_mm256_srli_epi16(codes, 8), _mm256_srai_epi16(x, 8));
  return _mm256_add_epi32(sum, _mm256_add_epi32(even, odd));
#endif
}
template <int shift, int mask>
inline Codes pick(Codes a) {
  return {pick<shift, mask>(a.low), pick<shift, mask>(a.high)};
}
inline Codes either(Codes a, Codes b) {
  return {either(a.low, b.low), either(a.high, b.high)};
}
template <class Byte>
inline Codes lookup(Codes a, const Byte (&table)[16]) {
  return {lookup(a.low, table), lookup(a.high, table)};
}
template <int T>
inline __attribute__((always_inline)) void dot4(I32x16 (&sums)[T], Codes codes, const std::int8_t* x,
                                                std::int64_t token_stride) {
  SPARKX_UNROLL
  for (int t = 0; t < T; ++t) {
    std::int32_t four;
    __builtin_memcpy(&four, x + t * token_stride, sizeof four);
    const __m256i all = _mm256_set1_epi32(four);
    sums[t] = {dpbusd(sums[t].low, codes.low, all), dpbusd(sums[t].high, codes.high, all)};
  }
}

}  // namespace
}  // namespace sparkx::kernels
