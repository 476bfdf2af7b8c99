#include "core/cgroup.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <sstream>

namespace sparkx {
namespace {

namespace fs = std::filesystem;

bool lists(std::string_view comma_separated, std::string_view wanted) {
  while (!comma_separated.empty()) {
    const std::size_t end = std::min(comma_separated.find(','), comma_separated.size());
    if (comma_separated.substr(0, end) == wanted) return true;
    comma_separated.remove_prefix(std::min(end + 1, comma_separated.size()));
  }
  return false;
}

// Where the controller is mounted: in version 1 each has a folder, sometimes shared ("cpu,cpuacct"); systems with both
// versions have version 2 in a folder of its own.
std::optional<fs::path> mount_point(int version, std::string_view controllers, const fs::path& root) {
  const fs::path base = root / "sys/fs/cgroup";
  std::error_code ignored;
  if (version == 2) {
    for (const fs::path& folder : {base, base / "unified"}) {
      if (fs::exists(folder / "cgroup.controllers", ignored)) return folder;
    }
    return std::nullopt;
  }
  const fs::path folder = base / controllers;
  if (fs::is_directory(folder, ignored)) return folder;
  return std::nullopt;
}

}  // namespace

std::optional<std::string> read_system_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return std::nullopt;
  std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  if (file.bad()) return std::nullopt;
  if (text.ends_with('\n')) text.pop_back();
  return text;
}

std::vector<Cgroup> cgroups(std::string_view controller, const fs::path& root) {
  std::vector<Cgroup> groups;
  // Lines are "hierarchy-id:controllers:/path"; version 2 has "0::/path".
  std::istringstream lines(read_system_file(root / "proc/self/cgroup").value_or(""));
  for (std::string line; std::getline(lines, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = first == line.npos ? line.npos : line.find(':', first + 1);
    if (second == line.npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const int version = controllers.empty() ? 2 : 1;
    if (version == 1 && !lists(controllers, controller)) continue;
    const std::optional<fs::path> mount = mount_point(version, version == 1 ? controllers : "", root);
    if (!mount) continue;
    // In a container the path may be that of the host and not be visible: its groups are then at the mount point.
    fs::path path = fs::path(line.substr(second + 1)).relative_path();
    while (true) {
      const fs::path folder = path.empty() ? *mount : *mount / path;
      std::error_code ignored;
      if (fs::is_directory(folder, ignored)) groups.push_back({version, folder});
      if (path.empty()) break;
      path = path.parent_path();
    }
  }
  return groups;
}

}  // namespace sparkx
