// The layer for AVX-512 (F, BW, DQ, VL, VNNI): 16 lanes are one register. What the functions mean stands in
// plain_lanes.h.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "kernels/simd/bits.h"
#include "kernels/simd/tiles512.h"
#include "kernels/simd/unroll.h"

namespace sparkx::kernels {
namespace {

struct F32x16 {
  __m512 all;
};
struct I32x16 {
  __m512i all;
};
struct Mask16 {
  __mmask16 all;
};

inline F32x16 load(const float* p) {
  return {_mm512_loadu_ps(p)};
}
inline F32x16 load_first(const float* p, int count) {
  return {_mm512_maskz_loadu_ps(static_cast<__mmask16>((1u << count) - 1), p)};
}
inline void store(float* p, F32x16 a) {
  _mm512_storeu_ps(p, a.all);
}
inline void store_first(float* p, F32x16 a, int count) {
  _mm512_mask_storeu_ps(p, static_cast<__mmask16>((1u << count) - 1), a.all);
}

template <class V>
struct Splat;
template <>
struct Splat<F32x16> {
  static F32x16 of(float value) { return {_mm512_set1_ps(value)}; }
};
template <>
struct Splat<I32x16> {
  static I32x16 of(std::int32_t value) { return {_mm512_set1_epi32(value)}; }
};
template <class V, class Scalar>
inline V splat(Scalar value) {
  return Splat<V>::of(value);
}

inline F32x16 operator+(F32x16 a, F32x16 b) {
  return {_mm512_add_ps(a.all, b.all)};
}
inline F32x16 operator-(F32x16 a, F32x16 b) {
  return {_mm512_sub_ps(a.all, b.all)};
}
inline F32x16 operator*(F32x16 a, F32x16 b) {
  return {_mm512_mul_ps(a.all, b.all)};
}
inline F32x16 operator/(F32x16 a, F32x16 b) {
  return {_mm512_div_ps(a.all, b.all)};
}
inline F32x16 fma(F32x16 a, F32x16 b, F32x16 c) {
  return {_mm512_fmadd_ps(a.all, b.all, c.all)};
}
inline F32x16 negate(F32x16 a) {
  return {_mm512_xor_ps(a.all, _mm512_set1_ps(-0.0f))};
}
inline F32x16 sqrt(F32x16 a) {
  return {_mm512_sqrt_ps(a.all)};
}
inline F32x16 max(F32x16 a, F32x16 b) {
  return {_mm512_max_ps(a.all, b.all)};
}
inline F32x16 min(F32x16 a, F32x16 b) {
  return {_mm512_min_ps(a.all, b.all)};
}

inline I32x16 bits(F32x16 a) {
  return {_mm512_castps_si512(a.all)};
}
inline F32x16 from_bits(I32x16 a) {
  return {_mm512_castsi512_ps(a.all)};
}
inline I32x16 operator+(I32x16 a, I32x16 b) {
  return {_mm512_add_epi32(a.all, b.all)};
}
inline I32x16 operator-(I32x16 a, I32x16 b) {
  return {_mm512_sub_epi32(a.all, b.all)};
}
inline I32x16 operator*(I32x16 a, I32x16 b) {
  return {_mm512_mullo_epi32(a.all, b.all)};
}
inline I32x16 operator&(I32x16 a, I32x16 b) {
  return {_mm512_and_si512(a.all, b.all)};
}
inline I32x16 operator|(I32x16 a, I32x16 b) {
  return {_mm512_or_si512(a.all, b.all)};
}
template <int count>
inline I32x16 shift_left(I32x16 a) {
  return {_mm512_slli_epi32(a.all, count)};
}
template <int count>
inline I32x16 shift_right_arithmetic(I32x16 a) {
  return {_mm512_srai_epi32(a.all, count)};
}
template <int count>
inline I32x16 shift_halves_left(I32x16 a) {
  return {_mm512_slli_epi16(a.all, count)};
}
template <int count>
inline I32x16 shift_halves_right_arithmetic(I32x16 a) {
  return {_mm512_srai_epi16(a.all, count)};
}
inline F32x16 to_float(I32x16 a) {
  return {_mm512_cvtepi32_ps(a.all)};
}
inline I32x16 max(I32x16 a, I32x16 b) {
  return {_mm512_max_epi32(a.all, b.all)};
}
inline I32x16 load_bytes(const void* p) {
  return {_mm512_cvtepu8_epi32(_mm_loadu_si128(static_cast<const __m128i*>(p)))};
}
inline I32x16 load_int(const void* p) {
  return {_mm512_loadu_si512(p)};
}
inline void store_bytes(void* p, I32x16 a) {
  _mm_storeu_si128(static_cast<__m128i*>(p), _mm512_cvtepi32_epi8(a.all));
}
inline std::int32_t sum_lanes(I32x16 a) {
  return _mm512_reduce_add_epi32(a.all);
}
inline std::int32_t max_lanes(I32x16 a) {
  return _mm512_reduce_max_epi32(a.all);
}

struct Codes {
  __m512i all;
};
inline Codes load_codes(const std::byte* p) {
  return {_mm512_loadu_si512(p)};
}
inline Codes low_halves(Codes a) {
  return {_mm512_and_si512(a.all, _mm512_set1_epi8(15))};
}
inline Codes high_halves(Codes a) {
  return {_mm512_and_si512(_mm512_srli_epi16(a.all, 4), _mm512_set1_epi8(15))};
}
template <int shift, int mask>
inline Codes pick(Codes a) {
  __m512i shifted = a.all;
  if constexpr (shift > 0) shifted = _mm512_srli_epi16(shifted, shift);
  if constexpr (shift < 0) shifted = _mm512_slli_epi16(shifted, -shift);
  return {_mm512_and_si512(shifted, _mm512_set1_epi8(static_cast<char>(mask)))};
}
inline Codes either(Codes a, Codes b) {
  return {_mm512_or_si512(a.all, b.all)};
}
template <class Byte>
inline Codes lookup(Codes a, const Byte (&table)[16]) {
  const __m128i values = _mm_loadu_si128(reinterpret_cast<const __m128i*>(table));
  return {_mm512_shuffle_epi8(_mm512_broadcast_i32x4(values), a.all)};
}
inline I32x16 lookup(I32x16 a, const std::int8_t (&table)[16]) {
  const __m128i values = _mm_loadu_si128(reinterpret_cast<const __m128i*>(table));
  return {_mm512_permutexvar_epi32(a.all, _mm512_cvtepi8_epi32(values))};
}
inline I32x16 dot2(I32x16 sum, I32x16 pairs, const std::int16_t* x) {
  std::int32_t two;
  __builtin_memcpy(&two, x, sizeof two);
  return {_mm512_dpwssd_epi32(sum.all, pairs.all, _mm512_set1_epi32(two))};
}
// As assembly: with the intrinsic GCC broadcasts in an instruction of its own, and moves sums to and fro: a seventh
// slower. And it would keep a pointer for each of 12 tokens, more than there are registers for; odd multiples of the
// distance are enough, since an address takes them 1, 2, 4 or 8 times.
template <int T, int t = 0>
inline __attribute__((always_inline)) void dot4(I32x16 (&sums)[T], Codes codes, const std::int8_t* x,
                                                std::int64_t token_stride) {
  // What may be read, for the compiler: all tokens'.
  const auto& tokens = *reinterpret_cast<const std::int8_t(*)[std::int64_t{1} << 32]>(x);
  if constexpr (t == 0) {
    asm("vpdpbusd (%2)%{1to16%}, %1, %0" : "+v"(sums[t].all) : "v"(codes.all), "r"(x), "m"(tokens));
  } else {
    constexpr int kTimes = t % 8 == 0 ? 8 : t % 4 == 0 ? 4 : t % 2 == 0 ? 2 : 1;
    asm("vpdpbusd (%2,%3,%c4)%{1to16%}, %1, %0"
        : "+v"(sums[t].all)
        : "v"(codes.all), "r"(x), "r"(t / kTimes * token_stride), "i"(kTimes), "m"(tokens));
  }
  if constexpr (t + 1 < T) dot4<T, t + 1>(sums, codes, x, token_stride);
}

inline I32x16 lane_numbers() {
  return {_mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)};
}

inline Mask16 less(F32x16 a, F32x16 b) {
  return {_mm512_cmp_ps_mask(a.all, b.all, _CMP_LT_OQ)};
}
inline Mask16 less(I32x16 a, I32x16 b) {
  return {_mm512_cmplt_epi32_mask(a.all, b.all)};
}
inline Mask16 operator&(Mask16 a, Mask16 b) {
  return {static_cast<__mmask16>(a.all & b.all)};
}
inline bool all(Mask16 mask) {
  return mask.all == 0xffff;
}
inline F32x16 select(Mask16 mask, F32x16 yes, F32x16 no) {
  return {_mm512_mask_blend_ps(mask.all, no.all, yes.all)};
}

inline float tree_sum(F32x16 a) {
  const __m256 eight = _mm256_add_ps(_mm512_castps512_ps256(a.all), _mm512_extractf32x8_ps(a.all, 1));
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}
inline float tree_max(F32x16 a) {
  const __m256 eight = _mm256_max_ps(_mm512_castps512_ps256(a.all), _mm512_extractf32x8_ps(a.all, 1));
  const __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}

inline F32x16 widen_bfloat16(__m256i values) {
  return {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(values), 16))};
}
inline F32x16 load_bfloat16(const void* p) {
  return widen_bfloat16(_mm256_loadu_si256(static_cast<const __m256i*>(p)));
}
inline F32x16 load_bfloat16_first(const void* p, int count) {
  return widen_bfloat16(_mm256_maskz_loadu_epi16(static_cast<__mmask16>((1u << count) - 1), p));
}

