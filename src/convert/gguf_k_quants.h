// The encoders of GGUF's K types: kSuperBlock weights in sub-blocks that have 6- or 8-bit scales of their own.
#pragma once

#include <cstddef>

#include "core/code_scheme.h"

namespace sparkx {

// Of weights within this bound no scale is too large for float16.
inline constexpr float kMaxKWeight = 4194304;  // 2^22

// Each writes one block for kSuperBlock weights. Within the formats they look for the least squared error, in
// Q6_K with each error counted by the magnitude of its weight.
void encode_q4_k(const float* weights, std::byte* out);  // 144 bytes
void encode_q5_k(const float* weights, std::byte* out);  // 176 bytes
void encode_q6_k(const float* weights, std::byte* out);  // 210 bytes

}  // namespace sparkx
