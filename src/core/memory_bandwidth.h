// How fast memory can be read: the roof of everything that reads its weights once.
#pragma once

#include <cstddef>
#include <span>

#include "core/thread_pool.h"

namespace sparkx {

// Bytes a second that the threads read of `data` together, the best of several ways to walk through it. `data` is
// larger than the caches by far, and every page of it has been written.
double read_bandwidth(ThreadPool& threads, std::span<const std::byte> data);

}  // namespace sparkx
