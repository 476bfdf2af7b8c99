// A GGUF file in the terms of a checkpoint folder: its metadata as config.json, its tokenizer as tokenizer.json.
#pragma once

#include <string>
#include <vector>

#include "convert/target.h"
#include "core/json.h"
#include "core/tokenizer_description.h"
#include "formats/checkpoint.h"

namespace sparkx {

// config.json as transformers has it, of what the model is; nothing in it says how the weights are stored.
json::Value config_of(const ModelConfig& config);

// tokenizer.json, which text/tokenizer_json.h reads back as the same description.
std::string tokenizer_json(const TokenizerDescription& description);

// tokenizer.json, tokenizer_config.json, chat templates and generation_config.json of a GGUF file, as far as it has
// them. Throws what gguf_tokenizer throws.
std::vector<TextFile> tokenizer_files_of(const Checkpoint& checkpoint);

}  // namespace sparkx
