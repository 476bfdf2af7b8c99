#include "convert/staging.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <set>
#include <system_error>
#include <utility>

#include "core/error.h"

namespace sparkx {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPart = ".part";  // ends the name of what is not finished
constexpr std::size_t kMaxTransfer = std::size_t{1} << 30;

[[noreturn]] void cannot_write(const fs::path& path, int error) {
  throw_error(ErrorCode::io, "{}: cannot be written: {}", path.string(), std::generic_category().message(error));
}

void check(int result, const fs::path& path) {
  if (result != 0) cannot_write(path, errno);
}

bool is_within(const fs::path& path, const fs::path& folder) {
  const auto [end, ignored] = std::mismatch(folder.begin(), folder.end(), path.begin(), path.end());
  return end == folder.end();
}

std::string human(std::uint64_t bytes) {
  constexpr double kGiB = 1073741824.0;
  const auto value = static_cast<double>(bytes);
  return value >= kGiB ? fmt::format("{:.1f} GiB", value / kGiB) : fmt::format("{:.1f} MiB", value / 1048576.0);
}

// The nearest folder above a path that is there.
fs::path existing_parent(const fs::path& path) {
  std::error_code error;
  fs::path parent = path.parent_path();
  while (parent.has_relative_path() && !fs::exists(fs::symlink_status(parent, error))) parent = parent.parent_path();
  return parent;
}

// Whether a rename with flags failed because the system or the file system does not know them.
bool are_flags_unknown(int error) {
  return error == EINVAL || error == ENOSYS || error == EOPNOTSUPP;
}

// Renames without replacing anything, where the system and the file system know how; else what rename does.
int rename_to_free(const fs::path& from, const fs::path& to) {
#ifdef RENAME_NOREPLACE
  if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) return 0;
  if (!are_flags_unknown(errno)) return -1;
#endif
  return ::rename(from.c_str(), to.c_str());
}

// Puts `from` in the place of the folder `to`, which is then at `from` or, where the two cannot be exchanged at once,
// at `aside`.
int exchange(const fs::path& from, const fs::path& to, const fs::path& aside) {
#ifdef RENAME_EXCHANGE
  if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_EXCHANGE) == 0) return 0;
  if (!are_flags_unknown(errno)) return -1;
#endif
  if (::rename(to.c_str(), aside.c_str()) != 0) return -1;
  if (::rename(from.c_str(), to.c_str()) == 0) return 0;
  const int error = errno;
  ::rename(aside.c_str(), to.c_str());
  errno = error;
  return -1;
}

void sync_folder(const fs::path& folder) {
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) cannot_write(folder, errno);
  // Some file systems have nothing to sync there, and say EINVAL.
  const int error = ::fsync(descriptor) == 0 || errno == EINVAL ? 0 : errno;
  ::close(descriptor);
  if (error != 0) cannot_write(folder, error);
}

// "NAME.part-1234-0": left by a process that was killed, unless somebody holds it.
void remove_left_overs(const OutputPlace& place) {
  const std::string prefix = place.path.filename().string() + std::string(kPart) + "-";
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(place.path.parent_path(), error)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(prefix) || name.find_first_not_of("0123456789-", prefix.size()) != std::string::npos)
      continue;
    const int descriptor = ::open(entry.path().c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (descriptor < 0) continue;
    if (::flock(descriptor, LOCK_EX | LOCK_NB) == 0) fs::remove_all(entry.path(), error);
    ::close(descriptor);
  }
}

void check_replaceable(const fs::path& path, bool folder, bool replace, fs::file_status status) {
  const std::string name = path.string();
  if (!replace) throw_error(ErrorCode::invalid_argument, "{}: exists already; --force replaces it", name);
  if (!folder) {
    if (fs::is_regular_file(status)) return;
    throw_error(ErrorCode::invalid_argument, "{}: is no file, and is not replaced by one", name);
  }
  std::error_code error;
  const bool model = fs::is_directory(status) && (fs::is_empty(path, error) || fs::exists(path / "config.json", error));
  if (!model || error) {
    throw_error(ErrorCode::invalid_argument,
                "{}: is no folder of a model (there is no config.json), and is not replaced", name);
  }
}

}  // namespace

OutputPlace check_output(const fs::path& output, bool folder, bool replace, std::span<const fs::path> sources,
                         std::uint64_t bytes) {
  if (output.empty()) throw_error(ErrorCode::invalid_argument, "the output has no name");
  std::error_code error;
  fs::path path = fs::weakly_canonical(fs::absolute(output), error);
  if (error) cannot_write(output, error.value());
  if (!path.has_filename()) path = path.parent_path();
  if (!path.has_filename()) throw_error(ErrorCode::invalid_argument, "{}: cannot be an output", output.string());
  for (const fs::path& source : sources) {
    const fs::path read = fs::weakly_canonical(fs::absolute(source), error);
    if (read == path || is_within(read, path)) {
      throw_error(ErrorCode::invalid_argument, "{}: is what the model is read from", output.string());
    }
    // A file may stand beside those of the source, a folder may not stand among them.
    if (folder && fs::is_directory(read, error) && is_within(path, read)) {
      throw_error(ErrorCode::invalid_argument, "{}: lies inside the folder that the model is read from",
                  output.string());
    }
  }
  const fs::file_status status = fs::symlink_status(path, error);
  if (fs::exists(status)) check_replaceable(path, folder, replace, status);

  const fs::path parent = existing_parent(path);
  if (::access(parent.c_str(), W_OK | X_OK) != 0) cannot_write(path, errno);
  struct statvfs room {};
  if (::statvfs(parent.c_str(), &room) == 0) {
    const std::uint64_t free = std::uint64_t{room.f_bavail} * room.f_frsize;
    if (free < bytes) {
      throw_error(ErrorCode::io, "{}: needs {}, but only {} are free there", output.string(), human(bytes),
                  human(free));
    }
  }
  return {std::move(path), folder, replace};
}

