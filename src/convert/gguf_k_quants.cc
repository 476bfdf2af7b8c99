#include "convert/gguf_k_quants.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "core/bfloat16.h"

namespace sparkx {
namespace {

// Sub-blocks are lanes, so that compilers turn the loops over lanes into vector instructions and no order of a sum
// depends on them.
template <int kLanes>
using Lanes = std::array<float, kLanes>;

template <int kLanes>
struct SubBlocks {
  static constexpr int kLength = kSuperBlock / kLanes;
  std::array<Lanes<kLanes>, kLength> weights;

  explicit SubBlocks(const float* from) {
    for (int lane = 0; lane < kLanes; ++lane) {
      for (int i = 0; i < kLength; ++i) weights[i][lane] = from[lane * kLength + i];
    }
  }
  SubBlocks() = default;

  static SubBlocks ones() {
    SubBlocks blocks;
    for (Lanes<kLanes>& row : blocks.weights) row.fill(1);
    return blocks;
  }
};

// The nearest integer, ties to even, of a value below 2^22: adding pushes the fraction out.
inline float nearest(float value) {
  constexpr float kShift = 12582912.0f;  // 1.5 · 2^23
  return (value + kShift) - kShift;
}

inline float nearest_in(float value, float low, float high) {
  value = value < low ? low : value;
  value = value > high ? high : value;
  return nearest(value);
}

float through_float16(float value) {
  return float16_to_float(float_to_float16(value));
}

constexpr int kRefinements = 2;

// The float16 by which values become integers of at most `highest` (a negative one where that is the lowest), so that
// what rounding them costs is least: the square of each change times its weight. Values in between are tried, too,
// since the largest integer for the largest value is seldom the best.
template <std::size_t kLanes>
float best_unit(const std::array<float, kLanes>& values, const std::array<float, kLanes>& weights, float highest) {
  float peak = 0;
  for (const float value : values) {
    if (std::fabs(value) > std::fabs(peak)) peak = value;
  }
  if (peak == 0) return 0;
  constexpr int kTried = 16;
  float best = 0, best_cost = INFINITY;
  for (int i = 0; i < kTried; ++i) {
    const float unit =
        through_float16(peak / (highest < 0 ? highest + static_cast<float>(i) : highest - static_cast<float>(i)));
    if (unit == 0) continue;
    float cost = 0;
    for (std::size_t l = 0; l < kLanes; ++l) {
      const float change = unit * nearest_in(values[l] / unit, -std::fabs(highest), std::fabs(highest)) - values[l];
      cost += change * change * weights[l];
    }
    if (cost < best_cost) best = unit, best_cost = cost;
  }
  return best;
}

// ---- scale and minimum: weight = scale · code - minimum, 0 <= minimum
// -------------------------------------------------

constexpr int kAffineLanes = 8;
using AffineLanes = Lanes<kAffineLanes>;
using AffineBlocks = SubBlocks<kAffineLanes>;

struct AffineFit {
  AffineLanes scale;
  AffineLanes minimum;
  AffineLanes offset;   // of code 0 from the least weight
  AffineLanes error;    // squared, but for the sum of squared weights
  AffineLanes squares;  // the sum of squared codes
};

// What the sums over a sub-block's codes say about the best scale and minimum. They are taken over weights without
// their least one, so that little is lost where weights differ little. Every weight counts by its importance.
class AffineFitter {
 public:
  AffineFitter(const AffineBlocks& blocks, const AffineBlocks& importance, int levels)
      : above_(blocks), importance_(importance), levels_(static_cast<float>(levels)) {
    high_ = blocks.weights[0];
    for (const AffineLanes& row : blocks.weights) {
      for (int l = 0; l < kAffineLanes; ++l) {
        low_[l] = row[l] < low_[l] ? row[l] : low_[l];
        high_[l] = row[l] > high_[l] ? row[l] : high_[l];
      }
    }
    for (int i = 0; i < AffineBlocks::kLength; ++i) {
      for (int l = 0; l < kAffineLanes; ++l) {
        above_.weights[i][l] -= low_[l];
        sum_[l] += importance_.weights[i][l] * above_.weights[i][l];
        total_[l] += importance_.weights[i][l];
      }
    }
  }

  const AffineLanes& total() const { return total_; }

