// The layer for 64-bit ARM with dot products (Armv8.2-A, FEAT_DotProd): 16 lanes are four registers of four. What the
// functions mean stands in plain_lanes.h.
#pragma once

#include <arm_neon.h>

#include <cstddef>
#include <cstdint>

#include "kernels/simd/bits.h"
#include "kernels/simd/unroll.h"

namespace sparkx::kernels {
namespace {

// There are 32 registers of four lanes: four times four of them are the accumulators.
constexpr int kTokenTile = 4;       // tokens of a register tile of dot
constexpr int kTileVectors = 4;     // accumulators of a register tile
constexpr int kCodeTokens = 4;      // tokens of a register tile of dot_codes
constexpr int kCodeVectors = 4;     // accumulators of that tile
constexpr int kValueRows = 4;       // rows of a tile of attention's sum over values
constexpr int kChannelVectors = 1;  // vectors of channels of that tile

struct F32x16 {
  float32x4_t a, b, c, d;
};
struct I32x16 {
  int32x4_t a, b, c, d;
};
struct Mask16 {
  uint32x4_t a, b, c, d;
};

// Result{f of the first quarters, f of the second ones, …}
template <class Result, class Function, class... V>
inline __attribute__((always_inline)) Result quarters(Function f, const V&... v) {
  return {f(v.a...), f(v.b...), f(v.c...), f(v.d...)};
}

inline F32x16 load(const float* p) {
  return {vld1q_f32(p), vld1q_f32(p + 4), vld1q_f32(p + 8), vld1q_f32(p + 12)};
}
inline void store(float* p, F32x16 v) {
  vst1q_f32(p, v.a);
  vst1q_f32(p + 4, v.b);
  vst1q_f32(p + 8, v.c);
  vst1q_f32(p + 12, v.d);
}
inline F32x16 load_first(const float* p, int count) {
  float values[16] = {};
  for (int i = 0; i < count; ++i) values[i] = p[i];
  return load(values);
}
inline void store_first(float* p, F32x16 v, int count) {
  float values[16];
  store(values, v);
  for (int i = 0; i < count; ++i) p[i] = values[i];
}

template <class V>
struct Splat;
template <>
struct Splat<F32x16> {
  static F32x16 of(float value) {
    const float32x4_t v = vdupq_n_f32(value);
    return {v, v, v, v};
  }
};
template <>
struct Splat<I32x16> {
  static I32x16 of(std::int32_t value) {
    const int32x4_t v = vdupq_n_s32(value);
    return {v, v, v, v};
  }
};
template <class V, class Scalar>
inline V splat(Scalar value) {
  return Splat<V>::of(value);
}

inline F32x16 operator+(F32x16 x, F32x16 y) {
  return quarters<F32x16>([](float32x4_t a, float32x4_t b) { return vaddq_f32(a, b); }, x, y);
}
inline F32x16 operator-(F32x16 x, F32x16 y) {
  return quarters<F32x16>([](float32x4_t a, float32x4_t b) { return vsubq_f32(a, b); }, x, y);
}
inline F32x16 operator*(F32x16 x, F32x16 y) {
  return quarters<F32x16>([](float32x4_t a, float32x4_t b) { return vmulq_f32(a, b); }, x, y);
}
inline F32x16 operator/(F32x16 x, F32x16 y) {
  return quarters<F32x16>([](float32x4_t a, float32x4_t b) { return vdivq_f32(a, b); }, x, y);
}
inline F32x16 fma(F32x16 x, F32x16 y, F32x16 z) {
  return quarters<F32x16>([](float32x4_t a, float32x4_t b, float32x4_t c) { return vfmaq_f32(c, a, b); }, x, y, z);
}
inline F32x16 negate(F32x16 x) {
  return quarters<F32x16>([](float32x4_t a) { return vnegq_f32(a); }, x);
}
inline F32x16 sqrt(F32x16 x) {
  return quarters<F32x16>([](float32x4_t a) { return vsqrtq_f32(a); }, x);
}
// ARM's own maximum differs for zeros of both signs and for NaN.
inline float32x4_t larger(float32x4_t a, float32x4_t b) {
  return vbslq_f32(vcgtq_f32(a, b), a, b);
}
inline F32x16 max(F32x16 x, F32x16 y) {
  return quarters<F32x16>([](float32x4_t a, float32x4_t b) { return larger(a, b); }, x, y);
}
inline F32x16 min(F32x16 x, F32x16 y) {
  return quarters<F32x16>([](float32x4_t a, float32x4_t b) { return vbslq_f32(vcltq_f32(a, b), a, b); }, x, y);
}

inline I32x16 bits(F32x16 x) {
  return quarters<I32x16>([](float32x4_t a) { return vreinterpretq_s32_f32(a); }, x);
}
inline F32x16 from_bits(I32x16 x) {
  return quarters<F32x16>([](int32x4_t a) { return vreinterpretq_f32_s32(a); }, x);
}
inline I32x16 operator+(I32x16 x, I32x16 y) {
  return quarters<I32x16>([](int32x4_t a, int32x4_t b) { return vaddq_s32(a, b); }, x, y);
}
inline I32x16 operator-(I32x16 x, I32x16 y) {
  return quarters<I32x16>([](int32x4_t a, int32x4_t b) { return vsubq_s32(a, b); }, x, y);
}
inline I32x16 operator*(I32x16 x, I32x16 y) {
  return quarters<I32x16>([](int32x4_t a, int32x4_t b) { return vmulq_s32(a, b); }, x, y);
}
inline I32x16 operator&(I32x16 x, I32x16 y) {
  return quarters<I32x16>([](int32x4_t a, int32x4_t b) { return vandq_s32(a, b); }, x, y);
}
inline I32x16 operator|(I32x16 x, I32x16 y) {
  return quarters<I32x16>([](int32x4_t a, int32x4_t b) { return vorrq_s32(a, b); }, x, y);
}
template <int count>
inline I32x16 shift_left(I32x16 x) {
  return quarters<I32x16>([](int32x4_t a) { return vshlq_n_s32(a, count); }, x);
}
template <int count>
inline I32x16 shift_right_arithmetic(I32x16 x) {
  if constexpr (count == 0) return x;  // the instruction has no such form
  return quarters<I32x16>([](int32x4_t a) { return vshrq_n_s32(a, count == 0 ? 1 : count); }, x);
}
template <int count>
inline I32x16 shift_halves_left(I32x16 x) {
  return quarters<I32x16>(
      [](int32x4_t a) { return vreinterpretq_s32_s16(vshlq_n_s16(vreinterpretq_s16_s32(a), count)); }, x);
}
template <int count>
inline I32x16 shift_halves_right_arithmetic(I32x16 x) {
  return quarters<I32x16>(
      [](int32x4_t a) { return vreinterpretq_s32_s16(vshrq_n_s16(vreinterpretq_s16_s32(a), count)); }, x);
}
inline I32x16 lookup(I32x16 x, const std::int8_t (&table)[16]) {
  const int8x16_t values = vld1q_s8(table);
  const auto found = quarters<I32x16>(
      [values](int32x4_t a) { return vreinterpretq_s32_s8(vqtbl1q_s8(values, vreinterpretq_u8_s32(a))); }, x);
  return shift_right_arithmetic<24>(shift_left<24>(found));  // the other bytes of a lane find something too
}
inline I32x16 dot2(I32x16 sum, I32x16 pairs, const std::int16_t* x) {
  const std::int32_t first = x[0], second = x[1];
  return quarters<I32x16>(
      [first, second](int32x4_t s, int32x4_t p) {
        const int32x4_t low = vshrq_n_s32(vshlq_n_s32(p, 16), 16), high = vshrq_n_s32(p, 16);
        return vmlaq_n_s32(vmlaq_n_s32(s, low, first), high, second);
      },
      sum, pairs);
}
inline F32x16 to_float(I32x16 x) {
  return quarters<F32x16>([](int32x4_t a) { return vcvtq_f32_s32(a); }, x);
}
inline I32x16 max(I32x16 x, I32x16 y) {
  return quarters<I32x16>([](int32x4_t a, int32x4_t b) { return vmaxq_s32(a, b); }, x, y);
}
inline I32x16 load_int(const void* p) {
  const auto* words = static_cast<const std::int32_t*>(p);
  return {vld1q_s32(words), vld1q_s32(words + 4), vld1q_s32(words + 8), vld1q_s32(words + 12)};
}
inline I32x16 load_bytes(const void* p) {
  const uint8x16_t bytes = vld1q_u8(static_cast<const std::uint8_t*>(p));
  const uint16x8_t low = vmovl_u8(vget_low_u8(bytes)), high = vmovl_high_u8(bytes);
  return {vreinterpretq_s32_u32(vmovl_u16(vget_low_u16(low))), vreinterpretq_s32_u32(vmovl_high_u16(low)),
          vreinterpretq_s32_u32(vmovl_u16(vget_low_u16(high))), vreinterpretq_s32_u32(vmovl_high_u16(high))};
}
inline void store_bytes(void* p, I32x16 x) {
  const uint16x8_t low = vuzp1q_u16(vreinterpretq_u16_s32(x.a), vreinterpretq_u16_s32(x.b));
  const uint16x8_t high = vuzp1q_u16(vreinterpretq_u16_s32(x.c), vreinterpretq_u16_s32(x.d));
  vst1q_u8(static_cast<std::uint8_t*>(p), vuzp1q_u8(vreinterpretq_u8_u16(low), vreinterpretq_u8_u16(high)));
}
inline std::int32_t sum_lanes(I32x16 x) {
  return vaddvq_s32(vaddq_s32(vaddq_s32(x.a, x.b), vaddq_s32(x.c, x.d)));
}
inline std::int32_t max_lanes(I32x16 x) {
  return vmaxvq_s32(vmaxq_s32(vmaxq_s32(x.a, x.b), vmaxq_s32(x.c, x.d)));
}
inline I32x16 lane_numbers() {
  constexpr std::int32_t numbers[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  return load_int(numbers);
}

inline Mask16 less(F32x16 x, F32x16 y) {
  return quarters<Mask16>([](float32x4_t a, float32x4_t b) { return vcltq_f32(a, b); }, x, y);
}
inline Mask16 less(I32x16 x, I32x16 y) {
  return quarters<Mask16>([](int32x4_t a, int32x4_t b) { return vcltq_s32(a, b); }, x, y);
}
inline Mask16 operator&(Mask16 x, Mask16 y) {
  return quarters<Mask16>([](uint32x4_t a, uint32x4_t b) { return vandq_u32(a, b); }, x, y);
}
inline bool all(Mask16 x) {
  return vminvq_u32(vandq_u32(vandq_u32(x.a, x.b), vandq_u32(x.c, x.d))) != 0;
}
inline F32x16 select(Mask16 mask, F32x16 yes, F32x16 no) {
  return quarters<F32x16>([](uint32x4_t m, float32x4_t a, float32x4_t b) { return vbslq_f32(m, a, b); }, mask, yes, no);
}

inline float tree_sum(F32x16 x) {
  const float32x4_t four = vaddq_f32(vaddq_f32(x.a, x.c), vaddq_f32(x.b, x.d));
  const float32x2_t two = vadd_f32(vget_low_f32(four), vget_high_f32(four));
  return vget_lane_f32(two, 0) + vget_lane_f32(two, 1);
}
inline float tree_max(F32x16 x) {
  const float32x4_t four = larger(larger(x.a, x.c), larger(x.b, x.d));
  const float32x4_t two = larger(four, vextq_f32(four, four, 2));
  return vgetq_lane_f32(larger(two, vextq_f32(two, two, 1)), 0);
}

inline float32x4_t widen_bfloat16(uint16x4_t values) {
  return vreinterpretq_f32_u32(vshll_n_u16(values, 16));
}
inline F32x16 load_bfloat16(const void* p) {
  const auto* values = static_cast<const std::uint16_t*>(p);
  return {widen_bfloat16(vld1_u16(values)), widen_bfloat16(vld1_u16(values + 4)), widen_bfloat16(vld1_u16(values + 8)),
          widen_bfloat16(vld1_u16(values + 12))};
}
inline F32x16 load_bfloat16_first(const void* p, int count) {
  std::uint16_t values[16] = {};
  for (int i = 0; i < count; ++i) values[i] = static_cast<const std::uint16_t*>(p)[i];
  return load_bfloat16(values);
}

inline F32x16 load_int8(const void* p) {
  const int8x16_t bytes = vld1q_s8(static_cast<const std::int8_t*>(p));
  const int16x8_t low = vmovl_s8(vget_low_s8(bytes)), high = vmovl_high_s8(bytes);
  return to_float(
      I32x16{vmovl_s16(vget_low_s16(low)), vmovl_high_s16(low), vmovl_s16(vget_low_s16(high)), vmovl_high_s16(high)});
}
inline float32x4_t widen_float16(uint16x4_t values) {
  return vcvt_f32_f16(vreinterpret_f16_u16(values));
}
inline F32x16 load_float16(const void* p) {
  const auto* values = static_cast<const std::uint16_t*>(p);
  return {widen_float16(vld1_u16(values)), widen_float16(vld1_u16(values + 4)), widen_float16(vld1_u16(values + 8)),
          widen_float16(vld1_u16(values + 12))};
}

inline F32x16 load_e4m3(const void* p) {
  // As float16: one bit lower, an exponent that is 8 too small.
  const auto widen = [](uint8x8_t bytes) {
    const int16x8_t shifted = vshrq_n_s16(vreinterpretq_s16_u16(vshll_n_u8(bytes, 8)), 1);
    return vandq_u16(vreinterpretq_u16_s16(shifted), vdupq_n_u16(0xbf80));
  };
  const uint8x16_t bytes = vld1q_u8(static_cast<const std::uint8_t*>(p));
  const uint16x8_t low = widen(vget_low_u8(bytes)), high = widen(vget_high_u8(bytes));
  return F32x16{widen_float16(vget_low_u16(low)), widen_float16(vget_high_u16(low)), widen_float16(vget_low_u16(high)),
                widen_float16(vget_high_u16(high))} *
         splat<F32x16>(0x1p8f);
}

struct Pairs {
  F32x16 first;
  F32x16 second;
};
inline Pairs load_bfloat16_pairs(const void* p) {
  const I32x16 pairs = load_int(p);
  return {from_bits(shift_left<16>(pairs)), from_bits(pairs & splat<I32x16>(static_cast<std::int32_t>(0xffff0000)))};
}
inline Pairs load_float16_pairs(const void* p) {
  // vld2 separates the first ones of eight pairs from the second ones.
  const auto* values = static_cast<const std::uint16_t*>(p);
  const uint16x8x2_t low = vld2q_u16(values), high = vld2q_u16(values + 16);
  const auto widen = [](uint16x8_t a, uint16x8_t b) {
    return F32x16{widen_float16(vget_low_u16(a)), widen_float16(vget_high_u16(a)), widen_float16(vget_low_u16(b)),
                  widen_float16(vget_high_u16(b))};
  };
  return {widen(low.val[0], high.val[0]), widen(low.val[1], high.val[1])};
}

}  // namespace
}  // namespace sparkx::kernels
