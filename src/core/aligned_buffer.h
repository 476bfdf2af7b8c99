// Memory for weights, KV cache and activations: 64-byte aligned, zeroed; large buffers lie on huge pages where the
// system gives them.
#pragma once

#include <cstddef>
#include <limits>
#include <span>
#include <type_traits>
#include <utility>

namespace sparkx {

namespace aligned_buffer_internal {

// `bytes` zeroed bytes, or null for none. Throws Error{out_of_memory}.
void* allocate(std::size_t bytes);
void release(void* data, std::size_t bytes) noexcept;

}  // namespace aligned_buffer_internal

template <typename T>
class AlignedBuffer {
  static_assert(std::is_trivially_copyable_v<T> && std::is_trivially_destructible_v<T>);

 public:
  AlignedBuffer() = default;

  // `size` elements, all zero. Throws Error{out_of_memory}.
  explicit AlignedBuffer(std::size_t size)
      : data_(static_cast<T*>(aligned_buffer_internal::allocate(bytes_of(size)))), size_(size) {}
  AlignedBuffer(AlignedBuffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  AlignedBuffer& operator=(AlignedBuffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~AlignedBuffer() { aligned_buffer_internal::release(data_, size_ * sizeof(T)); }

  T* data() { return data_; }
  const T* data() const { return data_; }
  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T& operator[](std::size_t i) { return data_[i]; }
  const T& operator[](std::size_t i) const { return data_[i]; }
  T* begin() { return data_; }
  T* end() { return data_ + size_; }
  const T* begin() const { return data_; }
  const T* end() const { return data_ + size_; }
  std::span<T> span() { return {data_, size_}; }
  std::span<const T> span() const { return {data_, size_}; }

 private:
  // A count whose bytes do not fit size_t asks for more than there can be.
  static std::size_t bytes_of(std::size_t size) {
    constexpr std::size_t kMax = std::numeric_limits<std::size_t>::max();
    return size > kMax / sizeof(T) ? kMax : size * sizeof(T);
  }

  T* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace sparkx
