// The layer for AVX2, FMA and F16C: 16 lanes are two registers. What the functions mean stands in plain_lanes.h.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "kernels/simd/bits.h"
#include "kernels/simd/unroll.h"

namespace sparkx::kernels {
namespace {

constexpr int kTokenTile = 4;       // tokens of a register tile of dot
constexpr int kTileVectors = 4;     // accumulators of a register tile
constexpr int kCodeTokens = 6;      // tokens of a register tile of dot_codes
constexpr int kCodeVectors = 6;     // accumulators of that tile
constexpr int kValueRows = 6;       // rows of a tile of attention's sum over values
constexpr int kChannelVectors = 1;  // vectors of channels of that tile

struct F32x16 {
  __m256 low, high;
};
struct I32x16 {
  __m256i low, high;
};
struct Mask16 {
  __m256 low, high;
};

// Each byte shifted to the right (to the left when `shift` is negative), and its bits of `mask`.
template <int shift, int mask>
inline __m256i pick(__m256i a) {
  if constexpr (shift > 0) a = _mm256_srli_epi16(a, shift);
  if constexpr (shift < 0) a = _mm256_slli_epi16(a, -shift);
  return _mm256_and_si256(a, _mm256_set1_epi8(static_cast<char>(mask)));
}
inline __m256i either(__m256i a, __m256i b) {
  return _mm256_or_si256(a, b);
}
template <class Byte>
inline __m256i lookup(__m256i a, const Byte (&table)[16]) {
  const __m128i values = _mm_loadu_si128(reinterpret_cast<const __m128i*>(table));
  return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(values), a);
}

inline F32x16 load(const float* p) {
  return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)};
}
inline void store(float* p, F32x16 a) {
  _mm256_storeu_ps(p, a.low);
  _mm256_storeu_ps(p + 8, a.high);
}

template <class V>
struct Splat;
template <>
struct Splat<F32x16> {
  static F32x16 of(float value) { return {_mm256_set1_ps(value), _mm256_set1_ps(value)}; }
};
template <>
struct Splat<I32x16> {
  static I32x16 of(std::int32_t value) { return {_mm256_set1_epi32(value), _mm256_set1_epi32(value)}; }
};
template <class V, class Scalar>
inline V splat(Scalar value) {
  return Splat<V>::of(value);
}

inline F32x16 operator+(F32x16 a, F32x16 b) {
  return {_mm256_add_ps(a.low, b.low), _mm256_add_ps(a.high, b.high)};
}
inline F32x16 operator-(F32x16 a, F32x16 b) {
  return {_mm256_sub_ps(a.low, b.low), _mm256_sub_ps(a.high, b.high)};
}
inline F32x16 operator*(F32x16 a, F32x16 b) {
  return {_mm256_mul_ps(a.low, b.low), _mm256_mul_ps(a.high, b.high)};
}
inline F32x16 operator/(F32x16 a, F32x16 b) {
  return {_mm256_div_ps(a.low, b.low), _mm256_div_ps(a.high, b.high)};
}
inline F32x16 fma(F32x16 a, F32x16 b, F32x16 c) {
  return {_mm256_fmadd_ps(a.low, b.low, c.low), _mm256_fmadd_ps(a.high, b.high, c.high)};
}
inline F32x16 negate(F32x16 a) {
  const __m256 sign = _mm256_set1_ps(-0.0f);
  return {_mm256_xor_ps(a.low, sign), _mm256_xor_ps(a.high, sign)};
}
inline F32x16 sqrt(F32x16 a) {
  return {_mm256_sqrt_ps(a.low), _mm256_sqrt_ps(a.high)};
}
inline F32x16 max(F32x16 a, F32x16 b) {
  return {_mm256_max_ps(a.low, b.low), _mm256_max_ps(a.high, b.high)};
}
inline F32x16 min(F32x16 a, F32x16 b) {
  return {_mm256_min_ps(a.low, b.low), _mm256_min_ps(a.high, b.high)};
}

