// What the codes of a quantized matrix mean, for kernels (which include little) and everybody else.
#pragma once

#include <cstdint>

namespace sparkx {

// How a code c becomes a weight (docs/numerics.md, rules 3 to 5). Codes are unsigned: signed ones have 128 added.
enum class CodeScheme {
  affine,      // scale * c + bias
  zero_point,  // scale * (c - zero), every scale with a zero of its own
  offset,      // scale * (c - zero) with one zero for the whole matrix
  w8a8,        // as offset, with 8 bits and one scale a row; activations are codes by token
};

inline constexpr int kWholeRow = 0;  // as a group: all columns of a row

// A sum of products of 8-bit codes over so many columns fits 32 bits (docs/numerics.md rule 5).
inline constexpr std::int64_t kMaxTokenCodeColumns = 65536;

}  // namespace sparkx
