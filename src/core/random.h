// Random numbers without state: Philox 4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2,
// 3", 2011), a counter-based generator. The number at a position depends on (seed, position) and on nothing else, so a
// sequence that is cut back, batched or moved to another machine draws the same numbers.
#pragma once

#include <array>
#include <cstdint>

namespace sparkx {

// The block of four words that `counter` has under `key`.
std::array<std::uint32_t, 4> philox4x32(const std::array<std::uint32_t, 4>& counter,
                                        const std::array<std::uint32_t, 2>& key);

// A number in [0, 1), a multiple of 2^-53: counter {position's low and high word, 0, 0}, key {seed's low and high
// word}, the first word of the block above the upper 21 bits of the second.
double random_unit(std::uint64_t seed, std::uint64_t position);

}  // namespace sparkx
