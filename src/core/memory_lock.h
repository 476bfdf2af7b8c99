// Memory that the system may not write out to disk.
#pragma once

#include <cstddef>
#include <span>
#include <utility>

namespace sparkx {

// Keeps the pages of some memory resident as long as it lives.
class MemoryLock {
 public:
  MemoryLock() = default;
  // Throws Error{out_of_memory} with the limit (RLIMIT_MEMLOCK) when the system refuses. `what` is in the message: "the
  // weights".
  MemoryLock(std::span<const std::byte> memory, const char* what);
  MemoryLock(MemoryLock&& other) noexcept : memory_(std::exchange(other.memory_, {})) {}
  MemoryLock& operator=(MemoryLock&& other) noexcept {
    std::swap(memory_, other.memory_);
    return *this;
  }
  ~MemoryLock();

 private:
  std::span<const std::byte> memory_;
};

}  // namespace sparkx