  AffineFit best() const {
    AffineFit best;
    AffineLanes inverse, offset{};
    for (int l = 0; l < kAffineLanes; ++l) {  // one level, the mean: what constant weights need
      best.scale[l] = 0;
      best.offset[l] = std::min(sum_[l] / total_[l], -low_[l]);
      best.error[l] = best.offset[l] * (total_[l] * best.offset[l] - 2 * sum_[l]);
      best.squares[l] = 0;
    }
    // A few levels more or fewer over the whole range, the least squares fit of each.
    constexpr int kSteps = 20;
    for (int step = 0; step <= kSteps; ++step) {
      const float levels = levels_ - 1.0f + 0.1f * static_cast<float>(step);
      for (int l = 0; l < kAffineLanes; ++l) {
        const float range = high_[l] - low_[l];
        inverse[l] = range > 0 ? levels / range : 0;
      }
      improve(best, inverse, offset);
    }
    for (int i = 0; i < kRefinements; ++i) {
      for (int l = 0; l < kAffineLanes; ++l) inverse[l] = best.scale[l] > 0 ? 1 / best.scale[l] : 0;
      offset = best.offset;
      improve(best, inverse, offset);
    }
    for (int l = 0; l < kAffineLanes; ++l) best.minimum[l] = std::max(-low_[l] - best.offset[l], 0.0f);
    return best;
  }

 private:
  // Takes the least squares fit for the codes of (weight - offset) · inverse, where that is better.
  void improve(AffineFit& best, const AffineLanes& inverse, const AffineLanes& offset) const {
    AffineLanes q{}, qq{}, qx{};  // sums over codes, their squares, and codes times weights
    for (int i = 0; i < AffineBlocks::kLength; ++i) {
      const AffineLanes &row = above_.weights[i], &counts = importance_.weights[i];
      for (int l = 0; l < kAffineLanes; ++l) {
        const float code = nearest_in((row[l] - offset[l]) * inverse[l], 0, levels_);
        const float counted = counts[l] * code;
        q[l] += counted;
        qq[l] += counted * code;
        qx[l] += counted * row[l];
      }
    }
    for (int l = 0; l < kAffineLanes; ++l) {
      if (!(qq[l] > 0)) continue;
      const float determinant = total_[l] * qq[l] - q[l] * q[l];
      float scale = determinant > 0 ? (total_[l] * qx[l] - sum_[l] * q[l]) / determinant : 0;
      float b = (sum_[l] - scale * q[l]) / total_[l];
      if (!(determinant > 0) || b > -low_[l]) {
        b = -low_[l];
        scale = (qx[l] - b * q[l]) / qq[l];
      }
      if (!(scale > 0)) continue;
      const float error = scale * (scale * qq[l] + 2 * b * q[l] - 2 * qx[l]) + b * (total_[l] * b - 2 * sum_[l]);
      if (error < best.error[l]) {
        best.scale[l] = scale;
        best.offset[l] = b;
        best.error[l] = error;
        best.squares[l] = qq[l];
      }
    }
  }

