// How kernel_table() chooses; apart so that tests can stand in for another CPU.
#pragma once

#include "kernels/kernels.h"

namespace sparkx::kernels {

// The table that `requested` names (null or empty: the best that `runs`). Throws Error{unsupported} as kernel_table
// does.
const KernelTable& choose_kernel_table(const char* requested, bool (*runs)(const KernelTable&));

}  // namespace sparkx::kernels
