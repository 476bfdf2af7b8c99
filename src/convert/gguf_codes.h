// Codes of a source in GGUF's blocks, without quantizing again: of MLX's affine and MXFP4 modes and of
// compressed-tensors' integers those whose groups and values a type of blocks has (docs/gguf.md).
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/quantization.h"
#include "formats/gguf.h"

namespace sparkx {

// The type whose blocks hold the codes of a matrix with rows of `columns`; null when there is none. Its scales and
// minima are float16, so that those of the matrix may have to be rounded.
const GgufType* gguf_type_for_codes(const QuantizedMatrix& matrix, std::int64_t columns);

// How far the weights of some rows move when their scales and minima become float16: sums of squares, both 0 where no
// weight moves.
struct TransferLoss {
  double moved = 0;    // of the differences
  double weights = 0;  // of the weights
};
// Infinite for scales that float16 does not have at all.
TransferLoss transfer_loss(const QuantizedMatrix& matrix, const GgufType& type, std::int64_t columns,
                           std::int64_t row_begin, std::int64_t row_end);

// Writes rows as blocks of the type that gguf_type_for_codes() names. Returns the largest change of a scale, relative
// to it.
double transfer_codes(const QuantizedMatrix& matrix, const GgufType& type, std::int64_t columns, std::int64_t row_begin,
                      std::int64_t row_end, std::byte* out);

}  // namespace sparkx
