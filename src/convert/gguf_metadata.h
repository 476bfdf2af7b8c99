// The metadata of a GGUF file (docs/model.md, GGUF), as llama.cpp's converter writes it from a checkpoint folder:
// configuration, tokenizer and chat template, so that the file runs with nothing beside it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "formats/checkpoint.h"
#include "formats/gguf_writer.h"

namespace sparkx {

// Adds all entries. What they cannot say is told in `notes`. Throws Error{unsupported} for a tokenizer that GGUF has no
// name for, Error{corrupt} when the tokenizer's files are broken.
void add_gguf_metadata(const Checkpoint& checkpoint, std::uint32_t file_type, GgufWriter& writer,
                       std::vector<std::string>& notes);

// "1.7B", of so many parameters.
std::string gguf_size_label(double parameters);

// How llama.cpp's converter names the model in a folder: "my-model-1.7B" as "My Model 1.7B".
std::string gguf_model_name(std::string_view folder);

}  // namespace sparkx
