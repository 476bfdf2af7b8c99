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

// How the file suggests to sample. Throws what parse_generation_config throws.
GenerationConfig gguf_generation_config(const GgufMetadata& metadata);

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
// The other way round; absent for biases, which have no names in GGUF files.
std::optional<std::string> to_gguf_tensor_name(std::string_view name);

// general.architecture and tokenizer.ggml.pre, and the splitting that the latter names.
inline constexpr std::string_view kGgufArchitecture = "spark2_5";
std::vector<PreTokenizerStep> gguf_pre_tokenizer();

// tokenizer.ggml.token_type
enum class GgufTokenType : std::int64_t {
  normal = 1,
  unknown = 2,
  control = 3,
  user_defined = 4,
  unused = 5,
  byte = 6
};

}  // namespace sparkx
