#include "convert/gguf_codes.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>
#include <vector>

#include "convert/gguf_encode.h"
#include "core/bfloat16.h"

namespace sparkx {
namespace {

// The types of one scale a block: weight = scale · (code - zero), with minima scale · code + minimum.
struct BlockRange {
  std::string_view type;
  int zero;
  int bits;
};
constexpr BlockRange kSymmetric[] = {{"Q4_0", 8, 4}, {"Q5_0", 16, 5}, {"Q8_0", 128, 8}};
constexpr BlockRange kWithMinima[] = {{"Q4_1", 0, 4}, {"Q5_1", 0, 5}};

const BlockRange& range_of(const GgufType& type) {
  for (const BlockRange& range : kSymmetric) {
    if (range.type == type.name) return range;
  }
  return *std::find_if(std::begin(kWithMinima), std::end(kWithMinima),
                       [&type](const BlockRange& range) { return range.type == type.name; });
}

// The smallest type with values from `lowest` to `highest` times a scale.
const GgufType* symmetric_type(int lowest, int highest) {
  for (const BlockRange& range : kSymmetric) {
    if (lowest >= -range.zero && highest < range.zero) return find_gguf_type(range.type);
  }
  return nullptr;
}

const GgufType* type_with_minima(int bits) {
  for (const BlockRange& range : kWithMinima) {
    if (bits <= range.bits) return find_gguf_type(range.type);
  }
  return nullptr;
}

// What stands beside the codes of a block.
struct Coefficients {
  float scale;
  float minimum;
};

// The codes of rows, cut into blocks.
class Blocks {
 public:
  Blocks(const QuantizedMatrix& matrix, const GgufType& type, std::int64_t columns, std::int64_t rows_begin,
         std::int64_t rows_end)
      : spec_(matrix.spec),
        type_(type),
        columns_(columns),
        storage_(spec_, rows_end - rows_begin, columns),
        buffers_(storage_.buffers()) {
    matrix.read(rows_begin, rows_end, buffers_);
  }

  std::int64_t in_a_row() const { return columns_ / kGgufBlockColumns; }
  const CodeBuffers& buffers() const { return buffers_; }

  // Of block `index` of a row.
  Coefficients coefficients(std::int64_t row, std::int64_t index) const {
    const std::int64_t place = group_of(row, index);
    const float scale = buffers_.scales[place];
    if (spec_.values == CodeValues::e2m1) return {scale / 2, 0};  // twice the values are integers
    return {scale, spec_.scheme == CodeScheme::affine ? buffers_.biases[place] : 0.0f};
  }

  void codes(std::int64_t row, std::int64_t index, std::uint8_t* out) const {
    const std::uint8_t* codes = buffers_.codes + row * columns_ + index * kGgufBlockColumns;
    const int zero = range_of(type_).zero;
    if (spec_.values == CodeValues::e2m1) {
      for (int i = 0; i < kGgufBlockColumns; ++i) out[i] = static_cast<std::uint8_t>(kE2m1Halves[codes[i]] + zero);
      return;
    }
    const int source_zero = spec_.scheme == CodeScheme::affine       ? 0
                            : spec_.scheme == CodeScheme::zero_point ? buffers_.zeros[group_of(row, index)]
                                                                     : spec_.zero;
    for (int i = 0; i < kGgufBlockColumns; ++i) out[i] = static_cast<std::uint8_t>(codes[i] + zero - source_zero);
  }

 private:
  std::int64_t group_of(std::int64_t row, std::int64_t index) const {
    return row * spec_.groups(columns_) + (spec_.group == kWholeRow ? 0 : index * kGgufBlockColumns / spec_.group);
  }

