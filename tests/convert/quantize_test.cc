#include "convert/quantize.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "support/errors.h"

namespace sparkx {
namespace {

using testing::error_of;

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
