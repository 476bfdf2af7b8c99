// The elementary functions against long double: how far they are off, in units in the last place, over their whole
// range. docs/numerics.md states what trying every float has found.
#include "kernels/math.h"

#include <gtest/gtest.h>

#include <bit>
#include <cfloat>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <limits>

#include "kernels/simd/plain_lanes.h"

namespace sparkx::kernels {
namespace {

static_assert(LDBL_MANT_DIG >= 64, "these tests need an extended long double");

const float kInfinity = std::numeric_limits<float>::infinity();

// |found - exact| in units of the last place of the float nearest to exact.
double ulps(float found, long double exact) {
  const float nearest = std::abs(static_cast<float>(exact));
  if (std::isinf(nearest)) return found == static_cast<float>(exact) ? 0 : 1e9;
  const float next = std::nextafter(nearest, kInfinity);
  const long double unit = std::isinf(next) ? 0x1p104L : static_cast<long double>(next) - nearest;
  return static_cast<double>(std::abs(found - exact) / unit);
}

// Every so many-th float is looked at. SPARKX_FLOAT_STEP=1 looks at all; emulated processors take more than the prime
// 1009, with which every last bit comes up.
std::uint32_t float_step() {
  const char* chosen = std::getenv("SPARKX_FLOAT_STEP");
  return chosen != nullptr ? static_cast<std::uint32_t>(std::strtoul(chosen, nullptr, 10)) : 1009;
}

// The worst of the floats from `low` to `high`, both signs when `low` is negative.
template <class Function, class Exact>
void expect_within(double bound, float low, float high, Function function, Exact exact) {
  const std::uint32_t step = float_step();
  ASSERT_GT(step, 0u);
  double worst = 0;
  float where = 0;
  const auto look = [&](float x) {
    const double error = ulps(function(x), exact(static_cast<long double>(x)));
    if (!(error <= worst)) worst = error, where = x;
  };
  for (std::uint32_t bits = low < 0 ? 0 : std::bit_cast<std::uint32_t>(low); bits <= std::bit_cast<std::uint32_t>(high);
       bits += step) {
    look(std::bit_cast<float>(bits));
    if (low < 0 && std::bit_cast<float>(bits) <= -low) look(-std::bit_cast<float>(bits));
  }
  EXPECT_LE(worst, bound) << "at " << where << " (" << std::hexfloat << where << ")";
}

TEST(Math, ExpIsWithinItsBound) {
  expect_within(
      1.010, -104.0f, 89.0f, [](float x) { return exp(x); }, [](long double x) { return std::exp(x); });
}

TEST(Math, ErfIsWithinItsBound) {
  expect_within(
      1.103, 0.0f, 5.0f, [](float x) { return erf(x); }, [](long double x) { return std::erf(x); });
}

TEST(Math, SigmoidIsWithinItsBound) {
  expect_within(
      0.997, -104.0f, 104.0f, [](float x) { return sigmoid(x); }, [](long double x) { return 1 / (1 + std::exp(-x)); });
}

TEST(Math, LogIsWithinItsBound) {
  expect_within(
      0.833, 1e-45f, FLT_MAX, [](float x) { return log(x); }, [](long double x) { return std::log(x); });
}

TEST(Math, SpecialValues) {
  EXPECT_EQ(exp(0.0f), 1.0f);
  EXPECT_EQ(exp(-0.0f), 1.0f);
  EXPECT_EQ(exp(-kInfinity), 0.0f);
  EXPECT_EQ(exp(kInfinity), kInfinity);
  EXPECT_EQ(exp(-1e30f), 0.0f);
  EXPECT_EQ(exp(1e30f), kInfinity);
  EXPECT_EQ(exp(-103.0f), 0x1p-149f) << "denormal results are kept";
  EXPECT_EQ(erf(0.0f), 0.0f);
  EXPECT_TRUE(std::signbit(erf(-0.0f)));
  EXPECT_EQ(erf(kInfinity), 1.0f);
  EXPECT_EQ(erf(-kInfinity), -1.0f);
  EXPECT_EQ(erf(4.0f), 1.0f);
  EXPECT_EQ(sigmoid(0.0f), 0.5f);
  EXPECT_EQ(sigmoid(kInfinity), 1.0f);
  EXPECT_EQ(sigmoid(-kInfinity), 0.0f);
  EXPECT_EQ(log(1.0f), 0.0f);
  EXPECT_EQ(log(0.0f), -kInfinity);
  EXPECT_EQ(log(-0.0f), -kInfinity);
  EXPECT_EQ(log(kInfinity), kInfinity);
  EXPECT_TRUE(std::isnan(log(-1.0f)));
  EXPECT_TRUE(std::isnan(log(-kInfinity)));
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const float result : {exp(nan), erf(nan), sigmoid(nan), log(nan)}) EXPECT_TRUE(std::isnan(result));
}

TEST(Math, ErfIsOddToTheBit) {
  for (std::uint32_t bits = 0; bits < 0x40a00000; bits += 4099) {
    const float x = std::bit_cast<float>(bits);
    ASSERT_EQ(std::bit_cast<std::uint32_t>(erf(x)) ^ 0x80000000, std::bit_cast<std::uint32_t>(erf(-x))) << x;
    ASSERT_LE(erf(x), 1.0f);
  }
}

TEST(Math, CosAndSinAreTheNearestFloats) {
  std::uint64_t state = 7;
  for (int i = 0; i < 300000; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    const double fraction = static_cast<double>(state >> 11) * 0x1p-53;
    const double angle = (fraction - 0.5) * (i % 3 == 0 ? 0x1p22 : i % 3 == 1 ? 8.0 : 0x1p12);
    const CosSin found = cos_sin(angle);
    ASSERT_EQ(found.cos, static_cast<float>(std::cos(static_cast<long double>(angle)))) << angle;
    ASSERT_EQ(found.sin, static_cast<float>(std::sin(static_cast<long double>(angle)))) << angle;
  }
}

// The reference table must round once where the CPU has no instruction for it.
TEST(Math, FusedMultiplyAddRoundsOnce) {
  std::uint64_t state = 11;
  const auto random_bits = [&] { return state = state * 6364136223846793005u + 1442695040888963407u, state >> 32; };
  for (int i = 0; i < 2000000; ++i) {
    float a = std::bit_cast<float>(static_cast<std::uint32_t>(random_bits()));
    float b = std::bit_cast<float>(static_cast<std::uint32_t>(random_bits()));
    float c = std::bit_cast<float>(static_cast<std::uint32_t>(random_bits()));
    if (i % 4 == 1) c = -(a * b);                     // cancels to the rounding error of the product
    if (i % 4 == 2) c = std::ldexp(c, 0) * 0x1p-20f;  // far below
    if (i % 4 == 3)
      a = std::bit_cast<float>(static_cast<std::uint32_t>(random_bits()) & 0xfffff000),
      b = std::bit_cast<float>(static_cast<std::uint32_t>(random_bits()) & 0xfffff000);  // ties
    const float expected = std::fma(a, b, c), found = fused_multiply_add(a, b, c);
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(found));
    } else {
      ASSERT_EQ(std::bit_cast<std::uint32_t>(expected), std::bit_cast<std::uint32_t>(found))
          << a << " " << b << " " << c;
    }
  }
}

}  // namespace
}  // namespace sparkx::kernels
