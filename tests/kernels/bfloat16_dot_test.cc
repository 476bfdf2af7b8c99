// --dtype bfloat16-fast: the CPU's own dot product is near the exact one, in every shape.
#include <gtest/gtest.h>

#include "support/kernels.h"

namespace sparkx::kernels {
namespace {

using sparkx::testing::EachTable;
using sparkx::testing::Numbers;
using sparkx::testing::PackedMatrix;
using sparkx::testing::round_up16;

class Bfloat16Dot : public EachTable {
 protected:
  void SetUp() override {
    EachTable::SetUp();
    if (!IsSkipped() && !has_fast_bfloat16(table())) {
      GTEST_SKIP() << "untested here: table " << table().name << " has no dot product of bfloat16 on this CPU";
    }
  }
};
INSTANTIATE_FOR_EACH_TABLE(Bfloat16Dot);

TEST_P(Bfloat16Dot, IsNearTheExactDotOfRoundedActivations) {
  Numbers numbers(61);
  for (const std::int64_t columns : {1, 2, 3, 64, 77, 1023, 1030, 2048}) {
    for (const std::int64_t tokens : {1, 2, 3, 7, 8, 9, 16, 33}) {
      const std::int64_t rows = numbers.integer(1, 90), stride = (columns + 63) / 64 * 64;
      const auto weights = numbers.fill(rows * columns), bias = numbers.fill(rows);
      const PackedMatrix w(WeightKind::bfloat16, rows, columns, weights.span(), bias.span());
      auto x = numbers.rows(tokens, columns);
      AlignedBuffer<std::uint16_t> rounded(tokens * stride);
      for (std::int64_t t = 0; t < tokens; ++t) {
        for (std::int64_t k = 0; k < columns; ++k) {
          float& value = x[t * round_up16(columns) + k];
          rounded[t * stride + k] = float_to_bfloat16(value);
          value = bfloat16_to_float(rounded[t * stride + k]);
        }
      }
      const std::int64_t lanes = w->panel_count() * kLanes;
      std::vector<float> exact(tokens * lanes), fast(tokens * lanes, -7.0f);
      table().dot[static_cast<int>(WeightKind::bfloat16)](
          *w, 0, w->panel_count(), {x.data(), round_up16(columns), tokens}, 0, tokens, exact.data(), lanes);
      table().dot_bfloat16(*w, 0, w->panel_count(), {rounded.data(), stride, tokens}, 0, tokens, fast.data(), lanes);
      for (std::size_t i = 0; i < fast.size(); ++i) {
        // Of `columns` products below 1, a rounding each.
        ASSERT_NEAR(fast[i], exact[i], 1e-6 + 1e-7 * static_cast<double>(columns))
            << rows << " x " << columns << ", " << tokens << " tokens, " << i;
      }
    }
  }
}

TEST_P(Bfloat16Dot, NanStaysInItsToken) {
  Numbers numbers(62);
  const std::int64_t rows = 40, columns = 64, tokens = 11;
  const PackedMatrix w(WeightKind::bfloat16, rows, columns, numbers.fill(rows * columns).span());
  AlignedBuffer<std::uint16_t> x(tokens * columns);
  x[5 * columns + 7] = 0x7fc0;
  std::vector<float> out(tokens * 48);
  table().dot_bfloat16(*w, 0, 3, {x.data(), columns, tokens}, 0, tokens, out.data(), 48);
  for (std::int64_t t = 0; t < tokens; ++t) {
    for (std::int64_t row = 0; row < rows; ++row) EXPECT_EQ(std::isnan(out[t * 48 + row]), t == 5) << t;
  }
}

}  // namespace
}  // namespace sparkx::kernels
