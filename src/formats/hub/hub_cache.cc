#include "formats/hub/hub_cache.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <set>
#include <system_error>
#include <thread>

#include "core/error.h"
#include "core/file.h"
#include "core/json.h"
#include "core/printable.h"

namespace sparkx {
namespace {

namespace fs = std::filesystem;

constexpr int kMaxDepth = 8;                // folders of a repository inside each other
constexpr std::size_t kMaxFiles = 100'000;  // of a folder
constexpr std::size_t kMaxRefBytes = 128;
constexpr std::uint64_t kMaxIndexBytes = std::uint64_t{64} << 20;
constexpr std::string_view kPrefix = "models--";
constexpr auto kLockInterval = std::chrono::milliseconds(100);

[[noreturn]] void fail(const fs::path& path, const char* what, const std::error_code& error) {
  throw_error(ErrorCode::io, "{}: {}: {}", path.string(), what, error.message());
}

bool is_commit(std::string_view text) {
  return hash_from_hex(text).kind == HashKind::git_blob;
}

// Every file below a folder, folders that are links not entered. What cannot be read is passed over.
void walk(const fs::path& folder, int depth, std::vector<fs::path>& files) {
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    std::error_code ignored;
    if (files.size() == kMaxFiles) return;
    if (at->is_directory(ignored) && !at->is_symlink(ignored)) {
      if (depth < kMaxDepth) walk(at->path(), depth + 1, files);
    } else {
      files.push_back(at->path());
    }
  }
}

}  // namespace

std::vector<HubFile> files_of_folder(const fs::path& folder) {
  std::vector<fs::path> paths;
  walk(folder, 0, paths);
  std::vector<HubFile> files;
  for (const fs::path& path : paths) {
    std::error_code error;
    const std::string name = path.lexically_relative(folder).generic_string();
    const std::uint64_t size = fs::is_regular_file(path, error) ? fs::file_size(path, error) : 0;
    if (error || !fs::is_regular_file(path, error) || !is_safe_path(name)) continue;
    files.push_back({name, size, {}});
  }
  std::sort(files.begin(), files.end(), [](const HubFile& a, const HubFile& b) { return a.path < b.path; });
  return files;
}

bool has_whole_safetensors_model(const fs::path& folder) {
  const auto is_there = [&](const std::string& name) {
    std::error_code error;
    return fs::is_regular_file(folder / name, error);
  };
  constexpr const char* kIndex = "model.safetensors.index.json";
  if (!is_there("config.json")) return false;
  if (!is_there(kIndex)) return is_there("model.safetensors");
  try {
    const ByteSource file = ByteSource::open(folder / kIndex);
    const json::Value index = json::parse(file.read_all(kMaxIndexBytes), file.name());
    const json::Value* map = index.find("weight_map");
    if (map == nullptr || !map->is_object()) return true;  // what is wrong with it, loading says
    std::set<std::string_view> shards;
    for (const auto& [tensor, shard] : map->as_object()) {
      if (shard.is_string()) shards.insert(shard.as_string());
    }
    return std::all_of(shards.begin(), shards.end(),
                       [&](std::string_view shard) { return !is_safe_path(shard) || is_there(std::string(shard)); });
  } catch (const Error&) {
    return true;
  }
}

std::optional<fs::path> find_in_folder(const fs::path& folder, const std::string& variant, const std::string& what) {
  try {
    const Selection selection = select_files(files_of_folder(folder), variant, {}, what);
    if (!selection.main.empty()) return folder / selection.main;
  } catch (const Error& error) {
    if (error.code() == ErrorCode::not_found) return std::nullopt;
    throw;
  }
  if (!has_whole_safetensors_model(folder)) return std::nullopt;
  return folder;
}

FileLock::FileLock(const fs::path& file, const std::function<bool()>& go_on,
                   const std::function<void(const std::string&)>& note) {
  bool told = false;
  for (;;) {
    descriptor_ = ::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (descriptor_ < 0) fail(file, "cannot be opened", {errno, std::generic_category()});
    while (::flock(descriptor_, LOCK_EX | LOCK_NB) != 0) {
      if (errno != EWOULDBLOCK && errno != EINTR) {
        const std::error_code error(errno, std::generic_category());
        ::close(descriptor_);
        fail(file, "cannot be locked", error);
      }
      if (!std::exchange(told, true) && note) note("another program is fetching this file; waiting for it");
      if (go_on && !go_on()) {
        ::close(descriptor_);
        throw_error(ErrorCode::cancelled, "cancelled");
      }
      std::this_thread::sleep_for(kLockInterval);
    }
    // Whoever held it may have removed the file: then the next one locks another.
    struct stat held {
    }, named{};
    if (::fstat(descriptor_, &held) == 0 && ::stat(file.c_str(), &named) == 0 && held.st_ino == named.st_ino &&
        held.st_dev == named.st_dev) {
      return;
    }
    ::close(descriptor_);
  }
}

FileLock::~FileLock() {
  ::close(descriptor_);
}

RepoCache::RepoCache(fs::path root, std::string repo) : root_(std::move(root)), repo_(std::move(repo)) {
  std::string name = repo_;
  if (const std::size_t slash = name.find('/'); slash != name.npos) name.replace(slash, 1, "--");
  folder_ = root_ / (std::string(kPrefix) + name);
}

