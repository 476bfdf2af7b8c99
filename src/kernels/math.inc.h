// exp, erf, sigmoid and log for any number of lanes (docs/numerics.md, Elementary functions; the coefficients come from
// tools/fit_polynomials.py). Written on a layer of kernels/simd/, to be included behind it.
#pragma once

namespace sparkx::kernels {
namespace {

// exp(x) = (1 + t) 2^n, with 2^n in two factors: x - n ln 2 = r, |r| <= ln 2 / 2; t = r + r^2 Q(r).
template <class V>
struct ExpParts {
  V t, factor1, factor2;
};
template <class V>
inline ExpParts<V> exp_parts(V x) {
  // Outside [-104, 89] the results are 0 and infinity anyway.
  x = max(splat<V>(-104.0f), min(splat<V>(89.0f), x));
  // Adding 1.5 * 2^23 rounds to an integer and leaves it in the low bits.
  const V shifter = splat<V>(0x1.8p23f);
  const V shifted = fma(x, splat<V>(0x1.715476p0f), shifter);
  const V n = shifted - shifter;
  const auto integer = bits(shifted) - bits(shifter);
  V r = fma(n, splat<V>(-0x1.62e4p-1f), x);
  r = fma(n, splat<V>(-0x1.7f7d1cp-20f), r);
  V q = splat<V>(0x1.6a240ep-10f);
  q = fma(q, r, splat<V>(0x1.1239f8p-7f));
  q = fma(q, r, splat<V>(0x1.5558f2p-5f));
  q = fma(q, r, splat<V>(0x1.555492p-3f));
  q = fma(q, r, splat<V>(0x1.fffffcp-2f));
  const auto half = shift_right_arithmetic<1>(integer);
  using I = decltype(bits(x));
  return {fma(r * r, q, r), from_bits(shift_left<23>(half + splat<I>(127))),
          from_bits(shift_left<23>(integer - half + splat<I>(127)))};
}

// A result below the normal range is rounded once: the first product is exact.
template <class V>
inline V exp_lanes(V x) {
  const ExpParts<V> parts = exp_parts(x);
  return ((splat<V>(1.0f) + parts.t) * parts.factor1) * parts.factor2;
}

// |x| < 0.921875: x + x P(x^2). Otherwise 1 - exp(L(|x|)) with the sign of x; from 4 on that is 1.
template <class V>
inline V erf_lanes(V x) {
  using I = decltype(bits(x));
  const auto sign = bits(x) & splat<I>(INT32_MIN);
  const V t = from_bits(bits(x) & splat<I>(INT32_MAX));
  const V s = t * t;
  V p = splat<V>(0x1.5f1146p-14f);
  p = fma(p, s, splat<V>(-0x1.aae988p-11f));
  p = fma(p, s, splat<V>(0x1.54dad8p-8f));
  p = fma(p, s, splat<V>(-0x1.b8107cp-6f));
  p = fma(p, s, splat<V>(0x1.ce2e2p-4f));
  p = fma(p, s, splat<V>(-0x1.812744p-2f));
  p = fma(p, s, splat<V>(0x1.06eba8p-3f));
  const V small = fma(t, p, t);
  const V u = min(splat<V>(4.0f), t);
  V l = splat<V>(0x1.9a74bep-13f);
  l = fma(l, u, splat<V>(-0x1.8e9a26p-9f));
  l = fma(l, u, splat<V>(0x1.6c06fp-6f));
  l = fma(l, u, splat<V>(-0x1.a9a1cp-4f));
  l = fma(l, u, splat<V>(-0x1.463f6p-1f));
  l = fma(l, u, splat<V>(-0x1.20ae92p0f));
  l = fma(l, u, splat<V>(-0x1.a06d5ap-13f));
  const V large = splat<V>(1.0f) - exp_lanes(l);
  return from_bits(bits(select(less(t, splat<V>(0.921875f)), small, large)) | sign);
}

// 1 / (1 + e) for x >= 0 and e / (1 + e) below, with e = exp(-|x|), so that small results keep their precision. What
// rounding takes from 1 + t (low) and from 1 + e (rest) is put back: the quotient is corrected by its remainder. Below,
// e without its power of two is divided.
template <class V>
inline V sigmoid_lanes(V x) {
  using I = decltype(bits(x));
  const V one = splat<V>(1.0f), zero = splat<V>(0.0f);
  const ExpParts<V> e = exp_parts(from_bits(bits(x) | splat<I>(INT32_MIN)));
  const V high = one + e.t;
  const V low = e.t - (high - one);
  const V power = (high * e.factor1) * e.factor2;
  const V divisor = one + power;
  const V rest = (power - (divisor - one)) + (low * e.factor1) * e.factor2;
  const auto negative = less(x, zero);
  const V dividend = select(negative, high, one);
  const V inverse = one / divisor;
  const V quotient = dividend * inverse;
  V remainder = fma(negate(quotient), divisor, dividend);
  remainder = remainder + fma(negate(quotient), rest, select(negative, low, zero));
  const V result = fma(remainder, inverse, quotient);
  return (result * select(negative, e.factor1, one)) * select(negative, e.factor2, one);
}

// x = 2^n m with m in [sqrt(1/2), sqrt(2)), f = m - 1; log(1 + f) = f - f^2 / 2 + f^3 R(f).
template <class V>
inline V log_lanes(V x) {
  using I = decltype(bits(x));
  const auto denormal = less(x, splat<V>(0x1p-126f));
  const V scaled = select(denormal, x * splat<V>(0x1p23f), x);
  // Counted from sqrt(1/2), the exponent field is n.
  const auto offset = bits(scaled) - splat<I>(0x3f3504f3);
  const auto exponent = shift_right_arithmetic<23>(offset);
  const V f = from_bits(bits(scaled) - shift_left<23>(exponent)) - splat<V>(1.0f);
  const V n = to_float(exponent) - select(denormal, splat<V>(23.0f), splat<V>(0.0f));
  V r = splat<V>(0x1.1457b4p-4f);
  r = fma(r, f, splat<V>(-0x1.de3c1ap-4f));
  r = fma(r, f, splat<V>(0x1.e6f068p-4f));
  r = fma(r, f, splat<V>(-0x1.fc2208p-4f));
  r = fma(r, f, splat<V>(0x1.233768p-3f));
  r = fma(r, f, splat<V>(-0x1.555c4ep-3f));
  r = fma(r, f, splat<V>(0x1.99a4b6p-3f));
  r = fma(r, f, splat<V>(-0x1.000006p-2f));
  r = fma(r, f, splat<V>(0x1.555548p-2f));
  const V square = f * f;
  V tail = fma(square * f, r, n * splat<V>(0x1.7f7d1cp-20f));
  tail = fma(splat<V>(-0.5f), square, tail);
  V result = fma(n, splat<V>(0x1.62e4p-1f), f + tail);
  // 0, infinity, and what has no logarithm.
  const V infinity = from_bits(splat<I>(0x7f800000));
  result = select(less(x, infinity), result, x);
  result = select(less(bits(x) & splat<I>(INT32_MAX), splat<I>(1)), splat<V>(0.0f) - infinity, result);
  const V nan = from_bits(splat<I>(0x7fc00000));
  return select(less(x, splat<V>(0.0f)), nan, result);
}

}  // namespace
}  // namespace sparkx::kernels
