// Rules 2 to 5 of docs/numerics.md: every table gives the reference's bits for quantized weights and activations,
// whatever the shape, and integers never overflow.
#include <gtest/gtest.h>

#include <numeric>

#include "core/float_codes.h"
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
                                 WeightKind::codes5, WeightKind::codes6, WeightKind::codes8,
                                 WeightKind::e2m1,   WeightKind::iq4,    WeightKind::e4m3};
constexpr WeightKind kScaleKinds[] = {WeightKind::float32, WeightKind::bfloat16, WeightKind::float16};

constexpr ActivationForm kCodedForms[] = {ActivationForm::groups_64, ActivationForm::groups_32,
                                          ActivationForm::token_codes};

int largest_code(WeightKind kind) {
  return (1 << code_bits(kind)) - 1;
}

// The largest sub-scale and minimum of two levels, and the smallest sub-scale.
int largest_sub_scale(WeightKind kind) {
  return kind == WeightKind::codes2 ? 15 : has_minima(kind) ? 63 : 127;
}
int smallest_sub_scale(WeightKind kind) {
  return has_minima(kind) ? 0 : -128;
}

// Codes, scales, biases and zeros at random, the largest code more often than others.
struct CodeWeights {
  CodeWeights(const WeightFormat& f, std::int64_t rows, std::int64_t columns, Numbers& numbers, bool wild) : format(f) {
    for (std::int64_t i = 0; i < rows * columns; ++i) {
      int code = std::min(numbers.integer(0, largest_code(f.kind) + 20), largest_code(f.kind));
      if (f.kind == WeightKind::e4m3 && (code & 127) == 127) --code;  // that is no number
      codes.push_back(static_cast<std::uint8_t>(code));
    }
    for (std::int64_t i = 0; i < rows * scale_count(f, columns); ++i) {
      scales.push_back(rounded(wild ? numbers.wild() : numbers.uniform(), numbers));
      biases.push_back(rounded(wild ? numbers.wild() : numbers.uniform(), numbers));
    }
    for (std::int64_t i = 0; i < rows * group_count(f, columns); ++i) {
      zeros.push_back(static_cast<std::uint8_t>(numbers.integer(0, largest_code(f.kind))));
      const int largest = largest_sub_scale(f.kind);
      sub_scales.push_back(static_cast<std::int8_t>(numbers.integer(smallest_sub_scale(f.kind), largest)));
      sub_minima.push_back(static_cast<std::uint8_t>(numbers.integer(0, largest)));
    }
  }
  float rounded(float value, Numbers& numbers) const {
    switch (format.scale_kind) {
      case WeightKind::e4m3:
        return e4m3_to_float(static_cast<std::uint8_t>(numbers.integer(0, 126) + 128 * numbers.integer(0, 1)));
      case WeightKind::bfloat16:
        return bfloat16_to_float(float_to_bfloat16(value));
      case WeightKind::float16:
        return float16_to_float(float_to_float16(std::fmod(value, 60000.0f)));
      default:
        return value;
    }
  }
  PackedMatrix packed(std::int64_t rows, std::int64_t columns, std::span<const float> bias = {}) const {
    return PackedMatrix(
        format, rows, columns,
        {codes.data(), scales.data(), biases.data(), zeros.data(), sub_scales.data(), sub_minima.data()}, bias);
  }

  WeightFormat format;
  std::vector<std::uint8_t> codes;
  std::vector<float> scales, biases;
  std::vector<std::uint8_t> zeros;
  std::vector<std::int8_t> sub_scales;
  std::vector<std::uint8_t> sub_minima;
};

