// Quantizing weights is MLX's arithmetic to the bit: tests/data/mlx_quantization.json was written by MLX itself
// (tests/oracle/make_mlx_quantization.py).
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>

#include "core/json.h"
#include "support/kernels.h"

namespace sparkx::kernels {
namespace {

using sparkx::testing::EachTable;
using sparkx::testing::Numbers;

const json::Value& document() {
  static const json::Value value = [] {
    std::ifstream file(SPARKX_SOURCE_DIR "/tests/data/mlx_quantization.json");
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    return json::parse(text, "mlx_quantization.json");
  }();
  return value;
}

std::vector<std::uint32_t> patterns(const json::Value& parent, std::string_view key, int digits) {
  const std::string& text = parent.find(key)->as_string();
  std::vector<std::uint32_t> result;
  for (std::size_t i = 0; i < text.size(); i += digits) {
    result.push_back(static_cast<std::uint32_t>(std::strtoul(text.substr(i, digits).c_str(), nullptr, 16)));
  }
  return result;
}

std::uint32_t rounded(WeightKind kind, float value) {
  switch (kind) {
    case WeightKind::bfloat16:
      return float_to_bfloat16(value);
    case WeightKind::float16:
      return float_to_float16(value);
    default:
      return std::bit_cast<std::uint32_t>(value);
  }
}

class Quantize : public EachTable {};
INSTANTIATE_FOR_EACH_TABLE(Quantize);

TEST_P(Quantize, CodesScalesAndBiasesAreThoseOfMlx) {
  const std::map<std::string, WeightKind> kinds = {
      {"float32", WeightKind::float32}, {"bfloat16", WeightKind::bfloat16}, {"float16", WeightKind::float16}};
  const std::int64_t columns = document().find("columns")->as_int64();
  for (const json::Value& item : document().find("cases")->as_array()) {
    const std::string& name = item.find("kind")->as_string();
    const WeightKind kind = kinds.at(name);
    const int digits = kind == WeightKind::float32 ? 8 : 4, bytes = digits / 2;
    std::vector<std::byte> weights;
    for (const std::uint32_t bits : patterns(item, "weights", digits)) {
      for (int i = 0; i < bytes; ++i) weights.push_back(static_cast<std::byte>(bits >> 8 * i));
    }
    for (const json::Value& quantized : item.find("quantized")->as_array()) {
      const int bits = static_cast<int>(quantized.find("bits")->as_int64());
      const int group = static_cast<int>(quantized.find("group")->as_int64());
      const auto codes = patterns(quantized, "codes", 2);
      const auto scales = patterns(quantized, "scales", digits), biases = patterns(quantized, "biases", digits);
      const std::int64_t groups = columns / group;
      for (std::int64_t row = 0; row < item.find("rows")->as_int64(); ++row) {
        std::vector<std::uint8_t> found(columns);
        std::vector<float> found_scales(groups), found_biases(groups);
        table().quantize_affine[static_cast<int>(kind)](weights.data() + row * columns * bytes, columns, bits, group,
                                                        found.data(), found_scales.data(), found_biases.data());
        const std::string what = name + ", " + std::to_string(bits) + " bits, groups of " + std::to_string(group) +
                                 ", row " + std::to_string(row);
        for (std::int64_t k = 0; k < columns; ++k) ASSERT_EQ(found[k], codes[row * columns + k]) << what << ", " << k;
        for (std::int64_t g = 0; g < groups; ++g) {
          ASSERT_EQ(rounded(kind, found_scales[g]), scales[row * groups + g]) << what;
          ASSERT_EQ(rounded(kind, found_biases[g]), biases[row * groups + g]) << what;
        }
      }
    }
  }
}

TEST_P(Quantize, EqualsTheReferenceForNumbersOfEverySize) {
  Numbers numbers(51);
  for (int i = 0; i < 200; ++i) {
    const std::int64_t columns = 128 * numbers.integer(1, 3);
    auto row = numbers.fill(columns, i % 2 == 1);
    if (i % 5 == 0) row[numbers.integer(0, 127)] = std::numeric_limits<float>::quiet_NaN();
    if (i % 7 == 0) row[numbers.integer(0, 127)] = -std::numeric_limits<float>::infinity();
    const int bits = i % 3 == 0 ? 8 : 4, group = 32 << i % 3;
    const auto quantize = [&](const KernelTable& table) {
      std::vector<std::uint8_t> codes(columns);
      std::vector<float> scales(columns / group), biases(columns / group);
      table.quantize_affine[0](std::as_bytes(row.span()).data(), columns, bits, group, codes.data(), scales.data(),
                               biases.data());
      for (const std::uint8_t code : codes) EXPECT_LT(code, 1 << bits);
      if (i % 5 == 0 || i % 7 == 0) codes.clear(), scales.clear();  // only that nothing breaks
      std::vector<std::uint32_t> all(codes.begin(), codes.end());
      for (const float scale : scales) all.push_back(std::bit_cast<std::uint32_t>(scale));
      if (!scales.empty()) {
        for (const float bias : biases) all.push_back(std::bit_cast<std::uint32_t>(bias));
      }
      return all;
    };
    EXPECT_EQ(quantize(table()), quantize(reference())) << i;
  }
}

}  // namespace
}  // namespace sparkx::kernels