  AffineBlocks above_;  // the weights without low_
  const AffineBlocks& importance_;
  float levels_;
  AffineLanes low_{};  // at most 0: a minimum of the other sign does not exist in the format
  AffineLanes high_, sum_{}, total_{};
};

constexpr float kMaxSmallScale = 63;  // 6 bits

AffineLanes squared_error(const AffineBlocks& blocks, const AffineBlocks& importance, const AffineLanes& scale,
                          const AffineLanes& minimum, float levels) {
  AffineLanes inverse, error{};
  for (int l = 0; l < kAffineLanes; ++l) inverse[l] = scale[l] > 0 ? 1 / scale[l] : 0;
  for (int i = 0; i < AffineBlocks::kLength; ++i) {
    const AffineLanes &row = blocks.weights[i], &counts = importance.weights[i];
    for (int l = 0; l < kAffineLanes; ++l) {
      const float code = nearest_in((row[l] + minimum[l]) * inverse[l], 0, levels);
      const float difference = scale[l] * code - minimum[l] - row[l];
      error[l] += counts[l] * (difference * difference);
    }
  }
  return error;
}

KScales search_affine(const AffineBlocks& blocks, const AffineBlocks& importance, int max_code) {
  KScales out{};
  const AffineFitter fitter(blocks, importance, max_code);
  const AffineFit fit = fitter.best();
  out.d = best_unit(fit.scale, fit.squares, kMaxSmallScale);
  out.dmin = best_unit(fit.minimum, fitter.total(), kMaxSmallScale);
  AffineLanes small_scale, small_minimum;
  for (int l = 0; l < kAffineLanes; ++l) {
    small_scale[l] = out.d > 0 ? nearest_in(fit.scale[l] / out.d, 0, kMaxSmallScale) : 0;
    small_minimum[l] = out.dmin > 0 ? nearest_in(fit.minimum[l] / out.dmin, 0, kMaxSmallScale) : 0;
  }
  // Rounding one of the two moves the best place of the other: look around.
  const auto levels = static_cast<float>(max_code);
  AffineLanes best_scale = small_scale, best_minimum = small_minimum, best_error;
  best_error.fill(INFINITY);
  for (const float by_scale : {0.0f, -1.0f, 1.0f}) {
    for (const float by_minimum : {0.0f, -1.0f, 1.0f}) {
      AffineLanes scale, minimum, d_scale, d_minimum;
      for (int l = 0; l < kAffineLanes; ++l) {
        scale[l] = std::clamp(small_scale[l] + by_scale, 0.0f, kMaxSmallScale);
        minimum[l] = std::clamp(small_minimum[l] + by_minimum, 0.0f, kMaxSmallScale);
        d_scale[l] = out.d * scale[l];
        d_minimum[l] = out.dmin * minimum[l];
      }
      const AffineLanes error = squared_error(blocks, importance, d_scale, d_minimum, levels);
      for (int l = 0; l < kAffineLanes; ++l) {
        if (!(error[l] < best_error[l])) continue;
        best_error[l] = error[l];
        best_scale[l] = scale[l];
        best_minimum[l] = minimum[l];
      }
    }
  }
  for (int l = 0; l < kAffineLanes; ++l) {
    out.scales[l] = static_cast<std::int8_t>(best_scale[l]);
    out.minima[l] = static_cast<std::uint8_t>(best_minimum[l]);
    out.grids[l] = {out.d * best_scale[l], -(out.dmin * best_minimum[l])};
  }
  return out;
}

void encode_affine(int bits, const float* weights, std::byte* out) {
  const AffineBlocks blocks(weights);
  const int max_code = (1 << bits) - 1;
  const KScales scales = search_affine(blocks, AffineBlocks::ones(), max_code);
  std::uint8_t codes[kSuperBlock];
  for (int l = 0; l < kAffineLanes; ++l) {
    const float scale = scales.grids[l].scale, minimum = -scales.grids[l].offset;
    const float inverse = scale > 0 ? 1 / scale : 0;
    for (int i = 0; i < AffineBlocks::kLength; ++i) {
      codes[l * AffineBlocks::kLength + i] = static_cast<std::uint8_t>(
          nearest_in((blocks.weights[i][l] + minimum) * inverse, 0, static_cast<float>(max_code)));
    }
  }
  pack_k_block(bits, scales, codes, out);
}

void put_float16(std::byte* out, float value) {
  const std::uint16_t bits = float_to_float16(value);
  std::memcpy(out, &bits, sizeof bits);
}

// d, dmin, then eight scales and eight minima of 6 bits in 12 bytes: the first four of each with the upper bits of the
// others above them, then the lower halves of those.
std::byte* put_scales(const KScales& block, std::byte* out) {
  put_float16(out, block.d);
  put_float16(out + 2, block.dmin);
  out += 4;
  for (int i = 0; i < 4; ++i) {
    out[i] = static_cast<std::byte>(block.scales[i] | (block.scales[i + 4] >> 4) << 6);
    out[i + 4] = static_cast<std::byte>(block.minima[i] | (block.minima[i + 4] >> 4) << 6);
    out[i + 8] = static_cast<std::byte>((block.scales[i + 4] & 15) | (block.minima[i + 4] & 15) << 4);
  }
  return out + 12;
}

// The lower four bits of the codes: of two sub-blocks after another, in the halves of the same bytes.
void put_low_codes(const std::uint8_t* codes, std::byte* out) {
  constexpr int kLength = AffineBlocks::kLength;
  for (int pair = 0; pair < kAffineLanes / 2; ++pair, codes += 2 * kLength) {
    for (int i = 0; i < kLength; ++i) {
      out[pair * kLength + i] = static_cast<std::byte>((codes[i] & 15) | (codes[kLength + i] & 15) << 4);
    }
  }
}

// ---- a signed scale alone: weight = scale · code, -32 <= code < 32
// ----------------------------------------------------

constexpr int kSignedLanes = 16;
using SignedLanes = Lanes<kSignedLanes>;
using SignedBlocks = SubBlocks<kSignedLanes>;
constexpr float kLowestCode = -32;
constexpr float kHighestCode = 31;

// Without other knowledge errors count by the magnitude of their weight here: with so many levels what is left of the
// error of a trained model is that of its large weights.
SignedBlocks magnitudes(const SignedBlocks& blocks) {
  SignedBlocks magnitudes;
  for (int i = 0; i < SignedBlocks::kLength; ++i) {
    for (int l = 0; l < kSignedLanes; ++l) magnitudes.weights[i][l] = std::fabs(blocks.weights[i][l]);
  }
  return magnitudes;
}

struct SignedFit {
  SignedLanes scale{};
  SignedLanes gain{};     // by how much the error is below that of zeros
  SignedLanes squares{};  // the sum of squared codes
};

// Takes the least squares scale for the codes of weight · inverse, where that is better.
void improve(const SignedBlocks& blocks, const SignedBlocks& importance, const SignedLanes& inverse, SignedFit& best) {
  SignedLanes qq{}, qx{};
  for (int i = 0; i < SignedBlocks::kLength; ++i) {
    const SignedLanes &row = blocks.weights[i], &counts = importance.weights[i];
    for (int l = 0; l < kSignedLanes; ++l) {
      const float code = nearest_in(row[l] * inverse[l], kLowestCode, kHighestCode);
      const float counted = counts[l] * code;
      qq[l] += counted * code;
      qx[l] += counted * row[l];
    }
  }
  for (int l = 0; l < kSignedLanes; ++l) {
    if (!(qq[l] > 0) || !(qx[l] * qx[l] > best.gain[l] * qq[l])) continue;
    best.scale[l] = qx[l] / qq[l];
    best.gain[l] = best.scale[l] * qx[l];
    best.squares[l] = qq[l];
  }
}

SignedFit fit_signed(const SignedBlocks& blocks, const SignedBlocks& importance) {
  SignedFit best;
  SignedLanes peak{}, inverse;
  for (const SignedLanes& row : blocks.weights) {
    for (int l = 0; l < kSignedLanes; ++l) {
      if (std::fabs(row[l]) > std::fabs(peak[l])) peak[l] = row[l];
    }
  }
  // The largest weight gets about the lowest code, of which there is one more than of positive ones.
  constexpr int kSteps = 20;
  for (int step = 0; step <= kSteps; ++step) {
    const float code = kLowestCode - 1.0f + 0.1f * static_cast<float>(step);
    for (int l = 0; l < kSignedLanes; ++l) inverse[l] = peak[l] != 0 ? code / peak[l] : 0;
    improve(blocks, importance, inverse, best);
  }
  for (int i = 0; i < kRefinements; ++i) {
    for (int l = 0; l < kSignedLanes; ++l) inverse[l] = best.scale[l] != 0 ? 1 / best.scale[l] : 0;
    improve(blocks, importance, inverse, best);
  }
  return best;
}

SignedLanes error_of(const SignedBlocks& blocks, const SignedBlocks& importance, const SignedLanes& scale) {
  SignedLanes inverse, error{};
  for (int l = 0; l < kSignedLanes; ++l) inverse[l] = scale[l] != 0 ? 1 / scale[l] : 0;
  for (int i = 0; i < SignedBlocks::kLength; ++i) {
    const SignedLanes &row = blocks.weights[i], &counts = importance.weights[i];
    for (int l = 0; l < kSignedLanes; ++l) {
      const float code = nearest_in(row[l] * inverse[l], kLowestCode, kHighestCode);
      const float difference = scale[l] * code - row[l];
      error[l] += counts[l] * difference * difference;
    }
  }
  return error;
}

KScales search_signed(const SignedBlocks& blocks, const SignedBlocks& importance) {
  const SignedFit fit = fit_signed(blocks, importance);
  constexpr float kLowestScale = -128;
  constexpr float kHighestScale = 127;
  const float d = best_unit(fit.scale, fit.squares, kLowestScale);
  SignedLanes small_scale, best_scale, best_error;
  for (int l = 0; l < kSignedLanes; ++l) {
    small_scale[l] = d != 0 ? nearest_in(fit.scale[l] / d, kLowestScale, kHighestScale) : 0;
  }
  best_scale = small_scale;
  best_error.fill(INFINITY);
  for (const float by : {0.0f, -1.0f, 1.0f}) {
    SignedLanes scale, d_scale;
    for (int l = 0; l < kSignedLanes; ++l) {
      scale[l] = std::clamp(small_scale[l] + by, kLowestScale, kHighestScale);
      d_scale[l] = d * scale[l];
    }
    const SignedLanes error = error_of(blocks, importance, d_scale);
    for (int l = 0; l < kSignedLanes; ++l) {
      if (!(error[l] < best_error[l])) continue;
      best_error[l] = error[l];
      best_scale[l] = scale[l];
    }
  }

  KScales out{.d = d, .dmin = 0, .scales = {}, .minima = {}, .grids = {}};
  for (int l = 0; l < kSignedLanes; ++l) {
    out.scales[l] = static_cast<std::int8_t>(best_scale[l]);
    out.grids[l] = {d * best_scale[l], kLowestCode * (d * best_scale[l])};
  }
  return out;
}

void pack_affine(int bits, const KScales& scales, const std::uint8_t* codes, std::byte* out) {
  out = put_scales(scales, out);
  if (bits == 5) {  // the fifth bits: one bit a sub-block
    constexpr int kLength = AffineBlocks::kLength;
    for (int i = 0; i < kLength; ++i) {
      int high = 0;
      for (int l = 0; l < kAffineLanes; ++l) high |= (codes[l * kLength + i] >> 4) << l;
      out[i] = static_cast<std::byte>(high);
    }
    out += kLength;
  }
  put_low_codes(codes, out);
}

void pack_signed(const KScales& scales, const std::uint8_t* codes, std::byte* out) {
  // Two halves of 128 weights, each in four runs of 32: the lower halves of runs 0 and 2, of 1 and 3, in the halves of
  // the same bytes, and two upper bits of all four in one byte.
  std::byte* low = out;
  std::byte* high = out + 128;
  for (const std::uint8_t* half = codes; half < codes + kSuperBlock; half += 128) {
    for (int i = 0; i < 32; ++i) {
      low[i] = static_cast<std::byte>((half[i] & 15) | (half[i + 64] & 15) << 4);
      low[i + 32] = static_cast<std::byte>((half[i + 32] & 15) | (half[i + 96] & 15) << 4);
      high[i] = static_cast<std::byte>((half[i] >> 4) | (half[i + 32] >> 4) << 2 | (half[i + 64] >> 4) << 4 |
                                       (half[i + 96] >> 4) << 6);
    }
    low += 64;
    high += 32;
  }
  for (int l = 0; l < kSignedLanes; ++l) {
    out[192 + l] = static_cast<std::byte>(scales.scales[l]);
  }
  put_float16(out + 208, scales.d);
}

}  // namespace

void encode_q4_k(const float* weights, std::byte* out) {
  encode_affine(4, weights, out);
}

void encode_q5_k(const float* weights, std::byte* out) {
  encode_affine(5, weights, out);
}

void encode_q6_k(const float* weights, std::byte* out) {
  const SignedBlocks blocks(weights);
  const KScales scales = search_signed(blocks, magnitudes(blocks));
  std::uint8_t codes[kSuperBlock];
  constexpr int kLength = SignedBlocks::kLength;
  for (int l = 0; l < kSignedLanes; ++l) {
    const float scale = scales.grids[l].scale;
    const float inverse = scale != 0 ? 1 / scale : 0;
    for (int i = 0; i < kLength; ++i) {
      codes[l * kLength + i] = static_cast<std::uint8_t>(
          nearest_in(blocks.weights[i][l] * inverse, kLowestCode, kHighestCode) - kLowestCode);
    }
  }
  pack_k_block(6, scales, codes, out);
}

KScales search_k_scales(int bits, const float* weights, const float* importance) {
  if (bits == 6) return search_signed(SignedBlocks(weights), SignedBlocks(importance));
  return search_affine(AffineBlocks(weights), AffineBlocks(importance), (1 << bits) - 1);
}

void pack_k_block(int bits, const KScales& scales, const std::uint8_t* codes, std::byte* out) {
  if (bits == 6) {
    pack_signed(scales, codes, out);
  } else {
    pack_affine(bits, scales, codes, out);
  }
}

}  // namespace sparkx
