// Rule 9 of docs/numerics.md: spans, masks and merging give the reference's bits on every table, and nothing of a stale
// slot is ever seen.
#include <gtest/gtest.h>

#include "support/kernels.h"

namespace sparkx::kernels {
namespace {

using sparkx::testing::difference;
using sparkx::testing::EachTable;
using sparkx::testing::Numbers;
using sparkx::testing::round_up16;

constexpr KvKind kKvKindList[] = {KvKind::float32, KvKind::bfloat16, KvKind::int8};
const float kNan = std::numeric_limits<float>::quiet_NaN();

// One span of the cache for one KV head; slots that nothing was stored in hold NaN, as a reused block may.
class Span {
 public:
  Span(KvKind kind, int head_dim)
      : kind_(kind),
        head_dim_(head_dim),
        bytes_(kv_block_bytes(kind, head_dim)),
        keys_(kSpanBlocks * bytes_),
        values_(kSpanBlocks * bytes_) {
    std::memset(keys_.data(), 0xff, keys_.size());  // 0xffff and 0xffffffff are NaN: numbers, or the scales of int8
    std::memset(values_.data(), 0xff, values_.size());
  }

  void store(const KernelTable& table, int position, const float* key, const float* value) {
    const std::size_t offset = position / kBlockPositions * bytes_;
    const int kind = static_cast<int>(kind_), slot = position % kBlockPositions;
    table.store_key[kind](keys_.data() + offset, slot, key, head_dim_);
    table.store_value[kind](values_.data() + offset, slot, value, head_dim_);
  }

  // Blocks that no row sees are not given.
  AttentionSpan view(const AlignedBuffer<float>& queries, const std::vector<std::int32_t>& first,
                     const std::vector<std::int32_t>& end) const {
    AttentionSpan span{};
    span.kind = kind_;
    span.head_dim = head_dim_;
    for (int block = 0; block < kSpanBlocks; ++block) {
      for (std::size_t row = 0; row < first.size(); ++row) {
        if (first[row] < end[row] && first[row] < (block + 1) * kBlockPositions && end[row] > block * kBlockPositions) {
          span.keys[block] = keys_.data() + block * bytes_;
          span.values[block] = values_.data() + block * bytes_;
        }
      }
    }
    span.rows = static_cast<int>(first.size());
    span.queries = queries.data();
    span.query_stride = round_up16(head_dim_);
    span.first_visible = first.data();
    span.end_visible = end.data();
    span.scale = 0.3f;
    return span;
  }

 private:
  KvKind kind_;
  int head_dim_;
  std::size_t bytes_;
  AlignedBuffer<std::byte> keys_, values_;
};

struct Result {
  Result(int rows, int head_dim) : stride(round_up16(head_dim)), max(rows), sum(rows), output(rows * stride) {}
  AttentionState state() { return {max.data(), sum.data(), output.data(), stride}; }

