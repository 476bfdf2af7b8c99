#include "core/float_environment.h"

#include <gtest/gtest.h>

#include <cfenv>
#include <cstdint>

#include "support/flush_denormals.h"

namespace sparkx {
namespace {

// Computed at run time: the compiler may not know the operands.
float hide(float value) {
  volatile float hidden = value;
  return hidden;
}
float product(float a, float b) {
  return hide(a) * hide(b);
}
float sum(float a, float b) {
  return hide(a) + hide(b);
}

TEST(ScopedFloatEnvironment, RoundsToNearestInsideAndRestoresOutside) {
  ASSERT_EQ(std::fesetround(FE_UPWARD), 0);
  EXPECT_GT(sum(1.0f, 0x1p-30f), 1.0f);
  {
    const ScopedFloatEnvironment environment;
    EXPECT_EQ(sum(1.0f, 0x1p-30f), 1.0f);
  }
  EXPECT_GT(sum(1.0f, 0x1p-30f), 1.0f);
  std::fesetround(FE_TONEAREST);
}

TEST(ScopedFloatEnvironment, KeepsDenormalsThatTheProgramFlushes) {
  const testing::FlushDenormals flush;
  EXPECT_EQ(product(0x1p-126f, 0.5f), 0.0f);
  {
    const ScopedFloatEnvironment environment;
    EXPECT_EQ(product(0x1p-126f, 0.5f), 0x1p-127f);
    EXPECT_EQ(product(0x1p-127f, 2.0f), 0x1p-126f);
  }
  EXPECT_EQ(product(0x1p-126f, 0.5f), 0.0f);
}

}  // namespace
}  // namespace sparkx
