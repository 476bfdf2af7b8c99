// The innermost loops of the quantized dot for ARM. What the functions do stands in dot4_stretch.h.
//
// sdot multiplies four signed bytes of each lane with four signed bytes of one lane of another register, which holds 16
// columns of a token. Codes of 4 bits are signed as they are. For codes of 8 bits there is usdot, which takes unsigned
// bytes; without it (FEAT_I8MM) codes c are taken as c - 128, and 128 times the sum of the activation codes, which is
// the same in all lanes, is added behind the stretch:
//   sum q·c = sum q·(c - 128) + 128·sum q
#pragma once

#include "kernels/simd/planes.h"

namespace sparkx::kernels {
namespace {

// 64 bytes of a panel of codes: four signed ones a lane.
struct SignedCodes {
  int8x16_t a, b, c, d;
};
inline SignedCodes load_signed_codes(const std::byte* p) {
  const auto* bytes = reinterpret_cast<const std::int8_t*>(p);
  return {vld1q_s8(bytes), vld1q_s8(bytes + 16), vld1q_s8(bytes + 32), vld1q_s8(bytes + 48)};
}

// Each byte shifted to the right (to the left when `shift` is negative), and its bits of `mask`.
template <int shift, int mask>
inline SignedCodes pick(SignedCodes codes) {
  return quarters<SignedCodes>(
      [](int8x16_t c) {
        uint8x16_t bytes = vreinterpretq_u8_s8(c);
        if constexpr (shift > 0) bytes = vshrq_n_u8(bytes, shift);
        if constexpr (shift < 0) bytes = vshlq_n_u8(bytes, -shift);
        return vreinterpretq_s8_u8(vandq_u8(bytes, vdupq_n_u8(mask)));
      },
      codes);
}
inline SignedCodes either(SignedCodes x, SignedCodes y) {
  return quarters<SignedCodes>([](int8x16_t a, int8x16_t b) { return vorrq_s8(a, b); }, x, y);
}

// What codes of 4 bits stand for.
template <class Byte>
inline SignedCodes lookup(SignedCodes codes, const Byte (&table)[16]) {
  const int8x16_t values = vld1q_s8(reinterpret_cast<const std::int8_t*>(table));
  return quarters<SignedCodes>([values](int8x16_t c) { return vqtbl1q_s8(values, vreinterpretq_u8_s8(c)); }, codes);
}

// sum + each lane's four codes times columns 4 * step … 4 * step + 3 of x.
template <int step>
inline __attribute__((always_inline)) I32x16 add_products(I32x16 sum, SignedCodes codes, int8x16_t x) {
  return quarters<I32x16>([x](int32x4_t s, int8x16_t c) { return vdotq_laneq_s32(s, c, x, step); }, sum, codes);
}

// The columns of one stretch, of T tokens: 16 in each register.
template <int T>
struct StretchColumns {
  int8x16_t half[T];