inline F32x16 load_int8(const void* p) {
  return {_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(static_cast<const __m128i*>(p))))};
}
inline F32x16 load_float16(const void* p) {
  return {_mm512_cvtph_ps(_mm256_loadu_si256(static_cast<const __m256i*>(p)))};
}

inline F32x16 load_e4m3(const void* p) {
  // As float16: one bit lower, an exponent that is 8 too small.
  const __m256i high_bytes =
      _mm256_slli_epi16(_mm256_cvtepu8_epi16(_mm_loadu_si128(static_cast<const __m128i*>(p))), 8);
  const __m256i values =
      _mm256_and_si256(_mm256_srai_epi16(high_bytes, 1), _mm256_set1_epi16(static_cast<short>(0xbf80)));
  return {_mm512_mul_ps(_mm512_cvtph_ps(values), _mm512_set1_ps(0x1p8f))};
}

struct Pairs {
  F32x16 first;
  F32x16 second;
};
inline Pairs load_bfloat16_pairs(const void* p) {
  const __m512i pairs = _mm512_loadu_si512(p);
  return {{_mm512_castsi512_ps(_mm512_slli_epi32(pairs, 16))},
          {_mm512_castsi512_ps(_mm512_and_si512(pairs, _mm512_set1_epi32(static_cast<int>(0xffff0000))))}};
}
inline Pairs load_float16_pairs(const void* p) {
  const __m512i pairs = _mm512_loadu_si512(p);
  return {{_mm512_cvtph_ps(_mm512_cvtepi32_epi16(pairs))},
          {_mm512_cvtph_ps(_mm512_cvtepi32_epi16(_mm512_srli_epi32(pairs, 16)))}};
}

}  // namespace
}  // namespace sparkx::kernels
