// Control groups: what the system lets this process use, version 1 and 2 of the interface.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sparkx {

// One control group of this process or one of its ancestors; a limit anywhere on the way up counts.
struct Cgroup {
  int version;  // 1 or 2: decides the names of the files
  std::filesystem::path folder;
};

// The groups that limit `controller` ("memory", "cpu"), from the process's own upwards; empty without control groups.
// `root` is the file system to look in, "/" but for tests.
std::vector<Cgroup> cgroups(std::string_view controller, const std::filesystem::path& root);

// The content of a small system file without its last newline, absent when it cannot be read.
std::optional<std::string> read_system_file(const std::filesystem::path& path);

}  // namespace sparkx
