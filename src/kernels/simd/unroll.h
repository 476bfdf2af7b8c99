// Unrolls the next loop, whose trip count is a small constant, so that arrays of lanes live in registers.
#pragma once

#if defined(__clang__)
#define SPARKX_UNROLL _Pragma("unroll")
#else
#define SPARKX_UNROLL _Pragma("GCC unroll 16")
#endif