inline I32x16 bits(F32x16 a) {
  return {_mm256_castps_si256(a.low), _mm256_castps_si256(a.high)};
}
inline F32x16 from_bits(I32x16 a) {
  return {_mm256_castsi256_ps(a.low), _mm256_castsi256_ps(a.high)};
}
inline I32x16 operator+(I32x16 a, I32x16 b) {
  return {_mm256_add_epi32(a.low, b.low), _mm256_add_epi32(a.high, b.high)};
}
inline I32x16 operator-(I32x16 a, I32x16 b) {
  return {_mm256_sub_epi32(a.low, b.low), _mm256_sub_epi32(a.high, b.high)};
}
inline I32x16 operator*(I32x16 a, I32x16 b) {
  return {_mm256_mullo_epi32(a.low, b.low), _mm256_mullo_epi32(a.high, b.high)};
}
inline I32x16 operator&(I32x16 a, I32x16 b) {
  return {_mm256_and_si256(a.low, b.low), _mm256_and_si256(a.high, b.high)};
}
inline I32x16 operator|(I32x16 a, I32x16 b) {
  return {_mm256_or_si256(a.low, b.low), _mm256_or_si256(a.high, b.high)};
}
template <int count>
inline I32x16 shift_left(I32x16 a) {
  return {_mm256_slli_epi32(a.low, count), _mm256_slli_epi32(a.high, count)};
}
template <int count>
inline I32x16 shift_right_arithmetic(I32x16 a) {
  return {_mm256_srai_epi32(a.low, count), _mm256_srai_epi32(a.high, count)};
}
template <int count>
inline I32x16 shift_halves_left(I32x16 a) {
  return {_mm256_slli_epi16(a.low, count), _mm256_slli_epi16(a.high, count)};
}
template <int count>
inline I32x16 shift_halves_right_arithmetic(I32x16 a) {
  return {_mm256_srai_epi16(a.low, count), _mm256_srai_epi16(a.high, count)};
}
inline I32x16 lookup(I32x16 a, const std::int8_t (&table)[16]) {
  // The other bytes of a lane find something too.
  return shift_right_arithmetic<24>(shift_left<24>(I32x16{lookup(a.low, table), lookup(a.high, table)}));
}
inline I32x16 dot2(I32x16 sum, I32x16 pairs, const std::int16_t* x) {
  std::int32_t two;
  __builtin_memcpy(&two, x, sizeof two);
  const __m256i all = _mm256_set1_epi32(two);
  return {_mm256_add_epi32(sum.low, _mm256_madd_epi16(pairs.low, all)),
          _mm256_add_epi32(sum.high, _mm256_madd_epi16(pairs.high, all))};
}
inline F32x16 to_float(I32x16 a) {
  return {_mm256_cvtepi32_ps(a.low), _mm256_cvtepi32_ps(a.high)};
}
inline I32x16 max(I32x16 a, I32x16 b) {
  return {_mm256_max_epi32(a.low, b.low), _mm256_max_epi32(a.high, b.high)};
}
inline I32x16 load_bytes(const void* p) {
  const __m128i bytes = _mm_loadu_si128(static_cast<const __m128i*>(p));
  return {_mm256_cvtepu8_epi32(bytes), _mm256_cvtepu8_epi32(_mm_srli_si128(bytes, 8))};
}
inline I32x16 load_int(const void* p) {
  const auto* halves = static_cast<const __m256i*>(p);
  return {_mm256_loadu_si256(halves), _mm256_loadu_si256(halves + 1)};
}
inline void store_bytes(void* p, I32x16 a) {
  const __m256i byte = _mm256_set1_epi32(255);
  const __m256i words = _mm256_permute4x64_epi64(
      _mm256_packus_epi32(_mm256_and_si256(a.low, byte), _mm256_and_si256(a.high, byte)), 0xd8);
  _mm_storeu_si128(static_cast<__m128i*>(p),
                   _mm_packus_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1)));
}
inline std::int32_t sum_lanes(I32x16 a) {
  const __m256i eight = _mm256_add_epi32(a.low, a.high);
  const __m128i four = _mm_add_epi32(_mm256_castsi256_si128(eight), _mm256_extracti128_si256(eight, 1));
  const __m128i two = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0x4e));
  return _mm_cvtsi128_si32(_mm_add_epi32(two, _mm_shuffle_epi32(two, 0xb1)));
}
inline std::int32_t max_lanes(I32x16 a) {
  const __m256i eight = _mm256_max_epi32(a.low, a.high);
  const __m128i four = _mm_max_epi32(_mm256_castsi256_si128(eight), _mm256_extracti128_si256(eight, 1));
  const __m128i two = _mm_max_epi32(four, _mm_shuffle_epi32(four, 0x4e));
  return _mm_cvtsi128_si32(_mm_max_epi32(two, _mm_shuffle_epi32(two, 0xb1)));
}
inline I32x16 lane_numbers() {
  return {_mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7), _mm256_setr_epi32(8, 9, 10, 11, 12, 13, 14, 15)};
}

inline Mask16 less(F32x16 a, F32x16 b) {
  return {_mm256_cmp_ps(a.low, b.low, _CMP_LT_OQ), _mm256_cmp_ps(a.high, b.high, _CMP_LT_OQ)};
}
inline Mask16 less(I32x16 a, I32x16 b) {
  return {_mm256_castsi256_ps(_mm256_cmpgt_epi32(b.low, a.low)),
          _mm256_castsi256_ps(_mm256_cmpgt_epi32(b.high, a.high))};
}
inline Mask16 operator&(Mask16 a, Mask16 b) {
  return {_mm256_and_ps(a.low, b.low), _mm256_and_ps(a.high, b.high)};
}
inline bool all(Mask16 mask) {
  return _mm256_movemask_ps(_mm256_and_ps(mask.low, mask.high)) == 0xff;
}
inline F32x16 select(Mask16 mask, F32x16 yes, F32x16 no) {
  return {_mm256_blendv_ps(no.low, yes.low, mask.low), _mm256_blendv_ps(no.high, yes.high, mask.high)};
}

