#include "core/memory_lock.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include "core/aligned_buffer.h"
#include "support/errors.h"
#include "support/locked_memory.h"

namespace sparkx {
namespace {

constexpr std::size_t kBytes = std::size_t{16} << 10;

TEST(MemoryLock, LocksAsLongAsItLives) {
  if (!testing::can_lock(8 * kBytes)) GTEST_SKIP() << "this process may not lock memory";
  const AlignedBuffer<std::byte> buffer(kBytes);
  const std::size_t before = testing::locked_bytes();
  {
    MemoryLock lock(buffer.span(), "the buffer");
    EXPECT_GE(testing::locked_bytes(), before + kBytes);
    MemoryLock moved = std::move(lock);
    EXPECT_GE(testing::locked_bytes(), before + kBytes);
    moved = MemoryLock();
    EXPECT_EQ(testing::locked_bytes(), before);
  }
  EXPECT_EQ(testing::locked_bytes(), before);
}

TEST(MemoryLock, RefusalSaysWhatAndWhy) {
  if (!testing::can_lock(kBytes)) GTEST_SKIP() << "this process may not lock memory";
  void* const map = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(map, MAP_FAILED);
  ::munmap(map, kBytes);  // nobody can lock what is not there
  const std::span<const std::byte> gone(static_cast<const std::byte*>(map), kBytes);
  EXPECT_TRUE(testing::error_of([&] {
                MemoryLock lock(gone, "the buffer");
              }).starts_with("out_of_memory: cannot lock 0.0 MiB of the buffer into memory: "));
}

}  // namespace
}  // namespace sparkx
