// Dot products of bfloat16 pairs by AVX512_BF16, on top of the AVX-512 layer.
#pragma once

#include "kernels/simd/avx512.h"

namespace sparkx::kernels {
namespace {

// 16 lanes of two bfloat16.
struct Bfloat16Pairs {
  __m512i all;
};
inline Bfloat16Pairs load_pairs(const std::byte* p) {
  return {_mm512_loadu_si512(p)};
}
inline Bfloat16Pairs splat_pair(const std::uint16_t* p) {
  std::int32_t both;
  __builtin_memcpy(&both, p, sizeof both);
  return {_mm512_set1_epi32(both)};
}
// sum + each lane's two products, rounded as the CPU likes.
inline F32x16 dot2(F32x16 sum, Bfloat16Pairs a, Bfloat16Pairs b) {
  return {_mm512_dpbf16_ps(sum.all, reinterpret_cast<__m512bh>(a.all), reinterpret_cast<__m512bh>(b.all))};
}

}  // namespace
}  // namespace sparkx::kernels
