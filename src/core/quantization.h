// How quantized weights are described where formats, kernels and the model meet: what the codes of a matrix mean, and
// its rows on request.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "core/code_scheme.h"
#include "core/dtype.h"

namespace sparkx {

struct QuantizationSpec {
  CodeScheme scheme;
  int bits;   // 2, 3, 4, 5, 6 or 8
  int group;  // columns that share a scale: 16, 32, 64, 128 or kWholeRow; of two_level those that share a sub_scale
  // Of scales and biases: float32, float16 or bfloat16, of values other than integers also float8_e8m0 or float8_e4m3.
  Dtype scale_dtype;
  int zero = 0;  // of offset, w8a8 and two_level: 0 to 2^bits - 1
  CodeValues values = CodeValues::integers;
  bool minima = false;  // of two_level: whether there are dmin and sub_minima

  bool operator==(const QuantizationSpec&) const = default;

  // Groups of a row.
  std::int64_t groups(std::int64_t columns) const { return group == kWholeRow ? 1 : (columns + group - 1) / group; }
  // Scales of a row: one a group, with two levels one a super-block.
  std::int64_t scales(std::int64_t columns) const {
    return scheme == CodeScheme::two_level ? columns / kSuperBlock : groups(columns);
  }
};

// Room for some rows as codes. What a scheme does not have is not written, and may be null.
struct CodeBuffers {
  std::uint8_t* codes;                 // [rows][columns], each at most 2^bits - 1
  float* scales;                       // [rows][scales], values of scale_dtype; of two_level d
  float* biases;                       // likewise, of affine; of two_level with minima dmin
  std::uint8_t* zeros;                 // [rows][groups], of zero_point
  std::int8_t* sub_scales = nullptr;   // [rows][groups], of two_level
  std::uint8_t* sub_minima = nullptr;  // likewise, with minima
};

// A matrix that is stored as codes.
struct QuantizedMatrix {
  QuantizationSpec spec;
  // Writes rows [row_begin, row_end). Called from any number of threads; may throw.
  std::function<void(std::int64_t row_begin, std::int64_t row_end, const CodeBuffers& out)> read;
  // Of reordered columns (docs/numerics.md rule 3): column i of the codes is column column_order[i] of the matrix.
  // Empty: they are in order.
  std::vector<std::int32_t> column_order = {};
  // Where the rows are blocks of a GGUF file: the name of their type, and the bytes of rows [row_begin, row_end) as
  // they are stored.
  std::string block_type = {};
  std::function<void(std::int64_t row_begin, std::int64_t row_end, std::byte* out)> read_blocks = {};
};

// Throws Error{unsupported}, with `name` in front, for a spec that contradicts itself or says what no format has, and
// for a matrix of so many columns that cannot have it.
void check_quantization(const QuantizationSpec& spec, std::int64_t columns, std::string_view name);

// Memory for the codes of some rows.
class CodeStorage {
 public:
  CodeStorage(const QuantizationSpec& spec, std::int64_t rows, std::int64_t columns);
  CodeBuffers buffers();

 private:
  std::vector<std::uint8_t> codes_, zeros_, sub_minima_;
  std::vector<float> scales_, biases_;
  std::vector<std::int8_t> sub_scales_;
};

// Weights of codes in plain C++ (docs/numerics.md rule 4): out [rows][columns], in the order of the codes.
void decode_rows(const QuantizationSpec& spec, std::int64_t rows, std::int64_t columns, const CodeBuffers& codes,
                 float* out);
// Rows [row_begin, row_end) of a matrix as weights, in the matrix's own order of columns.
void read_weights(const QuantizedMatrix& matrix, std::int64_t columns, std::int64_t row_begin, std::int64_t row_end,
                  float* out);

}  // namespace sparkx
