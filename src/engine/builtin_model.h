// The built-in model: the files of models/mini/, part of the binary.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace sparkx {

struct BuiltinFile {
  std::string_view name;             // "model.safetensors"
  std::span<const std::byte> bytes;  // begins at a multiple of 64 bytes and lives as long as the program
};

// config.json, generation_config.json, tokenizer.json, tokenizer_config.json, chat_template.jinja, model.safetensors.
std::span<const BuiltinFile> builtin_model_files();

}  // namespace sparkx