// Every scheme of a kind for so many columns; a number at random where a scheme takes one.
std::vector<WeightFormat> formats(WeightKind kind, Numbers& numbers, std::int64_t columns) {
  const auto scale_kind = [&] { return kScaleKinds[numbers.integer(0, 2)]; };
  const auto group = [&] { return 32 << numbers.integer(0, 2); };
  if (kind == WeightKind::e4m3) return {{kind, 32, scale_kind(), CodeScheme::offset}};
  std::vector<WeightFormat> two_levels;
  if (has_two_levels(kind) && columns % kSuperBlock == 0) {
    two_levels = {{kind, sub_block_columns(kind), scale_kind(), CodeScheme::two_level, two_level_zero(kind)}};
  }
  if (table_zero(kind) != 0) {
    // Halves of the scales of E2M1 are exact: they are no float32.
    const WeightKind sixteen_bits = kScaleKinds[numbers.integer(1, 2)];
    two_levels.push_back({kind, group(), sixteen_bits, CodeScheme::offset, table_zero(kind)});
    if (kind == WeightKind::e2m1) two_levels.push_back({kind, 16, WeightKind::e4m3, CodeScheme::offset, 12});
    return two_levels;
  }
  const int zero = (1 << (code_bits(kind) - 1)) * numbers.integer(0, 1);
  std::vector<WeightFormat> result = {{kind, group(), scale_kind(), CodeScheme::affine},
                                      {kind, group(), scale_kind(), CodeScheme::zero_point},
                                      {kind, group(), scale_kind(), CodeScheme::offset, zero},
                                      {kind, kWholeRow, scale_kind(), CodeScheme::affine},
                                      {kind, kWholeRow, scale_kind(), CodeScheme::zero_point},
                                      {kind, kWholeRow, scale_kind(), CodeScheme::offset, zero}};
  if (kind == WeightKind::codes8) result.push_back({kind, kWholeRow, scale_kind(), CodeScheme::w8a8, 128});
  result.insert(result.end(), two_levels.begin(), two_levels.end());
  return result;
}

