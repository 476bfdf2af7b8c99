#include "formats/bit_stream.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace sparkx {
namespace {

static_assert(std::endian::native == std::endian::little);

// Eight codes are as many bytes as they have bits.
constexpr std::int64_t kCodes = 8;

template <int bits>
void unpack(const std::byte* packed, std::int64_t count, std::uint8_t* codes) {
  for (std::int64_t i = 0; i < count; i += kCodes, packed += bits) {
    const std::int64_t here = std::min(kCodes, count - i);
    std::uint64_t word = 0;
    std::memcpy(&word, packed, here == kCodes ? bits : static_cast<std::size_t>((here * bits + 7) / 8));
    for (std::int64_t j = 0; j < here; ++j) {
      codes[i + j] = static_cast<std::uint8_t>(word >> (bits * j) & ((1u << bits) - 1));
    }
  }
}

}  // namespace

void unpack_codes(const std::byte* packed, int bits, std::int64_t count, std::uint8_t* codes) {
  switch (bits) {
    case 1:
      return unpack<1>(packed, count, codes);
    case 2:
      return unpack<2>(packed, count, codes);
    case 3:
      return unpack<3>(packed, count, codes);
    case 4:
      return unpack<4>(packed, count, codes);
    case 5:
      return unpack<5>(packed, count, codes);
    case 6:
      return unpack<6>(packed, count, codes);
    case 7:
      return unpack<7>(packed, count, codes);
    default:
      std::memcpy(codes, packed, static_cast<std::size_t>(count));
  }
}

void pack_codes(const std::uint8_t* codes, int bits, std::int64_t count, std::byte* packed) {
  std::uint32_t pending = 0;
  int held = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    pending |= std::uint32_t{codes[i]} << held;
    for (held += bits; held >= 8; held -= 8, pending >>= 8) *packed++ = static_cast<std::byte>(pending);
  }
}

}  // namespace sparkx
