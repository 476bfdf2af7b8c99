// Importance matrices as llama.cpp's llama-imatrix writes them: for the matrices of a model how large each column of
// their input was on a text. There are two forms: GGUF files with general.type "imatrix", which have for each matrix a
// tensor NAME.in_sum2 (sums of squares) and NAME.counts (of how many rows), and the older .dat files, a list of names
// with values.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "core/file.h"

namespace sparkx {

// By the name of the matrix in GGUF files ("blk.0.attn_qkv.weight"): the mean of the square of every column of its
// input, finite and not negative. A matrix whose input was never seen is not there.
using ImportanceMatrix = std::map<std::string, std::vector<float>, std::less<>>;

// Whether the first bytes are those of a binary file, which a text has not.
bool is_binary(const ByteSource& file);

// Throws Error{corrupt} for a file that is neither form or contradicts itself, Error{unsupported} for a GGUF file of
// something else and for matrices of several experts, Error{io}. Takes no more memory than the file has bytes.
ImportanceMatrix read_importance_matrix(const ByteSource& file);

}  // namespace sparkx
