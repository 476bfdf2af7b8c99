#include "model/rope.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "core/error.h"

namespace sparkx {
namespace {

// tests/data/model/rope.txt: theta, rotary_dims, position, i, cos, sin from 200-bit arithmetic.
TEST(Rope, AnglesAreRightUpToPosition1048575) {
  std::ifstream file(std::string(SPARKX_SOURCE_DIR) + "/tests/data/model/rope.txt");
  ASSERT_TRUE(file);
  std::string line;
  int checked = 0;
  while (std::getline(file, line)) {
    if (line.starts_with('#')) continue;
    std::istringstream fields(line);
    double theta = 0, cos = 0, sin = 0;
    int dims = 0, i = 0;
    std::int64_t position = 0;
    ASSERT_TRUE(fields >> theta >> dims >> position >> i >> cos >> sin) << line;
    RopeTable table(dims, dims, theta);
    std::vector<float> cosines(dims / 2), sines(dims / 2);
    table.cos_sin(position, cosines.data(), sines.data());
    // Half a unit in the last place of a float below 1, and the angle's own error of 1e-10.
    EXPECT_NEAR(cosines[i], cos, 3.0e-8) << line;
    EXPECT_NEAR(sines[i], sin, 3.0e-8) << line;
    ++checked;
  }
  EXPECT_GT(checked, 250);
}

TEST(Rope, FrequenciesArePowersOfTheta) {
  std::vector<double> frequencies = inverse_frequencies(64, 5000000.0);
  ASSERT_EQ(frequencies.size(), 32u);
  EXPECT_EQ(frequencies[0], 1.0);
  for (int i = 0; i < 32; ++i) {
    long double exact = std::pow(5000000.0L, -2.0L * i / 64.0L);
    EXPECT_EQ(frequencies[i], static_cast<double>(exact)) << i;
  }
}

TEST(Rope, OneFrequencyIsOne) {
  EXPECT_EQ(inverse_frequencies(2, 10000.0), std::vector<double>{1.0});
}

TEST(Rope, ImpossibleParametersAreRefused) {
  EXPECT_THROW(RopeTable(16, 0, 10000.0), Error);
  EXPECT_THROW(RopeTable(16, 5, 10000.0), Error);
  EXPECT_THROW(RopeTable(16, 18, 10000.0), Error);
  EXPECT_THROW(RopeTable(16, 16, 0.0), Error);
  EXPECT_THROW(RopeTable(16, 16, std::nan("")), Error);
}

}  // namespace
}  // namespace sparkx
