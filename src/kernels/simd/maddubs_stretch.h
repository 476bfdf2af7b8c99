// The innermost loops of the quantized dot for AVX2 without VNNI. What the functions do stands in dot4_stretch.h.
//
// maddubs multiplies unsigned codes with signed ones and adds neighbours in 16 bits. With codes of at most 15 and
// activations of at most 128, eight of those sums fit: 8 * 2 * 15 * 128 = 30720. That is one stretch of 32 columns;
// madd then widens to 32 bits. Of codes of 5 bits and of E2M1 four sums fit, of 6 bits two. Codes of 8 bits and IQ4's
// values go through twice, as low and as high halves of bytes.
//
// A tile goes through as two halves of 8 rows: with one register of sums a token, six tokens fit into 16 registers.
#pragma once

#include "kernels/kernels.h"
#include "kernels/simd/planes.h"

namespace sparkx::kernels {
namespace {

// The codes of 8 rows in one step of 64 bytes.
inline __m256i load_half_step(const std::byte* codes) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(codes));
}
inline __m256i low_bits(__m256i bytes) {
  return _mm256_and_si256(bytes, _mm256_set1_epi8(15));
}
inline __m256i high_bits(__m256i bytes) {
  return _mm256_and_si256(_mm256_srli_epi16(bytes, 4), _mm256_set1_epi8(15));
}
// As one piece of assembly: GCC else moves all sums to other registers and back, and keeps more products than there are
// registers for.
inline __attribute__((always_inline)) void add_products(__m256i& narrow, __m256i codes, const std::int8_t* x) {
  struct __attribute__((may_alias)) Four {
    std::int8_t codes[4];
  };
  __m256i products;
  asm("vpbroadcastd %3, %1\n\tvpmaddubsw %1, %2, %1\n\tvpaddw %1, %0, %0"
      : "+x"(narrow), "=&x"(products)
      : "x"(codes), "m"(*reinterpret_cast<const Four*>(x)));
}
template <int T>
inline void clear(__m256i (&narrow)[T]) {
  SPARKX_UNROLL
  for (int t = 0; t < T; ++t) narrow[t] = _mm256_setzero_si256();
}
// sums[t].*half += factor * narrow[t].
template <int T>
inline void widen_into(I32x16 (&sums)[T], __m256i I32x16::*half, const __m256i (&narrow)[T], short factor) {
  SPARKX_UNROLL
  for (int t = 0; t < T; ++t) {
    const __m256i wide = _mm256_madd_epi16(narrow[t], _mm256_set1_epi16(factor));
    sums[t].*half = _mm256_add_epi32(sums[t].*half, wide);
  }
}

// The halves of the bytes that codes of 4 bits stand for.
template <WeightKind kind>
constexpr Table<std::uint8_t> kLowHalves = [] {
  Table<std::uint8_t> table = kUnsignedTable<kind>;
  for (std::uint8_t& value : table.value) value &= 15;
  return table;
}();
template <WeightKind kind>
constexpr Table<std::uint8_t> kHighHalves = [] {
  Table<std::uint8_t> table = kUnsignedTable<kind>;
  for (std::uint8_t& value : table.value) value >>= 4;
  return table;
}();

template <int P, int T>
inline __attribute__((always_inline)) void half_byte_stretch(const std::byte* codes, std::size_t panel_stride,
                                                             const std::int8_t* x, std::int64_t token_stride,
                                                             I32x16 (&sums)[P][T]) {
  const auto rows8 = [&](const std::byte* steps, I32x16(&panel_sums)[T], __m256i I32x16::*half)
      __attribute__((always_inline)) {
    __m256i narrow[T];
    clear(narrow);
    SPARKX_UNROLL
    for (int k = 0; k < kStretchColumns; k += 8) {
      const __m256i bytes = load_half_step(steps + k * 8);
      const __m256i low = low_bits(bytes), high = high_bits(bytes);
      SPARKX_UNROLL
      for (int t = 0; t < T; ++t) add_products(narrow[t], low, x + t * token_stride + k);
      SPARKX_UNROLL
      for (int t = 0; t < T; ++t) add_products(narrow[t], high, x + t * token_stride + k + 4);
    }
    widen_into(panel_sums, half, narrow, 1);
  };
  SPARKX_UNROLL
  for (int p = 0; p < P; ++p) {
    rows8(codes + p * panel_stride, sums[p], &I32x16::low);
    rows8(codes + p * panel_stride + 32, sums[p], &I32x16::high);
  }
}

