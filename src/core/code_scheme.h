// What the codes of a quantized matrix mean, for kernels (which include little) and everybody else.
#pragma once

#include <cstdint>

namespace sparkx {

// What a stored code c stands for: its value v.
enum class CodeValues {
  integers,  // c itself. Codes are unsigned: signed ones have 2^(bits - 1) added
  e2m1,      // 4 bits: a float of 2 bits of exponent and 1 of mantissa, kE2m1Halves[c] / 2
  iq4,       // 4 bits: kIq4Values[c]
  e4m3,      // 8 bits: a float of 4 bits of exponent and 3 of mantissa (core/float_codes.h)
};

// How a value becomes a weight (docs/numerics.md, rules 3 to 5).
enum class CodeScheme {
  affine,      // scale * v + bias
  zero_point,  // scale * (v - zero), every scale with a zero of its own
  offset,      // scale * (v - zero) with one zero for the whole matrix; 0 unless values are integers
  w8a8,        // as offset, with 8 bits and one scale a row; activations are codes by token
  // d * sub_scale * (v - zero) - dmin * sub_minimum: two floats for each kSuperBlock columns, integers for each of
  // their groups. Values are integers or iq4.
  two_level,
};

inline constexpr int kWholeRow = 0;      // as a group: all columns of a row
inline constexpr int kSuperBlock = 256;  // columns that share d and dmin in two levels

// A sum of products of 8-bit codes over so many columns fits 32 bits (docs/numerics.md rule 5).
inline constexpr std::int64_t kMaxTokenCodeColumns = 65536;

// Twice the value of each E2M1 code.
inline constexpr std::int8_t kE2m1Halves[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

inline constexpr std::int8_t kIq4Values[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                               1,    13,   25,  38,  53,  69,  89,  113};

}  // namespace sparkx
