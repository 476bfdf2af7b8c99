// Empty on other processors than x86-64.
#if defined(__x86_64__)

#include "kernels/simd/avx512.h"
// The layer comes before what is written on it,
#include "kernels/simd/dot4_stretch.h"
// and that before the rest.
#include "kernels/math.inc.h"
#include "kernels/table.inc.h"
#include "kernels/tables/tables.h"

namespace sparkx::kernels {

constexpr KernelTable kAvx512Table = make_table("avx512", "AVX-512 (F, BW, DQ, VL, VNNI)", "", dot_bfloat16_avx512);

}  // namespace sparkx::kernels

#endif
