// Quantizing to floats of 4 and 8 bits against MLX's own results, bit for bit.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <string>
#include <string_view>

#include "core/bfloat16.h"
#include "core/file.h"
#include "core/float_codes.h"
#include "core/json.h"

namespace sparkx {
namespace {

// Numbers of `digits` hexadecimal digits each.
std::vector<std::uint32_t> numbers(std::string_view text, std::size_t digits) {
  std::vector<std::uint32_t> out;
  for (std::size_t i = 0; i < text.size(); i += digits) {
    out.push_back(static_cast<std::uint32_t>(std::stoul(std::string(text.substr(i, digits)), nullptr, 16)));
  }
  return out;
}

float widened(const std::string& kind, std::uint32_t bits) {
  if (kind == "float32") return std::bit_cast<float>(bits);
  const auto half = static_cast<std::uint16_t>(bits);
  return kind == "bfloat16" ? bfloat16_to_float(half) : float16_to_float(half);
}

TEST(QuantizeFloats, HasTheBitsOfMlx) {
  const std::string path = std::string(SPARKX_SOURCE_DIR) + "/tests/data/mlx_float_quantization.json";
  const json::Value document = json::parse(ByteSource::open(path).read_all(1 << 24), path);
  const auto columns = static_cast<std::size_t>(document.find("columns")->as_int64());
  std::size_t checked = 0;
  for (const json::Value& item : document.find("cases")->as_array()) {
    const std::string& kind = item.find("kind")->as_string();
    const Dtype source = kind == "float32" ? Dtype::float32 : kind == "float16" ? Dtype::float16 : Dtype::bfloat16;
    std::vector<float> weights;
    for (const std::uint32_t bits : numbers(item.find("weights")->as_string(), kind == "float32" ? 8 : 4)) {
      weights.push_back(widened(kind, bits));
    }
    for (const json::Value& quantized : item.find("quantized")->as_array()) {
      const FloatMode mode = *float_mode(quantized.find("mode")->as_string());
      const QuantizationSpec spec = float_mode_spec(mode);
      const std::size_t groups = columns / static_cast<std::size_t>(spec.group);
      const auto codes = numbers(quantized.find("codes")->as_string(), 2);
      const auto scales = numbers(quantized.find("scales")->as_string(), 2);
      const auto decoded = numbers(quantized.find("decoded")->as_string(), 8);
      for (std::size_t row = 0; row < weights.size() / columns; ++row) {
        std::vector<std::uint8_t> found(columns);
        std::vector<float> found_scales(groups), found_decoded(columns);
        quantize_floats(mode, source, weights.data() + row * columns, static_cast<std::int64_t>(columns), found.data(),
                        found_scales.data());
        decode_rows(spec, 1, static_cast<std::int64_t>(columns), {found.data(), found_scales.data(), nullptr, nullptr},
                    found_decoded.data());
        for (std::size_t g = 0; g < groups; ++g) {
          ASSERT_EQ(float_mode_scale_code(mode, found_scales[g]), scales[row * groups + g])
              << kind << ' ' << float_mode_name(mode) << " row " << row << " group " << g;
        }
        for (std::size_t k = 0; k < columns; ++k) {
          ASSERT_EQ(found[k], codes[row * columns + k])
              << kind << ' ' << float_mode_name(mode) << " row " << row << " column " << k;
          ASSERT_EQ(found_decoded[k], std::bit_cast<float>(decoded[row * columns + k]));
          ++checked;
        }
      }
    }
  }
  EXPECT_EQ(checked, 3u * 3 * 25 * 64);
}

TEST(QuantizeFloats, WhatIsNotFiniteMakesItsGroupNan) {
  std::vector<float> row(64, 1.0f), scales(4);
  std::vector<std::uint8_t> codes(64);
  row[40] = std::numeric_limits<float>::infinity();
  for (const FloatMode mode : {FloatMode::mxfp4, FloatMode::mxfp8, FloatMode::nvfp4}) {
    quantize_floats(mode, Dtype::float32, row.data(), 64, codes.data(), scales.data());
    const int bad = 40 / float_mode_spec(mode).group;
    for (int g = 0; g < 64 / float_mode_spec(mode).group; ++g) EXPECT_EQ(std::isnan(scales[g]), g == bad) << g;
    EXPECT_TRUE(std::isnan(scales[bad]));
  }
}

TEST(FloatCodes, EveryE4m3AndE8m0ComesBack) {
  for (int code = 0; code < 256; ++code) {
    const auto byte = static_cast<std::uint8_t>(code);
    EXPECT_EQ(float_to_e4m3(e4m3_to_float(byte)) & 127, code & 127);
    EXPECT_EQ(float_mode_scale_code(FloatMode::mxfp4, e8m0_to_float(byte)), code);
  }
}

TEST(FloatCodes, EveryE2m1ComesBackButMinusZero) {
  for (std::uint8_t code = 0; code < 16; ++code) EXPECT_EQ(float_to_e2m1(e2m1_to_float(code)), code == 8 ? 0 : code);
}

TEST(FloatCodes, ScalesBelowTheLeastAreTheLeast) {
  EXPECT_EQ(float_to_e8m0(0x1p-140f), 0);
  EXPECT_EQ(float_to_e8m0(0x1.8p-128f), 0);
  EXPECT_EQ(float_to_e8m0(0x1.8p127f), 254);
}

}  // namespace
}  // namespace sparkx
