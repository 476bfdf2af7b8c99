// The encoders of GGUF's K types: kSuperBlock weights in sub-blocks that have 6- or 8-bit scales of their own.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "convert/code_grid.h"
#include "core/code_scheme.h"

namespace sparkx {

// Of weights within this bound no scale is too large for float16.
inline constexpr float kMaxKWeight = 4194304;  // 2^22

// Each writes one block for kSuperBlock weights. Within the formats they look for the least squared error, in
// Q6_K with each error counted by the magnitude of its weight.
void encode_q4_k(const float* weights, std::byte* out);  // 144 bytes
void encode_q5_k(const float* weights, std::byte* out);  // 176 bytes
void encode_q6_k(const float* weights, std::byte* out);  // 210 bytes

// The same in two steps, for codes that are chosen elsewhere. A block but for its codes:
struct KScales {
  float d, dmin;                       // float16 values; Q6_K has no dmin
  std::array<std::int8_t, 16> scales;  // of Q4_K and Q5_K eight, from 0 to 63
  std::array<std::uint8_t, 8> minima;  // 0 to 63
  std::array<CodeGrid, 16> grids;      // what they come to, for each sub-block
};
// `importance` counts errors column by column; positive.
KScales search_k_scales(int bits, const float* weights, const float* importance);
// Codes are unsigned: of Q6_K with 32 added.
void pack_k_block(int bits, const KScales& scales, const std::uint8_t* codes, std::byte* out);

}  // namespace sparkx
