// The inside of the public TextTokenizer.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "formats/checkpoint.h"
#include "sparkx/sparkx.hpp"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace sparkx {

struct TextTokenizer::Impl {
  // Absent when the checkpoint has no tokenizer. Throws what reading its files throws.
  static std::optional<Impl> read(const Checkpoint& checkpoint);
  static std::optional<Impl> read(const GgufMetadata& metadata);

  Tokenizer tokenizer;
  ChatFormat chat_format;
};

// The files of the built-in model, as a checkpoint takes them.
std::vector<MemoryFile> builtin_files();

inline constexpr std::string_view kBuiltinName = "built-in model";

}  // namespace sparkx
