// The 16 lanes in plain C++, for any CPU: the layer of the reference table and of the emulated one.
//
// Every layer (scalar.h, avx2.h, avx512.h, emulated512.h) offers the types F32x16, I32x16 and Mask16 and the functions
// below, all with internal linkage: a file compiled for a wide instruction set must not emit an inline function that
// other files share, because the linker could keep that copy, and older CPUs would die of it. Here the number of lanes
// is a parameter, so that the scalar functions of kernels/math.h are the same code with one lane.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/simd/bits.h"

#define SPARKX_UNROLL  // arrays of plain lanes do not live in registers

namespace sparkx::kernels {
namespace {

template <int N>
struct F32 {
  float lane[N];
};

template <int N>
struct I32 {
  std::uint32_t lane[N];  // unsigned: sums wrap
};

template <int N>
struct Mask {
  bool lane[N];
};

using F32x16 = F32<16>;
using I32x16 = I32<16>;
using Mask16 = Mask<16>;

template <int N, class Function>
inline F32<N> each_float(Function function) {
  F32<N> result;
  for (int i = 0; i < N; ++i) result.lane[i] = function(i);
  return result;
}

template <int N, class Function>
inline I32<N> each_int(Function function) {
  I32<N> result;
  for (int i = 0; i < N; ++i) result.lane[i] = function(i);
  return result;
}

template <int N, class Function>
inline Mask<N> each_mask(Function function) {
  Mask<N> result;
  for (int i = 0; i < N; ++i) result.lane[i] = function(i);
  return result;
}

// a * b + c rounded once, where there may be no instruction for it. The product of two floats is exact in double; the
// sum is rounded to odd there (unless it is exact, the one of the two neighbours whose last bit is 1), after which
// rounding to float gives what a single rounding gives.
inline float fused_multiply_add(float a, float b, float c) {
#if defined(__FMA__) || defined(__aarch64__)
  return __builtin_fmaf(a, b, c);
#else
  const double product = static_cast<double>(a) * b;
  const double sum = product + c;
  const double added = sum - product;
  const double error = (product - (sum - added)) + (c - added);  // sum + error is the exact value
  std::uint64_t bits = __builtin_bit_cast(std::uint64_t, sum);
  const bool finite = (bits & 0x7ff0000000000000u) != 0x7ff0000000000000u;
  if (finite && error != 0 && (bits & 1) == 0) bits = (error > 0) == (sum > 0) ? bits + 1 : bits - 1;
  return static_cast<float>(__builtin_bit_cast(double, bits));
#endif
}

// Loads and stores. The *_first forms touch only the first `count` floats; lanes behind them are zero.
inline F32x16 load(const float* p) {
  return each_float<16>([&](int i) { return p[i]; });
}
inline F32x16 load_first(const float* p, int count) {
  return each_float<16>([&](int i) { return i < count ? p[i] : 0.0f; });
}
inline void store(float* p, const F32x16& a) {
  for (int i = 0; i < 16; ++i) p[i] = a.lane[i];
}
inline void store_first(float* p, const F32x16& a, int count) {
  for (int i = 0; i < count; ++i) p[i] = a.lane[i];
}

// The same value in every lane: splat<F32x16>(0.5f), splat<I32x16>(127).
template <class V>
struct Splat;
template <int N>
struct Splat<F32<N>> {
  static F32<N> of(float value) {
    return each_float<N>([&](int) { return value; });
  }
};
template <int N>
struct Splat<I32<N>> {
  static I32<N> of(std::int32_t value) {
    return each_int<N>([&](int) { return static_cast<std::uint32_t>(value); });
  }
};
template <class V, class Scalar>
inline V splat(Scalar value) {
  return Splat<V>::of(value);
}

// Float arithmetic, each operation rounded once.
template <int N>
inline F32<N> operator+(const F32<N>& a, const F32<N>& b) {
  return each_float<N>([&](int i) { return a.lane[i] + b.lane[i]; });
}
template <int N>
inline F32<N> operator-(const F32<N>& a, const F32<N>& b) {
  return each_float<N>([&](int i) { return a.lane[i] - b.lane[i]; });
}
template <int N>
inline F32<N> operator*(const F32<N>& a, const F32<N>& b) {
  return each_float<N>([&](int i) { return a.lane[i] * b.lane[i]; });
}
template <int N>
inline F32<N> operator/(const F32<N>& a, const F32<N>& b) {
  return each_float<N>([&](int i) { return a.lane[i] / b.lane[i]; });
}
template <int N>
inline F32<N> fma(const F32<N>& a, const F32<N>& b, const F32<N>& c) {
  return each_float<N>([&](int i) { return fused_multiply_add(a.lane[i], b.lane[i], c.lane[i]); });
}
template <int N>
inline F32<N> negate(const F32<N>& a) {
  return each_float<N>([&](int i) { return -a.lane[i]; });
}
template <int N>
inline F32<N> sqrt(const F32<N>& a) {
  return each_float<N>([&](int i) { return __builtin_sqrtf(a.lane[i]); });
}
// The second operand wins when they are equal or one is a NaN, as in x86's instructions.
template <int N>
inline F32<N> max(const F32<N>& a, const F32<N>& b) {
  return each_float<N>([&](int i) { return a.lane[i] > b.lane[i] ? a.lane[i] : b.lane[i]; });
}
template <int N>
inline F32<N> min(const F32<N>& a, const F32<N>& b) {
  return each_float<N>([&](int i) { return a.lane[i] < b.lane[i] ? a.lane[i] : b.lane[i]; });
}

// Bits and integers.
template <int N>
inline I32<N> bits(const F32<N>& a) {
  return each_int<N>([&](int i) { return float_bits(a.lane[i]); });
}
template <int N>
inline F32<N> from_bits(const I32<N>& a) {
  return each_float<N>([&](int i) { return float_from_bits(a.lane[i]); });
}
template <int N>
inline I32<N> operator+(const I32<N>& a, const I32<N>& b) {
  return each_int<N>([&](int i) { return a.lane[i] + b.lane[i]; });
}
template <int N>
inline I32<N> operator-(const I32<N>& a, const I32<N>& b) {
  return each_int<N>([&](int i) { return a.lane[i] - b.lane[i]; });
}
template <int N>
inline I32<N> operator*(const I32<N>& a, const I32<N>& b) {
  return each_int<N>([&](int i) { return a.lane[i] * b.lane[i]; });
}
template <int N>
inline I32<N> operator&(const I32<N>& a, const I32<N>& b) {
  return each_int<N>([&](int i) { return a.lane[i] & b.lane[i]; });
}
template <int N>
inline I32<N> operator|(const I32<N>& a, const I32<N>& b) {
  return each_int<N>([&](int i) { return a.lane[i] | b.lane[i]; });
}
template <int count, int N>
inline I32<N> shift_left(const I32<N>& a) {
  return each_int<N>([&](int i) { return a.lane[i] << count; });
}
template <int count, int N>
inline I32<N> shift_right_arithmetic(const I32<N>& a) {
  return each_int<N>([&](int i) { return static_cast<std::uint32_t>(static_cast<std::int32_t>(a.lane[i]) >> count); });
}
// The same of both halves of each lane.
template <int count, int N>
inline I32<N> shift_halves_left(const I32<N>& a) {
  return each_int<N>(
      [&](int i) { return (a.lane[i] >> 16 << (16 + count)) | static_cast<std::uint16_t>(a.lane[i] << count); });
}
template <int count, int N>
inline I32<N> shift_halves_right_arithmetic(const I32<N>& a) {
  return each_int<N>([&](int i) {
    const auto low = static_cast<std::int16_t>(a.lane[i]), high = static_cast<std::int16_t>(a.lane[i] >> 16);
    return static_cast<std::uint32_t>(high >> count) << 16 | static_cast<std::uint16_t>(low >> count);
  });
}
// The nearest float; of an integer of at most 24 bits the exact one.
template <int N>
inline F32<N> to_float(const I32<N>& a) {
  return each_float<N>([&](int i) { return static_cast<float>(static_cast<std::int32_t>(a.lane[i])); });
}
template <int N>
inline I32<N> max(const I32<N>& a, const I32<N>& b) {
  return each_int<N>([&](int i) {
    return static_cast<std::int32_t>(a.lane[i]) > static_cast<std::int32_t>(b.lane[i]) ? a.lane[i] : b.lane[i];
  });
}
// 0, 1, 2, … 15.
inline I32x16 lane_numbers() {
  return each_int<16>([](int i) { return static_cast<std::uint32_t>(i); });
}

// Comparing and choosing.
template <int N>
inline Mask<N> less(const F32<N>& a, const F32<N>& b) {
  return each_mask<N>([&](int i) { return a.lane[i] < b.lane[i]; });
}
template <int N>
inline Mask<N> less(const I32<N>& a, const I32<N>& b) {
  return each_mask<N>(
      [&](int i) { return static_cast<std::int32_t>(a.lane[i]) < static_cast<std::int32_t>(b.lane[i]); });
}
template <int N>
inline Mask<N> operator&(const Mask<N>& a, const Mask<N>& b) {
  return each_mask<N>([&](int i) { return a.lane[i] && b.lane[i]; });
}
template <int N>
inline bool all(const Mask<N>& mask) {
  for (const auto lane : mask.lane) {
    if (!lane) return false;
  }
  return true;
}
template <int N>
inline F32<N> select(const Mask<N>& mask, const F32<N>& yes, const F32<N>& no) {
  return each_float<N>([&](int i) { return mask.lane[i] ? yes.lane[i] : no.lane[i]; });
}

// The trees of docs/numerics.md rule 6: lane j takes in lane j + h, for h = 8, 4, 2, 1.
inline float tree_sum(F32x16 a) {
  for (int h = 8; h > 0; h /= 2) {
    for (int j = 0; j < h; ++j) a.lane[j] += a.lane[j + h];
  }
  return a.lane[0];
}
inline float tree_max(F32x16 a) {
  for (int h = 8; h > 0; h /= 2) {
    for (int j = 0; j < h; ++j) a.lane[j] = a.lane[j] > a.lane[j + h] ? a.lane[j] : a.lane[j + h];
  }
  return a.lane[0];
}

// Over all lanes of integers.
inline std::int32_t sum_lanes(const I32x16& a) {
  std::uint32_t sum = 0;
  for (const std::uint32_t lane : a.lane) sum += lane;
  return static_cast<std::int32_t>(sum);
}
inline std::int32_t max_lanes(const I32x16& a) {
  std::int32_t result = INT32_MIN;
  for (const std::uint32_t lane : a.lane) {
    if (static_cast<std::int32_t>(lane) > result) result = static_cast<std::int32_t>(lane);
  }
  return result;
}
// The low byte of each lane, 16 in a row.
inline void store_bytes(void* p, const I32x16& a) {
  for (int i = 0; i < 16; ++i) static_cast<std::uint8_t*>(p)[i] = static_cast<std::uint8_t>(a.lane[i]);
}
// 16 unsigned bytes, one a lane.
inline I32x16 load_bytes(const void* p) {
  return each_int<16>([&](int i) { return static_cast<const std::uint8_t*>(p)[i]; });
}
inline I32x16 load_int(const void* p) {
  I32x16 result;
  __builtin_memcpy(result.lane, p, sizeof result.lane);
  return result;
}

// 64 bytes of a panel of codes: four unsigned codes a lane, or twice four in halves of bytes.
struct Codes {
  std::uint8_t lane[16][4];
};
inline Codes load_codes(const std::byte* p) {
  Codes result;
  __builtin_memcpy(result.lane, p, sizeof result.lane);
  return result;
}
inline Codes low_halves(Codes a) {
  for (auto& lane : a.lane) {
    for (std::uint8_t& code : lane) code &= 15;
  }
  return a;
}
inline Codes high_halves(Codes a) {
  for (auto& lane : a.lane) {
    for (std::uint8_t& code : lane) code = static_cast<std::uint8_t>(code >> 4);
  }
  return a;
}
// Each byte shifted to the right (to the left when `shift` is negative), and its bits of `mask`.
template <int shift, int mask>
inline Codes pick(Codes a) {
  for (auto& lane : a.lane) {
    for (std::uint8_t& code : lane) {
      code = static_cast<std::uint8_t>(
          (shift < 0 ? code << (shift < 0 ? -shift : 0) : code >> (shift < 0 ? 0 : shift)) & mask);
    }
  }
  return a;
}
inline Codes either(Codes a, const Codes& b) {
  for (int i = 0; i < 16; ++i) {
    for (int j = 0; j < 4; ++j) a.lane[i][j] |= b.lane[i][j];
  }
  return a;
}
// What stands in a table of bytes under each byte, which is below 16.
template <class Byte>
inline Codes lookup(Codes a, const Byte (&table)[16]) {
  for (auto& lane : a.lane) {
    for (std::uint8_t& code : lane) code = static_cast<std::uint8_t>(table[code]);
  }
  return a;
}
// The same of integers below 16, one a lane.
inline I32x16 lookup(const I32x16& a, const std::int8_t (&table)[16]) {
  return each_int<16>([&](int i) { return static_cast<std::uint32_t>(table[a.lane[i]]); });
}
// sum + each lane's two integers of 16 bits times the two at x.
inline I32x16 dot2(I32x16 sum, const I32x16& pairs, const std::int16_t* x) {
  for (int i = 0; i < 16; ++i) {
    const auto low = static_cast<std::int16_t>(pairs.lane[i]), high = static_cast<std::int16_t>(pairs.lane[i] >> 16);
    sum.lane[i] += static_cast<std::uint32_t>(low * x[0] + high * x[1]);
  }
  return sum;
}
// sums[t] += each lane's four codes times the four activation codes of token t, which lie at x + t * token_stride.
template <int T>
inline void dot4(I32x16 (&sums)[T], const Codes& codes, const std::int8_t* x, std::int64_t token_stride) {
  for (int t = 0; t < T; ++t, x += token_stride) {
    for (int i = 0; i < 16; ++i) {
      for (int j = 0; j < 4; ++j) sums[t].lane[i] += static_cast<std::uint32_t>(codes.lane[i][j] * x[j]);
    }
  }
}

// 16 consecutive bfloat16; `count` of them, the other lanes zero.
inline F32x16 load_bfloat16(const void* p) {
  const auto* values = static_cast<const std::uint16_t*>(p);
  return each_float<16>([&](int i) { return widen_bfloat16(values[i]); });
}
inline F32x16 load_bfloat16_first(const void* p, int count) {
  const auto* values = static_cast<const std::uint16_t*>(p);
  return each_float<16>([&](int i) { return i < count ? widen_bfloat16(values[i]) : 0.0f; });
}
// 16 consecutive signed bytes.
inline F32x16 load_int8(const void* p) {
  const auto* values = static_cast<const std::int8_t*>(p);
  return each_float<16>([&](int i) { return static_cast<float>(values[i]); });
}
inline F32x16 load_float16(const void* p) {
  const auto* values = static_cast<const std::uint16_t*>(p);
  return each_float<16>([&](int i) { return widen_float16(values[i]); });
}
// 16 floats of 8 bits (E4M3), none of them a NaN.
inline F32x16 load_e4m3(const void* p) {
  const auto* values = static_cast<const std::uint8_t*>(p);
  return each_float<16>([&](int i) {
    const std::uint32_t sign = values[i] & 0x80u, magnitude = values[i] & 0x7fu;
    // The exponent is 120 too small; the product sets it right, and a denormal with it.
    return float_from_bits(sign << 24 | magnitude << 20) * 0x1p120f;
  });
}
// 16 pairs [lane][2] of 16-bit floats: the first ones, and the second ones.
struct Pairs {
  F32x16 first;
  F32x16 second;
};
inline Pairs load_bfloat16_pairs(const void* p) {
  const auto* values = static_cast<const std::uint16_t*>(p);
  return {each_float<16>([&](int i) { return widen_bfloat16(values[2 * i]); }),
          each_float<16>([&](int i) { return widen_bfloat16(values[2 * i + 1]); })};
}
inline Pairs load_float16_pairs(const void* p) {
  const auto* values = static_cast<const std::uint16_t*>(p);
  return {each_float<16>([&](int i) { return widen_float16(values[2 * i]); }),
          each_float<16>([&](int i) { return widen_float16(values[2 * i + 1]); })};
}

}  // namespace
}  // namespace sparkx::kernels
