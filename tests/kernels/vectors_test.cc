// tests/data/numerics.json: what the rules of docs/numerics.md give, computed from their text by
// tests/oracle/make_numerics_vectors.py. Every table must give those bits.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>

#include "core/json.h"
#include "kernels/math.h"
#include "support/kernels.h"

namespace sparkx::kernels {
namespace {

using sparkx::testing::CodedRows;
using sparkx::testing::difference;
using sparkx::testing::EachTable;
using sparkx::testing::PackedMatrix;
using sparkx::testing::round_up16;

const json::Value& document() {
  static const json::Value value = [] {
    std::ifstream file(SPARKX_SOURCE_DIR "/tests/data/numerics.json");
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    return json::parse(text, "numerics.json");
  }();
  return value;
}

// A string of bit patterns of `digits` hexadecimal digits.
std::vector<std::uint64_t> patterns(const json::Value& value, int digits) {
  const std::string& text = value.as_string();
  std::vector<std::uint64_t> result;
  for (std::size_t i = 0; i < text.size(); i += digits) {
    result.push_back(std::strtoull(text.substr(i, digits).c_str(), nullptr, 16));
  }
  return result;
}

std::vector<float> floats(const json::Value& parent, std::string_view key) {
  std::vector<float> result;
  for (const std::uint64_t bits : patterns(*parent.find(key), 8)) {
    result.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
  }
  return result;
}

// Rows of `columns` floats, each with zeros up to a multiple of 16.
AlignedBuffer<float> padded(const std::vector<float>& values, std::int64_t columns) {
  const std::int64_t rows = static_cast<std::int64_t>(values.size()) / columns, stride = round_up16(columns);
  AlignedBuffer<float> result(rows * stride);
  for (std::int64_t r = 0; r < rows; ++r) std::copy_n(values.data() + r * columns, columns, result.data() + r * stride);
  return result;
}

int number(const json::Value& parent, std::string_view key) {
  return static_cast<int>(parent.find(key)->as_int64());
}

class Vectors : public EachTable {};
INSTANTIATE_FOR_EACH_TABLE(Vectors);

TEST_P(Vectors, Rule0Rounding) {
  const json::Value& cases = *document().find("rounding");
  const auto input = floats(cases, "input"), expected = floats(cases, "bfloat16");
  std::vector<std::uint16_t> block(kBlockPositions * input.size());
  table().store_value[static_cast<int>(KvKind::bfloat16)](reinterpret_cast<std::byte*>(block.data()), 0, input.data(),
                                                          static_cast<int>(input.size()));
  std::vector<float> found;
  for (std::size_t i = 0; i < input.size(); ++i) found.push_back(bfloat16_to_float(block[i]));
  EXPECT_EQ(difference(expected, found), "");
}

TEST_P(Vectors, Rule0RoundingOfWeights) {
  const json::Value& cases = *document().find("rounding");
  const auto input = floats(cases, "input");
  const auto columns = static_cast<std::int64_t>(input.size());
  for (const auto& [name, kind] : {std::pair{"bfloat16", WeightKind::bfloat16}, {"float16", WeightKind::float16}}) {
    const PackedMatrix w(kind, 1, columns, input);
    std::vector<float> found(input.size());
    table().decode_row[static_cast<int>(kind)](*w, 0, found.data());
    EXPECT_EQ(difference(floats(cases, name), found), "") << name;
  }
}

TEST_P(Vectors, Rule1Dot) {
  const std::map<std::string, WeightKind> kinds = {
      {"float32", WeightKind::float32}, {"bfloat16", WeightKind::bfloat16}, {"float16", WeightKind::float16}};
  int index = 0;
  for (const json::Value& item : document().find("dot")->as_array()) {
    const int rows = number(item, "rows"), columns = number(item, "columns"), tokens = number(item, "tokens");
    const bool biased = !item.find("bias")->is_null();
    const auto bias = biased ? floats(item, "bias") : std::vector<float>();
    const PackedMatrix w(kinds.at(item.find("kind")->as_string()), rows, columns, floats(item, "weights"), bias);
    const auto x = padded(floats(item, "x"), columns);
    std::vector<float> out(tokens * 16), found;
    table().dot[static_cast<int>(w->format.kind)](*w, 0, 1, {x.data(), round_up16(columns), tokens}, 0, tokens,
                                                  out.data(), 16);
    for (int t = 0; t < tokens; ++t) found.insert(found.end(), out.begin() + t * 16, out.begin() + t * 16 + rows);
    EXPECT_EQ(difference(floats(item, "y"), found), "") << "case " << index;
    ++index;
  }
}

TEST_P(Vectors, Rule2Codes) {
  int index = 0;
  for (const json::Value& item : document().find("codes")->as_array()) {
    const auto x = floats(item, "x");
    const auto columns = static_cast<std::int64_t>(x.size());
    const CodedRows found(table(), padded(x, columns).span(), columns,
                          number(item, "group") == 64 ? ActivationForm::groups_64 : ActivationForm::groups_32);
    const auto expected = patterns(*item.find("codes"), 2);
    for (std::int64_t k = 0; k < columns; ++k) {
      ASSERT_EQ(static_cast<std::uint8_t>(found->codes[k]), expected[k]) << "case " << index << ", column " << k;
    }
    for (std::int64_t k = columns; k < found->code_stride; ++k) ASSERT_EQ(found->codes[k], 0) << "case " << index;
    const auto scales = floats(item, "scales");
    for (std::size_t g = 0; g < scales.size(); ++g) {
      if (std::isnan(scales[g])) {
        EXPECT_TRUE(std::isnan(found->scales[g])) << "case " << index;
      } else {
        EXPECT_EQ(difference(std::span(&scales[g], 1), std::span(&found->scales[g], 1)), "") << "case " << index;
      }
    }
    ++index;
  }
}

// Rules 3 and 4: the same matrices and activations, multiplied as integers, decoded, and multiplied as floats.
class CodedVectors : public Vectors {
 protected:
  // Codes that are integers.
  void check(const json::Value& item, CodeScheme scheme, const std::string& what) {
    WeightFormat format{code_kind(item), number(item, "group"), scale_kind(item), scheme};
    if (scheme == CodeScheme::offset) format.zero = number(item, "zero");
    check(item, format, what);
  }

