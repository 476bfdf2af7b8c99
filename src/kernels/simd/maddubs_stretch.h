// The innermost loops of the quantized dot for AVX2 without VNNI. What the functions do stands in dot4_stretch.h.
//
// maddubs multiplies unsigned codes with signed ones and adds neighbours in 16 bits. With codes of at most 15 and
// activations of at most 127, eight of those sums fit: 8 * 2 * 15 * 127 = 30480. That is one stretch of 32 columns;
// madd then widens to 32 bits. Codes of 8 bits go through twice, as low and as high halves of bytes.
#pragma once

namespace sparkx::kernels {
namespace {

// Activation codes of four columns, in every lane.
inline __m256i four_codes(const std::int8_t* x) {
  std::int32_t four;
  __builtin_memcpy(&four, x, sizeof four);
  return _mm256_set1_epi32(four);
}

struct Sums16 {
  __m256i low, high;
};
inline __attribute__((always_inline)) void add_products(Sums16& sums, __m256i low, __m256i high, __m256i four) {
  sums.low = _mm256_add_epi16(sums.low, _mm256_maddubs_epi16(low, four));
  sums.high = _mm256_add_epi16(sums.high, _mm256_maddubs_epi16(high, four));
}
// Adds `factor` times the 16-bit sums.
inline void widen_into(I32x16& sums, Sums16 narrow, short factor) {
  const __m256i factors = _mm256_set1_epi16(factor);
  sums.low = _mm256_add_epi32(sums.low, _mm256_madd_epi16(narrow.low, factors));
  sums.high = _mm256_add_epi32(sums.high, _mm256_madd_epi16(narrow.high, factors));
}

template <int P, int T>
inline __attribute__((always_inline)) void half_byte_stretch(const std::byte* codes, std::size_t panel_stride,
                                                             const std::int8_t* x, std::int64_t token_stride,
                                                             I32x16 (&sums)[P][T]) {
  const __m256i mask = _mm256_set1_epi8(15);
  for (int p = 0; p < P; ++p) {
    Sums16 narrow[T];
    SPARKX_UNROLL
    for (int t = 0; t < T; ++t) narrow[t] = {_mm256_setzero_si256(), _mm256_setzero_si256()};
    SPARKX_ROLLED
    for (int step = 0; step < 4; ++step) {  // 8 columns
      const auto* bytes = reinterpret_cast<const __m256i*>(codes + p * panel_stride + step * 64);
      const __m256i first = _mm256_loadu_si256(bytes), second = _mm256_loadu_si256(bytes + 1);
      const __m256i low0 = _mm256_and_si256(first, mask), low1 = _mm256_and_si256(second, mask);
      SPARKX_UNROLL
      for (int t = 0; t < T; ++t) add_products(narrow[t], low0, low1, four_codes(x + t * token_stride + step * 8));
      const __m256i high0 = _mm256_and_si256(_mm256_srli_epi16(first, 4), mask);
      const __m256i high1 = _mm256_and_si256(_mm256_srli_epi16(second, 4), mask);
      SPARKX_UNROLL
      for (int t = 0; t < T; ++t)
        add_products(narrow[t], high0, high1, four_codes(x + t * token_stride + step * 8 + 4));
    }
    SPARKX_UNROLL
    for (int t = 0; t < T; ++t) widen_into(sums[p][t], narrow[t], 1);
  }
}

template <int P, int T>
inline __attribute__((always_inline)) void byte_stretch(const std::byte* codes, std::size_t panel_stride,
                                                        const std::int8_t* x, std::int64_t token_stride,
                                                        I32x16 (&sums)[P][T]) {
  const __m256i mask = _mm256_set1_epi8(15);
  const auto half = [&](int p, auto halves, short factor) __attribute__((always_inline)) {
    Sums16 narrow[T];
    SPARKX_UNROLL
    for (int t = 0; t < T; ++t) narrow[t] = {_mm256_setzero_si256(), _mm256_setzero_si256()};
    SPARKX_ROLLED
    for (int step = 0; step < 8; ++step) {  // 4 columns
      const auto* bytes = reinterpret_cast<const __m256i*>(codes + p * panel_stride + step * 64);
      const __m256i first = halves(_mm256_loadu_si256(bytes)), second = halves(_mm256_loadu_si256(bytes + 1));
      SPARKX_UNROLL
      for (int t = 0; t < T; ++t) add_products(narrow[t], first, second, four_codes(x + t * token_stride + step * 4));
    }
    SPARKX_UNROLL
    for (int t = 0; t < T; ++t) widen_into(sums[p][t], narrow[t], factor);
  };
  for (int p = 0; p < P; ++p) {
    half(
        p, [&](__m256i bytes) { return _mm256_and_si256(bytes, mask); }, 1);
    half(
        p, [&](__m256i bytes) { return _mm256_and_si256(_mm256_srli_epi16(bytes, 4), mask); }, 16);
  }
}

}  // namespace
}  // namespace sparkx::kernels
