// What the folder formats, MLX's and Hugging Face's, have in common: safetensors in shards, config.json, and the files
// of the tokenizer.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "convert/target.h"
#include "core/json.h"

namespace sparkx {

// The tensors of a checkpoint in the order in which MLX and transformers keep a model's parameters.
std::vector<const TensorInfo*> in_parameter_order(const Checkpoint& checkpoint);

// An array of plain numbers with the rows of a tensor, and `columns` elements a row.
OutputPart array_part(std::string name, Dtype dtype, const TensorInfo& tensor, std::int64_t columns);

// A tensor as plain numbers of a type, under its own name.
TensorPlan dense_plan(const Checkpoint& checkpoint, const TensorInfo& tensor, Dtype type);

// Gives every part its place in files of at most `shard_bytes` of tensors (a tensor that is larger has a file of its
// own), "model.safetensors" where one is enough, and writes their heads. `format` is their metadata.
void place_in_shards(Target& target, std::uint64_t shard_bytes, std::string_view format);
// model.safetensors.index.json of the files so made.
TextFile shard_index(const Target& target, int indent);

// config.json of the source, a GGUF file's in the same terms; floats as Python prints them.
json::Value source_config(const Checkpoint& checkpoint);
TextFile config_file(const json::Value& config, int indent);

// Sets a member of an object, at its end where it is new; removes one.
void set_member(json::Value& object, std::string_view key, json::Value value);
void remove_member(json::Value& object, std::string_view key);

// Adds the files of the tokenizer, the chat templates and generation_config.json as they are.
void add_tokenizer_files(const Checkpoint& checkpoint, Target& target);

// The type of --dtype; "auto" is what config.json says as torch_dtype, absent where it says nothing. Throws
// Error{invalid_argument}.
std::optional<Dtype> parse_output_dtype(const std::string& name, const json::Value& config);

}  // namespace sparkx
