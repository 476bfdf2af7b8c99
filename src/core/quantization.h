// How quantized weights are described where formats, kernels and the model meet: what the codes of a matrix mean, and
// its rows on request.
#pragma once

#include <cstdint>
#include <functional>

#include "core/code_scheme.h"
#include "core/dtype.h"

namespace sparkx {

struct QuantizationSpec {
  CodeScheme scheme;
  int bits;           // 4 or 8
  int group;          // columns that share a scale: 32, 64, 128 or kWholeRow
  Dtype scale_dtype;  // float32, float16 or bfloat16: of scales and biases
  int zero = 0;       // of offset and w8a8: 0 to 2^bits - 1

  std::int64_t groups(std::int64_t columns) const { return group == kWholeRow ? 1 : (columns + group - 1) / group; }
};

// Room for some rows as codes.
struct CodeBuffers {
  std::uint8_t* codes;  // [rows][columns], each at most 2^bits - 1
  float* scales;        // [rows][groups], values of scale_dtype
  float* biases;        // likewise, of affine; else not written
  std::uint8_t* zeros;  // likewise, of zero_point
};

// A matrix that is stored as codes.
struct QuantizedMatrix {
  QuantizationSpec spec;
  // Writes rows [row_begin, row_end). Called from any number of threads; may throw.
  std::function<void(std::int64_t row_begin, std::int64_t row_end, const CodeBuffers& out)> read;
};

}  // namespace sparkx
