#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "core/bfloat16.h"
#include "formats/checkpoint.h"
#include "formats/published_shapes.h"
#include "support/errors.h"

namespace sparkx {
namespace {

std::vector<float> values(const Checkpoint& checkpoint, const std::string& name, std::int64_t begin, std::int64_t end) {
  const TensorInfo& tensor = checkpoint.tensor(name);
  std::vector<std::byte> bytes(static_cast<std::size_t>(end - begin) * tensor.row_bytes());
  checkpoint.read(tensor, begin, end, bytes);
  std::vector<float> values(bytes.size() / 2);
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::uint16_t bits;
    std::memcpy(&bits, bytes.data() + 2 * i, 2);
    values[i] = bfloat16_to_float(bits);
  }
  return values;
}

TEST(PublishedShapes, HaveTheSizesOfTheModels) {
  EXPECT_EQ(published_config("7b"), std::nullopt);
  const Checkpoint small = Checkpoint::synthetic("1.7b", published_config("1.7b").value());
  EXPECT_EQ(small.config().layer_types[3], LayerType::full_attention);
  EXPECT_EQ(std::count(small.config().layer_types.begin(), small.config().layer_types.end(), LayerType::full_attention),
            7);
  EXPECT_EQ(small.config().rope(LayerType::full_attention).rotary_dims, 64);
  EXPECT_EQ(small.config().rope(LayerType::full_attention).rope_theta, 5e6);
  EXPECT_EQ(small.weight_bytes(), 3415314432u);  // docs/performance.md
  const Checkpoint large = Checkpoint::synthetic("4b", published_config("4b").value());
  EXPECT_EQ(large.weight_bytes(), 2 * std::uint64_t{4112079360});  // docs/model.md, Sizes
  EXPECT_TRUE(small.warnings().empty());
}

TEST(SyntheticCheckpoint, NormsAreOneAndMatricesOfOrdinarySize) {
  const Checkpoint checkpoint = Checkpoint::synthetic("1.7b", published_config("1.7b").value());
  for (const float value : values(checkpoint, "model.norm.weight", 0, 2048)) EXPECT_EQ(value, 1.0f);
  double sum = 0, squares = 0;
  const std::vector<float> matrix = values(checkpoint, "model.layers.3.mlp.up_proj.weight", 100, 200);
  for (const float value : matrix) {
    ASSERT_TRUE(std::abs(value) >= 1.0f / 64 && std::abs(value) < 1.0f / 32) << value;
    sum += value;
    squares += value * value;
  }
  const double count = static_cast<double>(matrix.size());
  EXPECT_LT(std::abs(sum / count), 3e-4);  // about five standard errors
  EXPECT_NEAR(std::sqrt(squares / count), 0.0239, 0.0002);
}

TEST(SyntheticCheckpoint, AValueBelongsToItsPlace) {
  const Checkpoint checkpoint = Checkpoint::synthetic("1.7b", published_config("1.7b").value());
  for (const char* name : {"model.norm.weight", "model.embedding.weight", "model.layers.0.self_attn.g_proj.weight"}) {
    const std::vector<float> whole = values(checkpoint, name, 0, 8);
    for (std::int64_t row = 0; row < 8; ++row) {
      const std::vector<float> one = values(checkpoint, name, row, row + 1);
      EXPECT_TRUE(std::equal(one.begin(), one.end(), whole.begin() + row * static_cast<std::int64_t>(one.size())))
          << name << ", row " << row;
    }
  }
  EXPECT_NE(values(checkpoint, "model.layers.0.mlp.up_proj.weight", 0, 1),
            values(checkpoint, "model.layers.0.mlp.gate_proj.weight", 0, 1));
}

TEST(SyntheticCheckpoint, RowsOutsideTheTensorAreRefused) {
  const Checkpoint checkpoint = Checkpoint::synthetic("1.7b", published_config("1.7b").value());
  std::vector<std::byte> row(2);
  EXPECT_EQ(testing::error_of([&] {
              checkpoint.read(checkpoint.tensor("model.norm.weight"), 2048, 2049, row);
            }).substr(0, 17),
            "invalid_argument:");
}

}  // namespace
}  // namespace sparkx
