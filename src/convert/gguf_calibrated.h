// Rows as blocks of a GGUF file by what is known about their columns: scales and minima so that the nearest codes cost
// least where it matters, then the codes with what feedback there is. gguf_encode.h is the way without such knowledge.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "formats/gguf.h"

namespace sparkx {

struct ColumnWeights;

// Q4_0, Q4_1, Q5_0, Q5_1, Q4_K, Q5_K, Q6_K.
bool can_calibrate_gguf(const GgufType& type);

// Writes rows of `columns` values, a multiple of the block; `out` has exactly the size of their blocks. The caller is
// in a ScopedFloatEnvironment. Returns false when a value is not finite, or too large for a float16 scale.
bool encode_calibrated_gguf_rows(const GgufType& type, std::span<const float> values, std::int64_t columns,
                                 const ColumnWeights& weights, std::byte* out);

}  // namespace sparkx
