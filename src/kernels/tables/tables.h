// The tables compiled into this program. Constants: nothing of a table's instruction set runs before it is chosen.
#pragma once

#include "kernels/kernels.h"

namespace sparkx::kernels {

extern const KernelTable kReferenceTable;
extern const KernelTable kEmulated512Table;
#if defined(__x86_64__)
extern const KernelTable kEmulatedVnniTable;
extern const KernelTable kAvx2Table;
extern const KernelTable kAvxVnniTable;
extern const KernelTable kAvx512Table;
#elif defined(__aarch64__)
extern const KernelTable kNeonTable;
extern const KernelTable kNeonI8mmTable;
#endif

}  // namespace sparkx::kernels
