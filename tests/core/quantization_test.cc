// What codes of every kind decode to, and which descriptions of them make no sense.
#include "core/quantization.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <string>

#include "core/error.h"
#include "core/float_codes.h"

namespace sparkx {
namespace {

TEST(FloatCodes, E2m1) {
  const float magnitudes[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
  for (int code = 0; code < 16; ++code) {
    const float expected = code < 8 ? magnitudes[code] : -magnitudes[code - 8];
    EXPECT_EQ(e2m1_to_float(static_cast<std::uint8_t>(code)), expected) << code;
  }
}

TEST(FloatCodes, E4m3) {
  for (int code = 0; code < 256; ++code) {
    const int exponent = code >> 3 & 15, mantissa = code & 7;
    const double magnitude = exponent == 0 ? std::ldexp(mantissa, -9) : std::ldexp(1 + mantissa / 8.0, exponent - 7);
    const float found = e4m3_to_float(static_cast<std::uint8_t>(code));
    if ((code & 127) == 127) {
      EXPECT_TRUE(std::isnan(found)) << code;
    } else {
      EXPECT_EQ(found, static_cast<float>(code < 128 ? magnitude : -magnitude)) << code;
      EXPECT_EQ(std::signbit(found), code >= 128) << code;
    }
  }
}

TEST(FloatCodes, E8m0) {
  for (int code = 0; code < 255; ++code) {
    EXPECT_EQ(e8m0_to_float(static_cast<std::uint8_t>(code)), std::ldexp(1.0f, code - 127)) << code;
  }
  EXPECT_TRUE(std::isnan(e8m0_to_float(255)));
}

// One row of 256 columns whose codes count up.
struct Row {
  explicit Row(const QuantizationSpec& spec) : storage(spec, 1, kSuperBlock), codes(storage.buffers()) {
    for (int k = 0; k < kSuperBlock; ++k) codes.codes[k] = static_cast<std::uint8_t>(k % (1 << spec.bits));
  }
  CodeStorage storage;
  CodeBuffers codes;
};

std::vector<float> decoded(const QuantizationSpec& spec, const Row& row) {
  std::vector<float> out(kSuperBlock);
  decode_rows(spec, 1, kSuperBlock, row.codes, out.data());
  return out;
}

TEST(DecodeRows, EveryScheme) {
  const QuantizationSpec affine{CodeScheme::affine, 3, 64, Dtype::float32};
  Row row(affine);
  for (int g = 0; g < 4; ++g) row.codes.scales[g] = 0.5f * static_cast<float>(g + 1), row.codes.biases[g] = -1.0f;
  EXPECT_EQ(decoded(affine, row)[7], 0.5f * 7 - 1);
  EXPECT_EQ(decoded(affine, row)[64 + 3], 1.0f * 3 - 1);

  const QuantizationSpec zero_point{CodeScheme::zero_point, 4, kWholeRow, Dtype::float32};
  Row one_zero(zero_point);
  one_zero.codes.scales[0] = 0.25f;
  one_zero.codes.zeros[0] = 5;
  EXPECT_EQ(decoded(zero_point, one_zero)[255], 0.25f * (15 - 5));

  const QuantizationSpec offset{CodeScheme::offset, 5, 128, Dtype::float32, 16};
  Row centred(offset);
  centred.codes.scales[1] = 2;
  EXPECT_EQ(decoded(offset, centred)[128 + 3], 2.0f * (3 - 16));

  const QuantizationSpec e2m1{CodeScheme::offset, 4, 16, Dtype::float8_e4m3, 0, CodeValues::e2m1};
  Row floats(e2m1);
  floats.codes.scales[15] = 3;
  EXPECT_EQ(decoded(e2m1, floats)[240 + 15], 3.0f * -6);

  const QuantizationSpec iq4{CodeScheme::offset, 4, 32, Dtype::float16, 0, CodeValues::iq4};
  Row table(iq4);
  table.codes.scales[0] = 2;
  EXPECT_EQ(decoded(iq4, table)[15], 2.0f * 113);

  const QuantizationSpec e4m3{CodeScheme::offset, 8, 32, Dtype::float8_e8m0, 0, CodeValues::e4m3};
  Row bytes(e4m3);
  bytes.codes.scales[3] = 4;
  EXPECT_EQ(decoded(e4m3, bytes)[126], 4.0f * 448);
}

TEST(DecodeRows, TwoLevels) {
  QuantizationSpec spec{CodeScheme::two_level, 4, 32, Dtype::float16, 0, CodeValues::integers, true};
  Row minima(spec);
  minima.codes.scales[0] = 0.5f;
  minima.codes.biases[0] = 0.25f;
  minima.codes.sub_scales[2] = 63;
  minima.codes.sub_minima[2] = 3;
  EXPECT_EQ(decoded(spec, minima)[64 + 9], 0.5f * 63 * 9 - 0.25f * 3);

  spec = {CodeScheme::two_level, 6, 16, Dtype::float16, 32};
  Row centred(spec);
  centred.codes.scales[0] = 0.5f;
  centred.codes.sub_scales[15] = -128;
  EXPECT_EQ(decoded(spec, centred)[255], 0.5f * -128 * (63 - 32));
}

TEST(ReadWeights, PutsReorderedColumnsBack) {
  const QuantizationSpec spec{CodeScheme::offset, 2, kWholeRow, Dtype::float32, 1};
  QuantizedMatrix matrix{spec, [](std::int64_t, std::int64_t, const CodeBuffers& out) {
                           for (int k = 0; k < 8; ++k) out.codes[k] = static_cast<std::uint8_t>(k % 4);
                           out.scales[0] = out.scales[1] = 1;
                         }};
  matrix.column_order = {3, 2, 1, 0};
  std::vector<float> out(8);
  read_weights(matrix, 4, 0, 2, out.data());
  EXPECT_EQ(out, (std::vector<float>{2, 1, 0, -1, 2, 1, 0, -1}));
}

struct Refusal {
  QuantizationSpec spec;
  std::int64_t columns;
  const char* reason;
};

TEST(CheckQuantization, NamesWhatMakesNoSense) {
  const auto integers = CodeValues::integers;
  const Refusal refusals[] = {
      {{CodeScheme::affine, 7, 32, Dtype::float16}, 256, "codes of 7 bits"},
      {{CodeScheme::affine, 9, 32, Dtype::float16}, 256, "codes of 9 bits"},
      {{CodeScheme::affine, 1, 32, Dtype::float16}, 256, "codes of 1 bits"},
      {{CodeScheme::w8a8, 4, kWholeRow, Dtype::float16, 8}, 256, "codes of 4 bits"},
      {{CodeScheme::offset, 8, 32, Dtype::float16, 0, CodeValues::e2m1}, 256, "another number"},
      {{CodeScheme::offset, 4, 32, Dtype::float16, 0, CodeValues::e4m3}, 256, "another number"},
      {{CodeScheme::affine, 4, 32, Dtype::float16, 0, CodeValues::iq4}, 256, "one scale a group"},
      {{CodeScheme::two_level, 4, 32, Dtype::float16, 0, CodeValues::e2m1}, 256, "one scale a group"},
      {{CodeScheme::affine, 4, 48, Dtype::float16}, 256, "groups of 48"},
      {{CodeScheme::affine, 4, 16, Dtype::float16}, 256, "groups of 16"},
      {{CodeScheme::w8a8, 8, 32, Dtype::float16, 128}, 256, "groups of 32"},
      {{CodeScheme::two_level, 4, 64, Dtype::float16}, 256, "groups of 64"},
      {{CodeScheme::two_level, 4, 32, Dtype::float16}, 128, "128 columns"},
      {{CodeScheme::offset, 4, 32, Dtype::float16, 8, integers, true}, 256, "minima"},
      {{CodeScheme::offset, 4, 32, Dtype::float16, 16}, 256, "zero point 16"},
      {{CodeScheme::offset, 4, 32, Dtype::float16, -1}, 256, "zero point -1"},
      {{CodeScheme::offset, 4, 32, Dtype::float16, 8, CodeValues::iq4}, 256, "zero point 8"},
      {{CodeScheme::w8a8, 8, kWholeRow, Dtype::float16, 128}, kMaxTokenCodeColumns + 1, "65537 columns"},
      {{CodeScheme::affine, 4, 32, Dtype::int8}, 256, "scales of type int8"},
      {{CodeScheme::affine, 4, 32, Dtype::float8_e8m0}, 256, "scales of type float8_e8m0"},
  };
  for (const Refusal& refusal : refusals) {
    try {
      check_quantization(refusal.spec, refusal.columns, "w");
      ADD_FAILURE() << "accepted: " << refusal.reason;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::unsupported);
      EXPECT_NE(std::string(error.what()).find(refusal.reason), std::string::npos) << error.what();
    }
  }
  EXPECT_NO_THROW(check_quantization({CodeScheme::two_level, 4, 32, Dtype::float16, 0, CodeValues::iq4}, 512, "w"));
}

}  // namespace
}  // namespace sparkx
