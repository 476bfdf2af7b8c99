// The 512-bit layer without AVX-512: plain lanes with the tiles of avx512.h.
#pragma once

#include "kernels/simd/plain_lanes.h"
#include "kernels/simd/tiles512.h"
