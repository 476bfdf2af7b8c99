// Rule 1 of docs/numerics.md: every table gives the reference's bits, whatever the shape and whatever part is asked
// for.
#include <gtest/gtest.h>

#include "support/kernels.h"

namespace sparkx::kernels {
namespace {

using sparkx::testing::difference;
using sparkx::testing::EachTable;
using sparkx::testing::Numbers;
using sparkx::testing::PackedMatrix;
using sparkx::testing::round_up16;

constexpr WeightKind kKinds[] = {WeightKind::float32, WeightKind::bfloat16, WeightKind::float16};

// Panels [panel_begin, panel_end) of a matrix times tokens [token_begin, token_end).
std::vector<float> dot(const KernelTable& table, const PanelMatrix& w, const Activations& x, std::int64_t panel_begin,
                       std::int64_t panel_end, std::int64_t token_begin, std::int64_t token_end) {
  const std::int64_t stride = (panel_end - panel_begin) * kLanes;
  std::vector<float> out((token_end - token_begin) * stride, -7.0f);
  table.dot[static_cast<int>(w.format.kind)](w, panel_begin, panel_end, x, token_begin, token_end, out.data(), stride);
  return out;
}

class Dot : public EachTable {};
INSTANTIATE_FOR_EACH_TABLE(Dot);

TEST_P(Dot, EqualsTheReferenceForEveryShape) {
  Numbers numbers(1);
  for (const WeightKind kind : kKinds) {
    for (const std::int64_t columns : {1, 2, 3, 31, 64, 1023, 1024, 1025, 2047, 2048, 2049, 3100}) {
      for (const std::int64_t tokens : {1, 2, 3, 4, 5, 7, 12, 13, 16, 25, 49, 100}) {
        if (columns > 1100 && tokens > 13) continue;
        const std::int64_t rows = numbers.integer(1, 90);
        const bool wild = numbers.integer(0, 1) == 1;
        const auto weights = numbers.fill(rows * columns, wild);
        const auto bias = numbers.fill(rows, wild);
        const bool biased = numbers.integer(0, 1) == 1;
        const PackedMatrix w(kind, rows, columns, weights.span(), biased ? bias.span() : std::span<float>());
        const auto values = numbers.rows(tokens, columns, wild && kind != WeightKind::float16);
        const Activations x{values.data(), round_up16(columns), tokens};
        const auto expected = dot(reference(), *w, x, 0, w->panel_count(), 0, tokens);
        EXPECT_EQ(difference(expected, dot(table(), *w, x, 0, w->panel_count(), 0, tokens)), "")
            << "kind " << static_cast<int>(kind) << ", " << rows << " x " << columns << ", " << tokens << " tokens";
      }
    }
  }
}

TEST_P(Dot, APartOfThePanelsAndTokensIsThatPartOfTheWhole) {
  Numbers numbers(2);
  for (const WeightKind kind : kKinds) {
    const std::int64_t columns = 70, tokens = 60, panels = 11;
    const auto weights = numbers.fill(panels * 16 * columns);
    const PackedMatrix w(kind, panels * 16, columns, weights.span());
    const auto values = numbers.rows(tokens, columns);
    const Activations x{values.data(), round_up16(columns), tokens};
    const auto whole = dot(reference(), *w, x, 0, panels, 0, tokens);
    for (int i = 0; i < 60; ++i) {
      const int panel_begin = numbers.integer(0, panels - 1), panel_end = numbers.integer(panel_begin, panels);
      const int token_begin = numbers.integer(0, tokens - 1), token_end = numbers.integer(token_begin, tokens);
      const auto part = dot(table(), *w, x, panel_begin, panel_end, token_begin, token_end);
      std::vector<float> expected;
      for (int t = token_begin; t < token_end; ++t) {
        const auto row = whole.begin() + t * panels * 16;
        expected.insert(expected.end(), row + panel_begin * 16, row + panel_end * 16);
      }
      ASSERT_EQ(difference(expected, part), "")
          << "panels " << panel_begin << " to " << panel_end << ", tokens " << token_begin << " to " << token_end;
    }
  }
}

TEST_P(Dot, NothingIsWrittenOutsideThePart) {
  Numbers numbers(3);
  const auto weights = numbers.fill(48 * 20);
  const PackedMatrix w(WeightKind::bfloat16, 48, 20, weights.span());
  const auto values = numbers.rows(5, 20);
  const Activations x{values.data(), 32, 5};
  std::vector<float> out(5 * 80, -7.0f);
  table().dot[1](*w, 1, 3, x, 1, 4, out.data() + 16, 80);
  for (int t = 0; t < 5; ++t) {
    for (int i = 0; i < 80; ++i) {
      const bool inside = t < 3 && i >= 16 && i < 48;
      EXPECT_EQ(out[t * 80 + i] == -7.0f, !inside) << t << ", " << i;
    }
  }
}

TEST_P(Dot, NanAndInfinityStayInTheirToken) {
  Numbers numbers(4);
  for (const WeightKind kind : kKinds) {
    const std::int64_t rows = 40, columns = 33, tokens = 14;
    const auto weights = numbers.fill(rows * columns);
    const PackedMatrix w(kind, rows, columns, weights.span());
    auto values = numbers.rows(tokens, columns);
    const Activations x{values.data(), 48, tokens};
    auto expected = dot(reference(), *w, x, 0, 3, 0, tokens);
    values[5 * 48 + 32] = std::numeric_limits<float>::quiet_NaN();
    values[6 * 48] = std::numeric_limits<float>::infinity();
    const auto found = dot(table(), *w, x, 0, 3, 0, tokens);
    for (std::int64_t t = 0; t < tokens; ++t) {
      for (std::int64_t row = 0; row < rows; ++row) {
        const float value = found[t * 48 + row];
        if (t == 5) {
          EXPECT_TRUE(std::isnan(value));
        } else if (t == 6) {
          EXPECT_TRUE(std::isinf(value));
        } else {
          EXPECT_EQ(value, expected[t * 48 + row]);
        }
      }
    }
  }
}

TEST_P(Dot, ARowIsReadBackAsItIsStored) {
  Numbers numbers(5);
  for (const WeightKind kind : kKinds) {
    const std::int64_t rows = 37, columns = 53;
    const auto weights = numbers.fill(rows * columns);
    const PackedMatrix w(kind, rows, columns, weights.span());
    const auto identity = numbers.rows(columns, columns);
    for (std::int64_t row = 0; row < rows; ++row) {
      std::vector<float> expected(columns), found(columns);
      for (std::int64_t k = 0; k < columns; ++k) {
        const float value = weights[row * columns + k];
        expected[k] = kind == WeightKind::float32    ? value
                      : kind == WeightKind::bfloat16 ? bfloat16_to_float(float_to_bfloat16(value))
                                                     : float16_to_float(float_to_float16(value));
      }
      table().decode_row[static_cast<int>(kind)](*w, row, found.data());
      EXPECT_EQ(difference(expected, found), "") << "row " << row;
    }
  }
}

}  // namespace
}  // namespace sparkx::kernels
