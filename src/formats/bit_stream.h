// Codes as a little-endian stream of bits, one after another from the lowest bit of the first byte on: how MLX and
// compressed-tensors pack them (docs/model.md).
#pragma once

#include <cstddef>
#include <cstdint>

namespace sparkx {

// `count` codes of `bits` bits, 1 to 8, from (count * bits + 7) / 8 bytes.
void unpack_codes(const std::byte* packed, int bits, std::int64_t count, std::uint8_t* codes);

// The other way, for a whole number of bytes: count * bits is a multiple of 8, and no code has more bits.
void pack_codes(const std::uint8_t* codes, int bits, std::int64_t count, std::byte* packed);

}  // namespace sparkx
