// Empty on other processors than x86-64.
#if defined(__x86_64__)

#include "kernels/simd/avx2.h"
// The layer comes before what is written on it,
#include "kernels/simd/maddubs_stretch.h"
#include "kernels/simd/run_of_stretches.h"
// and that before the rest.
#include "kernels/math.inc.h"
#include "kernels/table.inc.h"
#include "kernels/tables/tables.h"

namespace sparkx::kernels {

constexpr KernelTable kAvx2Table = make_table("avx2", "AVX2, FMA and F16C");

}  // namespace sparkx::kernels

#endif
