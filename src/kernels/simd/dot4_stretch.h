// The innermost loops of the quantized dot on a layer that has dot4: one stretch of 32 columns of P panels times T
// tokens, added to sums[p][t]. `codes` are those of the stretch in the first panel, panels are `panel_stride` bytes
// apart; `x` the activation codes of the stretch, tokens `token_stride` bytes apart.
#pragma once

namespace sparkx::kernels {
namespace {

template <int P, int T>
inline __attribute__((always_inline)) void half_byte_stretch(const std::byte* codes, std::size_t panel_stride,
                                                             const std::int8_t* x, std::int64_t token_stride,
                                                             I32x16 (&sums)[P][T]) {
  for (int step = 0; step < 4; ++step) {  // 8 columns
    SPARKX_UNROLL
    for (int p = 0; p < P; ++p) {
      const Codes both = load_codes(codes + p * panel_stride + step * 64);
      const Codes low = low_halves(both), high = high_halves(both);
      SPARKX_UNROLL
      for (int t = 0; t < T; ++t) sums[p][t] = dot4(sums[p][t], low, x + t * token_stride + step * 8);
      SPARKX_UNROLL
      for (int t = 0; t < T; ++t) sums[p][t] = dot4(sums[p][t], high, x + t * token_stride + step * 8 + 4);
    }
  }
}

template <int P, int T>
inline __attribute__((always_inline)) void byte_stretch(const std::byte* codes, std::size_t panel_stride,
                                                        const std::int8_t* x, std::int64_t token_stride,
                                                        I32x16 (&sums)[P][T]) {
  for (int step = 0; step < 8; ++step) {  // 4 columns
    SPARKX_UNROLL
    for (int p = 0; p < P; ++p) {
      const Codes four = load_codes(codes + p * panel_stride + step * 64);
      SPARKX_UNROLL
      for (int t = 0; t < T; ++t) sums[p][t] = dot4(sums[p][t], four, x + t * token_stride + step * 4);
    }
  }
}

}  // namespace
}  // namespace sparkx::kernels
