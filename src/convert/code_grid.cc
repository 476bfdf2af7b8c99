#include "convert/code_grid.h"

#include <limits>

#include "core/bfloat16.h"

namespace sparkx {
namespace {

float rounded(float value, Dtype type) {
  switch (type) {
    case Dtype::bfloat16:
      return bfloat16_to_float(float_to_bfloat16(value));
    case Dtype::float16:
      return float16_to_float(float_to_float16(value));
    default:
      return value;
  }
}

// As MLX does it (docs/model.md, MLX checkpoint format).
CodeGrid mlx_grid(float low, float high, int highest, Dtype type) {
  const bool from_low = std::fabs(low) > std::fabs(high);
  float scale = std::max((high - low) / static_cast<float>(highest), 1e-7f);
  if (!from_low) scale = -scale;
  const float edge = from_low ? low : high, code = std::nearbyint(edge / scale);
  if (code == 0) return {rounded(scale, type), 0};
  return {rounded(edge / code, type), rounded(edge, type)};
}

class Search {
 public:
  Search(const float* weights, const float* importance, std::int64_t count, int highest, Dtype type)
      : weights_(weights), importance_(importance), count_(count), highest_(highest), type_(type) {
    const auto [low, high] = std::minmax_element(weights, weights + count);
    low_ = *low, high_ = *high;
    double sum = 0, moment = 0;
    for (std::int64_t i = 0; i < count; ++i) {
      sum += importance[i];
      moment += double{importance[i]} * weights[i];
    }
    total_ = sum, mean_ = moment / sum;
  }

  CodeGrid best() {
    consider(mlx_grid(low_, high_, highest_, type_));
    // Ranges that end inside the weights, more so for few codes.
    constexpr int kSteps = 12;
    const double narrowest = highest_ <= 3 ? 0.4 : highest_ <= 7 ? 0.5 : 0.7;
    for (int step = 0; step < kSteps; ++step) {
      const double part = 1 - (1 - narrowest) * step / (kSteps - 1);
      const double middle = (double{low_} + high_) / 2, half = part * (double{high_} - low_) / 2;
      improve(Exact{2 * half / highest_, middle - half});
    }
    return best_;
  }

 private:
  struct Exact {
    double scale, offset;
  };

  // Takes the best scale and offset for the codes on this grid, then those for the new codes, as long as it helps.
  void improve(Exact exact) {
    constexpr int kRounds = 4;
    for (int round = 0; round < kRounds; ++round) {
      const Exact fit = least_squares({static_cast<float>(exact.scale), static_cast<float>(exact.offset)});
      if (!(fit.scale > 0)) return;
      const float scale = rounded(static_cast<float>(fit.scale), type_);
      if (scale == 0) return;
      // The rounding of the scale is made up for by the offset: at the mean code it is no error.
      const double mean_code = (mean_ - fit.offset) / fit.scale;
      const auto offset = static_cast<float>(mean_ - double{scale} * mean_code);
      if (!consider({scale, rounded(offset, type_)})) return;
      exact = fit;
    }
  }

  Exact least_squares(CodeGrid grid) const {
    double q = 0, qq = 0, qw = 0;
    for (std::int64_t i = 0; i < count_; ++i) {
      const double code = nearest_code(weights_[i], grid, highest_), weighted = importance_[i] * code;
      q += weighted;
      qq += weighted * code;
      qw += weighted * weights_[i];
    }
    const double spread = qq - q * q / total_;
    if (!(spread > 0)) return {0, mean_};
    const double scale = (qw - q * mean_) / spread;
    return {scale, mean_ - scale * q / total_};
  }

  bool consider(CodeGrid grid) {
    const double cost = grid_cost(weights_, importance_, count_, grid, highest_);
    if (!(cost < cost_)) return false;
    cost_ = cost;
    best_ = grid;
    return true;
  }

  const float* weights_;
  const float* importance_;
  std::int64_t count_;
  int highest_;
  Dtype type_;
  float low_, high_;
  double total_, mean_;  // the sum of the importance, and the mean weight by it
  double cost_ = std::numeric_limits<double>::infinity();
  CodeGrid best_{};
};

}  // namespace

double grid_cost(const float* weights, const float* importance, std::int64_t count, CodeGrid grid, int highest) {
  double cost = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const double error = weights[i] - (grid.scale * nearest_code(weights[i], grid, highest) + grid.offset);
    cost += importance[i] * error * error;
  }
  return cost;
}

CodeGrid search_centered_grid(const float* weights, const float* importance, std::int64_t count, int highest,
                              Dtype type) {
  const float* peak =
      std::max_element(weights, weights + count, [](float a, float b) { return std::fabs(a) < std::fabs(b); });
  const auto middle = static_cast<float>((highest + 1) / 2);
  const auto grid_of = [&](double scale) {
    const float stored = rounded(static_cast<float>(scale), type);
    return CodeGrid{stored, -middle * stored};
  };
  // The lowest code is one farther away from the middle than the highest: it is for the largest weight, or about so.
  CodeGrid best = grid_of(double{*peak} / -middle);
  double best_cost = grid_cost(weights, importance, count, best, highest);
  constexpr int kSteps = 16;
  constexpr int kRounds = 3;
  for (int step = -kSteps / 4; step < kSteps; ++step) {
    double scale = double{*peak} / (-middle - 0.15 * step);
    for (int round = 0; round < kRounds; ++round) {
      const CodeGrid grid = grid_of(scale);
      if (grid.scale == 0) break;
      const double cost = grid_cost(weights, importance, count, grid, highest);
      if (cost < best_cost) best = grid, best_cost = cost;
      double qq = 0, qw = 0;
      for (std::int64_t i = 0; i < count; ++i) {
        const double code = double{nearest_code(weights[i], grid, highest)} - middle, counted = importance[i] * code;
        qq += counted * code;
        qw += counted * weights[i];
      }
      if (!(qq > 0)) break;
      scale = qw / qq;
    }
  }
  return best;
}

CodeGrid search_grid(const float* weights, const float* importance, std::int64_t count, int highest, Dtype type) {
  return Search(weights, importance, count, highest, type).best();
}

}  // namespace sparkx