std::string name(const WeightFormat& format) {
  constexpr const char* kSchemes[] = {"affine", "zero point", "offset", "w8a8", "two levels"};
  return "kind " + std::to_string(static_cast<int>(format.kind)) + ", " +
         std::string(kSchemes[static_cast<int>(format.scheme)]) + ", groups of " + std::to_string(format.group);
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
    for (const std::int64_t columns :
         {1, 3, 31, 32, 33, 64, 96, 129, 200, 256, 1023, 1024, 1025, 1056, 1153, 1280, 2048, 2100}) {
      for (const std::int64_t tokens : {1, 2, 3, 4, 5, 7, 8, 11, 12, 13, 16, 25, 49, 100}) {
        if (columns > 200 && tokens > 13) continue;
        const std::int64_t rows = numbers.integer(1, 90);
        const bool wild = numbers.integer(0, 1) == 1, biased = numbers.integer(0, 1) == 1;
        const auto values = numbers.rows(tokens, columns, wild);
        const auto bias = numbers.fill(rows, wild);
        const std::vector<WeightFormat> all = formats(kind, numbers, columns);
        // All of them with few columns, one after another with many; two levels always.
        for (std::size_t i = 0; i < all.size(); ++i) {
          if (columns > 40 && i != static_cast<std::size_t>(tokens) % all.size() &&
              all[i].scheme != CodeScheme::two_level) {
            continue;
          }
          const CodeWeights weights(all[i], rows, columns, numbers, wild);
          const PackedMatrix w = weights.packed(rows, columns, biased ? bias.span() : std::span<float>());
          const std::string what = std::to_string(rows) + " x " + std::to_string(columns) + ", " + name(w->format) +
                                   ", " + std::to_string(tokens) + " tokens";
          if (kind != WeightKind::e4m3) {
            const CodedRows x(reference(), values.span(), columns, coded_form(w->format));
            EXPECT_EQ(difference(dot_codes(reference(), *w, *x, 0, w->panel_count(), 0, tokens),
                                 dot_codes(table(), *w, *x, 0, w->panel_count(), 0, tokens)),
                      "")
                << "codes, " << what;
          }
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
    if (kind == WeightKind::e4m3) continue;  // it meets floats only
    for (const WeightFormat& format : formats(kind, numbers, 256)) {
      const std::int64_t rows = 20, columns = format.scheme == CodeScheme::two_level ? 256 : 72, tokens = 600;
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
    if (table_zero(kind) != 0 || kind == WeightKind::e4m3) continue;  // the next tests
    for (const WeightFormat& format : formats(kind, numbers, 1)) {
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

// The same of tables: every code, so also the first and the last one, at both ends of activations.
TEST_P(CodedDot, TheLargestSumsOfTablesAreExact) {
  Numbers numbers(52);
  const std::int64_t rows = 16, columns = 128, tokens = 3;
  for (const WeightKind kind : {WeightKind::e2m1, WeightKind::iq4}) {
    for (const WeightFormat& format : formats(kind, numbers, 1)) {
      const std::vector<float> ones(rows * group_count(format, columns), 1.0f);
      for (int code = 0; code < 16; ++code) {
        const float value = kind == WeightKind::e2m1 ? 0.5f * kE2m1Halves[code] : kIq4Values[code];
        const std::vector<std::uint8_t> codes(rows * columns, static_cast<std::uint8_t>(code));
        const PackedMatrix w(format, rows, columns, {codes.data(), ones.data()});
        for (const float sign : {1.0f, -1.0f}) {
          AlignedBuffer<float> values(tokens * columns);
          std::fill(values.begin(), values.end(), sign * 127.0f);
          const CodedRows x(table(), values.span(), columns, coded_form(w->format));
          for (const float y : dot_codes(table(), *w, *x, 0, 1, 0, tokens)) {
            ASSERT_EQ(y, sign * 127.0f * value * static_cast<float>(columns)) << name(format) << ", code " << code;
          }
        }
      }
    }
  }
}

// And of two levels, whose sums of 64 columns may need more than the 24 bits of a float.
TEST_P(CodedDot, TheLargestSumsOfTwoLevelsAreExact) {
  const std::int64_t rows = 16, columns = 512, tokens = 3;
  for (const WeightKind kind : kKinds) {
    if (!has_two_levels(kind)) continue;
    const WeightFormat format{kind, sub_block_columns(kind), WeightKind::float16, CodeScheme::two_level,
                              two_level_zero(kind)};
    const std::vector<float> ones(rows * scale_count(format, columns), 1.0f);
    for (const int code : {0, largest_code(kind)}) {
      const int value = kind == WeightKind::iq4 ? kIq4Values[code] : code - two_level_zero(kind);
      const std::vector<std::uint8_t> codes(rows * columns, static_cast<std::uint8_t>(code));
      for (const int sub_scale : {smallest_sub_scale(kind), largest_sub_scale(kind)}) {
        const std::int64_t groups = rows * group_count(format, columns);
        const std::vector<std::int8_t> sub_scales(groups, static_cast<std::int8_t>(sub_scale));
        const int minimum = has_minima(kind) ? largest_sub_scale(kind) : 0;
        const std::vector<std::uint8_t> minima(groups, static_cast<std::uint8_t>(minimum));
        const PackedMatrix w(format, rows, columns,
                             {codes.data(), ones.data(), ones.data(), nullptr, sub_scales.data(), minima.data()});
        for (const int q : {127, -127}) {
          AlignedBuffer<float> values(tokens * columns);
          std::fill(values.begin(), values.end(), static_cast<float>(q));
          const CodedRows x(table(), values.span(), columns, coded_form(w->format));
          float expected = 0;
          for (int group = 0; group < columns / 64; ++group) {
            expected += static_cast<float>(64 * q * value * sub_scale);
            if (has_minima(kind)) expected -= static_cast<float>(64 * q * minimum);
          }
          for (const float y : dot_codes(table(), *w, *x, 0, 1, 0, tokens)) ASSERT_EQ(y, expected) << name(format);
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
  for (const WeightKind kind : {WeightKind::codes2, WeightKind::codes3, WeightKind::codes4, WeightKind::codes5,
                                WeightKind::codes6, WeightKind::codes8}) {
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
    if (kind == WeightKind::e4m3) continue;  // it meets floats only
    for (const WeightFormat& format : formats(kind, numbers, 256)) {
      const std::int64_t columns = format.scheme == CodeScheme::two_level ? 256 : 100;
      const std::int64_t rows = 40, tokens = 14, stride = round_up16(columns);
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
      const std::int64_t rows = numbers.integer(1, 40);
      const std::int64_t columns = i % 4 == 0 ? 1280 : numbers.integer(1, i < 2 ? 1500 : 300);
      for (const WeightFormat& format : formats(kind, numbers, columns)) {
        const CodeWeights weights(format, rows, columns, numbers, i % 2 == 1);
        const PackedMatrix w = weights.packed(rows, columns);
        const std::int64_t groups = group_count(format, columns);
        for (std::int64_t row = 0; row < rows; ++row) {
          std::vector<float> expected(columns), found(columns);
          for (std::int64_t k = 0; k < columns; ++k) {
            const std::int64_t g = row * groups + (format.group == kWholeRow ? 0 : k / format.group);
            const int code = weights.codes[row * columns + k];
            const int zero = format.scheme == CodeScheme::zero_point ? weights.zeros[g] : format.zero;
            const float value = kind == WeightKind::e2m1   ? e2m1_to_float(static_cast<std::uint8_t>(code))
                                : kind == WeightKind::iq4  ? kIq4Values[code]
                                : kind == WeightKind::e4m3 ? e4m3_to_float(static_cast<std::uint8_t>(code))
                                                           : static_cast<float>(code - zero);
            if (format.scheme == CodeScheme::two_level) {
              const std::int64_t s = (row * columns + k) / kSuperBlock;
              const float scale = weights.scales[s] * static_cast<float>(weights.sub_scales[g]);
              const float minimum = weights.biases[s] * static_cast<float>(weights.sub_minima[g]);
              expected[k] = has_minima(kind) ? std::fma(scale, value, -minimum) : scale * value;
              continue;
            }
            expected[k] = format.scheme == CodeScheme::affine
                              ? std::fma(weights.scales[g], static_cast<float>(code), weights.biases[g])
                              : weights.scales[g] * value;
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
      // Of each 16 columns, in the order 0, 2, 1, 3.
      for (std::int64_t k = 0; form == ActivationForm::groups_64 && k < bytes; k += 64) {
        for (int i = 0; i < 4; ++i) {
          const std::int8_t* first = found->codes + k + 16 * (i % 2 * 2 + i / 2);
          EXPECT_EQ(found->quarter_sums[k / 16 + i], std::accumulate(first, first + 16, 0));
        }
      }
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
      std::int16_t quarters[4];
      table().code_activations(values.data() + begin, count, group,
                               {codes, scales, sums, scaled, stretch, scaled_stretch, quarters});
      EXPECT_EQ(std::memcmp(codes, whole->codes + begin, 64), 0);
      EXPECT_EQ(std::memcmp(scales, whole->scales + begin / group, 64 / group * sizeof(float)), 0);
      if (group == 64) {
        EXPECT_EQ(sums[0], whole->sums[begin / 64]);
        EXPECT_EQ(scaled[0], whole->scaled_sums[begin / 64]);
        EXPECT_EQ(std::memcmp(quarters, whole->quarter_sums + begin / 16, sizeof quarters), 0);
      }
      EXPECT_EQ(std::memcmp(stretch, whole->stretch_sums + begin / 32, sizeof stretch), 0);
      EXPECT_EQ(std::memcmp(scaled_stretch, whole->scaled_stretch_sums + begin / 32, sizeof stretch), 0);
    }
  }
}

}  // namespace
}  // namespace sparkx::kernels
