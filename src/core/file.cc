#include "core/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include "core/error.h"

namespace sparkx {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxTransfer = std::size_t{1} << 30;  // the system moves at most 2 GiB - 4 KiB at once

std::string reason(int error) {
  return std::generic_category().message(error);
}

const char* kind(mode_t mode) {
  if (S_ISDIR(mode)) return "a folder";
  if (S_ISFIFO(mode)) return "a pipe";
  if (S_ISSOCK(mode)) return "a socket";
  return "a device";
}

// Where a path leads: a symbolic link stays what it is, and the file behind it is the one to be written.
fs::path follow_links(fs::path path) {
  constexpr int kMaxLinks = 40;  // as the system has it
  const std::string given = path.string();
  std::error_code error;
  for (int i = 0; fs::is_symlink(fs::symlink_status(path, error)); ++i) {
    const fs::path target = fs::read_symlink(path, error);
    if (error) throw_error(ErrorCode::io, "{}: cannot be written: {}", given, error.message());
    if (i == kMaxLinks) throw_error(ErrorCode::io, "{}: cannot be written: {}", given, reason(ELOOP));
    path = path.parent_path() / target;
  }
  return path;
}

}  // namespace

ByteSource::ByteSource(std::string name, int descriptor, const std::byte* memory, std::uint64_t size)
    : name_(std::move(name)), descriptor_(descriptor), memory_(memory), size_(size) {}

ByteSource::ByteSource(ByteSource&& other) noexcept
    : name_(std::move(other.name_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      memory_(std::exchange(other.memory_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

ByteSource& ByteSource::operator=(ByteSource&& other) noexcept {
  std::swap(name_, other.name_);
  std::swap(descriptor_, other.descriptor_);
  std::swap(memory_, other.memory_);
  std::swap(size_, other.size_);
  return *this;
}

ByteSource::~ByteSource() {
  if (descriptor_ >= 0) close(descriptor_);
}

ByteSource ByteSource::open(const fs::path& path) {
  // O_NONBLOCK: opening a FIFO that nobody writes to would wait forever. It means nothing for regular files.
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) {
    const int error = errno;
    const bool absent = error == ENOENT || error == ENOTDIR;
    throw_error(absent ? ErrorCode::not_found : ErrorCode::io, "{}: cannot be opened: {}", path.string(),
                reason(error));
  }
  ByteSource source(path.string(), descriptor, nullptr, 0);
  struct stat status {};
  if (fstat(descriptor, &status) != 0) {
    throw_error(ErrorCode::io, "{}: cannot be examined: {}", source.name_, reason(errno));
  }
  if (!S_ISREG(status.st_mode)) throw_error(ErrorCode::io, "{}: is {}, not a file", source.name_, kind(status.st_mode));
  source.size_ = static_cast<std::uint64_t>(status.st_size);
  return source;
}

ByteSource ByteSource::memory(std::string name, std::span<const std::byte> bytes) {
  return ByteSource(std::move(name), -1, bytes.data(), bytes.size());
}

void ByteSource::read(std::uint64_t offset, std::span<std::byte> out) const {
  if (offset > size_ || out.size() > size_ - offset) {
    throw_error(ErrorCode::corrupt, "{}: {} bytes wanted at byte {}, the file has {}", name_, out.size(), offset,
                size_);
  }
  if (descriptor_ < 0) {
    std::copy_n(memory_ + offset, out.size(), out.data());
    return;
  }
  while (!out.empty()) {
    const ssize_t count =
        pread(descriptor_, out.data(), std::min(out.size(), kMaxTransfer), static_cast<off_t>(offset));
    if (count < 0) {
      if (errno == EINTR) continue;
      throw_error(ErrorCode::io, "{}: cannot be read: {}", name_, reason(errno));
    }
    if (count == 0) throw_error(ErrorCode::io, "{}: has become shorter than {} bytes while it was read", name_, size_);
    offset += static_cast<std::uint64_t>(count);
    out = out.subspan(static_cast<std::size_t>(count));
  }
}

std::string ByteSource::read_all(std::uint64_t limit) const {
  if (size_ > limit) throw_error(ErrorCode::corrupt, "{}: {} bytes, more than the limit of {}", name_, size_, limit);
  std::string text(size_, '\0');
  read(0, std::as_writable_bytes(std::span(text)));
  return text;
}

AtomicFile::AtomicFile(fs::path path) {
  // A rename would put a file in the place of a device, /dev/null, say.
  struct stat status {};
  const bool exists = stat(path.c_str(), &status) == 0;
  if (exists && !S_ISREG(status.st_mode)) {
    throw_error(ErrorCode::io, "{}: is {}, it cannot be replaced by a file", path.string(), kind(status.st_mode));
  }
  path_ = follow_links(path);  // /dev/stdout is a link, too, and to a file when it is redirected to one
  struct stat target {};
  if (exists &&
      (stat(path_.c_str(), &target) != 0 || target.st_dev != status.st_dev || target.st_ino != status.st_ino)) {
    throw_error(ErrorCode::io, "{}: leads to a file without a name, which cannot be replaced", path.string());
  }
  static std::atomic<unsigned> counter = 0;
  do {
    temporary_ = fmt::format("{}.part-{}-{}", path_.string(), getpid(), counter++);
    descriptor_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  } while (descriptor_ < 0 && errno == EEXIST);
  if (descriptor_ < 0) throw_error(ErrorCode::io, "{}: cannot be written: {}", path_.string(), reason(errno));
}

AtomicFile::~AtomicFile() {
  if (descriptor_ < 0) return;
  close(descriptor_);
  unlink(temporary_.c_str());
}

void AtomicFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(descriptor_, bytes.data(), std::min(bytes.size(), kMaxTransfer));
    if (count < 0) {
      if (errno == EINTR) continue;
      throw_error(ErrorCode::io, "{}: cannot be written: {}", path_.string(), reason(errno));
    }
    bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
}

void AtomicFile::commit() {
  const auto check = [&](int result) {
    if (result != 0) throw_error(ErrorCode::io, "{}: cannot be written: {}", path_.string(), reason(errno));
  };
  check(fsync(descriptor_));
  check(rename(temporary_.c_str(), path_.c_str()));
  close(std::exchange(descriptor_, -1));  // what a close can still report, fsync has
}

}  // namespace sparkx