  std::int64_t stride;
  std::vector<float> max, sum;
  AlignedBuffer<float> output;
};

Result attend(const KernelTable& table, const AttentionSpan& span) {
  Result result(span.rows, span.head_dim);
  std::vector<float> scratch(attention_scratch_floats(span.rows, span.head_dim), kNan);
  table.attention_span(span, result.state(), scratch.data());
  return result;
}

// Compares what rows with a visible key have; the others have m = -inf and nothing else.
void expect_same(const AttentionSpan& span, Result& expected, Result& found) {
  for (int row = 0; row < span.rows; ++row) {
    ASSERT_EQ(expected.max[row], found.max[row]) << "row " << row;
    if (span.first_visible[row] >= span.end_visible[row]) {
      ASSERT_EQ(found.max[row], -std::numeric_limits<float>::infinity());
      continue;
    }
    ASSERT_EQ(std::bit_cast<std::uint32_t>(expected.sum[row]), std::bit_cast<std::uint32_t>(found.sum[row]))
        << "row " << row;
    const auto channels = [&](Result& r) {
      return std::span<const float>(r.output.data() + row * r.stride, span.head_dim);
    };
    ASSERT_EQ(difference(channels(expected), channels(found)), "") << "row " << row;
  }
}

class Attention : public EachTable {};
INSTANTIATE_FOR_EACH_TABLE(Attention);

// Visible ranges: everything, one key, causal steps, windows that begin inside, disjoint rows, none at all.
std::vector<std::vector<std::int32_t>> masks(Numbers& numbers, int rows, int pattern) {
  std::vector<std::int32_t> first(rows), end(rows);
  for (int row = 0; row < rows; ++row) {
    switch (pattern) {
      case 0:
        first[row] = 0, end[row] = kSpanPositions;
        break;
      case 1:
        first[row] = numbers.integer(0, 511), end[row] = first[row] + 1;
        break;
      case 2:
        first[row] = 0, end[row] = std::min(kSpanPositions, 130 + row / 4);
        break;
      case 3:
        first[row] = std::min(200 + row / 2, 511), end[row] = std::min(263 + row / 2, 512);
        break;
      case 4:
        first[row] = row % 2 * 400, end[row] = first[row] + 40;
        break;
      case 5:
        first[row] = row % 3 == 0 ? 5 : 0, end[row] = row % 3 == 0 ? 5 : 17 + row;
        break;
      default:
        first[row] = numbers.integer(0, 512), end[row] = numbers.integer(0, 512);
    }
  }
  return {first, end};
}

TEST_P(Attention, EqualsTheReferenceForEveryMask) {
  Numbers numbers(11);
  for (const KvKind kind : kKvKindList) {
    for (const int head_dim : {2, 6, 16, 24, 64, 80, 136, 256}) {
      for (const int rows : {1, 2, 3, 4, 5, 8, 13, 33, 70}) {
        if (head_dim > 64 && rows > 8 && rows != 33) continue;
        for (int pattern = 0; pattern < 8; ++pattern) {
          const auto mask = masks(numbers, rows, pattern);
          Span span(kind, head_dim);
          for (int position = 0; position < kSpanPositions; ++position) {
            bool seen = false;
            for (int row = 0; row < rows; ++row) seen |= mask[0][row] <= position && position < mask[1][row];
            const auto key = numbers.fill(head_dim), value = numbers.fill(head_dim);
            if (seen) span.store(reference(), position, key.data(), value.data());
          }
          const auto queries = numbers.rows(rows, head_dim);
          const AttentionSpan view = span.view(queries, mask[0], mask[1]);
          Result expected = attend(reference(), view), found = attend(table(), view);
          expect_same(view, expected, found);
          for (int row = 0; row < rows; ++row) {
            if (mask[0][row] < mask[1][row]) {
              ASSERT_TRUE(std::isfinite(found.output[row * found.stride])) << "a stale slot was seen";
            }
          }
          if (HasFatalFailure()) {
            FAIL() << "head_dim " << head_dim << ", " << rows << " rows, mask " << pattern;
          }
        }
      }
    }
  }
}

TEST_P(Attention, RowsDoNotInfluenceEachOther) {
  Numbers numbers(12);
  const int rows = 9, head_dim = 32;
  const auto mask = masks(numbers, rows, 2);
  Span span(KvKind::bfloat16, head_dim);
  for (int position = 0; position < 200; ++position) {
    const auto key = numbers.fill(head_dim), value = numbers.fill(head_dim);
    span.store(table(), position, key.data(), value.data());
  }
  const auto queries = numbers.rows(rows, head_dim);
  Result together = attend(table(), span.view(queries, mask[0], mask[1]));
  for (int row = 0; row < rows; ++row) {
    AlignedBuffer<float> query(head_dim);
    std::copy_n(queries.data() + row * head_dim, head_dim, query.data());
    Result alone = attend(table(), span.view(query, {mask[0][row]}, {mask[1][row]}));
    EXPECT_EQ(alone.max[0], together.max[row]);
    EXPECT_EQ(alone.sum[0], together.sum[row]);
    EXPECT_EQ(difference(alone.output.span(), together.output.span().subspan(row * head_dim, head_dim)), "");
  }
}

TEST_P(Attention, ANanOfOneRowStaysThere) {
  Numbers numbers(13);
  const int rows = 6, head_dim = 16;
  const auto mask = masks(numbers, rows, 2);
  Span span(KvKind::float32, head_dim);
  for (int position = 0; position < 140; ++position) {
    const auto key = numbers.fill(head_dim), value = numbers.fill(head_dim);
    span.store(table(), position, key.data(), value.data());
  }
  auto queries = numbers.rows(rows, head_dim);
  Result expected = attend(table(), span.view(queries, mask[0], mask[1]));
  queries[2 * head_dim + 7] = kNan;
  Result found = attend(table(), span.view(queries, mask[0], mask[1]));
  for (int row = 0; row < rows; ++row) {
    if (row == 2) continue;
    EXPECT_EQ(difference(expected.output.span().subspan(row * head_dim, head_dim),
                         found.output.span().subspan(row * head_dim, head_dim)),
              "");
  }
}

TEST_P(Attention, MergingAndFinishingEqualTheReference) {
  Numbers numbers(14);
  for (const int head_dim : {2, 24, 64}) {
    const int rows = 7;
    const auto random_state = [&] {
      Result state(rows, head_dim);
      for (float& m : state.max) m = numbers.uniform() * 90;
      for (float& l : state.sum) l = 1 + std::abs(numbers.uniform()) * 500;
      for (float& o : state.output) o = numbers.uniform() * 100;
      return state;
    };
    Result part = random_state(), whole = random_state();
    whole.max[1] = part.max[2] = -std::numeric_limits<float>::infinity();  // the first span; nothing seen
    part.max[3] = whole.max[3];
    part.max[4] = whole.max[4] + 200;  // what was there before counts for nothing
    Result expected(rows, head_dim);
    expected.max = whole.max;
    expected.sum = whole.sum;
    std::copy(whole.output.begin(), whole.output.end(), expected.output.begin());
    reference().attention_merge(expected.state(), part.state(), rows, head_dim);
    table().attention_merge(whole.state(), part.state(), rows, head_dim);
    EXPECT_EQ(difference(expected.max, whole.max), "");
    EXPECT_EQ(difference(expected.sum, whole.sum), "");
    EXPECT_EQ(difference(expected.output.span(), whole.output.span()), "");

    std::vector<float> gates(rows * 3), expected_out(rows * head_dim), out(rows * head_dim + 1, 5.0f);
    for (float& g : gates) g = numbers.uniform() * 20;
    reference().attention_finish(expected.state(), rows, head_dim, gates.data(), 3, expected_out.data(), head_dim);
    table().attention_finish(whole.state(), rows, head_dim, gates.data(), 3, out.data(), head_dim);
    EXPECT_EQ(out.back(), 5.0f);
    out.pop_back();
    EXPECT_EQ(difference(expected_out, out), "");
  }
}

TEST_P(Attention, KeysAndValuesAreStoredInTheirPlacesOnly) {
  Numbers numbers(15);
  for (const KvKind kind : {KvKind::float32, KvKind::bfloat16}) {
    for (const int head_dim : {2, 6, 32}) {
      const std::size_t size = kind == KvKind::float32 ? 4 : 2;
      std::vector<std::byte> keys(kv_block_bytes(kind, head_dim), std::byte{0x5a}), values = keys;
      auto expected_keys = keys, expected_values = values;
      for (const int slot : {0, 1, 15, 16, 37, 63}) {
        const auto key = numbers.fill(head_dim, true), value = numbers.fill(head_dim, true);
        table().store_key[static_cast<int>(kind)](keys.data(), slot, key.data(), head_dim);
        table().store_value[static_cast<int>(kind)](values.data(), slot, value.data(), head_dim);
        const auto put = [&](std::vector<std::byte>& bytes, std::size_t index, float number) {
          const std::uint16_t half = float_to_bfloat16(number);
          std::memcpy(bytes.data() + index * size, kind == KvKind::float32 ? static_cast<const void*>(&number) : &half,
                      size);
        };
        for (int c = 0; c < head_dim; ++c) {
          const int panel = slot / 16 * 16 * head_dim, lane = slot % 16;
          put(expected_keys, kind == KvKind::float32 ? panel + c * 16 + lane : panel + c / 2 * 32 + lane * 2 + c % 2,
              key[c]);
          put(expected_values, slot * head_dim + c, value[c]);
        }
      }
      EXPECT_EQ(keys, expected_keys);
      EXPECT_EQ(values, expected_values);
    }
  }
}

// int8: codes and a scale for each 64 channels, the codes followed by zeros up to what the kernels load.
TEST_P(Attention, CodesAndScalesAreStoredInTheirPlacesOnly) {
  Numbers numbers(16);
  for (const int head_dim : {2, 6, 64, 72, 130}) {
    const int groups = (head_dim + 63) / 64, key_channels = (head_dim + 31) / 32 * 32;
    const int value_channels = round_up16(head_dim), panel_bytes = groups * 64 + key_channels * 16;
    std::vector<std::byte> keys(kv_block_bytes(KvKind::int8, head_dim), std::byte{0x5a}), values = keys;
    EXPECT_EQ(keys.size(), static_cast<std::size_t>(4 * panel_bytes));
    auto expected_keys = keys, expected_values = values;
    for (const int slot : {0, 1, 15, 16, 37, 63}) {
      const auto key = numbers.rows(1, head_dim), value = numbers.rows(1, head_dim);
      table().store_key[static_cast<int>(KvKind::int8)](keys.data(), slot, key.data(), head_dim);
      table().store_value[static_cast<int>(KvKind::int8)](values.data(), slot, value.data(), head_dim);
      const sparkx::testing::CodedRows key_codes(reference(), key.span(), head_dim, ActivationForm::groups_64);
      const sparkx::testing::CodedRows value_codes(reference(), value.span(), head_dim, ActivationForm::groups_64);
      std::byte* panel = expected_keys.data() + slot / 16 * panel_bytes;
      for (int c = 0; c < key_channels; ++c) {
        panel[(c / 64 + 1) * 64 + (c / 4 * 16 + slot % 16) * 4 + c % 4] =
            static_cast<std::byte>(key_codes->codes[c] + 128);
      }
      for (int c = 0; c < value_channels; ++c) {
        expected_values[slot * value_channels + c] = static_cast<std::byte>(value_codes->codes[c]);
      }
      for (int g = 0; g < groups; ++g) {
        std::memcpy(panel + g * 1088 + slot % 16 * 4, &key_codes->scales[g], 4);
        std::memcpy(expected_values.data() + 64 * value_channels + (g * 64 + slot) * 4, &value_codes->scales[g], 4);
      }
    }
    EXPECT_EQ(keys, expected_keys) << head_dim;
    EXPECT_EQ(values, expected_values) << head_dim;
  }
}

// What is not finite makes a scale NaN, and so only the rows that see it.
TEST_P(Attention, AScaleThatIsNotFiniteStaysWithItsPosition) {
  Numbers numbers(17);
  const int head_dim = 80, rows = 5, bad = 21;
  for (const bool in_key : {true, false}) {
    Span span(KvKind::int8, head_dim);
    for (int position = 0; position < 40; ++position) {
      auto key = numbers.fill(head_dim), value = numbers.fill(head_dim);
      if (position == bad) (in_key ? key : value)[70] = std::numeric_limits<float>::infinity();
      span.store(table(), position, key.data(), value.data());
    }
    const auto queries = numbers.rows(rows, head_dim);
    const std::vector<std::int32_t> first = {0, 22, 0, 21, 0}, end = {21, 40, 40, 22, 10};
    Result found = attend(table(), span.view(queries, first, end));
    for (int row = 0; row < rows; ++row) {
      for (int c = 0; c < head_dim; ++c) {
        const bool sees = first[row] <= bad && bad < end[row];
        const bool expected = !sees || (!in_key && c < 64);  // the value's first group of channels is finite
        ASSERT_EQ(std::isfinite(found.output[row * found.stride + c]), expected) << "row " << row << ", channel " << c;
      }
    }
  }
}

}  // namespace
}  // namespace sparkx::kernels
