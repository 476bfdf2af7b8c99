#include "core/memory_info.h"

#include <algorithm>
#include <charconv>
#include <sstream>
#include <string>
#include <string_view>

#include "core/cgroup.h"

namespace sparkx {
namespace {

namespace fs = std::filesystem;

// A whole number; absent for anything else ("max").
std::optional<std::uint64_t> number(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<std::uint64_t> number_in(const fs::path& path) {
  const std::optional<std::string> text = read_system_file(path);
  return text ? number(*text) : std::nullopt;
}

// The number behind `key` in lines such as "MemAvailable:   123 kB" or "inactive_file 123".
std::optional<std::uint64_t> field(const fs::path& path, std::string_view key) {
  std::istringstream lines(read_system_file(path).value_or(""));
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string name, value;
    if (words >> name >> value && name == key) return number(value);
  }
  return std::nullopt;
}

std::uint64_t status_kilobytes(std::string_view key) {
  return field("/proc/self/status", key).value_or(0) * 1024;
}

}  // namespace

std::optional<MemoryInfo> memory_info(const fs::path& root) {
  const auto total = field(root / "proc/meminfo", "MemTotal:");
  const auto available = field(root / "proc/meminfo", "MemAvailable:");
  if (!total || !available) return std::nullopt;
  MemoryInfo info{*total * 1024, *available * 1024};
  for (const Cgroup& group : cgroups("memory", root)) {
    const bool v2 = group.version == 2;
    const auto limit = number_in(group.folder / (v2 ? "memory.max" : "memory.limit_in_bytes"));
    const auto used = number_in(group.folder / (v2 ? "memory.current" : "memory.usage_in_bytes"));
    if (!limit || !used) continue;
    // The group's page cache counts as used there, but gives way.
    const auto cache = field(group.folder / "memory.stat", v2 ? "inactive_file" : "total_inactive_file").value_or(0);
    const std::uint64_t taken = *used - std::min(cache, *used);
    info.total = std::min(info.total, *limit);
    info.available = std::min(info.available, *limit - std::min(taken, *limit));
  }
  return info;
}

std::uint64_t resident_bytes() {
  return status_kilobytes("VmRSS:");
}
std::uint64_t peak_resident_bytes() {
  return status_kilobytes("VmHWM:");
}

}  // namespace sparkx
