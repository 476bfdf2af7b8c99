// SPARKX_UNROLL unrolls the next loop, whose trip count is a small constant, so that arrays of lanes live in registers.
// (Plain lanes do not fit there anyway; plain_lanes.h defines it as nothing.)
#pragma once

#if defined(__clang__)
#define SPARKX_UNROLL _Pragma("unroll")
#else
#define SPARKX_UNROLL _Pragma("GCC unroll 16")
#endif
