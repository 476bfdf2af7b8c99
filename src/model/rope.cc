#include "model/rope.h"

#include <cmath>

#include "core/error.h"
#include "kernels/math.h"

namespace sparkx {
namespace {

// An unevaluated sum of two doubles, |low| <= ulp(high) / 2: some 106 bits, enough that rounding to double forgets how
// the value was reached.
struct DoubleDouble {
  double high;
  double low;
};

DoubleDouble quick_sum(double a, double b) {  // |a| >= |b|
  double sum = a + b;
  return {sum, b - (sum - a)};
}

DoubleDouble multiply(DoubleDouble a, DoubleDouble b) {
  double product = a.high * b.high;
  double error = std::fma(a.high, b.high, -product);
  return quick_sum(product, error + (a.high * b.low + a.low * b.high));
}

DoubleDouble power(DoubleDouble base, int exponent) {
  DoubleDouble result{1.0, 0.0};
  for (; exponent > 0; exponent /= 2) {
    if (exponent % 2 == 1) result = multiply(result, base);
    base = multiply(base, base);
  }
  return result;
}

// theta^(-1 / degree), by Newton's iteration y += y · (1 - theta · y^degree) / degree.
DoubleDouble inverse_root(double theta, int degree) {
  DoubleDouble y{std::pow(theta, -1.0 / degree), 0.0};
  for (int i = 0; i < 3; ++i) {
    DoubleDouble one = multiply({theta, 0.0}, power(y, degree));
    double residue = ((1.0 - one.high) - one.low) / degree;
    y = quick_sum(y.high, y.low + y.high * residue);
  }
  return y;
}

}  // namespace

std::vector<double> inverse_frequencies(int rotary_dims, double theta) {
  int half = rotary_dims / 2;
  DoubleDouble ratio = inverse_root(theta, half);  // theta^(-2 / rotary_dims)
  DoubleDouble frequency{1.0, 0.0};
  std::vector<double> frequencies;
  frequencies.reserve(half);
  for (int i = 0; i < half; ++i) {
    frequencies.push_back(frequency.high);
    frequency = multiply(frequency, ratio);
  }
  return frequencies;
}

RopeTable::RopeTable(int head_dim, int rotary_dims, double theta) : rotary_dims_(rotary_dims) {
  if (rotary_dims <= 0 || rotary_dims > head_dim || rotary_dims % 2 != 0) {
    throw_error(ErrorCode::unsupported, "{} rotary dimensions of a head of {}: an even number from 2 to {} is needed",
                rotary_dims, head_dim, head_dim);
  }
  if (!(theta > 0.0) || !std::isfinite(theta)) {
    throw_error(ErrorCode::unsupported, "rope_theta is {}: a finite number above 0 is needed", theta);
  }
  inverse_frequencies_ = inverse_frequencies(rotary_dims, theta);
}

void RopeTable::cos_sin(std::int64_t position, float* cos, float* sin) const {
  for (std::size_t i = 0; i < inverse_frequencies_.size(); ++i) {
    kernels::CosSin value = kernels::cos_sin(static_cast<double>(position) * inverse_frequencies_[i]);
    cos[i] = value.cos;
    sin[i] = value.sin;
  }
}

}  // namespace sparkx
