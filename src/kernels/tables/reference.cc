#include "kernels/simd/scalar.h"
// The layer comes before what is written on it,
#include "kernels/simd/dot4_stretch.h"
// and that before the rest.
#include "kernels/math.inc.h"
#include "kernels/table.inc.h"
#include "kernels/tables/tables.h"

namespace sparkx::kernels {

constexpr KernelTable kReferenceTable = make_table("reference", "any CPU");

}  // namespace sparkx::kernels