  void check(const json::Value& item, const WeightFormat& format, const std::string& what) {
    const int rows = number(item, "rows"), columns = number(item, "columns"), tokens = number(item, "tokens");
    const auto codes = bytes(item, "codes"), zeros = bytes(item, "zeros"), sub_scales = bytes(item, "sub_scales"),
               sub_minima = bytes(item, "sub_minima");
    const auto scales = floats(item, "scales");
    const auto biases = item.find("biases") == nullptr ? std::vector<float>() : floats(item, "biases");
    const PackedMatrix w(format, rows, columns,
                         {codes.data(), scales.data(), biases.data(), zeros.data(),
                          reinterpret_cast<const std::int8_t*>(sub_scales.data()), sub_minima.data()},
                         bias_of(item));
    const auto x = padded(floats(item, "x"), columns);
    const int kind = static_cast<int>(format.kind);
    std::vector<float> out(tokens * 16);
    if (coded_form(format) != ActivationForm::values) {
      const CodedRows coded(table(), x.span(), columns, coded_form(format));
      table().dot_codes[kind](*w, 0, 1, *coded, 0, tokens, out.data(), 16);
      EXPECT_EQ(difference(floats(item, "y"), first_lanes(out, rows)), "") << "rule 3, " << what;
    }
    table().dot[kind](*w, 0, 1, {x.data(), round_up16(columns), tokens}, 0, tokens, out.data(), 16);
    EXPECT_EQ(difference(floats(item, "y_float32"), first_lanes(out, rows)), "") << "rules 4 and 1, " << what;
    std::vector<float> decoded(rows * columns);
    for (int row = 0; row < rows; ++row) table().decode_row[kind](*w, row, decoded.data() + row * columns);
    EXPECT_EQ(difference(floats(item, "decoded"), decoded), "") << "rule 4, " << what;
  }

