// How long work says how far it is, and is told to stop.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>

#include "core/error.h"

namespace sparkx {

// Told how many of how many bytes are done, never by two threads at once; false asks to stop.
using ProgressCallback = std::function<bool(std::uint64_t done, std::uint64_t total)>;

// Counts bytes from any number of threads. Workers ask cancelled(), the thread that began the work calls check() when
// they are done.
class Progress {
 public:
  Progress(ProgressCallback callback, std::uint64_t total) : callback_(std::move(callback)), total_(total) {}

  // A thread that finds another one inside the callback goes on; that one's successor reports its bytes.
  void add(std::uint64_t bytes) {
    done_.fetch_add(bytes, std::memory_order_relaxed);
    if (!callback_ || cancelled()) return;
    if (std::unique_lock lock(mutex_, std::try_to_lock); lock.owns_lock()) report();
  }

  bool cancelled() const { return cancelled_.load(std::memory_order_relaxed); }

  // Reports what is done. Throws Error{cancelled} when the callback asked to stop.
  void check() {
    if (callback_ && !cancelled()) {
      const std::lock_guard lock(mutex_);
      report();
    }
    if (cancelled()) throw_error(ErrorCode::cancelled, "cancelled");
  }

 private:
  void report() {
    if (!callback_(done_.load(std::memory_order_relaxed), total_)) cancelled_.store(true, std::memory_order_relaxed);
  }

  ProgressCallback callback_;
  std::uint64_t total_;
  std::atomic<std::uint64_t> done_ = 0;
  std::atomic<bool> cancelled_ = false;
  std::mutex mutex_;
};

}  // namespace sparkx
