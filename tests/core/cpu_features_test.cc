#include "core/cpu_features.h"

#include <gtest/gtest.h>
#include <sched.h>

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

TEST(CpuFeatures, AgreeWithTheKernelsList) {
#if defined(__x86_64__)
  const std::string cpuinfo = testing::read_file("/proc/cpuinfo");
  const std::size_t begin = cpuinfo.find("flags");
  ASSERT_NE(begin, std::string::npos);
  const std::string flags = cpuinfo.substr(begin, cpuinfo.find('\n', begin) - begin) + " ";
  const auto has = [&](const std::string& name) { return flags.find(" " + name + " ") != std::string::npos; };
  const CpuFeatures& features = cpu_features();
  EXPECT_EQ(features.avx2, has("avx2"));
  EXPECT_EQ(features.fma, has("fma"));
  EXPECT_EQ(features.f16c, has("f16c"));
  EXPECT_EQ(features.avx_vnni, has("avx_vnni"));
  EXPECT_EQ(features.avx512f, has("avx512f"));
  EXPECT_EQ(features.avx512bw, has("avx512bw"));
  EXPECT_EQ(features.avx512vl, has("avx512vl"));
  EXPECT_EQ(features.avx512dq, has("avx512dq"));
  EXPECT_EQ(features.avx512_vnni, has("avx512_vnni"));
  EXPECT_EQ(features.avx512_bf16, has("avx512_bf16"));
#else
  GTEST_SKIP() << "flags are compared on x86-64 only";
#endif
}

}  // namespace
}  // namespace sparkx
