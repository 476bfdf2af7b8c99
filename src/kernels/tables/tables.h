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
// Of kAvx512Table, with AVX512_BF16.
void dot_bfloat16_avx512(const PanelMatrix& w, std::int64_t panel_begin, std::int64_t panel_end,
                         const Bfloat16Activations& x, std::int64_t token_begin, std::int64_t token_end, float* out,
                         std::int64_t out_stride);
#elif defined(__aarch64__)
extern const KernelTable kNeonTable;
extern const KernelTable kNeonI8mmTable;
#endif

}  // namespace sparkx::kernels