  const QuantizationSpec& spec_;
  const GgufType& type_;
  std::int64_t columns_;
  CodeStorage storage_;
  CodeBuffers buffers_;
};

float rounded(float value) {
  return float16_to_float(float_to_float16(value));
}

Coefficients rounded(const Coefficients& exact) {
  return {rounded(exact.scale), rounded(exact.minimum)};
}

}  // namespace

const GgufType* gguf_type_for_codes(const QuantizedMatrix& matrix, std::int64_t columns) {
  const QuantizationSpec& spec = matrix.spec;
  const bool whole_blocks =
      columns % kGgufBlockColumns == 0 && (spec.group == kWholeRow || spec.group % kGgufBlockColumns == 0);
  if (!whole_blocks || !matrix.column_order.empty()) return nullptr;
  if (spec.values == CodeValues::e2m1 && spec.scheme == CodeScheme::offset) return symmetric_type(-12, 12);
  if (spec.values != CodeValues::integers) return nullptr;
  const int highest = (1 << spec.bits) - 1;
  switch (spec.scheme) {
    case CodeScheme::affine:
      return type_with_minima(spec.bits);
    case CodeScheme::zero_point:  // a minimum would be a product, which float16 seldom has
      return symmetric_type(-highest, highest);
    case CodeScheme::offset:
    case CodeScheme::w8a8:
      return symmetric_type(-spec.zero, highest - spec.zero);
    case CodeScheme::two_level:
      break;
  }
  return nullptr;
}

TransferLoss transfer_loss(const QuantizedMatrix& matrix, const GgufType& type, std::int64_t columns,
                           std::int64_t row_begin, std::int64_t row_end) {
  const Blocks blocks(matrix, type, columns, row_begin, row_end);
  bool exact = true;
  for (std::int64_t row = 0; row < row_end - row_begin && exact; ++row) {
    for (std::int64_t i = 0; i < blocks.in_a_row() && exact; ++i) {
      const Coefficients found = blocks.coefficients(row, i), stored = rounded(found);
      exact = stored.scale == found.scale && stored.minimum == found.minimum;
    }
  }
  if (exact) return {};
  std::vector<float> weights(static_cast<std::size_t>((row_end - row_begin) * columns));
  decode_rows(matrix.spec, row_end - row_begin, columns, blocks.buffers(), weights.data());
  TransferLoss loss;
  const auto zero = static_cast<float>(range_of(type).zero);
  const float* weight = weights.data();
  for (std::int64_t row = 0; row < row_end - row_begin; ++row) {
    for (std::int64_t i = 0; i < blocks.in_a_row(); ++i) {
      const Coefficients stored = rounded(blocks.coefficients(row, i));
      if (!std::isfinite(stored.scale) || !std::isfinite(stored.minimum)) {
        loss.moved = std::numeric_limits<double>::infinity();
        return loss;
      }
      std::uint8_t codes[kGgufBlockColumns];
      blocks.codes(row, i, codes);
      for (int k = 0; k < kGgufBlockColumns; ++k, ++weight) {
        const float value = static_cast<float>(codes[k]) - zero;
        const double difference = static_cast<double>(std::fma(stored.scale, value, stored.minimum)) - *weight;
        loss.moved += difference * difference;
        loss.weights += static_cast<double>(*weight) * *weight;
      }
    }
  }
  return loss;
}

double transfer_codes(const QuantizedMatrix& matrix, const GgufType& type, std::int64_t columns, std::int64_t row_begin,
                      std::int64_t row_end, std::byte* out) {
  const Blocks blocks(matrix, type, columns, row_begin, row_end);
  double largest = 0;
  for (std::int64_t row = 0; row < row_end - row_begin; ++row) {
    for (std::int64_t i = 0; i < blocks.in_a_row(); ++i, out += type.block_bytes) {
      const Coefficients exact = blocks.coefficients(row, i);
      const std::uint16_t scale = float_to_float16(exact.scale);
      std::uint8_t codes[kGgufBlockColumns];
      blocks.codes(row, i, codes);
      pack_gguf_block(type, codes, scale, float_to_float16(exact.minimum), out);
      if (exact.scale != 0) {
        largest = std::max(largest, std::fabs(static_cast<double>(float16_to_float(scale)) / exact.scale - 1));
      }
    }
  }
  return largest;
}

}  // namespace sparkx