std::vector<RepoCache> RepoCache::all(const fs::path& root) {
  std::vector<RepoCache> repos;
  std::error_code error;
  for (fs::directory_iterator at(root, error), end; !error && at != end; at.increment(error)) {
    std::string name = at->path().filename().string();
    if (!name.starts_with(kPrefix)) continue;
    name.erase(0, kPrefix.size());
    if (const std::size_t dashes = name.find("--"); dashes != name.npos) name.replace(dashes, 2, "/");
    if (parse_model_name("hf:" + name)) repos.emplace_back(root, name);
  }
  std::sort(repos.begin(), repos.end(), [](const RepoCache& a, const RepoCache& b) { return a.repo_ < b.repo_; });
  return repos;
}

fs::path RepoCache::locks() const {
  return root_ / ".locks" / folder_.filename();
}

std::optional<std::string> RepoCache::commit_of(const std::string& revision) const {
  try {
    const std::string text = ByteSource::open(folder_ / "refs" / revision).read_all(kMaxRefBytes);
    const std::string commit = text.substr(0, text.find_last_not_of(" \r\n") + 1);
    if (is_commit(commit)) return commit;
  } catch (const Error&) {
    // No such reference; a commit needs none.
  }
  if (is_commit(revision)) return revision;
  return std::nullopt;
}

void RepoCache::set_commit_of(const std::string& revision, const std::string& commit) const {
  if (revision == commit || commit_of(revision) == commit) return;
  const fs::path file = folder_ / "refs" / revision;
  std::error_code error;
  fs::create_directories(file.parent_path(), error);
  if (error) fail(file.parent_path(), "cannot be made", error);
  AtomicFile out(file);
  out.write(commit);
  out.commit();
}

std::vector<std::pair<fs::path, std::string>> RepoCache::refs() const {
  std::vector<fs::path> files;
  walk(folder_ / "refs", 0, files);
  std::sort(files.begin(), files.end());
  std::vector<std::pair<fs::path, std::string>> refs;
  for (const fs::path& file : files) {
    const std::string revision = file.lexically_relative(folder_ / "refs").generic_string();
    if (const auto commit = commit_of(revision)) refs.emplace_back(file, *commit);
  }
  return refs;
}

std::vector<Snapshot> RepoCache::snapshots() const {
  std::vector<Snapshot> snapshots;
  std::error_code error;
  for (fs::directory_iterator at(folder_ / "snapshots", error), end; !error && at != end; at.increment(error)) {
    const std::string commit = at->path().filename().string();
    std::error_code ignored;
    if (!is_commit(commit) || !at->is_directory(ignored)) continue;
    snapshots.push_back({commit, commit, at->path()});
  }
  for (const auto& [file, commit] : refs()) {
    const std::string revision = file.lexically_relative(folder_ / "refs").generic_string();
    for (Snapshot& snapshot : snapshots) {
      if (snapshot.commit != commit) continue;
      if (snapshot.revision == commit || revision == "main") snapshot.revision = revision;
    }
  }
  std::sort(snapshots.begin(), snapshots.end(),
            [](const Snapshot& a, const Snapshot& b) { return a.revision < b.revision; });
  return snapshots;
}

std::optional<std::string> RepoCache::blob_of(const fs::path& file) const {
  std::error_code error;
  if (!fs::is_symlink(file, error)) return std::nullopt;
  const fs::path target = fs::read_symlink(file, error);
  if (error) return std::nullopt;
  const fs::path blob = (target.is_absolute() ? target : file.parent_path() / target).lexically_normal();
  if (blob.parent_path() != (folder_ / "blobs").lexically_normal()) return std::nullopt;
  return blob.filename().string();
}

void RepoCache::link(const std::string& commit, const std::string& path, const std::string& hash) const {
  const fs::path file = snapshot(commit) / path;
  std::error_code error;
  fs::create_directories(file.parent_path(), error);
  if (error) fail(file.parent_path(), "cannot be made", error);
  if (blob_of(file) == hash) return;
  // Under another name first: at no time is there a file that leads nowhere.
  const fs::path temporary = file.string() + fmt::format(".link-{}", ::getpid());
  fs::remove(temporary, error);
  fs::create_symlink(blob(hash).lexically_relative(file.parent_path()), temporary, error);
  if (!error) fs::rename(temporary, file, error);
  if (error) fail(file, "cannot be made a link to its content (set HF_HUB_CACHE to a folder where links work)", error);
}

void RepoCache::make_folders() const {
  for (const fs::path& folder : {folder_ / "blobs", locks()}) {
    std::error_code error;
    fs::create_directories(folder, error);
    if (error) fail(folder, "cannot be made", error);
  }
}

void RepoCache::remove_empty_folders(const std::string& commit) const {
  const fs::path top = snapshot(commit);
  std::vector<fs::path> folders;
  std::error_code error;
  for (fs::recursive_directory_iterator at(top, error), end; !error && at != end; at.increment(error)) {
    std::error_code ignored;
    if (at->is_directory(ignored) && !at->is_symlink(ignored)) folders.push_back(at->path());
  }
  std::reverse(folders.begin(), folders.end());  // inner ones come after outer ones
  for (const fs::path& folder : {top, folder_ / "snapshots", folder_ / "blobs", folder_ / "refs", folder_}) {
    folders.push_back(folder);
  }
  for (const fs::path& folder : folders) fs::remove(folder, error);  // refuses what is not empty
}

}  // namespace sparkx
