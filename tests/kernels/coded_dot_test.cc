// Rules 2, 3 and 4 of docs/numerics.md: every table gives the reference's bits for quantized weights and activations,
// whatever the shape, and integers never overflow.
#include <gtest/gtest.h>

#include "support/kernels.h"

namespace sparkx::kernels {
namespace {

using sparkx::testing::CodedRows;
using sparkx::testing::difference;
using sparkx::testing::EachTable;
using sparkx::testing::Numbers;
using sparkx::testing::PackedMatrix;
using sparkx::testing::round_up16;

constexpr WeightKind kKinds[] = {WeightKind::affine4, WeightKind::affine8};
constexpr WeightKind kScaleKinds[] = {WeightKind::float32, WeightKind::bfloat16, WeightKind::float16};

int largest_code(WeightKind kind) {
  return kind == WeightKind::affine4 ? 15 : 255;
}

// Codes, scales and biases at random, the largest code more often than others.
struct AffineWeights {
  AffineWeights(const WeightFormat& f, std::int64_t rows, std::int64_t columns, Numbers& numbers, bool wild)
      : format(f) {
    const std::int64_t groups = rows * ((columns + f.group - 1) / f.group);
    for (std::int64_t i = 0; i < rows * columns; ++i) {
      const int code = numbers.integer(0, largest_code(f.kind) + 20);
      codes.push_back(static_cast<std::uint8_t>(std::min(code, largest_code(f.kind))));
    }
    for (std::int64_t i = 0; i < groups; ++i) {
      scales.push_back(rounded(wild ? numbers.wild() : numbers.uniform()));
      biases.push_back(rounded(wild ? numbers.wild() : numbers.uniform()));
    }
  }
  float rounded(float value) const {
    switch (format.scale_kind) {
      case WeightKind::bfloat16:
        return bfloat16_to_float(float_to_bfloat16(value));
      case WeightKind::float16:
        return float16_to_float(float_to_float16(std::fmod(value, 60000.0f)));
      default:
        return value;
    }
  }
  PackedMatrix packed(std::int64_t rows, std::int64_t columns, std::span<const float> bias = {}) const {
    return PackedMatrix(format, rows, columns, codes, scales, biases, bias);
  }

