// Rounding with feedback, against what it is defined by, computed in double in another way.
#include "convert/error_feedback.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <vector>

#include "convert/code_grid.h"
#include "core/float_environment.h"

namespace sparkx {
namespace {

using Matrix = std::vector<std::vector<double>>;

// Rows of inputs whose columns have much in common, of different sizes.
std::vector<float> inputs(std::int64_t rows, std::int64_t columns, bool correlated) {
  std::mt19937 random(5);
  std::normal_distribution<float> normal;
  std::vector<float> x(static_cast<std::size_t>(rows * columns));
  for (std::int64_t r = 0; r < rows; ++r) {
    const float common[] = {normal(random), normal(random), normal(random)};
    for (std::int64_t c = 0; c < columns; ++c) {
      float value = normal(random);
      if (correlated) value = 0.3f * value + common[c % 3] + 0.5f * common[(c + 1) % 3];
      x[static_cast<std::size_t>(r * columns + c)] = value * (0.2f + static_cast<float>(c % 7));
    }
  }
  return x;
}

SymmetricMatrix products(const std::vector<float>& x, std::int64_t columns, ThreadPool& threads) {
  const ScopedFloatEnvironment environment;
  SymmetricMatrix sums(columns);
  SymmetricMatrix::Scratch scratch;
  const auto rows = static_cast<std::int64_t>(x.size()) / columns;
  const std::int64_t stride = (columns + 15) / 16 * 16;
  AlignedBuffer<float> padded(static_cast<std::size_t>(rows * stride));
  for (std::int64_t r = 0; r < rows; ++r) std::copy_n(x.data() + r * columns, columns, padded.data() + r * stride);
  for (std::int64_t r = 0; r < rows; r += 200) {  // as in passes
    sums.add_products({padded.data() + r * stride, stride, std::min<std::int64_t>(200, rows - r)}, columns, 1, threads,
                      scratch);
  }
  return sums;
}

std::vector<float> weights(std::int64_t rows, std::int64_t columns) {
  std::mt19937 random(9);
  std::normal_distribution<float> normal;
  std::vector<float> w(static_cast<std::size_t>(rows * columns));
  for (float& value : w) value = normal(random);
  return w;
}

// The grids of plain rounding, from the least weight of a group to the largest.
std::vector<CodeGrid> grids(const std::vector<float>& w, std::int64_t group, int highest) {
  std::vector<CodeGrid> grids;
  for (auto at = w.begin(); at != w.end(); at += group) {
    const auto [low, high] = std::minmax_element(at, at + group);
    grids.push_back({(*high - *low) / static_cast<float>(highest), *low});
  }
  return grids;
}

std::vector<std::uint8_t> nearest(const std::vector<float>& w, const std::vector<CodeGrid>& grids, std::int64_t group,
                                  int highest) {
  std::vector<std::uint8_t> codes;
  for (std::size_t i = 0; i < w.size(); ++i) {
    codes.push_back(static_cast<std::uint8_t>(nearest_code(w[i], grids[i / static_cast<std::size_t>(group)], highest)));
  }
  return codes;
}

// Σ over rows of e · H · eᵀ.
double cost(const SymmetricMatrix& h, const std::vector<float>& w, const std::vector<CodeGrid>& grids,
            std::int64_t group, const std::vector<std::uint8_t>& codes) {
  const std::int64_t n = h.size();
  double sum = 0;
  for (std::size_t row = 0; row < w.size(); row += static_cast<std::size_t>(n)) {
    std::vector<double> e;
    for (std::size_t i = row; i < row + static_cast<std::size_t>(n); ++i) {
      const CodeGrid& grid = grids[i / static_cast<std::size_t>(group)];
      e.push_back(w[i] - (double{grid.scale} * codes[i] + grid.offset));
    }
    for (std::int64_t i = 0; i < n; ++i) {
      for (std::int64_t j = 0; j < n; ++j) sum += e[i] * h.at(i, j) * e[j];
    }
  }
  return sum;
}

std::vector<std::uint8_t> with_feedback(const SymmetricMatrix& h, const std::vector<float>& w,
                                        const std::vector<CodeGrid>& grids, std::int64_t group, int highest,
                                        int threads) {
  const ScopedFloatEnvironment environment;
  ThreadPool pool(threads);
  const ErrorFeedback feedback(h, pool, [] {});
  std::vector<std::uint8_t> codes(w.size());
  feedback.choose_codes(w.data(), static_cast<std::int64_t>(w.size()) / h.size(), grids.data(), group, highest,
                        codes.data());
  return codes;
}

// The algorithm as it was published: weights are updated with rows of the Cholesky factor of the inverse.
std::vector<std::uint8_t> as_published(const SymmetricMatrix& h, const std::vector<float>& w,
                                       const std::vector<CodeGrid>& grids, std::int64_t group, int highest) {
  const auto n = static_cast<std::size_t>(h.size());
  std::vector<std::size_t> order(n);
  std::iota(order.begin(), order.end(), 0);
  const auto at = [&](std::size_t i, std::size_t j) {
    return double{h.at(static_cast<std::int64_t>(i), static_cast<std::int64_t>(j))};
  };
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return at(a, a) > at(b, b); });
  double mean = 0;
  for (std::size_t i = 0; i < n; ++i) mean += at(i, i) / static_cast<double>(n);
  // The inverse by elimination.
  Matrix a(n, std::vector<double>(2 * n));
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < n; ++j) a[i][j] = at(order[i], order[j]) + (i == j ? kDamping * mean : 0);
    a[i][n + i] = 1;
  }
  for (std::size_t p = 0; p < n; ++p) {
    const double pivot = a[p][p];
    for (double& value : a[p]) value /= pivot;
    for (std::size_t i = 0; i < n; ++i) {
      const double factor = a[i][p];
      for (std::size_t j = 0; i != p && j < 2 * n; ++j) a[i][j] -= factor * a[p][j];
    }
  }
  // The inverse as UᵀU.
  Matrix u(n, std::vector<double>(n));
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = i; j < n; ++j) {
      double sum = a[i][n + j];
      for (std::size_t k = 0; k < i; ++k) sum -= u[k][i] * u[k][j];
      u[i][j] = i == j ? std::sqrt(sum) : sum / u[i][i];
    }
  }
  std::vector<std::uint8_t> codes(w.size());
  for (std::size_t row = 0; row < w.size(); row += n) {
    std::vector<double> target;
    for (const std::size_t column : order) target.push_back(w[row + column]);
    for (std::size_t i = 0; i < n; ++i) {
      const std::size_t place = row + order[i];
      const CodeGrid& grid = grids[place / static_cast<std::size_t>(group)];
      const double code =
          std::clamp(std::nearbyint((target[i] - grid.offset) / grid.scale), 0.0, static_cast<double>(highest));
      codes[place] = static_cast<std::uint8_t>(code);
      const double error = (target[i] - (grid.scale * code + grid.offset)) / u[i][i];
      for (std::size_t j = i + 1; j < n; ++j) target[j] -= error * u[i][j];
    }
  }
  return codes;
}

