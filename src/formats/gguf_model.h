// What a GGUF file of a Spark-X2.5 model says in its metadata (docs/model.md, GGUF), in the terms of a checkpoint
// folder: configuration, tokenizer, chat templates, names of tensors.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/dtype.h"
#include "core/tokenizer_description.h"
#include "formats/gguf.h"
#include "formats/model_config.h"

namespace sparkx {

// Whether there is an output matrix beside the embedding, and how many rows the embedding has, are not in the metadata.
// Throws as read_model_config does; keys that are missing or of a wrong type are named as the file has them.
ModelConfig gguf_model_config(const GgufMetadata& metadata, bool tied, std::int64_t embedding_rows);

// Absent when the file has none. Throws Error{unsupported} for a kind of tokenizer or splitting that no Spark-X2.5
// model has, Error{corrupt} for lists that contradict each other.
std::optional<TokenizerDescription> gguf_tokenizer(const GgufMetadata& metadata);

// Name and source: "default", and those that the file names otherwise.
std::vector<std::pair<std::string, std::string>> gguf_chat_templates(const GgufMetadata& metadata);

// The names of all parts of a split file ("NAME-00001-of-00003.gguf", …), of which `file_name` is one; of a whole file
// its own. Throws Error{corrupt} when a part is not called so.
std::vector<std::string> gguf_split_names(const GgufMetadata& metadata, const std::string& file_name);
// Throws Error{corrupt} unless this is part `part`, from 0, of `parts`.
void check_gguf_part(const GgufMetadata& metadata, std::size_t part, std::size_t parts);

// Of the types that are plain numbers; absent for blocks with codes.
std::optional<Dtype> gguf_dtype(const GgufType& type);

// "blk.3.ffn_up.weight" as "model.layers.3.mlp.up_proj.weight"; absent for a name that no Spark-X2.5 model has.
std::optional<std::string> gguf_tensor_name(std::string_view name);

}  // namespace sparkx
