// Rules 6, 7, 8 and 11 of docs/numerics.md: every table gives the reference's bits and writes what it should, no more.
#include <gtest/gtest.h>

#include "support/kernels.h"

namespace sparkx::kernels {
namespace {

using sparkx::testing::difference;
using sparkx::testing::EachTable;
using sparkx::testing::Numbers;
using sparkx::testing::round_up16;

constexpr std::int64_t kLengths[] = {1, 2, 15, 16, 17, 31, 96, 100, 2048};

class Elementwise : public EachTable {};
INSTANTIATE_FOR_EACH_TABLE(Elementwise);

TEST_P(Elementwise, RmsNormEqualsTheReference) {
  Numbers numbers(21);
  for (const std::int64_t n : kLengths) {
    for (const bool wild : {false, true}) {
      auto x = numbers.rows(1, n);
      if (wild) {
        for (std::int64_t i = 0; i < n; ++i) x[i] = std::ldexp(numbers.wild(), -40);
      }
      const auto weight = numbers.rows(1, n);
      AlignedBuffer<float> expected(x.size()), found(x.size());
      reference().rms_norm(x.data(), weight.data(), n, 1e-6f, expected.data());
      table().rms_norm(x.data(), weight.data(), n, 1e-6f, found.data());
      EXPECT_EQ(difference(expected.span(), found.span()), "") << n;
      for (std::size_t i = n; i < x.size(); ++i) EXPECT_EQ(found[i], 0.0f) << "behind " << n;
    }
  }
}

TEST_P(Elementwise, RopeEqualsTheReferenceAndLetsTheRestPass) {
  Numbers numbers(22);
  for (const int rotary_dims : {2, 6, 16, 30, 32, 34, 64, 256}) {
    auto expected = numbers.fill(rotary_dims + 9);
    std::vector<float> found(expected.begin(), expected.end());
    const std::vector<float> before = found;
    const auto cos = numbers.rows(1, rotary_dims / 2), sin = numbers.rows(1, rotary_dims / 2);
    reference().rope(expected.data(), cos.data(), sin.data(), rotary_dims);
    table().rope(found.data(), cos.data(), sin.data(), rotary_dims);
    EXPECT_EQ(difference(expected.span(), found), "") << rotary_dims;
    EXPECT_TRUE(std::equal(before.begin() + rotary_dims, before.end(), found.begin() + rotary_dims));
  }
}

TEST_P(Elementwise, GeluMulEqualsTheReferenceAlsoInPlace) {
  Numbers numbers(23);
  for (const std::int64_t n : kLengths) {
    auto gate = numbers.fill(n), up = numbers.fill(n, true);
    for (std::int64_t i = 0; i < n; ++i) gate[i] = i % 3 == 0 ? numbers.wild() : gate[i] * 6;
    std::vector<float> expected(n), found(n + 1, 5.0f);
    reference().gelu_mul(gate.data(), up.data(), n, expected.data());
    table().gelu_mul(gate.data(), up.data(), n, found.data());
    EXPECT_EQ(found.back(), 5.0f);
    found.pop_back();
    EXPECT_EQ(difference(expected, found), "") << n;
    std::vector<float> in_gate(gate.begin(), gate.end()), in_up(up.begin(), up.end());
    table().gelu_mul(in_gate.data(), up.data(), n, in_gate.data());
    table().gelu_mul(gate.data(), in_up.data(), n, in_up.data());
    EXPECT_EQ(difference(expected, in_gate), "") << n;
    EXPECT_EQ(difference(expected, in_up), "") << n;
  }
}

TEST_P(Elementwise, AddEqualsTheReference) {
  Numbers numbers(24);
  for (const std::int64_t n : kLengths) {
    const auto x = numbers.fill(n, true), y = numbers.fill(n, true);
    std::vector<float> expected(x.begin(), x.end()), found(x.begin(), x.end());
    found.push_back(5.0f);
    reference().add(expected.data(), y.data(), n);
    table().add(found.data(), y.data(), n);
    EXPECT_EQ(found.back(), 5.0f);
    found.pop_back();
    EXPECT_EQ(difference(expected, found), "") << n;
  }
}

TEST_P(Elementwise, ExpSumEqualsTheReferenceAlsoInPlace) {
  Numbers numbers(25);
  for (const std::int64_t n : {1, 7, 16, 40, 1000, 131072}) {
    auto logits = numbers.fill(n);
    float max = -std::numeric_limits<float>::infinity();
    for (float& logit : logits) {
      logit = numbers.integer(0, 9) == 0 ? -std::numeric_limits<float>::infinity() : logit * 40;
      max = std::max(max, logit);
    }
    logits[0] = max = std::max(max, 0.0f);
    std::vector<float> expected(n), found(n + 1, 5.0f);
    const float expected_sum = reference().exp_sum(logits.data(), n, max, expected.data());
    EXPECT_EQ(expected_sum, table().exp_sum(logits.data(), n, max, found.data())) << n;
    EXPECT_EQ(found.back(), 5.0f);
    found.pop_back();
    EXPECT_EQ(difference(expected, found), "") << n;
    for (std::int64_t i = 0; i < n; ++i) {
      if (std::isinf(logits[i])) {
        EXPECT_EQ(found[i], 0.0f);
      }
    }
    EXPECT_EQ(expected_sum, table().exp_sum(logits.data(), n, max, logits.data()));
    EXPECT_EQ(difference(expected, logits.span()), "");
  }
}

}  // namespace
}  // namespace sparkx::kernels
