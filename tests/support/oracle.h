// Where the oracle data lies: checkpoints and texts made by independent implementations, too large for the repository.
//
// SPARKX_ORACLE_DIR names the folder; without it, ../shared/oracle beside the checkout is taken. A test that needs it
// says
//   SPARKX_NEEDS_ORACLE();
// first, and skips where there is none. scripts/test counts such a skip as a failure when the folder is there.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string>

namespace sparkx::testing {

inline std::filesystem::path oracle_dir() {
  const char* dir = std::getenv("SPARKX_ORACLE_DIR");
  return dir != nullptr && *dir != '\0' ? std::filesystem::path(dir)
                                        : std::filesystem::path(SPARKX_SOURCE_DIR) / ".." / "shared" / "oracle";
}

// The golden logits of a model: inside its folder, beside a GGUF file.
inline std::filesystem::path golden_file(const std::filesystem::path& model) {
  if (model.extension() != ".gguf") return model / "golden.safetensors";
  const auto beside = std::filesystem::path(model).replace_extension(".golden.safetensors");
  // A split model has a folder of its own.
  return std::filesystem::exists(beside) ? beside : model.parent_path() / "golden.safetensors";
}

// Names the cases of a parameterized test after their checkpoints, in letters that GoogleTest takes. A parameter is the
// name or has a member `name`.
inline constexpr auto case_name = [](const auto& info) {
  std::string name;
  if constexpr (requires { info.param.name; }) {
    name = info.param.name;
  } else {
    name = info.param;
  }
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
};

}  // namespace sparkx::testing

#define SPARKX_NEEDS_ORACLE()                                                                            \
  if (!std::filesystem::is_directory(::sparkx::testing::oracle_dir())) {                                 \
    GTEST_SKIP() << "no oracle data: " << ::sparkx::testing::oracle_dir() << " (set SPARKX_ORACLE_DIR)"; \
  }                                                                                                      \
  static_assert(true)
