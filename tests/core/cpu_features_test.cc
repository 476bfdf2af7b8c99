#include "core/cpu_features.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <algorithm>
#include <string>
#include <vector>

#include "support/temp_dir.h"

namespace sparkx {
namespace {

using testing::TempDir;

class Affinity {  // of this thread, restored at the end
 public:
  Affinity() { sched_getaffinity(0, sizeof saved_, &saved_); }
  ~Affinity() { sched_setaffinity(0, sizeof saved_, &saved_); }
  std::vector<int> cpus() const {
    std::vector<int> cpus;
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
      if (CPU_ISSET(cpu, &saved_)) cpus.push_back(cpu);
    }
    return cpus;
  }
  int count() const { return CPU_COUNT(&saved_); }
  void limit_to(int cpu) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    ASSERT_EQ(sched_setaffinity(0, sizeof set, &set), 0);
  }

 private:
  cpu_set_t saved_;
};

TEST(DefaultThreadCount, HardwareThreadsOfOneCoreCountOnce) {
  const Affinity affinity;
  const TempDir root;
  for (const int cpu : affinity.cpus()) {
    root.write("sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/thread_siblings_list", "all\n");
  }
  EXPECT_EQ(default_thread_count(root.path()), 1);
  const TempDir without_topology;
  EXPECT_EQ(default_thread_count(without_topology.path()), affinity.count());
}

TEST(DefaultThreadCount, AffinityCounts) {
  Affinity affinity;
  affinity.limit_to(affinity.cpus()[0]);
  EXPECT_EQ(default_thread_count(), 1);
}

TEST(DefaultThreadCount, QuotasCountAndNeverGiveLessThanOne) {
  const Affinity affinity;
  const TempDir root;
  root.write("proc/self/cgroup", "0::/a/b\n");
  root.write("sys/fs/cgroup/cgroup.controllers", "cpu\n");
  root.write("sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
  EXPECT_EQ(default_thread_count(root.path()), affinity.count());
  root.write("sys/fs/cgroup/a/cpu.max", "150000 100000\n");
  EXPECT_EQ(default_thread_count(root.path()), 1);
  root.write("sys/fs/cgroup/a/cpu.max", "20000 100000\n");
  EXPECT_EQ(default_thread_count(root.path()), 1);
  root.write("sys/fs/cgroup/a/cpu.max", "rubbish");
  EXPECT_EQ(default_thread_count(root.path()), affinity.count());

  const TempDir version1;
  version1.write("proc/self/cgroup", "3:cpu,cpuacct:/a\n");
  version1.write("sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_quota_us", "-1\n");
  version1.write("sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(default_thread_count(version1.path()), affinity.count());
  version1.write("sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_quota_us", "100000\n");
  EXPECT_EQ(default_thread_count(version1.path()), 1);
}

TEST(CpuName, IsTheFirstModelName) {
  const TempDir root;
  EXPECT_EQ(cpu_name(root.path()), "");
  root.write("proc/cpuinfo", "processor\t: 0\nmodel name\t: Some CPU: 9000\n\nprocessor\t: 1\nmodel name\t: Other\n");
  EXPECT_EQ(cpu_name(root.path()), "Some CPU: 9000");
}

// The names that /proc/cpuinfo lists behind "flags" or "Features".
bool listed(const std::string& name) {
  const std::string cpuinfo = testing::read_file("/proc/cpuinfo");
  std::size_t begin = std::min(cpuinfo.find("flags"), cpuinfo.find("Features"));
  if (begin == cpuinfo.npos) return false;
  const std::string line = cpuinfo.substr(begin, cpuinfo.find('\n', begin) - begin) + " ";
  return line.find(" " + name + " ") != std::string::npos;
}

TEST(CpuFeatures, AgreeWithTheKernelsList) {
  const CpuFeatures& features = cpu_features();
#if defined(__x86_64__)
  EXPECT_EQ(features.avx2, listed("avx2"));
  EXPECT_EQ(features.fma, listed("fma"));
  EXPECT_EQ(features.f16c, listed("f16c"));
  EXPECT_EQ(features.avx_vnni, listed("avx_vnni"));
  EXPECT_EQ(features.avx512f, listed("avx512f"));
  EXPECT_EQ(features.avx512bw, listed("avx512bw"));
  EXPECT_EQ(features.avx512vl, listed("avx512vl"));
  EXPECT_EQ(features.avx512dq, listed("avx512dq"));
  EXPECT_EQ(features.avx512_vnni, listed("avx512_vnni"));
  EXPECT_EQ(features.avx512_bf16, listed("avx512_bf16"));
#elif defined(__aarch64__)
  if (!listed("asimd")) GTEST_SKIP() << "emulated: /proc/cpuinfo is that of another processor";
  EXPECT_EQ(features.dotprod, listed("asimddp"));
  EXPECT_EQ(features.i8mm, listed("i8mm"));
  EXPECT_EQ(features.bf16, listed("bf16"));
#endif
}

}  // namespace
}  // namespace sparkx
