#include "kernels/math.h"

#include "kernels/simd/plain_lanes.h"
// The layer comes before what is written on it.
#include "kernels/math.inc.h"

namespace sparkx::kernels {

float exp(float x) {
  return exp_lanes(F32<1>{{x}}).lane[0];
}
float erf(float x) {
  return erf_lanes(F32<1>{{x}}).lane[0];
}
float sigmoid(float x) {
  return sigmoid_lanes(F32<1>{{x}}).lane[0];
}
float log(float x) {
  return log_lanes(F32<1>{{x}}).lane[0];
}

// angle = n pi/2 + r, |r| <= pi/4. pi/2 is taken away in three parts, of which the first two have 32 bits: their
// products with n (21 bits) are exact. Then polynomials in double (docs/numerics.md, Elementary functions), and the
// quadrant.
CosSin cos_sin(double angle) {
  constexpr double kShifter = 0x1.8p52;  // adding it rounds to an integer and leaves that in the low bits
  const double shifted = angle * 0x1.45f306dc9c883p-1 + kShifter;
  const double n = shifted - kShifter;
  const auto quadrant = static_cast<unsigned>(__builtin_bit_cast(std::uint64_t, shifted) & 3);
  const double r = ((angle - n * 0x1.921fb544p0) - n * 0x1.0b4611ap-34) - n * 0x1.898cc51701b84p-64;
  const double s = r * r;
  double p = 0x1.5d8fd1cd7e57ep-33;
  p = p * s + -0x1.ae5e5a91f1b9ep-26;
  p = p * s + 0x1.71de3567d3c1bp-19;
  p = p * s + -0x1.a01a019bfdef5p-13;
  p = p * s + 0x1.111111110f7dp-7;
  p = p * s + -0x1.5555555555548p-3;
  const double sine = r + (r * s) * p;
  double q = -0x1.8fa499d4ab04ap-37;
  q = q * s + 0x1.1ee9d7b481d52p-29;
  q = q * s + -0x1.27e4f7eac42c7p-22;
  q = q * s + 0x1.a01a019c844e9p-16;
  q = q * s + -0x1.6c16c16c14f91p-10;
  q = q * s + 0x1.555555555554bp-5;
  const double cosine = (1.0 - 0.5 * s) + (s * s) * q;
  const double c = quadrant & 1 ? sine : cosine;
  const double d = quadrant & 1 ? cosine : sine;
  // Quadrant 0: (cos, sin), 1: (-sin, cos), 2: (-cos, -sin), 3: (sin, -cos).
  return {static_cast<float>(quadrant == 1 || quadrant == 2 ? -c : c), static_cast<float>(quadrant >= 2 ? -d : d)};
}

}  // namespace sparkx::kernels
