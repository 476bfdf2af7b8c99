// The elementary functions of the forward pass and the sampler, ours to the bit (docs/numerics.md: argument reduction
// and coefficients). Scalar versions; the kernels compute the same bits in 16 lanes.
#pragma once

namespace sparkx::kernels {

float exp(float x);  // exp(0) = 1, exp(-inf) = 0
float erf(float x);
float sigmoid(float x);
float log(float x);  // natural; log(0) = -inf

// cos and sin of `angle` in double, rounded to float, for |angle| up to 2^21 (rule 7).
struct CosSin {
  float cos;
  float sin;
};
CosSin cos_sin(double angle);

}  // namespace sparkx::kernels
