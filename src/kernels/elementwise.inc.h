// Rules 6, 7, 8 and 11 of docs/numerics.md: what happens to vectors between the matrices.
#pragma once

#include "kernels/kernels.h"
#include "kernels/lanes.inc.h"

namespace sparkx::kernels {
namespace {

// Calls body(first index, lanes in use) for n floats, 16 at a time; only the last call may have fewer lanes.
template <class Body>
inline void each_vector(std::int64_t n, Body body) {
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) body(i, kLanes);
  if (i < n) body(i, static_cast<int>(n - i));
}

void rms_norm(const float* x, const float* weight, std::int64_t n, float eps, float* y) {
  F32x16 squares = splat<F32x16>(0.0f);
  for (std::int64_t i = 0; i < n; i += kLanes) squares = fma(load(x + i), load(x + i), squares);
  const F32x16 mean = splat<F32x16>(tree_sum(squares) / static_cast<float>(n) + eps);
  const F32x16 r = splat<F32x16>(1.0f) / sqrt(mean);
  for (std::int64_t i = 0; i < n; i += kLanes) store(y + i, (load(x + i) * r) * load(weight + i));
}

void rope(float* head, const float* cos, const float* sin, int rotary_dims) {
  const int half = rotary_dims / 2;
  each_vector(half, [&](std::int64_t i, int count) {
    const F32x16 a = load_lanes(head + i, count);
    const F32x16 b = load_lanes(head + half + i, count);
    const F32x16 c = load_lanes(cos + i, count);
    const F32x16 s = load_lanes(sin + i, count);
    store_lanes(head + i, fma(a, c, negate(b * s)), count);
    store_lanes(head + half + i, fma(b, c, a * s), count);
  });
}

void gelu_mul(const float* gate, const float* up, std::int64_t n, float* out) {
  each_vector(n, [&](std::int64_t i, int count) {
    const F32x16 g = load_lanes(gate + i, count);
    const F32x16 cdf2 = splat<F32x16>(1.0f) + erf_lanes(g * splat<F32x16>(0.70710678f));
    store_lanes(out + i, ((splat<F32x16>(0.5f) * g) * cdf2) * load_lanes(up + i, count), count);
  });
}

void add(float* x, const float* y, std::int64_t n) {
  each_vector(n, [&](std::int64_t i, int count) {
    store_lanes(x + i, load_lanes(x + i, count) + load_lanes(y + i, count), count);
  });
}

float exp_sum(const float* logits, std::int64_t n, float max, float* terms) {
  F32x16 sum = splat<F32x16>(0.0f);
  each_vector(n, [&](std::int64_t i, int count) {
    const F32x16 term = exp_lanes(load_lanes(logits + i, count) - splat<F32x16>(max));
    store_lanes(terms + i, term, count);
    const Mask16 used = less(lane_numbers(), splat<I32x16>(count));
    sum = sum + select(used, term, splat<F32x16>(0.0f));
  });
  return tree_sum(sum);
}

}  // namespace
}  // namespace sparkx::kernels
