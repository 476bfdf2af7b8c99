// The inside of the public TextTokenizer.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "formats/checkpoint.h"
#include "sparkx/sparkx.hpp"
#include "text/tokenizer.h"

namespace sparkx {

struct TextTokenizer::Impl {
  Tokenizer tokenizer;
};

// The tokenizer of a checkpoint, absent when it has none. Throws what reading it throws.
std::optional<Tokenizer> read_checkpoint_tokenizer(const Checkpoint& checkpoint);

// The files of the built-in model, as a checkpoint takes them.
std::vector<MemoryFile> builtin_files();

inline constexpr std::string_view kBuiltinName = "built-in model";

}  // namespace sparkx