Staging::Staging(OutputPlace place) : place_(std::move(place)) {
  const fs::path parent = place_.path.parent_path();
  std::error_code error;
  fs::create_directories(parent, error);
  if (error) cannot_write(parent, error.value());
  remove_left_overs(place_);
  make_folder();
}

void Staging::make_folder() {
  for (int number = 0;; ++number) {
    fs::path folder = place_.path;
    folder += fmt::format("{}-{}-{}", kPart, ::getpid(), number);
    if (::mkdir(folder.c_str(), 0777) != 0) {
      if (errno == EEXIST) continue;
      cannot_write(folder, errno);
    }
    lock_ = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (lock_ < 0) {
      const int error = errno;
      ::rmdir(folder.c_str());
      cannot_write(folder, error);
    }
    // Somebody who clears left-overs away may have been quicker.
    const bool held = ::flock(lock_, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK;
    struct stat status {};
    if (held && ::fstat(lock_, &status) == 0 && status.st_nlink > 0) {
      folder_ = std::move(folder);
      return;
    }
    ::close(std::exchange(lock_, -1));
  }
}

Staging::~Staging() {
  remove_all();
  if (lock_ >= 0) ::close(lock_);
}

void Staging::remove_all() noexcept {
  for (File& file : files_) {
    if (file.descriptor >= 0) ::close(std::exchange(file.descriptor, -1));
  }
  std::error_code ignored;
  if (!folder_.empty()) fs::remove_all(folder_, ignored);
}

std::size_t Staging::create(std::string_view name, std::uint64_t bytes) {
  const fs::path path = folder_ / name;
  std::error_code error;
  fs::create_directories(path.parent_path(), error);
  fs::path unfinished = path;
  unfinished += kPart;
  const int descriptor = ::open(unfinished.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (descriptor < 0) cannot_write(unfinished, errno);
  files_.push_back({path, descriptor});
  // The call itself, not posix_fallocate: that writes zeros where the file system cannot do it.
#ifdef FALLOC_FL_KEEP_SIZE
  if (bytes > 0 && ::fallocate(descriptor, 0, 0, static_cast<off_t>(bytes)) == 0) return files_.size() - 1;
  if (bytes > 0 && errno != EOPNOTSUPP && errno != ENOSYS && errno != EINVAL) cannot_write(unfinished, errno);
#endif
  check(::ftruncate(descriptor, static_cast<off_t>(bytes)), unfinished);
  return files_.size() - 1;
}

void Staging::write(std::size_t file, std::uint64_t offset, std::span<const std::byte> bytes) const {
  while (!bytes.empty()) {
    const ssize_t count = ::pwrite(files_[file].descriptor, bytes.data(), std::min(bytes.size(), kMaxTransfer),
                                   static_cast<off_t>(offset));
    if (count < 0) {
      if (errno == EINTR) continue;
      cannot_write(files_[file].path, errno);
    }
    offset += static_cast<std::uint64_t>(count);
    bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
}

void Staging::add(std::string_view name, std::string_view text) {
  write(create(name, text.size()), 0, std::as_bytes(std::span(text)));
}

void Staging::make_durable() {
  std::set<fs::path> folders{folder_};
  for (File& file : files_) {
    check(::fsync(file.descriptor), file.path);
    ::close(std::exchange(file.descriptor, -1));  // what a close can still report, fsync has
    folders.insert(file.path.parent_path());
  }
  for (const File& file : files_) {
    fs::path unfinished = file.path;
    unfinished += kPart;
    check(::rename(unfinished.c_str(), file.path.c_str()), file.path);
  }
  for (const fs::path& folder : folders) sync_folder(folder);
}

void Staging::move_into_place() {
  const fs::path from = place_.folder ? folder_ : files_.front().path;
  std::error_code error;
  if (!place_.replace || !fs::exists(fs::symlink_status(place_.path, error))) {
    check(rename_to_free(from, place_.path), place_.path);
    if (place_.folder) folder_.clear();
  } else if (place_.folder) {
    fs::path aside = folder_;
    aside += "-0";  // a left-over, too, should we be killed
    check(exchange(from, place_.path, aside), place_.path);
    if (fs::exists(aside, error)) folder_ = aside;
  } else {
    check(::rename(from.c_str(), place_.path.c_str()), place_.path);
  }
  sync_folder(place_.path.parent_path());
}

void Staging::commit() {
  make_durable();
  move_into_place();
  remove_all();  // what was replaced, or the folder that one file needed
  folder_.clear();
}

}  // namespace sparkx
