#include "core/thread_pool.h"

#include <gtest/gtest.h>

#include <time.h>

#include <atomic>
#include <bit>
#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "core/float_environment.h"
#include "support/errors.h"
#include "support/flush_denormals.h"

#if defined(__linux__)
#include <sched.h>
#endif

namespace sparkx {
namespace {

using sparkx::testing::error_of;

TEST(ThreadPool, CoversEveryIndexOnceInPiecesOfAtMostTheGrain) {
  for (const int threads : {1, 2, 3, 8}) {
    ThreadPool pool(threads);
    EXPECT_EQ(pool.size(), threads);
    for (const std::int64_t count : {0, 1, 2, 5, 64, 1000}) {
      for (const std::int64_t grain : {1, 3, 64, 5000}) {
        std::vector<std::atomic<int>> seen(count);
        std::atomic<bool> sound{true};
        pool.parallel_for(count, grain, [&](std::int64_t begin, std::int64_t end, int worker) {
          if (begin >= end || end - begin > grain || worker < 0 || worker >= threads) sound = false;
          for (std::int64_t i = begin; i < end; ++i) ++seen[i];
        });
        EXPECT_TRUE(sound);
        for (std::int64_t i = 0; i < count; ++i) {
          ASSERT_EQ(seen[i], 1) << i << " of " << count << ", grain " << grain << ", " << threads << " threads";
        }
      }
    }
  }
}

// Pieces are cut alike whatever the thread count, so that what depends on a piece's borders does not depend on it.
TEST(ThreadPool, PiecesDoNotDependOnTheThreads) {
  std::set<std::pair<std::int64_t, std::int64_t>> expected;
  for (const int threads : {1, 2, 7}) {
    ThreadPool pool(threads);
    std::mutex mutex;
    std::set<std::pair<std::int64_t, std::int64_t>> pieces;
    pool.parallel_for(101, 10, [&](std::int64_t begin, std::int64_t end, int) {
      const std::lock_guard lock(mutex);
      pieces.emplace(begin, end);
    });
    if (threads == 1) expected = pieces;
    EXPECT_EQ(pieces, expected);
  }
}

TEST(ThreadPool, WhatAStageWroteIsSeenByTheNext) {
  ThreadPool pool(4);
  std::vector<std::int64_t> values(257, 1);
  for (int stage = 0; stage < 3000; ++stage) {
    pool.parallel_for(257, 1, [&](std::int64_t begin, std::int64_t, int) { values[begin] += 1; });
    std::int64_t total = 0;
    for (const std::int64_t value : values) total += value;
    ASSERT_EQ(total, 257 * (stage + 2));
  }
}

TEST(ThreadPool, ManySmallStagesWithPausesBetween) {
  ThreadPool pool(8);
  for (int stage = 0; stage < 200; ++stage) {
    std::atomic<int> done{0};
    pool.parallel_for(9, 1, [&](std::int64_t, std::int64_t, int) { ++done; });
    ASSERT_EQ(done, 9);
    if (stage % 20 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(2));  // long enough to fall asleep
  }
}

TEST(ThreadPool, AnotherThreadHelpsWithALongStage) {
  if (std::thread::hardware_concurrency() < 2) GTEST_SKIP() << "one CPU: a second thread would only wait for it";
  ThreadPool pool(2);
  // Each of two pieces waits for the other, which only works on two threads.
  std::atomic<int> arrived{0};
  bool met[2] = {};
  pool.parallel_for(2, 1, [&](std::int64_t begin, std::int64_t, int) {
    ++arrived;
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (arrived < 2 && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
    met[begin] = arrived == 2;
  });
  EXPECT_TRUE(met[0] && met[1]);
}

// The home range of a slow worker is taken over by the others.
TEST(ThreadPool, IdleWorkersSteal) {
  if (std::thread::hardware_concurrency() < 2) GTEST_SKIP() << "one CPU: nobody is idle";
  ThreadPool pool(2);
  std::atomic<int> done{0};
  bool stolen = false;
  pool.parallel_for(100, 1, [&](std::int64_t begin, std::int64_t, int) {
    ++done;
    if (begin != 0) return;
    // Piece 0 is the caller's first one. The other 99, 49 of them the caller's, come to an end without it.
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (done < 100 && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
    stolen = done == 100;
  });
  EXPECT_TRUE(stolen);
}

double process_cpu_seconds() {
  timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

TEST(ThreadPool, AnIdlePoolTakesNoTime) {
  ThreadPool pool(8);
  pool.parallel_for(100, 1, [](std::int64_t, std::int64_t, int) {});
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  const double before = process_cpu_seconds();
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  EXPECT_LT(process_cpu_seconds() - before, 0.005) << "seconds of CPU in half a second";
}

TEST(ThreadPool, PoolsMayLiveSideBySideAndEndWithoutWork) {
  { ThreadPool unused(6); }
  ThreadPool a(3), b(3);
  std::atomic<int> done{0};
  a.parallel_for(10, 1, [&](std::int64_t, std::int64_t, int) { ++done; });
  b.parallel_for(10, 1, [&](std::int64_t, std::int64_t, int) { ++done; });
  EXPECT_EQ(done, 20);
}

TEST(ThreadPool, ImpossibleCountsAreRefused) {
  EXPECT_EQ(error_of([] { ThreadPool pool(0); }), "invalid_argument: 0 threads; between 1 and 1024 are possible");
  EXPECT_EQ(error_of([] { ThreadPool pool(1025); }), "invalid_argument: 1025 threads; between 1 and 1024 are possible");
}

#if defined(__linux__)
std::vector<int> allowed_cpus() {
  cpu_set_t set;
  std::vector<int> cpus;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
  }
  return cpus;
}

// In a thread of its own, which stays on a CPU ever after.
void in_a_thread(const std::function<void()>& action) {
  std::thread(action).join();
}

TEST(ThreadPool, ThreadsStayOnTheirCpus) {
  const std::vector<int> cpus = allowed_cpus();
  if (cpus.size() < 2) GTEST_SKIP() << "there is one CPU only";
  in_a_thread([&] {
    const std::vector<int> list = {cpus[1], cpus[0]};
    ThreadPool pool(3, list);
    std::vector<std::vector<int>> found(3);
    const auto all = [&] { return !found[0].empty() && (!found[1].empty() || !found[2].empty()); };
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!all() && std::chrono::steady_clock::now() < deadline) {
      pool.parallel_for(3, 1, [&](std::int64_t, std::int64_t, int worker) {
        found[worker] = allowed_cpus();
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      });
    }
    EXPECT_TRUE(all());
    for (int worker = 0; worker < 3; ++worker) {
      if (found[worker].empty()) continue;  // it slept through
      EXPECT_EQ(found[worker], std::vector<int>{list[worker % 2]}) << worker;
    }
    EXPECT_EQ(allowed_cpus(), std::vector<int>{list[0]});
  });
}

TEST(ThreadPool, ACpuThatIsNotThereIsRefused) {
  in_a_thread([] {
    for (const int cpu : {-1, 65000, 1 << 20}) {
      const std::vector<int> list = {allowed_cpus()[0], cpu};
      EXPECT_EQ(
          error_of([&] { ThreadPool pool(2, list); }),
          "invalid_argument: CPU " + std::to_string(cpu) + ": there is none of that number that this process may use");
    }
  });
}
#endif

// Workers inherit the control register of the thread that starts them, which may flush denormals.
TEST(ThreadPool, WorkersKeepDenormals) {
  const testing::FlushDenormals flush;
  ThreadPool pool(2);
  std::atomic<int> wrong{0}, by_others{0};
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (by_others == 0 && std::chrono::steady_clock::now() < deadline) {
    const ScopedFloatEnvironment environment;
    pool.parallel_for(64, 1, [&](std::int64_t, std::int64_t, int worker) {
      volatile float smallest = 0x1p-126f;
      // By its bits: where denormals are taken for zeros, a comparison takes 0x1p-127f for zero too.
      if (std::bit_cast<std::uint32_t>(smallest * 0.5f) != std::bit_cast<std::uint32_t>(0x1p-127f)) ++wrong;
      if (worker != 0) ++by_others;
    });
  }
  EXPECT_GT(by_others, 0);
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace sparkx
