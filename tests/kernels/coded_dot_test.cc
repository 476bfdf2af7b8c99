// Rules 2 to 5 of docs/numerics.md: every table gives the reference's bits for quantized weights and activations,
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

constexpr WeightKind kKinds[] = {WeightKind::codes2, WeightKind::codes3, WeightKind::codes4,
                                 WeightKind::codes5, WeightKind::codes6, WeightKind::codes8};
constexpr WeightKind kScaleKinds[] = {WeightKind::float32, WeightKind::bfloat16, WeightKind::float16};

constexpr ActivationForm kCodedForms[] = {ActivationForm::groups_64, ActivationForm::groups_32,
                                          ActivationForm::token_codes};

int largest_code(WeightKind kind) {
  return (1 << code_bits(kind)) - 1;
}

// Codes, scales, biases and zeros at random, the largest code more often than others.
struct CodeWeights {
  CodeWeights(const WeightFormat& f, std::int64_t rows, std::int64_t columns, Numbers& numbers, bool wild) : format(f) {
    const std::int64_t groups = rows * group_count(f, columns);
    for (std::int64_t i = 0; i < rows * columns; ++i) {
      const int code = numbers.integer(0, largest_code(f.kind) + 20);
      codes.push_back(static_cast<std::uint8_t>(std::min(code, largest_code(f.kind))));
    }
    for (std::int64_t i = 0; i < groups; ++i) {
      scales.push_back(rounded(wild ? numbers.wild() : numbers.uniform()));
      biases.push_back(rounded(wild ? numbers.wild() : numbers.uniform()));
      zeros.push_back(static_cast<std::uint8_t>(numbers.integer(0, largest_code(f.kind))));
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
    return PackedMatrix(format, rows, columns, {codes.data(), scales.data(), biases.data(), zeros.data()}, bias);
  }

  WeightFormat format;
  std::vector<std::uint8_t> codes;
  std::vector<float> scales, biases;
  std::vector<std::uint8_t> zeros;
};

// Every scheme of a kind; a number at random where a scheme takes one.
std::vector<WeightFormat> formats(WeightKind kind, Numbers& numbers) {
  const auto scale_kind = [&] { return kScaleKinds[numbers.integer(0, 2)]; };
  const auto group = [&] { return 32 << numbers.integer(0, 2); };
  const int zero = (1 << (code_bits(kind) - 1)) * numbers.integer(0, 1);
  std::vector<WeightFormat> result = {{kind, group(), scale_kind(), CodeScheme::affine},
                                      {kind, group(), scale_kind(), CodeScheme::zero_point},
                                      {kind, group(), scale_kind(), CodeScheme::offset, zero},
                                      {kind, kWholeRow, scale_kind(), CodeScheme::affine},
                                      {kind, kWholeRow, scale_kind(), CodeScheme::zero_point},
                                      {kind, kWholeRow, scale_kind(), CodeScheme::offset, zero}};
  if (kind == WeightKind::codes8) result.push_back({kind, kWholeRow, scale_kind(), CodeScheme::w8a8, 128});
  return result;
}

std::string name(const WeightFormat& format) {
  constexpr const char* kSchemes[] = {"affine", "zero point", "offset", "w8a8"};
  return std::string(kSchemes[static_cast<int>(format.scheme)]) + ", groups of " + std::to_string(format.group);
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
        const auto values = numbers.rows(tokens, columns, wild);
        const auto bias = numbers.fill(rows, wild);
        const std::vector<WeightFormat> all = formats(kind, numbers);
        // All of them with few columns, one after another with many.
        for (std::size_t i = 0; i < all.size(); ++i) {
          if (columns > 40 && i != static_cast<std::size_t>(tokens) % all.size()) continue;
          const CodeWeights weights(all[i], rows, columns, numbers, wild);
          const PackedMatrix w = weights.packed(rows, columns, biased ? bias.span() : std::span<float>());
          const CodedRows x(reference(), values.span(), columns, coded_form(w->format));
          const std::string what = std::to_string(rows) + " x " + std::to_string(columns) + ", " + name(w->format) +
                                   ", " + std::to_string(tokens) + " tokens";
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
}

TEST_P(CodedDot, EqualsTheReferenceForSixHundredTokens) {
  Numbers numbers(48);
  for (const WeightKind kind : kKinds) {
    for (const WeightFormat& format : formats(kind, numbers)) {
      const std::int64_t rows = 20, columns = 72, tokens = 600;
      const PackedMatrix w = CodeWeights(format, rows, columns, numbers, false).packed(rows, columns);
      const auto values = numbers.rows(tokens, columns);
      const CodedRows x(reference(), values.span(), columns, coded_form(format));
      EXPECT_EQ(
          difference(dot_codes(reference(), *w, *x, 0, 2, 0, tokens), dot_codes(table(), *w, *x, 0, 2, 0, tokens)), "")
          << name(format);
    }
  }
}

// All codes and all activations at their ends: the largest sums that there can be, which a table must hold exactly.
TEST_P(CodedDot, TheLargestSumsAreExact) {
  Numbers numbers(49);
  const std::int64_t rows = 16, columns = 256, tokens = 3;
  for (const WeightKind kind : kKinds) {
    for (const WeightFormat& format : formats(kind, numbers)) {
      if (format.scheme == CodeScheme::w8a8) continue;  // its scales are no integers
      const std::int64_t groups = rows * group_count(format, columns);
      const std::vector<float> ones(groups, 1.0f), biases(groups, 0.0f);
      for (const int code : {0, largest_code(kind)}) {
        for (const int zero : {0, largest_code(kind)}) {
          const std::vector<std::uint8_t> codes(rows * columns, static_cast<std::uint8_t>(code)),
              zeros(groups, static_cast<std::uint8_t>(zero));
          WeightFormat with_zero = format;
          with_zero.zero = zero;
          const int value = format.scheme == CodeScheme::affine ? code : code - zero;
          const PackedMatrix w(with_zero, rows, columns, {codes.data(), ones.data(), biases.data(), zeros.data()});
          for (const float sign : {1.0f, -1.0f}) {
            AlignedBuffer<float> values(tokens * columns);
            std::fill(values.begin(), values.end(), sign * 127.0f);  // a scale of 1 and codes of 127
            const CodedRows x(table(), values.span(), columns, coded_form(w->format));
            for (const float y : dot_codes(table(), *w, *x, 0, 1, 0, tokens)) {
              EXPECT_EQ(y, sign * 127.0f * static_cast<float>(value * columns)) << name(format);
            }
          }
        }
      }
    }
  }
}

// Rule 5 at its ends: codes of -128 and 127 on both sides over as many columns as it takes.
TEST_P(CodedDot, TheLargestSumsByTokenAreExact) {
  const WeightFormat format{WeightKind::codes8, kWholeRow, WeightKind::float32, CodeScheme::w8a8, 128};
  for (const std::int64_t columns : {std::int64_t{96}, kMaxTokenCodeColumns}) {
    for (const int weight : {-128, 127}) {
      for (const int code : {-128, 127}) {
        const std::vector<std::uint8_t> codes(columns, static_cast<std::uint8_t>(weight + 128));
        const float one = 1.0f;
        const PackedMatrix w(format, 1, columns, {codes.data(), &one});
        const std::vector<std::int8_t> x_codes(columns, static_cast<std::int8_t>(code));
        const float scale = 0.5f, sum = static_cast<float>(code * columns);
        CodedActivations x{};
        x.codes = x_codes.data();
        x.code_stride = columns;
        x.scales = &scale;
        x.sums = &sum;
        x.group_stride = 1;
        x.tokens = 1;
        const auto exact = static_cast<std::int64_t>(weight) * code * columns;
        EXPECT_EQ(dot_codes(table(), *w, x, 0, 1, 0, 1)[0], static_cast<float>(exact) * 0.5f);
      }
    }
  }
}

// Largest magnitudes on which the scale is a float of every sort; denormal scales make quotients beyond the codes.
TEST_P(CodedDot, CodesByTokenStayInTheirRange) {
  for (const float largest :
       {0.0f, -0.0f, 0x1p-149f, 0x1p-143f, 191 * 0x1p-149f, 0x1p-126f, 1.0f, 127.5f, 0x1.fffffep127f}) {
    for (const float sign : {1.0f, -1.0f}) {
      AlignedBuffer<float> values(48);
      values[0] = sign * largest;
      values[1] = -0.49f * values[0];
      const CodedRows x(table(), values.span(), 40, ActivationForm::token_codes);
      const float scale = largest / 127.5f;
      EXPECT_EQ(x->scales[0], scale) << largest;
      const float expected = scale == 0 ? 0 : std::clamp(std::nearbyint(values[0] / scale), -128.0f, 127.0f);
      EXPECT_EQ(x->codes[0], static_cast<int>(expected)) << largest;
      EXPECT_EQ(x->sums[0], static_cast<float>(x->codes[0] + x->codes[1]));
    }
  }
}

TEST_P(CodedDot, APartOfThePanelsAndTokensIsThatPartOfTheWhole) {
  Numbers numbers(42);
  for (const WeightKind kind : kKinds) {
    const std::int64_t columns = 160, tokens = 60, panels = 11;
    const CodeWeights weights({kind, 32, WeightKind::bfloat16}, panels * 16, columns, numbers, false);
    const PackedMatrix w = weights.packed(panels * 16, columns);
    const auto values = numbers.rows(tokens, columns);
    const CodedRows x(reference(), values.span(), columns, coded_form(w->format));
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
  const CodeWeights weights({WeightKind::codes4, 64, WeightKind::bfloat16}, 48, 64, numbers, false);
  const PackedMatrix w = weights.packed(48, 64);
  const auto values = numbers.rows(5, 64);
  const CodedRows x(table(), values.span(), 64, coded_form(w->format));
  std::vector<float> out(5 * 80, -7.0f);
  table().dot_codes[static_cast<int>(WeightKind::codes4)](*w, 1, 3, *x, 1, 4, out.data() + 16, 80);
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
    for (const WeightFormat& format : formats(kind, numbers)) {
      const std::int64_t rows = 40, columns = 100, tokens = 14, stride = round_up16(columns);
      const CodeWeights weights(format, rows, columns, numbers, false);
      const PackedMatrix w = weights.packed(rows, columns);
      auto values = numbers.rows(tokens, columns);
      const ActivationForm form = coded_form(format);
      const auto expected = dot_codes(table(), *w, *CodedRows(table(), values.span(), columns, form), 0, 3, 0, tokens);
      values[5 * stride + 99] = std::numeric_limits<float>::quiet_NaN();
      values[6 * stride] = -std::numeric_limits<float>::infinity();
      const auto found = dot_codes(table(), *w, *CodedRows(table(), values.span(), columns, form), 0, 3, 0, tokens);
      for (std::int64_t t = 0; t < tokens; ++t) {
        for (std::int64_t row = 0; row < rows; ++row) {
          if (t == 5 || t == 6) {
            EXPECT_TRUE(std::isnan(found[t * 48 + row])) << t << ", " << name(format);
          } else {
            EXPECT_EQ(found[t * 48 + row], expected[t * 48 + row]) << t << ", " << name(format);
          }
        }
      }
    }
  }
}

TEST_P(CodedDot, ARowIsDecodedAsRule4Says) {
  Numbers numbers(45);
  for (const WeightKind kind : kKinds) {
    for (int i = 0; i < 12; ++i) {
      const std::int64_t rows = numbers.integer(1, 40), columns = numbers.integer(1, i < 2 ? 1500 : 300);
      for (const WeightFormat& format : formats(kind, numbers)) {
        const CodeWeights weights(format, rows, columns, numbers, i % 2 == 1);
        const PackedMatrix w = weights.packed(rows, columns);
        const std::int64_t groups = group_count(format, columns);
        for (std::int64_t row = 0; row < rows; ++row) {
          std::vector<float> expected(columns), found(columns);
          for (std::int64_t k = 0; k < columns; ++k) {
            const std::int64_t g = row * groups + (format.group == kWholeRow ? 0 : k / format.group);
            const int code = weights.codes[row * columns + k];
            const int zero = format.scheme == CodeScheme::zero_point ? weights.zeros[g] : format.zero;
            expected[k] = format.scheme == CodeScheme::affine
                              ? std::fma(weights.scales[g], static_cast<float>(code), weights.biases[g])
                              : weights.scales[g] * static_cast<float>(code - zero);
          }
          table().decode_row[static_cast<int>(kind)](*w, row, found.data());
          ASSERT_EQ(difference(expected, found), "")
              << "row " << row << ", " << columns << " columns, " << name(format);
        }
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
    for (const ActivationForm form : kCodedForms) {
      const CodedRows expected(reference(), values.span(), columns, form);
      const CodedRows found(table(), values.span(), columns, form);
      const std::int64_t bytes = 2 * expected->code_stride;
      EXPECT_EQ(std::memcmp(expected->codes, found->codes, bytes), 0);
      const auto smallest = std::count(found->codes, found->codes + bytes, -128);
      EXPECT_TRUE(smallest == 0 || form == ActivationForm::token_codes);
      const auto compare = [&](auto array, std::int64_t stride) {
        EXPECT_EQ(difference(std::span((*expected).*array, 2 * stride), std::span((*found).*array, 2 * stride)), "");
      };
      compare(&CodedActivations::scales, expected->group_stride);
      compare(&CodedActivations::sums, expected->group_stride);
      compare(&CodedActivations::scaled_sums, expected->group_stride);
      compare(&CodedActivations::stretch_sums, expected->stretch_stride);
      compare(&CodedActivations::scaled_stretch_sums, expected->stretch_stride);
    }
  }
}

TEST_P(CodedDot, CodingPartsOfARowCodesTheRow) {
  Numbers numbers(47);
  const std::int64_t columns = 300;
  const auto values = numbers.rows(1, columns, true);
  for (const ActivationForm form : {ActivationForm::groups_64, ActivationForm::groups_32}) {
    const int group = form_group(form);
    const CodedRows whole(table(), values.span(), columns, form);
    for (std::int64_t begin = 0; begin < columns; begin += 64) {
      const std::int64_t count = std::min<std::int64_t>(64, columns - begin);
      std::int8_t codes[64];
      float scales[2], sums[2], scaled[2], stretch[2], scaled_stretch[2];
      table().code_activations(values.data() + begin, count, group,
                               {codes, scales, sums, scaled, stretch, scaled_stretch});
      EXPECT_EQ(std::memcmp(codes, whole->codes + begin, 64), 0);
      EXPECT_EQ(std::memcmp(scales, whole->scales + begin / group, 64 / group * sizeof(float)), 0);
      if (group == 64) {
        EXPECT_EQ(sums[0], whole->sums[begin / 64]);
        EXPECT_EQ(scaled[0], whole->scaled_sums[begin / 64]);
      }
      EXPECT_EQ(std::memcmp(stretch, whole->stretch_sums + begin / 32, sizeof stretch), 0);
      EXPECT_EQ(std::memcmp(scaled_stretch, whole->scaled_stretch_sums + begin / 32, sizeof stretch), 0);
    }
  }
}

}  // namespace
}  // namespace sparkx::kernels
