// The threads of a forward pass. Each stage is a parallel_for over panels, rows or spans: every worker first takes its
// home range, then steals from the others by atomic counters. Who computes a piece never changes its bits.
//
// Workers spin shortly between stages and then sleep. Every worker runs under the float environment of docs/numerics.md
// (rule 0); so does the caller inside a ScopedFloatEnvironment (core/float_environment.h).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <type_traits>

namespace sparkx {

class ThreadPool {
 public:
  // `threads` counts the calling thread: 1 starts none. With `cpus` each thread stays on one of them in turn, the
  // calling thread, also afterwards, on the first. Throws Error{invalid_argument} below 1 or above 1024 threads and for
  // a CPU that there is not or that this process may not use.
  explicit ThreadPool(int threads, std::span<const int> cpus = {});
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int size() const;

  // Calls body(begin, end, worker) until [0, count) is covered, in pieces of at most `grain`, and returns when all are
  // done; worker is in [0, size()). body must not throw. One parallel_for at a time; not from inside a body.
  template <typename Body>
  void parallel_for(std::int64_t count, std::int64_t grain, Body&& body) {
    using B = std::remove_reference_t<Body>;
    run(
        count, grain,
        [](void* context, std::int64_t begin, std::int64_t end, int worker) {
          (*static_cast<B*>(context))(begin, end, worker);
        },
        const_cast<void*>(static_cast<const void*>(&body)));
  }

 private:
  using Piece = void (*)(void* context, std::int64_t begin, std::int64_t end, int worker);
  void run(std::int64_t count, std::int64_t grain, Piece piece, void* context);

  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace sparkx
