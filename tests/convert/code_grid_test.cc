#include "convert/code_grid.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "core/bfloat16.h"
#include "kernels/kernels.h"

namespace sparkx {
namespace {

struct Group {
  std::vector<float> weights, importance;
};

Group random_group(unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  Group group;
  for (int i = 0; i < 64; ++i) {
    group.weights.push_back(0.05f * normal(random));
    const float input = normal(random) * (i % 16 == 0 ? 8.0f : 1.0f);
    group.importance.push_back(0.01f + input * input);
  }
  return group;
}

double plain_cost(const Group& group, int bits) {
  std::vector<std::uint8_t> codes(64);
  float scale = 0, bias = 0;
  kernels::kernel_table().quantize_affine[static_cast<int>(kernels::WeightKind::float32)](
      std::as_bytes(std::span(group.weights)).data(), 64, bits, 64, codes.data(), &scale, &bias);
  return grid_cost(group.weights.data(), group.importance.data(), 64, {scale, bias}, (1 << bits) - 1);
}

TEST(SearchGrid, IsNeverWorseThanPlainRoundingAndMuchBetterAtFewBits) {
  for (const int bits : {2, 3, 4, 8}) {
    double plain = 0, searched = 0;
    for (unsigned seed = 0; seed < 50; ++seed) {
      const Group group = random_group(seed);
      const int highest = (1 << bits) - 1;
      const CodeGrid grid = search_grid(group.weights.data(), group.importance.data(), 64, highest, Dtype::float32);
      const double cost = grid_cost(group.weights.data(), group.importance.data(), 64, grid, highest);
      const double before = plain_cost(group, bits);
      EXPECT_LE(cost, before) << bits << " bits, group " << seed;
      plain += before, searched += cost;
    }
    EXPECT_LT(searched, (bits <= 4 ? 0.7 : 1.0) * plain) << bits;
  }
}

TEST(SearchGrid, FindsTheGridThatWeightsStandOn) {
  Group group = random_group(1);
  for (int i = 0; i < 64; ++i)
    group.weights[static_cast<std::size_t>(i)] = 0.25f * static_cast<float>(i * 7 % 8) - 0.5f;
  for (const Dtype type : {Dtype::float32, Dtype::bfloat16, Dtype::float16}) {
    const CodeGrid grid = search_grid(group.weights.data(), group.importance.data(), 64, 7, type);
    EXPECT_EQ(grid_cost(group.weights.data(), group.importance.data(), 64, grid, 7), 0);
  }
}

TEST(SearchGrid, GivesScalesOfTheType) {
  const Group group = random_group(3);
  const CodeGrid grid = search_grid(group.weights.data(), group.importance.data(), 64, 15, Dtype::bfloat16);
  EXPECT_EQ(grid.scale, bfloat16_to_float(float_to_bfloat16(grid.scale)));
  EXPECT_EQ(grid.offset, bfloat16_to_float(float_to_bfloat16(grid.offset)));
}

TEST(SearchGrid, ConstantWeightsAreKept) {
  for (const float value : {0.0f, 0.375f, -2.0f}) {
    const std::vector<float> weights(32, value), importance(32, 1.0f);
    for (const CodeGrid grid : {search_grid(weights.data(), importance.data(), 32, 15, Dtype::float16),
                                search_centered_grid(weights.data(), importance.data(), 32, 15, Dtype::float16)}) {
      EXPECT_EQ(grid_cost(weights.data(), importance.data(), 32, grid, 15), 0) << value;
    }
  }
}

TEST(SearchCenteredGrid, HasZeroInItsMiddleAndIsNoWorseThanTheFormatsOwn) {
  double plain = 0, searched = 0;
  for (unsigned seed = 0; seed < 50; ++seed) {
    const Group group = random_group(seed);
    const CodeGrid grid = search_centered_grid(group.weights.data(), group.importance.data(), 32, 15, Dtype::float16);
    EXPECT_EQ(grid.offset, -8 * grid.scale);
    const float* peak = std::max_element(group.weights.data(), group.weights.data() + 32,
                                         [](float a, float b) { return std::abs(a) < std::abs(b); });
    const float scale = float16_to_float(float_to_float16(*peak / -8));
    plain += grid_cost(group.weights.data(), group.importance.data(), 32, {scale, -8 * scale}, 15);
    searched += grid_cost(group.weights.data(), group.importance.data(), 32, grid, 15);
  }
  EXPECT_LT(searched, 0.8 * plain);
}

}  // namespace
}  // namespace sparkx