inline F32x16 load_first(const float* p, int count) {
  const Mask16 mask = less(lane_numbers(), splat<I32x16>(count));
  return {_mm256_maskload_ps(p, _mm256_castps_si256(mask.low)),
          _mm256_maskload_ps(p + 8, _mm256_castps_si256(mask.high))};
}
inline void store_first(float* p, F32x16 a, int count) {
  const Mask16 mask = less(lane_numbers(), splat<I32x16>(count));
  _mm256_maskstore_ps(p, _mm256_castps_si256(mask.low), a.low);
  _mm256_maskstore_ps(p + 8, _mm256_castps_si256(mask.high), a.high);
}

inline float tree_sum(F32x16 a) {
  const __m256 eight = _mm256_add_ps(a.low, a.high);
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}
inline float tree_max(F32x16 a) {
  const __m256 eight = _mm256_max_ps(a.low, a.high);
  const __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}

inline F32x16 load_bfloat16(const void* p) {
  const auto* halves = static_cast<const __m128i*>(p);
  return {_mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128(halves)), 16)),
          _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128(halves + 1)), 16))};
}
inline F32x16 load_bfloat16_first(const void* p, int count) {
  std::uint16_t values[16] = {};
  for (int i = 0; i < count; ++i) values[i] = static_cast<const std::uint16_t*>(p)[i];
  return load_bfloat16(values);
}

inline F32x16 load_int8(const void* p) {
  const __m128i bytes = _mm_loadu_si128(static_cast<const __m128i*>(p));
  return {_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes)),
          _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_srli_si128(bytes, 8)))};
}
inline F32x16 load_float16(const void* p) {
  const auto* halves = static_cast<const __m128i*>(p);
  return {_mm256_cvtph_ps(_mm_loadu_si128(halves)), _mm256_cvtph_ps(_mm_loadu_si128(halves + 1))};
}

inline F32x16 load_e4m3(const void* p) {
  // As float16: one bit lower, an exponent that is 8 too small.
  const __m256i high_bytes =
      _mm256_slli_epi16(_mm256_cvtepu8_epi16(_mm_loadu_si128(static_cast<const __m128i*>(p))), 8);
  const __m256i values =
      _mm256_and_si256(_mm256_srai_epi16(high_bytes, 1), _mm256_set1_epi16(static_cast<short>(0xbf80)));
  return F32x16{_mm256_cvtph_ps(_mm256_castsi256_si128(values)), _mm256_cvtph_ps(_mm256_extracti128_si256(values, 1))} *
         splat<F32x16>(0x1p8f);
}

struct Pairs {
  F32x16 first;
  F32x16 second;
};
inline Pairs load_bfloat16_pairs(const void* p) {
  const __m256i low = _mm256_loadu_si256(static_cast<const __m256i*>(p));
  const __m256i high = _mm256_loadu_si256(static_cast<const __m256i*>(p) + 1);
  const __m256i upper_half = _mm256_set1_epi32(static_cast<int>(0xffff0000));
  return {{_mm256_castsi256_ps(_mm256_slli_epi32(low, 16)), _mm256_castsi256_ps(_mm256_slli_epi32(high, 16))},
          {_mm256_castsi256_ps(_mm256_and_si256(low, upper_half)),
           _mm256_castsi256_ps(_mm256_and_si256(high, upper_half))}};
}
// The first ones of 8 pairs in the lower half, the second ones in the upper half.
inline __m256i separate_pairs(__m256i pairs) {
  const __m256i order = _mm256_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15,  //
                                         0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15);
  return _mm256_permute4x64_epi64(_mm256_shuffle_epi8(pairs, order), 0xd8);
}
inline Pairs load_float16_pairs(const void* p) {
  const __m256i low = separate_pairs(_mm256_loadu_si256(static_cast<const __m256i*>(p)));
  const __m256i high = separate_pairs(_mm256_loadu_si256(static_cast<const __m256i*>(p) + 1));
  return {{_mm256_cvtph_ps(_mm256_castsi256_si128(low)), _mm256_cvtph_ps(_mm256_castsi256_si128(high))},
          {_mm256_cvtph_ps(_mm256_extracti128_si256(low, 1)), _mm256_cvtph_ps(_mm256_extracti128_si256(high, 1))}};
}

}  // namespace
}  // namespace sparkx::kernels
