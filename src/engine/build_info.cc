#include "core/cpu_features.h"
#include "core/memory_info.h"
#include "core/version.h"
#include "kernels/kernels.h"
#include "sparkx/sparkx.hpp"

namespace sparkx {

BuildInfo build_info() {
  const Version v = version();
  const kernels::KernelTable& table = kernels::kernel_table();
  return {v.version, v.commit, v.compiler, table.name, table.caveat};
}

MachineInfo machine_info() {
  const std::optional<MemoryInfo> memory = memory_info();
  return {cpu_name(), default_thread_count(), memory ? memory->total : 0};
}

std::uint64_t peak_memory_bytes() {
  return peak_resident_bytes();
}

}  // namespace sparkx
