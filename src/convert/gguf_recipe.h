// Which type each matrix of a GGUF file has under a name such as Q4_K_M: as llama-quantize chooses for a model of this
// shape, so that a name means the same everywhere.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "formats/gguf.h"
#include "formats/model_config.h"

namespace sparkx {

struct GgufRecipe {
  const char* name;         // "Q4_K_M"
  std::uint32_t file_type;  // general.file_type
  const char* type;         // of most matrices
  // What is done for matrices that matter more.
  enum class Mixture { none, medium, small } mixture = Mixture::none;
};

// By its name, in capitals or not; "4bit" and its like are the nearest to them. Throws Error{invalid_argument} with the
// names that there are.
const GgufRecipe& find_gguf_recipe(std::string_view name);

// The type of a matrix: `path` is "model.layers.0.mlp.down_proj". `reason` is set where it is not the one that the
// recipe wants, because rows of `columns` are no multiple of its blocks.
const GgufType& gguf_recipe_type(const GgufRecipe& recipe, std::string_view path, std::int64_t columns,
                                 const ModelConfig& config, std::string* reason);

// The type, or the next one whose blocks rows of `columns` are a multiple of; `reason` as above.
const GgufType& fitting_gguf_type(std::string_view type, std::int64_t columns, std::string* reason);

// general.file_type of a file most of whose weights have this type.
std::uint32_t gguf_file_type(const GgufType& type);

}  // namespace sparkx