TEST(SymmetricMatrix, HasTheSumsOfProducts) {
  ThreadPool one(1), three(3);
  for (const std::int64_t columns : {5, 96, 200}) {
    const std::vector<float> x = inputs(230, columns, true);
    const SymmetricMatrix a = products(x, columns, one), b = products(x, columns, three);
    for (std::int64_t i = 0; i < columns; ++i) {
      for (std::int64_t j = 0; j < columns; ++j) {
        double sum = 0, size = 0;
        for (std::size_t r = 0; r < x.size(); r += static_cast<std::size_t>(columns)) {
          sum += double{x[r + static_cast<std::size_t>(i)]} * x[r + static_cast<std::size_t>(j)];
          size += std::fabs(double{x[r + static_cast<std::size_t>(i)]} * x[r + static_cast<std::size_t>(j)]);
        }
        ASSERT_NEAR(a.at(i, j), sum, 1e-5 * size);
        ASSERT_EQ(a.at(i, j), b.at(i, j)) << "threads show";
        ASSERT_EQ(a.at(i, j), a.at(j, i));
      }
    }
  }
}

TEST(ErrorFeedback, DoesWhatThePublishedAlgorithmDoes) {
  constexpr std::int64_t kColumns = 320, kGroup = 32;  // two blocks and a half
  ThreadPool threads(2);
  const SymmetricMatrix h = products(inputs(700, kColumns, true), kColumns, threads);
  const std::vector<float> w = weights(6, kColumns);
  for (const int highest : {3, 15}) {
    const std::vector<CodeGrid> g = grids(w, kGroup, highest);
    const std::vector<std::uint8_t> expected = as_published(h, w, g, kGroup, highest);
    const std::vector<std::uint8_t> found = with_feedback(h, w, g, kGroup, highest, 2);
    // A code that was near a tie may fall the other way in float, and the ones after it in its row with it.
    std::size_t same = 0;
    for (std::size_t i = 0; i < w.size(); ++i) same += found[i] == expected[i];
    EXPECT_GT(same, w.size() * 9 / 10);
    const double a = cost(h, w, g, kGroup, found), b = cost(h, w, g, kGroup, expected);
    EXPECT_NEAR(a / b, 1, 0.05);
  }
}