  static WeightKind scale_kind(const json::Value& item) {
    const std::map<std::string, WeightKind> kinds = {{"float32", WeightKind::float32},
                                                     {"bfloat16", WeightKind::bfloat16},
                                                     {"float16", WeightKind::float16},
                                                     {"e4m3", WeightKind::e4m3}};
    return kinds.at(item.find("scale_kind")->as_string());
  }
  // Of integers by their bits, of values by their name.
  static WeightKind code_kind(const json::Value& item) {
    const std::map<std::string, WeightKind> named = {
        {"e2m1", WeightKind::e2m1}, {"iq4", WeightKind::iq4}, {"e4m3", WeightKind::e4m3}};
    const json::Value* values = item.find("values");
    if (values != nullptr && values->as_string() != "integers") return named.at(values->as_string());
    const std::map<int, WeightKind> kinds = {{2, WeightKind::codes2}, {3, WeightKind::codes3}, {4, WeightKind::codes4},
                                             {5, WeightKind::codes5}, {6, WeightKind::codes6}, {8, WeightKind::codes8}};
    return kinds.at(number(item, "bits"));
  }
  // Empty where the case has none.
  static std::vector<std::uint8_t> bytes(const json::Value& item, std::string_view key) {
    std::vector<std::uint8_t> result;
    if (item.find(key) == nullptr) return result;
    for (const std::uint64_t byte : patterns(*item.find(key), 2)) result.push_back(static_cast<std::uint8_t>(byte));
    return result;
  }
  static std::vector<float> bias_of(const json::Value& item) {
    return item.find("bias")->is_null() ? std::vector<float>() : floats(item, "bias");
  }
  // Of a panel's output the rows that there are.
  static std::vector<float> first_lanes(const std::vector<float>& out, int rows) {
    std::vector<float> found;
    for (std::size_t t = 0; t < out.size(); t += 16) found.insert(found.end(), &out[t], &out[t] + rows);
    return found;
  }
};
INSTANTIATE_FOR_EACH_TABLE(CodedVectors);

TEST_P(CodedVectors, Rules3And4Affine) {
  int index = 0;
  for (const json::Value& item : document().find("affine")->as_array()) {
    check(item, CodeScheme::affine, "case " + std::to_string(index++));
  }
}

TEST_P(CodedVectors, Rules3And4ZeroPointsAndWholeRows) {
  const std::map<std::string, CodeScheme> schemes = {
      {"affine", CodeScheme::affine}, {"zero_point", CodeScheme::zero_point}, {"offset", CodeScheme::offset}};
  int index = 0;
  for (const json::Value& item : document().find("zero_point")->as_array()) {
    const std::string& scheme = item.find("scheme")->as_string();
    check(item, schemes.at(scheme), scheme + ", case " + std::to_string(index++));
  }
}

TEST_P(CodedVectors, Rules3And4Tables) {
  int index = 0;
  for (const json::Value& item : document().find("table")->as_array()) {
    const WeightKind kind = code_kind(item);
    const WeightFormat format{kind, number(item, "group"), scale_kind(item), CodeScheme::offset, table_zero(kind)};
    check(item, format, "case " + std::to_string(index++));
  }
}

TEST_P(CodedVectors, Rules3And4TwoLevels) {
  int index = 0;
  for (const json::Value& item : document().find("two_level")->as_array()) {
    const WeightKind kind = code_kind(item);
    ASSERT_EQ(number(item, "group"), sub_block_columns(kind));
    const WeightFormat format{kind, number(item, "group"), scale_kind(item), CodeScheme::two_level,
                              two_level_zero(kind)};
    check(item, format, "case " + std::to_string(index++));
  }
}

TEST_P(CodedVectors, Rule5W8A8) {
  int index = 0;
  for (const json::Value& item : document().find("w8a8")->as_array()) {
    const int rows = number(item, "rows"), columns = number(item, "columns"), tokens = number(item, "tokens");
    const WeightFormat format{WeightKind::codes8, kWholeRow, scale_kind(item), CodeScheme::w8a8, 128};
    const auto codes = bytes(item, "codes");
    const auto scales = floats(item, "scales");
    const PackedMatrix w(format, rows, columns, {codes.data(), scales.data()}, bias_of(item));
    const auto values = padded(floats(item, "x"), columns);
    const CodedRows x(table(), values.span(), columns, ActivationForm::token_codes);
    const auto expected_codes = bytes(item, "x_codes");
    for (int t = 0; t < tokens; ++t) {
      for (int k = 0; k < columns; ++k) {
        ASSERT_EQ(static_cast<std::uint8_t>(x->codes[t * x->code_stride + k]), expected_codes[t * columns + k])
            << "case " << index << ", token " << t << ", column " << k;
      }
    }
    EXPECT_EQ(difference(floats(item, "x_scales"), std::span(x->scales, tokens)), "") << "case " << index;
    std::vector<float> out(tokens * 16);
    table().dot_codes[static_cast<int>(format.kind)](*w, 0, 1, *x, 0, tokens, out.data(), 16);
    EXPECT_EQ(difference(floats(item, "y"), first_lanes(out, rows)), "") << "case " << index;
    ++index;
  }
}

TEST_P(Vectors, Rule6RmsNorm) {
  for (const json::Value& item : document().find("rms_norm")->as_array()) {
    const auto x = floats(item, "x");
    const auto n = static_cast<std::int64_t>(x.size());
    AlignedBuffer<float> y(round_up16(n));
    table().rms_norm(padded(x, n).data(), padded(floats(item, "weight"), n).data(), n, floats(item, "eps")[0],
                     y.data());
    EXPECT_EQ(difference(floats(item, "y"), y.span().first(n)), "") << n;
  }
}

TEST(FunctionVectors, Rule7CosAndSin) {
  const json::Value& cases = *document().find("cos_sin");
  std::vector<float> cos, sin;
  for (const std::uint64_t bits : patterns(*cases.find("angles"), 16)) {
    const CosSin found = cos_sin(std::bit_cast<double>(bits));
    cos.push_back(found.cos);
    sin.push_back(found.sin);
  }
  EXPECT_EQ(difference(floats(cases, "cos"), cos), "");
  EXPECT_EQ(difference(floats(cases, "sin"), sin), "");
}

TEST_P(Vectors, Rule7Rope) {
  for (const json::Value& item : document().find("rope")->as_array()) {
    auto head = floats(item, "head");
    const auto cos = floats(item, "cos"), sin = floats(item, "sin");
    table().rope(head.data(), cos.data(), sin.data(), static_cast<int>(2 * cos.size()));
    EXPECT_EQ(difference(floats(item, "y"), head), "");
  }
}

TEST(FunctionVectors, ElementaryFunctions) {
  const json::Value& cases = *document().find("functions");
  const auto x = floats(cases, "x"), positive = floats(cases, "positive");
  const auto map = [](const std::vector<float>& values, float (*function)(float)) {
    std::vector<float> results;
    for (const float value : values) results.push_back(function(value));
    return results;
  };
  EXPECT_EQ(difference(floats(cases, "exp"), map(x, exp)), "");
  EXPECT_EQ(difference(floats(cases, "erf"), map(x, erf)), "");
  EXPECT_EQ(difference(floats(cases, "sigmoid"), map(x, sigmoid)), "");
  EXPECT_EQ(difference(floats(cases, "log"), map(positive, log)), "");
}

TEST_P(Vectors, Rule8GeluMul) {
  const json::Value& item = *document().find("gelu_mul");
  auto gate = floats(item, "gate");
  table().gelu_mul(gate.data(), floats(item, "up").data(), static_cast<std::int64_t>(gate.size()), gate.data());
  EXPECT_EQ(difference(floats(item, "y"), gate), "");
}

TEST_P(Vectors, Rules9And10Attention) {
  const std::map<std::string, KvKind> kinds = {
      {"float32", KvKind::float32}, {"bfloat16", KvKind::bfloat16}, {"int8", KvKind::int8}};
  int index = 0;
  std::vector<json::Value> items = document().find("attention")->as_array();
  for (const json::Value& item : document().find("attention_int8")->as_array()) items.push_back(item);
  for (const json::Value& item : items) {
    const KvKind kind = kinds.at(item.find("kv")->as_string());
    const int head_dim = number(item, "head_dim"), positions = number(item, "positions");
    const auto queries = padded(floats(item, "queries"), head_dim);
    const auto keys = floats(item, "keys"), values = floats(item, "values"), gate = floats(item, "gate");
    const int rows = static_cast<int>(gate.size());
    const std::int64_t stride = round_up16(head_dim);

    AlignedBuffer<float> output(rows * stride), part_output(rows * stride);
    std::vector<float> max(rows, -std::numeric_limits<float>::infinity()), sum(rows), part_max(rows), part_sum(rows);
    const AttentionState state{max.data(), sum.data(), output.data(), stride};
    const AttentionState part{part_max.data(), part_sum.data(), part_output.data(), stride};
    std::vector<float> scratch(attention_scratch_floats(rows, head_dim));
    const std::size_t bytes = kv_block_bytes(kind, head_dim);
    for (int start = 0; start < positions; start += kSpanPositions) {
      AlignedBuffer<std::byte> key_blocks(bytes * kSpanBlocks), value_blocks(bytes * kSpanBlocks);
      std::memset(key_blocks.data(), 0xff, key_blocks.size());  // NaN wherever nothing is stored
      std::memset(value_blocks.data(), 0xff, value_blocks.size());
      AttentionSpan span{};
      std::vector<std::int32_t> first, end;
      for (int row = 0; row < rows; ++row) {
        const auto bound = [&](std::string_view key) {
          return static_cast<std::int32_t>(
              std::clamp<std::int64_t>(item.find(key)->as_array()[row].as_int64() - start, 0, kSpanPositions));
        };
        first.push_back(bound("first"));
        end.push_back(bound("end"));
      }
      for (int k = start; k < std::min(positions, start + kSpanPositions); ++k) {
        const std::size_t offset = (k - start) / kBlockPositions * bytes;
        table().store_key[static_cast<int>(kind)](key_blocks.data() + offset, k % kBlockPositions,
                                                  keys.data() + k * head_dim, head_dim);
        table().store_value[static_cast<int>(kind)](value_blocks.data() + offset, k % kBlockPositions,
                                                    values.data() + k * head_dim, head_dim);
      }
      for (int block = 0; block < kSpanBlocks; ++block) {
        span.keys[block] = key_blocks.data() + block * bytes;
        span.values[block] = value_blocks.data() + block * bytes;
      }
      span.kind = kind;
      span.head_dim = head_dim;
      span.rows = rows;
      span.queries = queries.data();
      span.query_stride = stride;
      span.first_visible = first.data();
      span.end_visible = end.data();
      span.scale = floats(item, "scale")[0];
      table().attention_span(span, part, scratch.data());
      table().attention_merge(state, part, rows, head_dim);
    }
    std::vector<float> found(rows * head_dim);
    table().attention_finish(state, rows, head_dim, gate.data(), 1, found.data(), head_dim);
    EXPECT_EQ(difference(floats(item, "y"), found), "") << "case " << index;
    ++index;
  }
}

TEST_P(Vectors, Rule11SumOfExponentials) {
  for (const json::Value& item : document().find("exp_sum")->as_array()) {
    auto terms = floats(item, "logits");
    const float sum =
        table().exp_sum(terms.data(), static_cast<std::int64_t>(terms.size()), floats(item, "max")[0], terms.data());
    EXPECT_EQ(difference(floats(item, "terms"), terms), "");
    EXPECT_EQ(difference(floats(item, "sum"), std::vector<float>{sum}), "");
  }
}

}  // namespace
}  // namespace sparkx::kernels
