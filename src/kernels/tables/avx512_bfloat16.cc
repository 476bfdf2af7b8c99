// What the AVX-512 table has of AVX512_BF16, which not every CPU of that table knows: in a file of its own, since it is
// compiled for that too.
#if defined(__x86_64__)

#include "kernels/simd/avx512.h"
//
#include "kernels/simd/avx512_bfloat16.h"
//
#include "kernels/bfloat16_dot.inc.h"
#include "kernels/tables/tables.h"

namespace sparkx::kernels {

void dot_bfloat16_avx512(const PanelMatrix& w, std::int64_t panel_begin, std::int64_t panel_end,
                         const Bfloat16Activations& x, std::int64_t token_begin, std::int64_t token_end, float* out,
                         std::int64_t out_stride) {
  dot_tiles<Bfloat16Tile>(w, panel_begin, panel_end, x, token_begin, token_end, out, out_stride);
}

}  // namespace sparkx::kernels

#endif
