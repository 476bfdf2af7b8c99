#include "core/memory_lock.h"

#include <sys/mman.h>
#include <sys/resource.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "core/error.h"

namespace sparkx {
namespace {

std::string mebibytes(double bytes) {
  return fmt::format("{:.1f} MiB", bytes / (1 << 20));
}

}  // namespace

MemoryLock::MemoryLock(std::span<const std::byte> memory, const char* what) : memory_(memory) {
  if (memory.empty() || ::mlock(memory.data(), memory.size()) == 0) return;
  const int error = errno;
  rlimit limit{};
  std::string advice;
  if (::getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
    advice = fmt::format("; this process may lock {} (RLIMIT_MEMLOCK, ulimit -l)",
                         mebibytes(static_cast<double>(limit.rlim_cur)));
  }
  throw_error(ErrorCode::out_of_memory, "cannot lock {} of {} into memory: {}{}",
              mebibytes(static_cast<double>(memory.size())), what, std::strerror(error), advice);
}

MemoryLock::~MemoryLock() {
  if (!memory_.empty()) ::munlock(memory_.data(), memory_.size());
}

}  // namespace sparkx
