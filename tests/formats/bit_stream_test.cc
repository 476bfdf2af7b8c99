#include "formats/bit_stream.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace sparkx {
namespace {

TEST(BitStream, CodesFollowOneAnotherFromTheLowestBitOn) {
  const std::uint8_t codes[] = {5, 1, 7, 0, 2, 6, 4, 3};
  std::byte packed[3];
  pack_codes(codes, 3, 8, packed);
  std::uint32_t stream = 0;
  for (int i = 0; i < 8; ++i) stream |= std::uint32_t{codes[i]} << 3 * i;
  for (int i = 0; i < 3; ++i) EXPECT_EQ(packed[i], static_cast<std::byte>(stream >> 8 * i)) << i;
  std::byte halves[4];
  pack_codes(codes, 4, 8, halves);
  EXPECT_EQ(halves[0], std::byte{0x15});
  EXPECT_EQ(halves[3], std::byte{0x34});
}

TEST(BitStream, WhatIsPackedUnpacks) {
  std::mt19937 random(1);
  for (int bits = 1; bits <= 8; ++bits) {
    std::vector<std::uint8_t> codes(96), unpacked(96);
    for (std::uint8_t& code : codes) code = static_cast<std::uint8_t>(random() & ((1u << bits) - 1));
    std::vector<std::byte> packed(static_cast<std::size_t>(96 * bits / 8));
    pack_codes(codes.data(), bits, 96, packed.data());
    unpack_codes(packed.data(), bits, 96, unpacked.data());
    EXPECT_EQ(unpacked, codes) << bits;
  }
}

}  // namespace
}  // namespace sparkx
