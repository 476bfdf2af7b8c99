#include "engine/builtin_model.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace sparkx {
namespace {

std::string read_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  EXPECT_TRUE(in) << path;
  return {std::istreambuf_iterator<char>(in), {}};
}

TEST(BuiltinModel, HoldsTheFilesOfModelsMini) {
  const std::filesystem::path dir = std::filesystem::path(SPARKX_SOURCE_DIR) / "models" / "mini";
  EXPECT_EQ(builtin_model_files().size(), 6u);
  for (const BuiltinFile& file : builtin_model_files()) {
    SCOPED_TRACE(file.name);
    const std::string expected = read_file(dir / file.name);
    const std::string_view found(reinterpret_cast<const char*>(file.bytes.data()), file.bytes.size());
    EXPECT_FALSE(found.empty());
    EXPECT_TRUE(found == expected) << found.size() << " bytes in the binary, " << expected.size() << " in the file";
  }
}

TEST(BuiltinModel, FilesBeginAtMultiplesOf64Bytes) {
  for (const BuiltinFile& file : builtin_model_files()) {
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(file.bytes.data()) % 64, 0u) << file.name;
  }
}

TEST(BuiltinModel, IsAtMostEightMegabytes) {
  std::size_t total = 0;
  for (const BuiltinFile& file : builtin_model_files()) total += file.bytes.size();
  EXPECT_LE(total, 8'000'000u);
}

}  // namespace
}  // namespace sparkx