TEST(ErrorFeedback, CostsMuchLessThanPlainRoundingWhereInputsAreAlike) {
  constexpr std::int64_t kColumns = 256, kGroup = 64;
  ThreadPool threads(2);
  const SymmetricMatrix h = products(inputs(1000, kColumns, true), kColumns, threads);
  const std::vector<float> w = weights(8, kColumns);
  for (const int highest : {3, 7, 15}) {
    const std::vector<CodeGrid> g = grids(w, kGroup, highest);
    EXPECT_LT(cost(h, w, g, kGroup, with_feedback(h, w, g, kGroup, highest, 1)),
              0.3 * cost(h, w, g, kGroup, nearest(w, g, kGroup, highest)));
  }
}

TEST(ErrorFeedback, IsPlainRoundingWhereInputsHaveNothingInCommon) {
  constexpr std::int64_t kColumns = 192, kGroup = 32;
  SymmetricMatrix h(kColumns);
  for (std::int64_t i = 0; i < kColumns; ++i) h.set(i, i, 0.5f + static_cast<float>(i % 11));
  const std::vector<float> w = weights(5, kColumns);
  const std::vector<CodeGrid> g = grids(w, kGroup, 7);
  EXPECT_EQ(with_feedback(h, w, g, kGroup, 7, 1), nearest(w, g, kGroup, 7));
}

TEST(ErrorFeedback, InputsThatAreAllZeroOrAllTheSameAreNoTrouble) {
  constexpr std::int64_t kColumns = 160, kGroup = 32;
  const std::vector<float> w = weights(3, kColumns);
  const std::vector<CodeGrid> g = grids(w, kGroup, 15);
  EXPECT_EQ(with_feedback(SymmetricMatrix(kColumns), w, g, kGroup, 15, 1), nearest(w, g, kGroup, 15));
  SymmetricMatrix same(kColumns);
  for (std::int64_t i = 0; i < kColumns; ++i) {
    for (std::int64_t j = 0; j <= i; ++j) same.set(i, j, 1e6f);
  }
  EXPECT_LT(cost(same, w, g, kGroup, with_feedback(same, w, g, kGroup, 15, 1)),
            0.1 * cost(same, w, g, kGroup, nearest(w, g, kGroup, 15)));
}

TEST(ErrorFeedback, HasTheSameBitsWithAnyThreadsAndAnyCutIntoRows) {
  constexpr std::int64_t kColumns = 400, kGroup = 16;
  ThreadPool threads(2);
  const SymmetricMatrix h = products(inputs(600, kColumns, true), kColumns, threads);
  const std::vector<float> w = weights(7, kColumns);
  const std::vector<CodeGrid> g = grids(w, kGroup, 7);
  const std::vector<std::uint8_t> codes = with_feedback(h, w, g, kGroup, 7, 1);
  EXPECT_EQ(with_feedback(h, w, g, kGroup, 7, 3), codes);
  const std::vector<float> last(w.end() - kColumns, w.end());
  const std::vector<CodeGrid> last_grids(g.end() - kColumns / kGroup, g.end());
  EXPECT_EQ(with_feedback(h, last, last_grids, kGroup, 7, 1),
            std::vector<std::uint8_t>(codes.end() - kColumns, codes.end()));
}

}  // namespace
}  // namespace sparkx
