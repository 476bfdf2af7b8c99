// avxvnni.cc without -mavxvnni, for tests. Empty on other processors than x86-64.
#if defined(__x86_64__)

#include "kernels/simd/avxvnni.h"
// The layer comes before what is written on it,
#include "kernels/simd/dot4_stretch.h"
// and that before the rest.
#include "kernels/math.inc.h"
#include "kernels/table.inc.h"
#include "kernels/tables/tables.h"

namespace sparkx::kernels {

constexpr KernelTable kEmulatedVnniTable = make_table("emulatedvnni", "AVX2, FMA and F16C");

}  // namespace sparkx::kernels

#endif
