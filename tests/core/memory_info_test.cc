#include "core/memory_info.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "core/aligned_buffer.h"
#include "support/temp_dir.h"

namespace sparkx {
namespace {

using testing::TempDir;

constexpr std::uint64_t kMiB = 1 << 20;

void write_meminfo(const TempDir& root, int total_mib, int available_mib) {
  root.write("proc/meminfo", "MemTotal:       " + std::to_string(total_mib * 1024) +
                                 " kB\nMemFree:        1 kB\nMemAvailable:   " + std::to_string(available_mib * 1024) +
                                 " kB\n");
}

// Made-up /proc and /sys trees.
TEST(MemoryInfo, WithoutControlGroupsTheSystemsNumbersCount) {
  const TempDir root;
  write_meminfo(root, 8000, 5000);
  const auto info = memory_info(root.path());
  ASSERT_TRUE(info);
  EXPECT_EQ(info->total, 8000 * kMiB);
  EXPECT_EQ(info->available, 5000 * kMiB);
}

TEST(MemoryInfo, ALimitOfAnAncestorCountsInVersion2) {
  const TempDir root;
  write_meminfo(root, 8000, 5000);
  root.write("proc/self/cgroup", "0::/a.slice/b\n");
  root.write("sys/fs/cgroup/cgroup.controllers", "cpu memory\n");
  root.write("sys/fs/cgroup/a.slice/memory.max", std::to_string(1000 * kMiB) + "\n");
  root.write("sys/fs/cgroup/a.slice/memory.current", std::to_string(700 * kMiB) + "\n");
  root.write("sys/fs/cgroup/a.slice/memory.stat", "anon 5\ninactive_file " + std::to_string(100 * kMiB) + "\n");
  root.write("sys/fs/cgroup/a.slice/b/memory.max", "max\n");
  root.write("sys/fs/cgroup/a.slice/b/memory.current", "1\n");
  const auto info = memory_info(root.path());
  ASSERT_TRUE(info);
  EXPECT_EQ(info->total, 1000 * kMiB);
  EXPECT_EQ(info->available, 400 * kMiB) << "1000 - (700 - 100 of page cache)";
}

TEST(MemoryInfo, AGroupBeyondItsLimitHasNothingLeft) {
  const TempDir root;
  write_meminfo(root, 8000, 5000);
  root.write("proc/self/cgroup", "0::/\n");
  root.write("sys/fs/cgroup/cgroup.controllers", "memory\n");
  root.write("sys/fs/cgroup/memory.max", "1000\n");
  root.write("sys/fs/cgroup/memory.current", "2000\n");
  EXPECT_EQ(memory_info(root.path())->available, 0u);
}

TEST(MemoryInfo, Version1WithAPathThatOnlyTheHostSees) {
  const TempDir root;
  write_meminfo(root, 8000, 5000);
  root.write("proc/self/cgroup", "12:pids:/x\n5:memory:/docker/0123\n3:cpu,cpuacct:/docker/0123\n0::/\n");
  root.write("sys/fs/cgroup/memory/memory.limit_in_bytes", std::to_string(2000 * kMiB) + "\n");
  root.write("sys/fs/cgroup/memory/memory.usage_in_bytes", std::to_string(500 * kMiB) + "\n");
  root.write("sys/fs/cgroup/memory/memory.stat",
             "inactive_file 1\ntotal_inactive_file " + std::to_string(300 * kMiB) + "\n");
  const auto info = memory_info(root.path());
  ASSERT_TRUE(info);
  EXPECT_EQ(info->total, 2000 * kMiB);
  EXPECT_EQ(info->available, 1800 * kMiB);
}

TEST(MemoryInfo, ASystemThatSaysNothingGivesNothing) {
  const TempDir root;
  EXPECT_FALSE(memory_info(root.path()));
  root.write("proc/meminfo", "MemTotal: lots\n");
  EXPECT_FALSE(memory_info(root.path()));
}

TEST(MemoryInfo, ResidentMemoryGrowsByWhatIsTouched) {
  const std::uint64_t before = resident_bytes();
  ASSERT_GT(before, 0u) << "/proc/self/status has no VmRSS";
  AlignedBuffer<char> buffer(64 * kMiB);
  std::fill(buffer.begin(), buffer.end(), 'x');
  EXPECT_GT(resident_bytes(), before + 50 * kMiB);
  EXPECT_GE(peak_resident_bytes(), before + 50 * kMiB);
}

TEST(MemoryInfo, ThisMachineHasMemory) {
  const auto info = memory_info();
  ASSERT_TRUE(info);
  EXPECT_GT(info->total, 100 * kMiB);
  EXPECT_LE(info->available, info->total);
}

}  // namespace
}  // namespace sparkx