  WeightFormat format;
  std::vector<std::uint8_t> codes;
  std::vector<float> scales, biases;
};

WeightFormat random_format(WeightKind kind, Numbers& numbers) {
  return {kind, 32 << numbers.integer(0, 2), kScaleKinds[numbers.integer(0, 2)]};
}

std::vector<float> dot_codes(const KernelTable& table, const PanelMatrix& w, const CodedActivations& x,
                             std::int64_t panel_begin, std::int64_t panel_end, std::int64_t token_begin,
                             std::int64_t token_end) {
  const std::int64_t stride = (panel_end - panel_begin) * kLanes;
  std::vector<float> out((token_end - token_begin) * stride, -7.0f);
  table.dot_codes[static_cast<int>(w.format.kind)](w, panel_begin, panel_end, x, token_begin, token_end, out.data(),
                                                   stride);
  return out;
}

std::vector<float> dot_floats(const KernelTable& table, const PanelMatrix& w, const Activations& x) {
  std::vector<float> out(x.tokens * w.panel_count() * kLanes, -7.0f);
  table.dot[static_cast<int>(w.format.kind)](w, 0, w.panel_count(), x, 0, x.tokens, out.data(),
                                             w.panel_count() * kLanes);
  return out;
}

class CodedDot : public EachTable {};
INSTANTIATE_FOR_EACH_TABLE(CodedDot);

TEST_P(CodedDot, EqualsTheReferenceForEveryShape) {
  Numbers numbers(41);
  for (const WeightKind kind : kKinds) {
    for (const std::int64_t columns : {1, 3, 31, 32, 33, 64, 96, 129, 200, 1023, 1024, 1025, 1056, 1153, 2048, 2100}) {
      for (const std::int64_t tokens : {1, 2, 3, 4, 5, 7, 8, 11, 12, 13, 16, 25, 49, 100}) {
        if (columns > 200 && tokens > 13) continue;
        const std::int64_t rows = numbers.integer(1, 90);
        const bool wild = numbers.integer(0, 1) == 1, biased = numbers.integer(0, 1) == 1;
        const AffineWeights weights(random_format(kind, numbers), rows, columns, numbers, wild);
        const auto bias = numbers.fill(rows, wild);
        const PackedMatrix w = weights.packed(rows, columns, biased ? bias.span() : std::span<float>());
        const auto values = numbers.rows(tokens, columns, wild);
        const int group = activation_group(kind);
        const CodedRows x(reference(), values.span(), columns, group);
        const std::string what = std::to_string(rows) + " x " + std::to_string(columns) + ", groups of " +
                                 std::to_string(w->format.group) + ", " + std::to_string(tokens) + " tokens";
        EXPECT_EQ(difference(dot_codes(reference(), *w, *x, 0, w->panel_count(), 0, tokens),
                             dot_codes(table(), *w, *x, 0, w->panel_count(), 0, tokens)),
                  "")
            << "codes, " << what;
        const Activations floats{values.data(), round_up16(columns), tokens};
        EXPECT_EQ(difference(dot_floats(reference(), *w, floats), dot_floats(table(), *w, floats)), "")
            << "floats, " << what;
      }
    }
  }
}

// All codes and all activations at their ends: the largest sums that there can be, which a table must hold exactly.
TEST_P(CodedDot, TheLargestSumsAreExact) {
  for (const WeightKind kind : kKinds) {
    for (const int group : {32, 64, 128}) {
      for (const float sign : {1.0f, -1.0f}) {
        const std::int64_t rows = 16, columns = 256, tokens = 3;
        const WeightFormat format{kind, group, WeightKind::bfloat16};
        const std::vector<std::uint8_t> codes(rows * columns, static_cast<std::uint8_t>(largest_code(kind)));
        const std::vector<float> ones(rows * columns / group, 1.0f), zeros(rows * columns / group, 0.0f);
        const PackedMatrix w(format, rows, columns, codes, ones, zeros);
        AlignedBuffer<float> values(tokens * columns);
        std::fill(values.begin(), values.end(), sign * 127.0f);  // a scale of 1 and codes of 127
        const CodedRows x(table(), values.span(), columns, activation_group(kind));
        for (const float y : dot_codes(table(), *w, *x, 0, 1, 0, tokens)) {
          EXPECT_EQ(y, sign * 127.0f * static_cast<float>(largest_code(kind) * columns)) << group;
        }
      }
    }
  }
}

TEST_P(CodedDot, APartOfThePanelsAndTokensIsThatPartOfTheWhole) {
  Numbers numbers(42);
  for (const WeightKind kind : kKinds) {
    const std::int64_t columns = 160, tokens = 60, panels = 11;
    const AffineWeights weights({kind, 32, WeightKind::bfloat16}, panels * 16, columns, numbers, false);
    const PackedMatrix w = weights.packed(panels * 16, columns);
    const auto values = numbers.rows(tokens, columns);
    const CodedRows x(reference(), values.span(), columns, activation_group(kind));
    const auto whole = dot_codes(reference(), *w, *x, 0, panels, 0, tokens);
    for (int i = 0; i < 60; ++i) {
      const int panel_begin = numbers.integer(0, panels - 1), panel_end = numbers.integer(panel_begin, panels);
      const int token_begin = numbers.integer(0, tokens - 1), token_end = numbers.integer(token_begin, tokens);
      std::vector<float> expected;
      for (int t = token_begin; t < token_end; ++t) {
        const auto row = whole.begin() + t * panels * 16;
        expected.insert(expected.end(), row + panel_begin * 16, row + panel_end * 16);
      }
      const auto part = dot_codes(table(), *w, *x, panel_begin, panel_end, token_begin, token_end);
      ASSERT_EQ(difference(expected, part), "")
          << "panels " << panel_begin << " to " << panel_end << ", tokens " << token_begin << " to " << token_end;
    }
  }
}

TEST_P(CodedDot, NothingIsWrittenOutsideThePart) {
  Numbers numbers(43);
  const AffineWeights weights({WeightKind::affine4, 64, WeightKind::bfloat16}, 48, 64, numbers, false);
  const PackedMatrix w = weights.packed(48, 64);
  const auto values = numbers.rows(5, 64);
  const CodedRows x(table(), values.span(), 64, 64);
  std::vector<float> out(5 * 80, -7.0f);
  table().dot_codes[static_cast<int>(WeightKind::affine4)](*w, 1, 3, *x, 1, 4, out.data() + 16, 80);
  for (int t = 0; t < 5; ++t) {
    for (int i = 0; i < 80; ++i) {
      const bool inside = t < 3 && i >= 16 && i < 48;
      EXPECT_EQ(out[t * 80 + i] == -7.0f, !inside) << t << ", " << i;
    }
  }
}

TEST_P(CodedDot, NanAndInfinityMakeTheirTokenNanAndNoOther) {
  Numbers numbers(44);
  for (const WeightKind kind : kKinds) {
    const std::int64_t rows = 40, columns = 100, tokens = 14, stride = round_up16(columns);
    const AffineWeights weights({kind, 64, WeightKind::bfloat16}, rows, columns, numbers, false);
    const PackedMatrix w = weights.packed(rows, columns);
    auto values = numbers.rows(tokens, columns);
    const int group = activation_group(kind);
    const auto expected = dot_codes(table(), *w, *CodedRows(table(), values.span(), columns, group), 0, 3, 0, tokens);
    values[5 * stride + 99] = std::numeric_limits<float>::quiet_NaN();
    values[6 * stride] = -std::numeric_limits<float>::infinity();
    const auto found = dot_codes(table(), *w, *CodedRows(table(), values.span(), columns, group), 0, 3, 0, tokens);
    for (std::int64_t t = 0; t < tokens; ++t) {
      for (std::int64_t row = 0; row < rows; ++row) {
        if (t == 5 || t == 6) {
          EXPECT_TRUE(std::isnan(found[t * 48 + row])) << t;
        } else {
          EXPECT_EQ(found[t * 48 + row], expected[t * 48 + row]) << t;
        }
      }
    }
  }
}

TEST_P(CodedDot, ARowIsDecodedWithOneRounding) {
  Numbers numbers(45);
  for (const WeightKind kind : kKinds) {
    for (int i = 0; i < 12; ++i) {
      const std::int64_t rows = numbers.integer(1, 40), columns = numbers.integer(1, 300);
      const AffineWeights weights(random_format(kind, numbers), rows, columns, numbers, i % 2 == 1);
      const PackedMatrix w = weights.packed(rows, columns);
      const std::int64_t group = w->format.group, groups = (columns + group - 1) / group;
      for (std::int64_t row = 0; row < rows; ++row) {
        std::vector<float> expected(columns), found(columns);
        for (std::int64_t k = 0; k < columns; ++k) {
          expected[k] =
              std::fma(weights.scales[row * groups + k / group], static_cast<float>(weights.codes[row * columns + k]),
                       weights.biases[row * groups + k / group]);
        }
        table().decode_row[static_cast<int>(kind)](*w, row, found.data());
        ASSERT_EQ(difference(expected, found), "") << "row " << row << ", " << columns << " columns";
      }
    }
  }
}

TEST_P(CodedDot, ActivationCodesEqualTheReference) {
  Numbers numbers(46);
  for (int i = 0; i < 300; ++i) {
    const std::int64_t columns = numbers.integer(1, 400);
    auto values = numbers.rows(2, columns, i % 2 == 1);
    if (i % 3 == 0) {  // of one size, which the tests of 2^-100 cut through
      for (float& value : values)
        value = std::ldexp(value, value == 0 ? 0 : -100 - std::ilogb(value) + numbers.integer(-1, 0));
    }
    for (const int group : {64, 32}) {
      const CodedRows expected(reference(), values.span(), columns, group);
      const CodedRows found(table(), values.span(), columns, group);
      const std::int64_t bytes = 2 * expected->code_stride;
      EXPECT_EQ(std::memcmp(expected->codes, found->codes, bytes), 0);
      EXPECT_EQ(std::count(found->codes, found->codes + bytes, -128), 0);
      const auto floats = [&](const float* p, std::int64_t stride) { return std::span(p, 2 * stride); };
      EXPECT_EQ(
          difference(floats(expected->scales, expected->group_stride), floats(found->scales, found->group_stride)), "");
      EXPECT_EQ(difference(floats(expected->sums, expected->group_stride), floats(found->sums, found->group_stride)),
                "");
      EXPECT_EQ(difference(floats(expected->stretch_sums, expected->stretch_stride),
                           floats(found->stretch_sums, found->stretch_stride)),
                "");
    }
  }
}

TEST_P(CodedDot, CodingPartsOfARowCodesTheRow) {
  Numbers numbers(47);
  const std::int64_t columns = 300;
  const auto values = numbers.rows(1, columns, true);
  for (const int group : {64, 32}) {
    const CodedRows whole(table(), values.span(), columns, group);
    for (std::int64_t begin = 0; begin < columns; begin += 64) {
      const std::int64_t count = std::min<std::int64_t>(64, columns - begin);
      std::int8_t codes[64];
      float scales[2], sums[2], stretch_sums[2];
      table().code_activations(values.data() + begin, count, group, codes, scales, sums, stretch_sums);
      EXPECT_EQ(std::memcmp(codes, whole->codes + begin, 64), 0);
      EXPECT_EQ(std::memcmp(scales, whole->scales + begin / group, 64 / group * sizeof(float)), 0);
      EXPECT_EQ(std::memcmp(sums, whole->sums + begin / group, 64 / group * sizeof(float)), 0);
      EXPECT_EQ(std::memcmp(stretch_sums, whole->stretch_sums + begin / 32, sizeof stretch_sums), 0);
    }
  }
}

}  // namespace
}  // namespace sparkx::kernels
