// Quantizing to MLX's modes, and packing codes as it does. tests/data/mlx_float_modes.json was written by MLX itself
// (tests/oracle/make_mlx_float_modes.py); affine modes are compared in tests/kernels and with whole conversions.
#include "convert/quantize.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <map>

#include "core/json.h"
#include "support/errors.h"
#include "support/temp_dir.h"

namespace sparkx {
namespace {

using testing::error_of;

// Bytes of hexadecimal patterns, each with its lowest byte first.
std::vector<std::byte> bytes_of(const json::Value& parent, std::string_view key, int digits) {
  const std::string& text = parent.find(key)->as_string();
  std::vector<std::byte> bytes;
  for (std::size_t i = 0; i < text.size(); i += static_cast<std::size_t>(digits)) {
    const std::uint64_t bits = std::strtoull(text.substr(i, static_cast<std::size_t>(digits)).c_str(), nullptr, 16);
    for (int byte = 0; byte < digits / 2; ++byte) bytes.push_back(static_cast<std::byte>(bits >> 8 * byte));
  }
  return bytes;
}

TEST(QuantizeFloatModes, CodesAndScalesAreThoseOfMlx) {
  const json::Value document =
      json::parse(testing::read_file(SPARKX_SOURCE_DIR "/tests/data/mlx_float_modes.json"), "mlx_float_modes.json");
  const std::map<std::string, Dtype> types = {
      {"float32", Dtype::float32}, {"bfloat16", Dtype::bfloat16}, {"float16", Dtype::float16}};
  const std::int64_t columns = document.find("columns")->as_int64();
  int rows_compared = 0;
  for (const json::Value& item : document.find("cases")->as_array()) {
    const Dtype type = types.at(item.find("kind")->as_string());
    const std::size_t row_bytes = static_cast<std::size_t>(columns) * dtype_size(type);
    const std::vector<std::byte> weights = bytes_of(item, "weights", static_cast<int>(2 * dtype_size(type)));
    for (const json::Value& quantized : item.find("quantized")->as_array()) {
      const MlxMode mode = parse_mlx_mode(quantized.find("mode")->as_string(), std::nullopt).value();
      const std::vector<std::byte> packed = bytes_of(quantized, "packed", 2), scales = bytes_of(quantized, "scales", 2);
      const auto packed_bytes = static_cast<std::size_t>(columns * mode.bits / 8);
      const auto groups = static_cast<std::size_t>(columns / mode.group);
      for (std::size_t row = 0; row < static_cast<std::size_t>(item.find("rows")->as_int64()); ++row) {
        std::vector<std::byte> found(packed_bytes), found_scales(groups);
        quantize_row(mode, type, weights.data() + row * row_bytes, columns, found.data(), found_scales.data(), nullptr);
        const std::string where = dtype_name(type) + (" " + mode.mode) + ", row " + std::to_string(row);
        EXPECT_TRUE(std::equal(found_scales.begin(), found_scales.end(), scales.begin() + row * groups)) << where;
        EXPECT_TRUE(std::equal(found.begin(), found.end(), packed.begin() + row * packed_bytes)) << where;
        ++rows_compared;
      }
    }
  }
  EXPECT_GT(rows_compared, 300);
}

TEST(QuantizeRow, ValuesThatAreNotFiniteAreRefused) {
  for (const char* name : {"4bit", "mxfp4", "mxfp8", "nvfp4"}) {
    const MlxMode mode = parse_mlx_mode(name, std::nullopt).value();
    for (const float bad : {INFINITY, -INFINITY, static_cast<float>(NAN)}) {
      std::vector<float> row(64, 1.0f);
      row[40] = bad;
      std::vector<std::byte> weight(64), scales(16), biases(16);
      EXPECT_EQ(error_of([&] {
                  quantize_row(mode, Dtype::float32, reinterpret_cast<const std::byte*>(row.data()), 64, weight.data(),
                               scales.data(), biases.data());
                }),
                "corrupt: it has values that are not finite, which cannot be quantized")
          << name << " " << bad;
    }
  }
}

TEST(PackCodes, AreALittleEndianStreamOfBits) {
  // 3 bits: 5, 1, 7, 0, 2, 6, 4, 3 → 0b101, 0b001, … from the lowest bit on.
  const std::uint8_t codes[] = {5, 1, 7, 0, 2, 6, 4, 3};
  std::byte packed[3];
  pack_codes(codes, 8, 3, packed);
  std::uint32_t stream = 0;
  for (int i = 0; i < 8; ++i) stream |= std::uint32_t{codes[i]} << 3 * i;
  for (int i = 0; i < 3; ++i) EXPECT_EQ(packed[i], static_cast<std::byte>(stream >> 8 * i));

  std::byte halves[4];
  pack_codes(codes, 8, 4, halves);
  EXPECT_EQ(halves[0], std::byte{0x15});
  EXPECT_EQ(halves[3], std::byte{0x34});
}

TEST(ParseMlxMode, KnowsMlxsModesAndGroups) {
  EXPECT_EQ(parse_mlx_mode("none", std::nullopt), std::nullopt);
  EXPECT_EQ(parse_mlx_mode("4bit", std::nullopt), (MlxMode{"affine", 4, 64}));
  EXPECT_EQ(parse_mlx_mode("3bit", 128), (MlxMode{"affine", 3, 128}));
  EXPECT_EQ(parse_mlx_mode("nvfp4", std::nullopt), (MlxMode{"nvfp4", 4, 16}));
  EXPECT_EQ(parse_mlx_mode("mxfp8", 32), (MlxMode{"mxfp8", 8, 32}));
  EXPECT_EQ(
      error_of([] { parse_mlx_mode("7bit", std::nullopt); }),
      "invalid_argument: \"7bit\" is no way to quantize: 2bit, 3bit, 4bit, 5bit, 6bit, 8bit, mxfp4, mxfp8, nvfp4, "
      "none");
  EXPECT_EQ(error_of([] { parse_mlx_mode("4bit", 16); }),
            "invalid_argument: 4bit in groups of 16: they are of 32, 64 or 128");
  EXPECT_EQ(error_of([] { parse_mlx_mode("mxfp4", 64); }),
            "invalid_argument: mxfp4 in groups of 64: they are always of 32");
}

}  // namespace
}  // namespace sparkx
