// Blocks of every type of GGUF files against gguf-py.
#include "formats/gguf_blocks.h"

#include <gtest/gtest.h>

#include <bit>
#include <memory>
#include <string>

#include "core/file.h"
#include "core/json.h"
#include "support/errors.h"

namespace sparkx {
namespace {

// A matrix of blocks, alone in its file.
struct Stored {
  Stored(std::string type, std::int64_t rows, std::int64_t columns, std::vector<std::byte> stored)
      : bytes(std::move(stored)),
        tensors({{"m.weight",
                  "blk.0.m.weight",
                  std::nullopt,
                  std::move(type),
                  {rows, columns},
                  std::make_shared<const ByteSource>(ByteSource::memory("m.gguf", bytes)),
                  0}},
                "m.gguf") {}
  std::vector<std::byte> bytes;
  StoredTensors tensors;
};

std::vector<std::byte> bytes_of(const std::string& hexadecimal) {
  std::vector<std::byte> bytes;
  for (std::size_t i = 0; i < hexadecimal.size(); i += 2) {
    bytes.push_back(static_cast<std::byte>(std::stoi(hexadecimal.substr(i, 2), nullptr, 16)));
  }
  return bytes;
}

TEST(GgufBlocks, DecodeToTheWeightsOfGgufPy) {
  const std::string path = std::string(SPARKX_SOURCE_DIR) + "/tests/data/gguf_blocks.json";
  const json::Value document = json::parse(ByteSource::open(path).read_all(1 << 24), path);
  std::size_t types = 0;
  for (const json::Value& item : document.find("types")->as_array()) {
    const std::string& name = item.find("name")->as_string();
    const std::int64_t rows = item.find("rows")->as_int64(), columns = item.find("columns")->as_int64();
    Stored stored(name, rows, columns, bytes_of(item.find("blocks")->as_string()));
    const std::optional<QuantizedMatrix> matrix = gguf_matrix("m", rows, columns, stored.tensors);
    ASSERT_TRUE(matrix) << name;
    EXPECT_NO_THROW(check_quantization(matrix->spec, columns, name));
    const std::string& weights = item.find("weights")->as_string();
    std::vector<float> row(static_cast<std::size_t>(columns));
    for (std::int64_t r = 0; r < rows; ++r) {
      read_weights(*matrix, columns, r, r + 1, row.data());
      for (std::size_t k = 0; k < row.size(); ++k) {
        const std::size_t at = (static_cast<std::size_t>(r) * row.size() + k) * 8;
        const auto bits = static_cast<std::uint32_t>(std::stoul(weights.substr(at, 8), nullptr, 16));
        ASSERT_EQ(row[k], std::bit_cast<float>(bits)) << name << ", row " << r << ", column " << k;
      }
    }
    ++types;
  }
  EXPECT_EQ(types, 12u);
}

TEST(GgufBlocks, OtherTypesAndShapesAreRefused) {
  Stored unknown("IQ2_XS", 1, 256, std::vector<std::byte>(74));
  EXPECT_EQ(testing::error_of([&] { gguf_matrix("m", 1, 256, unknown.tensors); }),
            "unsupported: m.gguf: tensor blk.0.m.weight is IQ2_XS; sparkx supports F32, F16, BF16, Q8_0, Q4_0, Q4_1, "
            "Q5_0, Q5_1, Q2_K, Q3_K, Q4_K, Q5_K, Q6_K, IQ4_NL, IQ4_XS");
  Stored turned("Q4_K", 2, 256, std::vector<std::byte>(2 * 144));
  EXPECT_EQ(testing::error_of([&] { gguf_matrix("m", 1, 512, turned.tensors); }),
            "corrupt: m.gguf: tensor blk.0.m.weight has shape [2, 256], expected [1, 512] (rows, columns)");
}

}  // namespace
}  // namespace sparkx
