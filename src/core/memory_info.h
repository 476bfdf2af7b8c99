// How much memory there is for us, and how much we take.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace sparkx {

struct MemoryInfo {
  std::uint64_t total;      // what the machine or the tightest control group has
  std::uint64_t available;  // what can still be taken without swapping, page cache counted as free
};

// The least of the system's MemAvailable and what every control group above us has left. Absent where the system does
// not say. `root` is the file system to look in, "/" but for tests.
std::optional<MemoryInfo> memory_info(const std::filesystem::path& root = "/");

// Resident memory of this process in bytes, now and at its highest; 0 where the system does not say.
std::uint64_t resident_bytes();
std::uint64_t peak_resident_bytes();

}  // namespace sparkx
