// The grids that codes make of weights, and the search for the one that costs least where some columns matter more.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "core/dtype.h"

namespace sparkx {

// A weight is scale · code + offset; codes are integers from 0 up.
struct CodeGrid {
  float scale;
  float offset;
};

// The code whose weight is nearest, as a float; 0 where the grid has one weight only.
inline float nearest_code(float weight, CodeGrid grid, int highest) {
  if (grid.scale == 0) return 0;
  // Adding pushes the fraction out: to the nearest integer, ties to even.
  constexpr float kShift = 12582912.0f;  // 1.5 · 2^23
  const float code = std::clamp((weight - grid.offset) / grid.scale, 0.0f, static_cast<float>(highest));
  return (code + kShift) - kShift;
}

// What the nearest codes cost: the sum of importance · (weight - its place on the grid)².
double grid_cost(const float* weights, const float* importance, std::int64_t count, CodeGrid grid, int highest);

// A grid for `count` weights whose scale and offset are of `type`, which is no worse than the one that MLX would
// choose: ranges that leave some weights outside are tried, the best scale and offset for the codes of each, and those
// are refined. `importance` is positive.
CodeGrid search_grid(const float* weights, const float* importance, std::int64_t count, int highest, Dtype type);

// The same for a grid that has 0 in its middle, at the code (highest + 1) / 2: there is no offset to choose.
CodeGrid search_centered_grid(const float* weights, const float* importance, std::int64_t count, int highest,
                              Dtype type);

}  // namespace sparkx
