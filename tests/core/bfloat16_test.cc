#include "core/bfloat16.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <fstream>

namespace sparkx {
namespace {

// tests/data/half_golden.txt: what numpy and ml_dtypes make of the bits of a float32.
TEST(HalfFloats, RoundLikeNumpyAndMlDtypes) {
  std::ifstream file(SPARKX_SOURCE_DIR "/tests/data/half_golden.txt");
  std::uint32_t bits = 0, half = 0, brain = 0;
  int lines = 0;
  while (file >> std::hex >> bits >> half >> brain) {
    const auto value = std::bit_cast<float>(bits);
    EXPECT_EQ(float_to_float16(value), half) << std::hex << bits;
    EXPECT_EQ(float_to_bfloat16(value), brain) << std::hex << bits;
    ++lines;
  }
  EXPECT_GT(lines, 5000);
}

TEST(HalfFloats, EveryFloat16WidensToItsValueAndBack) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    const float value = float16_to_float(half);
    const int exponent = (half >> 10) & 0x1F;
    const int fraction = half & 0x3FF;
    if (exponent == 31 && fraction != 0) {
      EXPECT_TRUE(std::isnan(value)) << std::hex << bits;
      EXPECT_TRUE(std::isnan(float16_to_float(float_to_float16(value)))) << std::hex << bits;
      continue;
    }
    const double magnitude = exponent == 31  ? INFINITY
                             : exponent == 0 ? std::ldexp(fraction, -24)
                                             : std::ldexp(1024 + fraction, exponent - 25);
    EXPECT_EQ(value, half & 0x8000 ? -magnitude : magnitude) << std::hex << bits;
    EXPECT_EQ(std::signbit(value), (half & 0x8000) != 0);
    EXPECT_EQ(float_to_float16(value), half) << std::hex << bits;
  }
}

TEST(HalfFloats, EveryBfloat16WidensToItsValueAndBack) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto brain = static_cast<std::uint16_t>(bits);
    const float value = bfloat16_to_float(brain);
    EXPECT_EQ(std::bit_cast<std::uint32_t>(value), bits << 16);
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(bfloat16_to_float(float_to_bfloat16(value)))) << std::hex << bits;
    } else {
      EXPECT_EQ(float_to_bfloat16(value), brain) << std::hex << bits;
    }
  }
}

// A NaN whose payload lies only in the bits that are dropped must not become an infinity.
TEST(HalfFloats, NanWithALowPayloadStaysNan) {
  for (const std::uint32_t bits : {0x7F800001u, 0xFF800001u, 0x7FFFFFFFu, 0xFFFFFFFFu}) {
    const auto value = std::bit_cast<float>(bits);
    EXPECT_TRUE(std::isnan(bfloat16_to_float(float_to_bfloat16(value)))) << std::hex << bits;
    EXPECT_TRUE(std::isnan(float16_to_float(float_to_float16(value)))) << std::hex << bits;
  }
}

}  // namespace
}  // namespace sparkx
