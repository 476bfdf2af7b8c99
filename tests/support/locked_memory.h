// What this process has locked into memory, and whether it may.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <fstream>
#include <string>

namespace sparkx::testing {

inline std::size_t locked_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmLck:")) return std::stoul(line.substr(6)) * 1024;
  }
  return 0;
}

// Also false under the address and thread sanitizers, whose mlock does nothing.
inline bool can_lock(std::size_t bytes) {
  const std::size_t before = locked_bytes();
  void* const map = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  const bool can = map != MAP_FAILED && ::mlock(map, bytes) == 0 && locked_bytes() > before;
  if (map != MAP_FAILED) ::munmap(map, bytes);
  return can;
}

}  // namespace sparkx::testing
