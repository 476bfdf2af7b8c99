#include "engine/builtin_model.h"

#include <array>

// Where the assembler put the files.
#define SPARKX_BUILTIN_FILE(name, begin, end) extern "C" const std::byte begin[], end[];
#include "builtin_model_files.inc"
#undef SPARKX_BUILTIN_FILE

namespace sparkx {

std::span<const BuiltinFile> builtin_model_files() {
#define SPARKX_BUILTIN_FILE(name, begin, end) BuiltinFile{name, {begin, end}},
  static const auto files = std::to_array<BuiltinFile>({
#include "builtin_model_files.inc"
  });
#undef SPARKX_BUILTIN_FILE
  return files;
}

}  // namespace sparkx
