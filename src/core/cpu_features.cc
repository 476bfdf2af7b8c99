#include "core/cpu_features.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__) && defined(__linux__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

#include "core/cgroup.h"

namespace sparkx {
namespace {

namespace fs = std::filesystem;

#if defined(__x86_64__)

// XCR0: which register files the operating system saves and restores.
std::uint64_t saved_registers() {
  std::uint32_t low = 0, high = 0;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return std::uint64_t{high} << 32 | low;
}

CpuFeatures detect() {
  CpuFeatures features;
  unsigned a, b, c, d;
  if (!__get_cpuid(1, &a, &b, &c, &d)) return features;
  const auto bit = [](unsigned word, int index) { return (word >> index & 1u) != 0; };
  if (!bit(c, 27)) return features;  // OSXSAVE: without it there is no xgetbv, and nobody saves AVX registers
  const std::uint64_t saved = saved_registers();
  const bool ymm = (saved & 0x6) == 0x6;           // SSE and AVX state
  const bool zmm = ymm && (saved & 0xE0) == 0xE0;  // masks, upper halves, upper registers
  features.fma = ymm && bit(c, 12);
  features.f16c = ymm && bit(c, 29);
  const bool avx = ymm && bit(c, 28);
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return features;
  const unsigned last_subleaf = a;
  features.avx2 = avx && bit(b, 5);
  features.avx512f = zmm && bit(b, 16);
  features.avx512dq = zmm && bit(b, 17);
  features.avx512bw = zmm && bit(b, 30);
  features.avx512vl = zmm && bit(b, 31);
  features.avx512_vnni = zmm && bit(c, 11);
  if (last_subleaf >= 1 && __get_cpuid_count(7, 1, &a, &b, &c, &d)) {
    features.avx_vnni = avx && bit(a, 4);
    features.avx512_bf16 = zmm && bit(a, 5);
  }
  return features;
}

#elif defined(__aarch64__) && defined(__linux__)

CpuFeatures detect() {
  CpuFeatures features;
  features.neon = true;
  features.dotprod = (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0;
  features.i8mm = (getauxval(AT_HWCAP2) & HWCAP2_I8MM) != 0;
  features.bf16 = (getauxval(AT_HWCAP2) & HWCAP2_BF16) != 0;
  return features;
}

#else

CpuFeatures detect() {
  return {};
}

#endif

std::vector<int> allowed_cpus() {
  for (int count = 1024; count <= 1 << 20; count *= 2) {  // the kernel refuses a set smaller than its own
    const std::unique_ptr<cpu_set_t, void (*)(cpu_set_t*)> set(CPU_ALLOC(static_cast<std::size_t>(count)),
                                                               [](cpu_set_t* s) { CPU_FREE(s); });
    const std::size_t bytes = CPU_ALLOC_SIZE(static_cast<std::size_t>(count));
    if (set == nullptr) break;
    if (sched_getaffinity(0, bytes, set.get()) != 0) continue;
    std::vector<int> cpus;
    for (int cpu = 0; cpu < count; ++cpu) {
      if (CPU_ISSET_S(static_cast<std::size_t>(cpu), bytes, set.get())) cpus.push_back(cpu);
    }
    return cpus;
  }
  return {};
}

// A core is told apart by the list of its hardware threads ("0,64"). CPUs without that file count for themselves.
int physical_cores(const std::vector<int>& cpus, const fs::path& root) {
  std::set<std::string> cores;
  for (const int cpu : cpus) {
    const fs::path file =
        root / "sys/devices/system/cpu" / ("cpu" + std::to_string(cpu)) / "topology/thread_siblings_list";
    cores.insert(read_system_file(file).value_or("cpu" + std::to_string(cpu)));
  }
  return static_cast<int>(cores.size());
}

// CPUs' worth of time that a group may use; infinite without a limit.
double quota(const Cgroup& group) {
  std::string limit, period;
  if (group.version == 2) {
    std::istringstream words(read_system_file(group.folder / "cpu.max").value_or("max"));  // "200000 100000"
    words >> limit >> period;
  } else {
    limit = read_system_file(group.folder / "cpu.cfs_quota_us").value_or("-1");
    period = read_system_file(group.folder / "cpu.cfs_period_us").value_or("");
  }
  const auto number = [](const std::string& text) {
    std::int64_t value = 0;
    std::from_chars(text.data(), text.data() + text.size(), value);
    return static_cast<double>(value);
  };
  if (number(limit) <= 0 || number(period) <= 0) return INFINITY;
  return number(limit) / number(period);
}

}  // namespace

const CpuFeatures& cpu_features() {
  static const CpuFeatures features = detect();
  return features;
}

std::string cpu_name(const fs::path& root) {
  std::istringstream lines(read_system_file(root / "proc/cpuinfo").value_or(""));
  for (std::string line; std::getline(lines, line);) {
    const std::size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "";
}

int default_thread_count(const fs::path& root) {
  int threads = physical_cores(allowed_cpus(), root);
  if (threads == 0) threads = static_cast<int>(std::thread::hardware_concurrency());
  for (const Cgroup& group : cgroups("cpu", root)) {
    // Rounded down: threads beyond the quota are put to sleep in the middle of a step, and the others wait for them.
    threads = static_cast<int>(std::min<double>(threads, std::floor(quota(group))));
  }
  return std::max(threads, 1);
}

}  // namespace sparkx
