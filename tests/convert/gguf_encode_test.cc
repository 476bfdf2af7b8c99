// tests/data/gguf_quantization.json says what gguf-py and llama.cpp make of the same weights
// (tests/oracle/make_gguf_quantization.py).
#include "convert/gguf_encode.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <limits>
#include <string>
#include <vector>

#include "core/bfloat16.h"
#include "core/json.h"

namespace sparkx {
namespace {

const json::Value& document() {
  static const json::Value value = [] {
    std::ifstream file(SPARKX_SOURCE_DIR "/tests/data/gguf_quantization.json");
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    return json::parse(text, "gguf_quantization.json");
  }();
  return value;
}

std::string from_hexadecimal(const std::string& text) {
  std::string bytes;
  for (std::size_t i = 0; i < text.size(); i += 2)
    bytes += static_cast<char>(std::stoi(text.substr(i, 2), nullptr, 16));
  return bytes;
}

const std::vector<float>& weights() {
  static const std::vector<float> values = [] {
    const std::string bytes = from_hexadecimal(document().find("weights")->as_string());
    std::vector<float> floats(bytes.size() / sizeof(float));
    std::memcpy(floats.data(), bytes.data(), bytes.size());
    return floats;
  }();
  return values;
}

std::size_t columns() {
  return static_cast<std::size_t>(document().find("columns")->as_int64());
}
std::size_t rows() {
  return static_cast<std::size_t>(document().find("rows")->as_int64());
}

std::string encoded(const GgufType& type, std::span<const float> row) {
  std::string out(row.size() / static_cast<std::size_t>(type.block_size) * type.block_bytes, '\xA5');
  EXPECT_TRUE(encode_gguf_row(type, row, reinterpret_cast<std::byte*>(out.data()))) << type.name;
  return out;
}

std::span<const float> row(std::size_t index) {
  return std::span(weights()).subspan(index * columns(), columns());
}

float float16_at(const std::uint8_t* from) {
  return float16_to_float(static_cast<std::uint16_t>(from[0] | from[1] << 8));
}

// The K types as their format reads, one weight at a time.
double k_weight(std::string_view type, const std::uint8_t* block, int i) {
  if (type == "Q6_K") {
    const int half = i / 128, run = i % 128 / 32, place = i % 32;
    const std::uint8_t* low = block + 64 * half + 32 * (run % 2);
    const int code = (run < 2 ? low[place] & 15 : low[place] >> 4) | (block[128 + 32 * half + place] >> (2 * run) & 3)
                                                                         << 4;
    return static_cast<double>(float16_at(block + 208)) * static_cast<std::int8_t>(block[192 + i / 16]) * (code - 32);
  }
  const int sub = i / 32, place = i % 32;
  const std::uint8_t* scales = block + 4;
  const int scale = sub < 4 ? scales[sub] & 63 : (scales[sub + 4] & 15) | (scales[sub - 4] >> 6) << 4;
  const int minimum = sub < 4 ? scales[sub + 4] & 63 : scales[sub + 4] >> 4 | (scales[sub] >> 6) << 4;
  const std::uint8_t* codes = block + (type == "Q5_K" ? 48 : 16) + 32 * (sub / 2);
  int code = sub % 2 == 0 ? codes[place] & 15 : codes[place] >> 4;
  if (type == "Q5_K") code |= (block[16 + place] >> sub & 1) << 4;
  return static_cast<double>(float16_at(block)) * scale * code - static_cast<double>(float16_at(block + 2)) * minimum;
}

double squared_error(const GgufType& type, std::span<const float> row) {
  const std::string bytes = encoded(type, row);
  double sum = 0;
  for (std::size_t i = 0; i < row.size(); ++i) {
    const auto* block = reinterpret_cast<const std::uint8_t*>(bytes.data()) + i / 256 * type.block_bytes;
    sum += std::pow(k_weight(type.name, block, static_cast<int>(i % 256)) - row[i], 2);
  }
  return sum;
}

TEST(GgufEncode, PlainTypesAndThoseOfOneScaleAreTheBitsOfGgufPy) {
  for (const auto& [name, expected] : document().find("same")->as_object()) {
    const GgufType& type = *find_gguf_type(name);
    std::string found;
    for (std::size_t i = 0; i < rows(); ++i) found += encoded(type, row(i));
    EXPECT_TRUE(found == from_hexadecimal(expected.as_string())) << name;
  }
}

TEST(GgufEncode, KTypesAreAsNearToTheWeightsAsThoseOfLlamaCpp) {
  for (const auto& [name, expected] : document().find("no_worse")->as_object()) {
    const GgufType& type = *find_gguf_type(name);
    double ours = 0, theirs = 0;
    for (std::size_t i = 0; i < rows(); ++i) {
      const double error = std::sqrt(squared_error(type, row(i)));
      const double limit = std::sqrt(expected.as_array()[i].as_double());
      EXPECT_LE(error, 1.02 * limit) << name << ", row " << i;
      if (limit > 0) ours += std::log(error), theirs += std::log(limit);
    }
    EXPECT_LT(ours, theirs) << name;
  }
}

TEST(GgufEncode, EqualWeightsAreExactWhereTheirScaleIs) {
  for (const char* name : {"Q4_K", "Q5_K", "Q6_K"}) {
    for (const float value : {0.0f, -0.0f, 1.0f, -0.5f}) {
      const std::vector<float> same(256, value);
      EXPECT_NEAR(squared_error(*find_gguf_type(name), same), 0, 256 * 1e-7 * value * value) << name << ' ' << value;
    }
  }
}

TEST(GgufEncode, ValuesThatDoNotFitAreRefused) {
  const auto fits = [](const char* name, float value) {
    std::vector<float> row(256, 0.25f);
    row[200] = value;
    std::vector<std::byte> out(1024);
    return encode_gguf_row(*find_gguf_type(name), row, out.data());
  };
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const char* name : {"F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q4_K", "Q5_K", "Q6_K"}) {
    EXPECT_TRUE(can_encode_gguf(*find_gguf_type(name)));
    EXPECT_TRUE(fits(name, 60000)) << name;
    EXPECT_FALSE(fits(name, std::nanf(""))) << name;
    EXPECT_FALSE(fits(name, kInfinity)) << name;
    EXPECT_FALSE(fits(name, -kInfinity)) << name;
    if (std::string_view(name) != "F32") {
      EXPECT_FALSE(fits(name, std::numeric_limits<float>::max())) << name;
      EXPECT_FALSE(fits(name, std::numeric_limits<float>::lowest())) << name;
    }
    EXPECT_TRUE(fits(name, std::numeric_limits<float>::denorm_min())) << name;
  }
  EXPECT_FALSE(fits("F16", 70000));
  EXPECT_TRUE(fits("BF16", 70000));
  EXPECT_FALSE(can_encode_gguf(*find_gguf_type("Q2_K")));
}

TEST(GgufEncode, BlocksHoldCodesAsGiven) {
  for (const auto& [name, bits] : {std::pair("Q4_0", 4), {"Q4_1", 4}, {"Q5_0", 5}, {"Q5_1", 5}, {"Q8_0", 8}}) {
    const GgufType& type = *find_gguf_type(name);
    // What a row of gguf-py's is made of gives its bytes again.
    const std::string expected = encoded(type, row(1).first(32));
    const auto* block = reinterpret_cast<const std::uint8_t*>(expected.data());
    const bool has_minimum = name[3] == '1';
    const std::uint8_t* stored = block + (has_minimum ? 4 : 2);
    std::uint8_t codes[32];
    for (int i = 0; i < 32; ++i) {
      if (bits == 8) {
        codes[i] = static_cast<std::uint8_t>(static_cast<std::int8_t>(stored[i]) + 128);
      } else {
        const std::uint8_t* low = stored + (bits == 5 ? 4 : 0);
        codes[i] = static_cast<std::uint8_t>(i < 16 ? low[i] & 15 : low[i - 16] >> 4);
        if (bits == 5) codes[i] |= static_cast<std::uint8_t>((stored[i / 8] >> i % 8 & 1) << 4);
      }
    }
    const auto at = [&](int i) { return static_cast<std::uint16_t>(block[i] | block[i + 1] << 8); };
    std::string packed(expected.size(), '\0');
    pack_gguf_block(type, codes, at(0), has_minimum ? at(2) : 0, reinterpret_cast<std::byte*>(packed.data()));
    EXPECT_TRUE(packed == expected) << name;
  }
}

}  // namespace
}  // namespace sparkx