template <int P, int T>
inline __attribute__((always_inline)) void byte_stretch(const std::byte* codes, std::size_t panel_stride,
                                                        const std::int8_t* x, std::int64_t token_stride,
                                                        I32x16 (&sums)[P][T]) {
  const auto rows8 = [&](const std::byte* steps, I32x16(&panel_sums)[T], __m256i I32x16::*half, auto bits, short factor)
      __attribute__((always_inline)) {
    __m256i narrow[T];
    clear(narrow);
    SPARKX_UNROLL
    for (int k = 0; k < kStretchColumns; k += 4) {
      const __m256i four_bits = bits(load_half_step(steps + k * 16));
      SPARKX_UNROLL
      for (int t = 0; t < T; ++t) add_products(narrow[t], four_bits, x + t * token_stride + k);
    }
    widen_into(panel_sums, half, narrow, factor);
  };
  SPARKX_UNROLL
  for (int p = 0; p < P; ++p) {
    rows8(codes + p * panel_stride, sums[p], &I32x16::low, low_bits, 1);
    rows8(codes + p * panel_stride, sums[p], &I32x16::low, high_bits, 16);
    rows8(codes + p * panel_stride + 32, sums[p], &I32x16::high, low_bits, 1);
    rows8(codes + p * panel_stride + 32, sums[p], &I32x16::high, high_bits, 16);
  }
}

// Words begin … end - 1 of a stretch of codes in planes; `codes` and `x` are those of the whole stretch.
template <WeightKind kind, int begin, int end, int P, int T>
inline __attribute__((always_inline)) void plane_stretch(const std::byte* codes, std::size_t panel_stride,
                                                         const std::int8_t* x, std::int64_t token_stride,
                                                         I32x16 (&sums)[P][T]) {
  // Words that fit into 16 bits.
  constexpr int kSums = code_bits(kind) == 6 ? 2 : code_bits(kind) == 5 || kind == WeightKind::e2m1 ? 4 : 8;
  // `value` makes what is multiplied of the stored codes.
  const auto rows8 = [&](const std::byte* stretch, I32x16(&panel_sums)[T], __m256i I32x16::*half, short factor,
                         auto value) __attribute__((always_inline)) {
    __m256i narrow[T];
    clear(narrow);
    each_word<begin, end>([&]<int i>() __attribute__((always_inline)) {
      const __m256i four =
          value(plane_codes<kind, i>([&](std::int64_t offset) { return load_half_step(stretch + offset); }));
      SPARKX_UNROLL
      for (int t = 0; t < T; ++t) add_products(narrow[t], four, x + t * token_stride + i * 4);
      if constexpr ((i + 1) % kSums == 0 || i + 1 == end) {
        widen_into(panel_sums, half, narrow, factor);
        if constexpr (i + 1 < end) clear(narrow);
      }
    });
  };
  const auto panel = [&](int p, short factor, auto value) __attribute__((always_inline)) {
    rows8(codes + p * panel_stride, sums[p], &I32x16::low, factor, value);
    rows8(codes + p * panel_stride + 32, sums[p], &I32x16::high, factor, value);
  };
  SPARKX_UNROLL
  for (int p = 0; p < P; ++p) {
    if constexpr (kind == WeightKind::iq4) {  // 8 bits: as two halves of a byte
      panel(p, 1, [](__m256i stored) { return lookup(stored, kLowHalves<kind>.value); });
      panel(p, 16, [](__m256i stored) { return lookup(stored, kHighHalves<kind>.value); });
    } else if constexpr (kind == WeightKind::e2m1) {
      panel(p, 1, [](__m256i stored) { return lookup(stored, kUnsignedTable<kind>.value); });
    } else {
      panel(p, 1, [](__m256i stored) { return stored; });
    }
  }
}

}  // namespace
}  // namespace sparkx::kernels
