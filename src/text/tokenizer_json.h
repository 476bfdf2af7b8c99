// Reads tokenizer.json and tokenizer_config.json (docs/model.md, Tokenizer). The files are hostile input; a component
// or option that would change the result and that sparkx does not have is refused by name.
#pragma once

#include <filesystem>
#include <string_view>

#include "core/tokenizer_description.h"

namespace sparkx {

// `what` names the file in messages. Throws Error{corrupt} for a broken file and Error{unsupported} for an unknown
// component.
TokenizerDescription parse_tokenizer_json(std::string_view text, std::string_view what);

// Takes bos_token, eos_token and pad_token from a tokenizer_config.json: strings or objects with `content`.
// Throws Error{corrupt} when one of them is not in the vocabulary.
void apply_tokenizer_config(TokenizerDescription& description, std::string_view text, std::string_view what);

// tokenizer.json and, where it is there, tokenizer_config.json of a checkpoint folder. Throws Error{not_found} or
// Error{io} when they cannot be read.
TokenizerDescription read_tokenizer(const std::filesystem::path& folder);

}  // namespace sparkx
