#include "core/random.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <set>

namespace sparkx {
namespace {

using Block = std::array<std::uint32_t, 4>;

// The known answers of Random123, the authors' own library (kat_vectors, philox4x32 10).
TEST(Philox, GivesTheKnownAnswersOfItsAuthors) {
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}), (Block{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox4x32({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}),
            (Block{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Block{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

// From the first known answer: (0x6627e8d5 << 21 | 0xe169c58d >> 11) / 2^53, computed with Python.
TEST(RandomUnit, IsMadeOfTheFirstTwoWordsOfTheBlock) {
  EXPECT_EQ(random_unit(0, 0), 0.3990464708489645);
}

TEST(RandomUnit, UsesAllBitsOfSeedAndPosition) {
  std::set<double> seen;
  for (int bit = 0; bit < 64; ++bit) {
    seen.insert(random_unit(std::uint64_t{1} << bit, 0));
    seen.insert(random_unit(0, std::uint64_t{1} << bit));
  }
  seen.insert(random_unit(0, 0));
  EXPECT_EQ(seen.size(), 129u);
}

TEST(RandomUnit, IsUniform) {
  constexpr int kDraws = 100000;
  constexpr int kBins = 10;
  std::array<int, kBins> count{};
  for (int position = 0; position < kDraws; ++position) {
    const double u = random_unit(7, position);
    ASSERT_GE(u, 0.0);
    ASSERT_LT(u, 1.0);
    ++count[static_cast<int>(u * kBins)];
  }
  for (int c : count) EXPECT_NEAR(c, kDraws / kBins, 400);  // four standard deviations are 379
}

}  // namespace
}  // namespace sparkx
