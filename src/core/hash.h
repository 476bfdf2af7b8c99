// Hashes for tables inside one process: fast, not stable across versions, not for hostile keys where collisions matter.
#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>

namespace sparkx {

inline std::uint64_t mix_bits(std::uint64_t x) {
  x ^= x >> 32;
  x *= 0x9E3779B97F4A7C15u;
  x ^= x >> 29;
  x *= 0xBF58476D1CE4E5B9u;
  return x ^ x >> 32;
}

inline std::uint64_t hash_bytes(std::string_view text) {
  std::uint64_t hash = text.size() * 0x9E3779B97F4A7C15u;
  const char* at = text.data();
  std::size_t left = text.size();
  for (; left >= 8; at += 8, left -= 8) {
    std::uint64_t word;
    std::memcpy(&word, at, 8);
    hash = mix_bits(hash ^ word);
  }
  std::uint64_t word = 0;
  for (std::size_t i = 0; i < left; ++i) word |= static_cast<std::uint64_t>(static_cast<unsigned char>(at[i])) << 8 * i;
  return mix_bits(hash ^ word);
}

}  // namespace sparkx
