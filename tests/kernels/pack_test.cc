// Panels hold what kernels/kernels.h draws, and rounding is to nearest even.
#include "kernels/pack.h"

#include <gtest/gtest.h>

#include "support/kernels.h"

namespace sparkx::kernels {
namespace {

using sparkx::testing::Numbers;

constexpr WeightKind kKinds[] = {WeightKind::float32, WeightKind::bfloat16, WeightKind::float16};

std::size_t element_bytes(WeightKind kind) {
  return kind == WeightKind::float32 ? 4 : 2;
}

// One element of `kind` as its bits, rounded from a float; and back.
std::uint32_t encode(WeightKind kind, float value) {
  switch (kind) {
    case WeightKind::float32:
      return std::bit_cast<std::uint32_t>(value);
    case WeightKind::bfloat16:
      return float_to_bfloat16(value);
    case WeightKind::float16:
      return float_to_float16(value);
    default:
      return 0;
  }
}
float decode(WeightKind kind, std::uint32_t bits) {
  switch (kind) {
    case WeightKind::float32:
      return std::bit_cast<float>(bits);
    case WeightKind::bfloat16:
      return bfloat16_to_float(static_cast<std::uint16_t>(bits));
    case WeightKind::float16:
      return float16_to_float(static_cast<std::uint16_t>(bits));
    default:
      return 0;
  }
}

TEST(Pack, EveryPairOfKindsInEveryShape) {
  Numbers numbers(31);
  for (const WeightKind source : kKinds) {
    for (const WeightKind kind : kKinds) {
      for (const int rows : {1, 7, 16}) {
        for (const std::int64_t columns : {1, 2, 3, 64, 65, 200}) {
          // Not aligned: tensors lie anywhere in a file.
          std::vector<std::byte> input(rows * columns * element_bytes(source) + 1);
          std::vector<std::uint32_t> elements(rows * columns);
          for (std::size_t i = 0; i < elements.size(); ++i) {
            elements[i] = encode(source, numbers.uniform() * 8);
            std::memcpy(input.data() + 1 + i * element_bytes(source), &elements[i], element_bytes(source));
          }
          std::vector<std::byte> panel(panel_bytes({kind}, columns), std::byte{0x77});
          pack_panel(source, std::span(input).subspan(1), rows, columns, kind, panel.data());
          const std::int64_t per_step = kind == WeightKind::float32 ? 1 : 2;
          const std::int64_t padded = (columns + per_step - 1) / per_step * per_step;
          ASSERT_EQ(panel.size(), static_cast<std::size_t>(padded / per_step) * 64);
          for (std::int64_t k = 0; k < padded; ++k) {
            for (int lane = 0; lane < 16; ++lane) {
              std::uint32_t found = 0;
              const std::int64_t index = (k / per_step * 16 + lane) * per_step + k % per_step;
              std::memcpy(&found, panel.data() + index * element_bytes(kind), element_bytes(kind));
              const std::uint32_t expected =
                  lane < rows && k < columns ? encode(kind, decode(source, elements[lane * columns + k])) : 0;
              ASSERT_EQ(found, expected) << "row " << lane << " of " << rows << ", column " << k << " of " << columns;
            }
          }
        }
      }
    }
  }
}

TEST(Pack, SameKindKeepsEveryBitPattern) {
  std::vector<std::uint16_t> input(2 * 32768);
  for (std::size_t i = 0; i < input.size(); ++i) input[i] = static_cast<std::uint16_t>(i);
  std::vector<std::uint16_t> panel(panel_bytes({WeightKind::bfloat16}, 32768) / 2);
  for (const WeightKind kind : {WeightKind::bfloat16, WeightKind::float16}) {
    pack_panel(kind, std::as_bytes(std::span(input)), 2, 32768, kind, reinterpret_cast<std::byte*>(panel.data()));
    for (int row = 0; row < 2; ++row) {
      for (int k = 0; k < 32768; ++k) ASSERT_EQ(panel[(k / 2 * 16 + row) * 2 + k % 2], input[row * 32768 + k]);
    }
  }
}

// The drawing of kernels/code_layout.inc.h, byte by byte.
TEST(Pack, PanelsOfCodes) {
  Numbers numbers(32);
  for (const WeightKind kind : {WeightKind::codes2, WeightKind::codes3, WeightKind::codes4, WeightKind::codes5,
                                WeightKind::codes6, WeightKind::codes8}) {
    for (const CodeScheme scheme : {CodeScheme::affine, CodeScheme::zero_point, CodeScheme::offset}) {
      for (const WeightKind scale_kind : kKinds) {
        for (const int group : {32, 64, 128, kWholeRow}) {
          for (const std::int64_t columns : {1, 32, 45, 64, 256, 300}) {
            const int rows = numbers.integer(1, 16);
            const WeightFormat format{kind, group, scale_kind, scheme, 1};
            const std::int64_t groups = group_count(format, columns);
            const std::int64_t group_columns = group == kWholeRow ? columns : group;
            ASSERT_EQ(groups, (columns + group_columns - 1) / group_columns);
            std::vector<std::uint8_t> codes(rows * columns), zeros(rows * groups);
            for (auto* bytes : {&codes, &zeros}) {
              for (std::uint8_t& code : *bytes) {
                code = static_cast<std::uint8_t>(numbers.integer(0, (1 << code_bits(kind)) - 1));
              }
            }
            const auto scales = numbers.fill(rows * groups), biases = numbers.fill(rows * groups);
            std::vector<std::byte> panel(panel_bytes(format, columns) + 1, std::byte{0x77});
            pack_code_panel(format, {codes.data(), scales.data(), biases.data(), zeros.data()}, rows, columns,
                            panel.data());
            EXPECT_EQ(panel.back(), std::byte{0x77}) << "written behind the panel";

            std::size_t at = 0;
            const auto expect_zeros_up_to = [&](std::size_t end) {
              for (; at < end; ++at) ASSERT_EQ(panel[at], std::byte{0});
            };
            const auto expect_numbers = [&](const AlignedBuffer<float>& values, std::int64_t g) {
              for (int lane = 0; lane < 16; ++lane, at += element_bytes(scale_kind)) {
                std::uint32_t found = 0;
                std::memcpy(&found, panel.data() + at, element_bytes(scale_kind));
                ASSERT_EQ(found, lane < rows ? encode(scale_kind, values[lane * groups + g]) : 0);
              }
            };
            for (std::int64_t g = 0; g < groups; ++g) {
              expect_numbers(scales, g);
              if (scheme == CodeScheme::affine) expect_numbers(biases, g);
              if (scheme == CodeScheme::zero_point) {
                for (int lane = 0; lane < 16; ++lane, ++at) {
                  ASSERT_EQ(static_cast<int>(panel[at]), lane < rows ? zeros[lane * groups + g] : 0);
                }
              }
              if (group == kWholeRow) expect_zeros_up_to((at + 63) / 64 * 64);
              const std::int64_t end = std::min<std::int64_t>(columns, (g + 1) * group_columns);
              const std::int64_t padded = g * group_columns + (end - g * group_columns + 31) / 32 * 32;
              const auto code = [&](int lane, std::int64_t k) {
                return lane < rows && k < end ? codes[lane * columns + k] : 0;
              };
              // Planes of a stretch: the lower bits, then the upper ones.
              const int low_bits = code_bits(kind) == 8 ? 8 : code_bits(kind) < 4 ? 2 : 4;
              for (std::int64_t k = g * group_columns; k < padded; k += 32) {
                for (const auto& [bits, first] : {std::pair{low_bits, 0}, {code_bits(kind) - low_bits, low_bits}}) {
                  for (int load = 0; load < bits; ++load) {
                    for (int lane = 0; lane < 16; ++lane) {
                      for (int j = 0; j < 4; ++j, ++at) {
                        int expected = 0;
                        for (int i = 0; i < 8 / bits; ++i) {  // columns that share this byte
                          const int value = code(lane, k + (load * (8 / bits) + i) * 4 + j);
                          expected |= (value >> first & ((1 << bits) - 1)) << (i * bits);
                        }
                        ASSERT_EQ(static_cast<int>(panel[at]), expected)
                            << code_bits(kind) << " bits, row " << lane << " of " << rows << ", stretch at " << k
                            << " of " << columns << ", load " << load;
                      }
                    }
                  }
                }
              }
            }
            ASSERT_LE(panel_bytes(format, columns) - at, 63u);
            expect_zeros_up_to(panel_bytes(format, columns));
          }
        }
      }
    }
  }
}

// Decoding is as fast as memory is read: bytes of 256 columns of a row, in panels and in the files they come from.
TEST(Pack, PanelsOfEveryFormatAreAboutAsLargeAsTheFile) {
  const auto two_level = [](WeightKind kind) {
    return WeightFormat{kind, sub_block_columns(kind), WeightKind::float16, CodeScheme::two_level,
                        two_level_zero(kind)};
  };
  const auto offset = [](WeightKind kind, int group, WeightKind scale_kind) {
    return WeightFormat{kind, group, scale_kind, CodeScheme::offset, table_zero(kind)};
  };
  const struct {
    const char* name;
    WeightFormat format;
    int file_bytes;
  } cases[] = {
      {"Q2_K", two_level(WeightKind::codes2), 84},
      {"Q3_K", two_level(WeightKind::codes3), 110},
      {"Q4_K", two_level(WeightKind::codes4), 144},
      {"Q5_K", two_level(WeightKind::codes5), 176},
      {"Q6_K", two_level(WeightKind::codes6), 210},
      {"IQ4_XS", two_level(WeightKind::iq4), 136},
      {"IQ4_NL", offset(WeightKind::iq4, 32, WeightKind::float16), 8 * 18},
      {"Q5_0", offset(WeightKind::codes5, 32, WeightKind::float16), 8 * 22},
      {"mxfp4", offset(WeightKind::e2m1, 32, WeightKind::bfloat16), 8 * 17},
      {"nvfp4", offset(WeightKind::e2m1, 16, WeightKind::e4m3), 16 * 9},
      {"mxfp8", offset(WeightKind::e4m3, 32, WeightKind::bfloat16), 8 * 33},
      {"3 bits", {WeightKind::codes3, 64, WeightKind::bfloat16, CodeScheme::affine}, 4 * 28},
  };
  for (const auto& [name, format, file_bytes] : cases) {
    const double bytes = static_cast<double>(panel_bytes(format, 2048)) / (kLanes * 2048 / 256);
    EXPECT_LE(bytes, 1.1 * file_bytes) << name;
    EXPECT_GE(bytes, 0.99 * file_bytes) << name;
  }
}

}  // namespace
}  // namespace sparkx::kernels
