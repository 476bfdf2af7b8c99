#include "core/aligned_buffer.h"

#include <sys/mman.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "core/error.h"

namespace sparkx::aligned_buffer_internal {
namespace {

constexpr std::size_t kAlignment = 64;
constexpr std::size_t kHugePage = std::size_t{2} << 20;
constexpr std::size_t kMaxBytes = std::size_t{1} << 56;

std::size_t round_up(std::size_t bytes, std::size_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

[[noreturn]] void throw_out_of_memory(std::size_t bytes) {
  throw_error(ErrorCode::out_of_memory, "out of memory: {:.1f} MiB more cannot be had",
              static_cast<double>(bytes) / (1 << 20));
}

// Anonymous mappings are zero without being touched. One huge page more than needed is mapped, and what lies outside
// the aligned part is given back.
void* map_huge(std::size_t bytes) {
  const std::size_t mapped = bytes + kHugePage;
  void* const map = mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (map == MAP_FAILED) throw_out_of_memory(bytes);
  const auto begin = reinterpret_cast<std::uintptr_t>(map);
  const std::uintptr_t data = round_up(begin, kHugePage);
  if (data > begin) munmap(map, data - begin);
  const std::uintptr_t end = begin + mapped;
  if (end > data + bytes) munmap(reinterpret_cast<void*>(data + bytes), end - (data + bytes));
  // Only advice: without huge pages everything works, a little slower.
  madvise(reinterpret_cast<void*>(data), bytes, MADV_HUGEPAGE);
  return reinterpret_cast<void*>(data);
}

}  // namespace

void* allocate(std::size_t bytes) {
  if (bytes == 0) return nullptr;
  if (bytes > kMaxBytes) throw_out_of_memory(bytes);
  if (bytes >= kHugePage) return map_huge(round_up(bytes, kHugePage));
  void* const data = std::aligned_alloc(kAlignment, round_up(bytes, kAlignment));
  if (data == nullptr) throw_out_of_memory(bytes);
  std::memset(data, 0, bytes);
  return data;
}

void release(void* data, std::size_t bytes) noexcept {
  if (data == nullptr) return;
  if (bytes >= kHugePage) {
    munmap(data, round_up(bytes, kHugePage));
  } else {
    std::free(data);
  }
}

}  // namespace sparkx::aligned_buffer_internal