  inline __attribute__((always_inline)) void load(const std::int8_t* x, std::int64_t token_stride, int which) {
    SPARKX_UNROLL
    for (int t = 0; t < T; ++t) half[t] = vld1q_s8(x + t * token_stride + which * 16);
  }
};

// 8 columns: the low halves of the bytes times the first four, the high halves times the others.
template <int step, int T>
inline __attribute__((always_inline)) void add_half_bytes(const std::byte* codes, const StretchColumns<T>& columns,
                                                          I32x16 (&sums)[T]) {
  const SignedCodes both = load_signed_codes(codes + step * 64);
  const auto low = quarters<SignedCodes>([](int8x16_t c) { return vandq_s8(c, vdupq_n_s8(15)); }, both);
  SPARKX_UNROLL
  for (int t = 0; t < T; ++t) sums[t] = add_products<2 * step>(sums[t], low, columns.half[t]);
  const auto high = quarters<SignedCodes>(
      [](int8x16_t c) { return vreinterpretq_s8_u8(vshrq_n_u8(vreinterpretq_u8_s8(c), 4)); }, both);
  SPARKX_UNROLL
  for (int t = 0; t < T; ++t) sums[t] = add_products<2 * step + 1>(sums[t], high, columns.half[t]);
}

template <int P, int T>
inline __attribute__((always_inline)) void half_byte_stretch(const std::byte* codes, std::size_t panel_stride,
                                                             const std::int8_t* x, std::int64_t token_stride,
                                                             I32x16 (&sums)[P][T]) {
  for (int half = 0; half < 2; ++half) {  // 16 columns
    StretchColumns<T> columns;
    columns.load(x, token_stride, half);
    SPARKX_UNROLL
    for (int p = 0; p < P; ++p) {
      const std::byte* bytes = codes + p * panel_stride + half * 128;
      add_half_bytes<0, T>(bytes, columns, sums[p]);
      add_half_bytes<1, T>(bytes, columns, sums[p]);
    }
  }
}

// 4 columns.
template <int step, int T>
inline __attribute__((always_inline)) void add_bytes(const std::byte* codes, const StretchColumns<T>& columns,
                                                     I32x16 (&sums)[T]) {
  const SignedCodes four = load_signed_codes(codes + step * 64);
#if defined(__ARM_FEATURE_MATMUL_INT8)
  SPARKX_UNROLL
  for (int t = 0; t < T; ++t) {
    const int8x16_t x = columns.half[t];
    sums[t] = quarters<I32x16>(
        [x](int32x4_t s, int8x16_t c) { return vusdotq_laneq_s32(s, vreinterpretq_u8_s8(c), x, step); }, sums[t], four);
  }
#else
  const auto less_128 = quarters<SignedCodes>([](int8x16_t c) { return veorq_s8(c, vdupq_n_s8(-128)); }, four);
  SPARKX_UNROLL
  for (int t = 0; t < T; ++t) sums[t] = add_products<step>(sums[t], less_128, columns.half[t]);
#endif
}

template <int P, int T>
inline __attribute__((always_inline)) void byte_stretch(const std::byte* codes, std::size_t panel_stride,
                                                        const std::int8_t* x, std::int64_t token_stride,
                                                        I32x16 (&sums)[P][T]) {
  for (int half = 0; half < 2; ++half) {  // 16 columns
    StretchColumns<T> columns;
    columns.load(x, token_stride, half);
    SPARKX_UNROLL
    for (int p = 0; p < P; ++p) {
      const std::byte* bytes = codes + p * panel_stride + half * 256;
      add_bytes<0, T>(bytes, columns, sums[p]);
      add_bytes<1, T>(bytes, columns, sums[p]);
      add_bytes<2, T>(bytes, columns, sums[p]);
      add_bytes<3, T>(bytes, columns, sums[p]);
    }
#if !defined(__ARM_FEATURE_MATMUL_INT8)
    SPARKX_UNROLL
    for (int t = 0; t < T; ++t) {
      const I32x16 offset = splat<I32x16>(vaddlvq_s8(columns.half[t]) * 128);
      SPARKX_UNROLL
      for (int p = 0; p < P; ++p) sums[p][t] = sums[p][t] + offset;
    }
#endif
  }
}

// Words begin … end - 1 of a stretch of codes in planes; `codes` and `x` are those of the whole stretch. IQ4's values
// are signed as they are: 128·sum q is added for what they are stored without.
template <WeightKind kind, int begin, int end, int P, int T>
inline __attribute__((always_inline)) void plane_stretch(const std::byte* codes, std::size_t panel_stride,
                                                         const std::int8_t* x, std::int64_t token_stride,
                                                         I32x16 (&sums)[P][T]) {
  StretchColumns<T> columns;
  each_word<begin, end>([&]<int i>() __attribute__((always_inline)) {  // 4 columns
    if constexpr (i % 4 == 0) columns.load(x, token_stride, i / 4);
    SPARKX_UNROLL
    for (int p = 0; p < P; ++p) {
      SignedCodes four = plane_codes<kind, i>(
          [&](std::int64_t offset) { return load_signed_codes(codes + p * panel_stride + offset); });
      if constexpr (kind == WeightKind::iq4) four = lookup(four, kSignedTable<kind>.value);
      if constexpr (kind == WeightKind::e2m1) four = lookup(four, kUnsignedTable<kind>.value);
      SPARKX_UNROLL
      for (int t = 0; t < T; ++t) sums[p][t] = add_products<i % 4>(sums[p][t], four, columns.half[t]);
    }
    if constexpr (kind == WeightKind::iq4 && i % 4 == 3) {
      SPARKX_UNROLL
      for (int t = 0; t < T; ++t) {
        const I32x16 offset = splat<I32x16>(vaddlvq_s8(columns.half[t]) * 128);
        SPARKX_UNROLL
        for (int p = 0; p < P; ++p) sums[p][t] = sums[p][t] + offset;
      }
    }
  });
}

}  // namespace
}  // namespace sparkx::kernels
