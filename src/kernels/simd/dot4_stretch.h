// The innermost loops of the quantized dot on a layer that has dot4: one stretch of 32 columns of P panels times T
// tokens, added to sums[p][t]. `codes` are those of the stretch in the first panel, panels are `panel_stride` bytes
// apart; `x` the activation codes of the stretch, tokens `token_stride` bytes apart.
//
// dot4 takes a few cycles, and the next one waits for its sum. Tiles of many tokens have others to do meanwhile; for
// small ones a stretch is summed in two chains.
#pragma once

#include "kernels/simd/planes.h"

namespace sparkx::kernels {
namespace {

// Asks for codes of the panels that come next while these are multiplied. Tiles of few tokens read too fast to gain.
template <int vectors>
inline __attribute__((always_inline)) void fetch_ahead(const std::byte* codes) {
  if constexpr (vectors > 4) __builtin_prefetch(codes, 0, 2);
}

// Calls add(first, second), which adds to either, and leaves the total in sums.
template <int P, int T, class Add>
inline __attribute__((always_inline)) void add_in_chains(I32x16 (&sums)[P][T], Add add) {
  if constexpr (P * T > 4) {
    add(sums, sums);
  } else {
    I32x16 second[P][T];
    for (int p = 0; p < P; ++p) {
      for (int t = 0; t < T; ++t) second[p][t] = splat<I32x16>(0);
    }
    add(sums, second);
    for (int p = 0; p < P; ++p) {
      for (int t = 0; t < T; ++t) sums[p][t] = sums[p][t] + second[p][t];
    }
  }
}

template <int P, int T>
inline __attribute__((always_inline)) void half_byte_stretch(const std::byte* codes, std::size_t panel_stride,
                                                             const std::int8_t* x, std::int64_t token_stride,
                                                             I32x16 (&sums)[P][T]) {
  add_in_chains(
      sums, [&](auto& first, auto& second) __attribute__((always_inline)) {
        SPARKX_UNROLL
        for (int k = 0; k < 32; k += 8) {
          SPARKX_UNROLL
          for (int p = 0; p < P; ++p) {
            fetch_ahead<P * T>(codes + (P + p) * panel_stride + k * 8);
            const Codes both = load_codes(codes + p * panel_stride + k * 8);
            dot4(first[p], low_halves(both), x + k, token_stride);
            dot4(second[p], high_halves(both), x + k + 4, token_stride);
          }
        }
      });
}

template <int P, int T>
inline __attribute__((always_inline)) void byte_stretch(const std::byte* codes, std::size_t panel_stride,
                                                        const std::int8_t* x, std::int64_t token_stride,
                                                        I32x16 (&sums)[P][T]) {
  add_in_chains(
      sums, [&](auto& first, auto& second) __attribute__((always_inline)) {
        SPARKX_UNROLL
        for (int k = 0; k < 32; k += 8) {
          SPARKX_UNROLL
          for (int p = 0; p < P; ++p) {
            const std::byte* steps = codes + p * panel_stride + k * 16;
            fetch_ahead<P * T>(steps + P * panel_stride);
            fetch_ahead<P * T>(steps + P * panel_stride + 64);
            dot4(first[p], load_codes(steps), x + k, token_stride);
            dot4(second[p], load_codes(steps + 64), x + k + 4, token_stride);
          }
        }
      });
}

// Words begin … end - 1 of a stretch of codes in planes; `codes` and `x` are those of the whole stretch.
template <WeightKind kind, int begin, int end, int P, int T>
inline __attribute__((always_inline)) void plane_stretch(const std::byte* codes, std::size_t panel_stride,
                                                         const std::int8_t* x, std::int64_t token_stride,
                                                         I32x16 (&sums)[P][T]) {
  add_in_chains(
      sums, [&](auto& first, auto& second) __attribute__((always_inline)) {
        each_word<begin, end>([&]<int i>() __attribute__((always_inline)) {
          SPARKX_UNROLL
          for (int p = 0; p < P; ++p) {
            Codes four = plane_codes<kind, i>(
                [&](std::int64_t offset) { return load_codes(codes + p * panel_stride + offset); });
            if constexpr (table_zero(kind) != 0) four = lookup(four, kUnsignedTable<kind>.value);
            dot4(i % 2 == 0 ? first[p] : second[p], four, x + i * 4, token_stride);
          }
        });
      });
}

// D of a run of one token, `stretches` of them. Codes of one plane stay where they are in their bytes: the sum of those
// at bit b comes out 2^b times as large, and goes back at the end. Each place has a chain of its own.
template <WeightKind kind>
inline __attribute__((always_inline)) I32x16 run_products(const std::byte* codes, const std::int8_t* x, int stretches) {
  constexpr int kBits = kLowPlaneBits<kind>;
  constexpr bool in_place = kHighPlaneBits<kind> == 0 && kBits < 8 && table_zero(kind) == 0;
  constexpr int kChains = in_place ? 8 / kBits : 2;
  I32x16 chain[kChains][1];
  SPARKX_UNROLL
  for (int i = 0; i < kChains; ++i) chain[i][0] = splat<I32x16>(0);
  const auto load = [&](std::int64_t offset) { return load_codes(codes + offset); };
  for (int stretch = 0; stretch < stretches; ++stretch, codes += kStretchBytes<kind>, x += kStretchColumns) {
    each_word<0, 8>([&]<int i>() __attribute__((always_inline)) {
      auto& sum = chain[i % kChains];
      if constexpr (in_place) {
        constexpr int kMask = ((1 << kBits) - 1) << kBits * (i % kChains);
        dot4(sum, pick<0, kMask>(load(i / kChains * 64)), x + i * 4, 0);
      } else if constexpr (kBits == 8) {
        dot4(sum, load(i * 64), x + i * 4, 0);
      } else if constexpr (table_zero(kind) != 0) {
        dot4(sum, lookup(plane_codes<kind, i>(load), kUnsignedTable<kind>.value), x + i * 4, 0);
      } else {
        dot4(sum, plane_codes<kind, i>(load), x + i * 4, 0);
      }
    });
  }
  if constexpr (in_place) {
    each_word<1, kChains>([&]<int i>() __attribute__((always_inline)) {
      chain[0][0] = chain[0][0] + shift_right_arithmetic<kBits * i>(chain[i][0]);
    });
    return chain[0][0];
  }
  return chain[0][0] + chain[1][0];
}

}  // namespace
}  // namespace sparkx::kernels
