// The tensors of a source as values, whatever form they are stored in.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "formats/checkpoint.h"

namespace sparkx {

// Rows [row_begin, row_end) as float32, exactly what the file says (docs/numerics.md rule 4): `out` is [rows][columns].
// Safe from any number of threads. Throws what Checkpoint::read throws.
void read_values(const Checkpoint& checkpoint, const TensorInfo& tensor, std::int64_t row_begin, std::int64_t row_end,
                 float* out);

// How a tensor is stored, for a person: "bfloat16", "4-bit, groups of 64".
std::string storage_name(const Checkpoint& checkpoint, const TensorInfo& tensor);
std::string scheme_name(const QuantizationSpec& spec);

// The value as this type has it, nearest even: `to` is float32, float16 or bfloat16. Store writes its bytes.
float rounded_to(Dtype to, float value);
void store_value(Dtype to, float value, std::byte* out);

}  // namespace sparkx
