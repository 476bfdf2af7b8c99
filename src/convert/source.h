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

// The same rounded to a type, as elements of it. Throws as store_values does, too.
void read_elements(const Checkpoint& checkpoint, const TensorInfo& tensor, std::int64_t row_begin, std::int64_t row_end,
                   Dtype to, std::byte* out);

// How a tensor is stored, for a person: "bfloat16", "4-bit, groups of 64".
std::string storage_name(const Checkpoint& checkpoint, const TensorInfo& tensor);
std::string scheme_name(const QuantizationSpec& spec);

// Elements of float32, float16 or bfloat16 as floats.
void load_values(Dtype from, const std::byte* elements, std::size_t count, float* values);
// Rounds to float32, float16 or bfloat16, to nearest even, and writes the elements. Throws Error{corrupt} for a finite
// value that float16 cannot hold.
void store_values(Dtype to, const float* values, std::size_t count, std::byte* out);

}  // namespace sparkx
