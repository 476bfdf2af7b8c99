// Weights as the blocks of a GGUF file (docs/model.md, GGUF; docs/gguf.md): the encoders of the types that
// sparkx writes. gguf_blocks.h in formats/ is the way back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "formats/gguf.h"

namespace sparkx {

// The columns that share a scale in the types with one scale a block, Q8_0 to Q5_1.
inline constexpr int kGgufBlockColumns = 32;

// Whether sparkx writes this type: F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q4_K, Q5_K, Q6_K.
bool can_encode_gguf(const GgufType& type);

// Writes a row of weights; its length is a multiple of the block, `out` has exactly the size of its blocks. Q8_0 to
// Q5_1 give the bits of gguf-py's quantize; the K types search scales for the least squared error. Returns false when a
// value is not finite, or too large for a float16 value or scale.
bool encode_gguf_row(const GgufType& type, std::span<const float> weights, std::byte* out);

// One block of Q8_0, Q4_0, Q4_1, Q5_0 or Q5_1 as given: `codes` are unsigned and at most 2^bits - 1 (of Q8_0 with 128
// added), `scale` and `minimum` are float16; the types without a minimum ignore it.
void pack_gguf_block(const GgufType& type, const std::uint8_t* codes, std::uint16_t scale, std::uint16_t minimum,
                     std::byte* out);

}  // namespace sparkx
