#include "core/aligned_buffer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>

#include "support/errors.h"

namespace sparkx {
namespace {

TEST(AlignedBuffer, IsAlignedZeroAndWritableAtAnySize) {
  for (const std::size_t size :
       {std::size_t{1}, std::size_t{3}, std::size_t{64}, std::size_t{1000}, std::size_t{524287}, std::size_t{524288},
        std::size_t{524289}, std::size_t{3'000'000}}) {
    AlignedBuffer<float> buffer(size);
    ASSERT_EQ(buffer.size(), size);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer.data()) % 64, 0u);
    EXPECT_TRUE(std::all_of(buffer.begin(), buffer.end(), [](float x) { return x == 0; }));
    std::fill(buffer.begin(), buffer.end(), 1.0f);
    EXPECT_EQ(buffer[size - 1], 1.0f);
  }
  EXPECT_EQ(AlignedBuffer<float>(0).data(), nullptr);
  EXPECT_TRUE(AlignedBuffer<float>().empty());
}

TEST(AlignedBuffer, MovesOwnership) {
  AlignedBuffer<int> a(10);
  a[3] = 7;
  const int* data = a.data();
  AlignedBuffer<int> b = std::move(a);
  AlignedBuffer<int> c(1'000'000);
  c = std::move(b);
  EXPECT_EQ(c.data(), data);
  EXPECT_EQ(c[3], 7);
  EXPECT_EQ(c.size(), 10u);
}

TEST(AlignedBuffer, WhatCannotBeHadIsAnError) {
  // The sizes at which count * sizeof(T), rounding up and mapping would overflow.
  for (const std::size_t size : {~std::size_t{0}, ~std::size_t{0} / 8, ~std::size_t{0} / 8 + 1, std::size_t{1} << 52}) {
    EXPECT_EQ(testing::error_of([&] { AlignedBuffer<double> buffer(size); }).substr(0, 28),
              "out_of_memory: out of memory")
        << size;
  }
}

}  // namespace
}  // namespace sparkx
