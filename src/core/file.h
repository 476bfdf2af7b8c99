// Files, read by position through the caller's bounded buffers; a mapping would crash on a file that shrinks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace sparkx {

// Bytes that can be read at any position: a file, or memory such as the model inside the binary. Movable; reading is
// safe from any number of threads.
class ByteSource {
 public:
  // Throws Error{not_found} when there is no such file, Error{io} for what is no regular file (folder, device, FIFO,
  // never waited for) or cannot be opened.
  static ByteSource open(const std::filesystem::path& path);

  // `bytes` must outlive the source; `name` stands in messages.
  static ByteSource memory(std::string name, std::span<const std::byte> bytes);

  ByteSource(ByteSource&& other) noexcept;
  ByteSource& operator=(ByteSource&& other) noexcept;
  ~ByteSource();

  const std::string& name() const { return name_; }  // the path as it was given
  std::uint64_t size() const { return size_; }       // when it was opened

  // Fills `out` from `offset` on. Throws Error{corrupt} when the range is not within size(), Error{io} when the file
  // cannot be read or has become shorter.
  void read(std::uint64_t offset, std::span<std::byte> out) const;

  // All of it, as text. Throws Error{corrupt} when it is longer than `limit` bytes.
  std::string read_all(std::uint64_t limit) const;

 private:
  ByteSource(std::string name, int descriptor, const std::byte* memory, std::uint64_t size);

  std::string name_;
  int descriptor_ = -1;  // of a file
  const std::byte* memory_ = nullptr;
  std::uint64_t size_ = 0;
};

// A file that is in memory.
struct MemoryFile {
  std::string_view name;  // "config.json"
  std::span<const std::byte> bytes;
};

// Writes a file under a temporary name beside its own and gives it its name only when all is written: nobody sees half
// a file, and a failure leaves what was there. A symbolic link is followed, not replaced.
class AtomicFile {
 public:
  // Throws Error{io}.
  explicit AtomicFile(std::filesystem::path path);
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;
  ~AtomicFile();  // without commit(): removes the temporary file

  // Appends. Throws Error{io}.
  void write(std::span<const std::byte> bytes);
  void write(std::string_view text) { write(std::as_bytes(std::span(text))); }

  // Makes the file durable and gives it its name. Throws Error{io}.
  void commit();

 private:
  std::filesystem::path path_;
  std::string temporary_;
  int descriptor_ = -1;
};

}  // namespace sparkx
