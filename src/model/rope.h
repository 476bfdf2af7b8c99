// Rotary position embedding (docs/model.md, Rotary positions): the first `rotary_dims` channels of a head turn by
// position · theta^(-2i / rotary_dims), channel i paired with channel i + rotary_dims / 2; the rest pass through.
#pragma once

#include <cstdint>
#include <vector>

namespace sparkx {

// The angles of one layer type; kernels/kernels.h turns the heads.
class RopeTable {
 public:
  // Throws Error{unsupported} unless rotary_dims is even and 0 < rotary_dims <= head_dim, and theta is finite and > 0.
  RopeTable(int head_dim, int rotary_dims, double theta);

  int rotary_dims() const { return rotary_dims_; }

  // cos and sin of one absolute position: [rotary_dims / 2] floats each. The angles are double: float ones are 0.03 rad
  // off near position 2^20.
  void cos_sin(std::int64_t position, float* cos, float* sin) const;

 private:
  int rotary_dims_;
  std::vector<double> inverse_frequencies_;  // [rotary_dims / 2]
};

// theta^(-2i / rotary_dims) for i = 0 … rotary_dims / 2 - 1, each the double nearest to it whatever the platform's pow
// returns in its last bit.
std::vector<double> inverse_frequencies(int rotary_dims, double theta);

}  // namespace sparkx
