// Empty on other processors than 64-bit ARM.
#if defined(__aarch64__)

#include "kernels/simd/neon.h"
// The layer comes before what is written on it,
#include "kernels/simd/run_of_stretches.h"
#include "kernels/simd/sdot_stretch.h"
// and that before the rest.
#include "kernels/math.inc.h"
#include "kernels/table.inc.h"
#include "kernels/tables/tables.h"

namespace sparkx::kernels {

constexpr KernelTable kNeonTable =
    make_table("neon", "NEON with dot products (FEAT_DotProd)", "tested under emulation only");

}  // namespace sparkx::kernels

#endif
