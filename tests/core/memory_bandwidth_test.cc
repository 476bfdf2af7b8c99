#include "core/memory_bandwidth.h"

#include <gtest/gtest.h>

#include "core/aligned_buffer.h"

namespace sparkx {
namespace {

TEST(ReadBandwidth, IsAPlausibleSpeed) {
  AlignedBuffer<std::byte> buffer(std::size_t{32} << 20);
  std::fill(buffer.begin(), buffer.end(), std::byte{1});
  for (const int count : {1, 2}) {
    ThreadPool threads(count);
    const double bandwidth = read_bandwidth(threads, buffer.span());
    EXPECT_GT(bandwidth, 1e8);
    EXPECT_LT(bandwidth, 1e13);
  }
}

TEST(ReadBandwidth, OfAlmostNothingIsUnknown) {
  ThreadPool threads(1);
  EXPECT_EQ(read_bandwidth(threads, {}), 0);
  const AlignedBuffer<std::byte> buffer(1000);
  EXPECT_EQ(read_bandwidth(threads, buffer.span()), 0);
}

}  // namespace
}  // namespace sparkx
