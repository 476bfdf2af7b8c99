// Matrices that a GGUF file stores in blocks of codes (docs/model.md, GGUF).
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/quantization.h"
#include "formats/stored_tensors.h"

namespace sparkx {

// The matrix <path>.weight of this size, which is then taken; absent when it is no blocks of codes. Throws
// Error{corrupt} for another shape, Error{unsupported} for a type of blocks that sparkx cannot run.
std::optional<QuantizedMatrix> gguf_matrix(const std::string& path, std::int64_t rows, std::int64_t columns,
                                           StoredTensors& tensors);

}  // namespace sparkx
