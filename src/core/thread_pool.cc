#include "core/thread_pool.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <system_error>
#include <thread>
#include <vector>

#if defined(__linux__)
#include <sched.h>
#endif

#include "core/error.h"
#include "core/float_environment.h"

namespace sparkx {

namespace {

constexpr int kMaxThreads = 1024;

// How long a worker looks for the next stage before it sleeps. The gaps inside a forward step are shorter.
constexpr auto kSpinTime = std::chrono::microseconds(50);

inline void pause_cpu() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

int usable_cpus() {
#if defined(__linux__)
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
#endif
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

// Keeps the calling thread on one CPU. False when it cannot be there.
bool stay_on(int cpu) {
#if defined(__linux__)
  constexpr int kMostCpus = 1 << 16;
  if (cpu < 0 || cpu >= kMostCpus) return false;
  const std::unique_ptr<cpu_set_t, void (*)(cpu_set_t*)> set(CPU_ALLOC(kMostCpus), [](cpu_set_t* s) { CPU_FREE(s); });
  if (set == nullptr) return false;
  const std::size_t bytes = CPU_ALLOC_SIZE(kMostCpus);
  CPU_ZERO_S(bytes, set.get());
  CPU_SET_S(cpu, bytes, set.get());
  return sched_setaffinity(0, bytes, set.get()) == 0;
#else
  (void)cpu;
  return false;
#endif
}

// The pieces of a home range that nobody has taken yet. There are as many ranges as workers that may be awake at once:
// with more of them than CPUs, each would go through several short ones. A line of cache each, so that counting in one
// does not slow the others.
struct alignas(64) Home {
  std::atomic<std::int64_t> next{0};
  std::int64_t end = 0;
};

// The gate through which workers enter a stage: [stage number: 32 bits][open: 1 bit][workers inside: 31 bits]. A
// stage's fields change only while the gate is shut and nobody is inside, so a worker that comes late finds a shut gate
// or the next stage, never half of one; and a worker that never woke up is not waited for.
constexpr std::uint64_t kOpen = std::uint64_t{1} << 31;
constexpr std::uint64_t kInside = kOpen - 1;
constexpr std::uint64_t kStage = std::uint64_t{1} << 32;

}  // namespace

struct ThreadPool::State {
  std::vector<Home> homes;
  int size = 1;  // threads, the caller among them
  std::vector<std::thread> threads;
  std::vector<int> cpus;  // that the workers stay on in turn; none: wherever the system puts them
  // Workers that may be awake at once, the caller among them: more threads than CPUs would only take each other's time.
  int awake_limit = 1;

  // The stage.
  std::int64_t count = 0;
  std::int64_t grain = 1;
  Piece piece = nullptr;
  void* context = nullptr;
  std::int64_t pieces = 0;

  alignas(64) std::atomic<std::uint64_t> gate{0};

  alignas(64) std::atomic<int> sleeping{0};
  std::mutex mutex;
  std::condition_variable wake;
  int wake_tickets = 0;  // workers that were counted out of `sleeping` and have not woken yet
  bool stopping = false;

  // Takes pieces, from the home `first` on and then from the others, until there are none.
  void work(int worker, std::size_t first) {
    for (std::size_t i = 0; i < homes.size(); ++i) {
      Home& home = homes[(first + i) % homes.size()];
      for (;;) {
        if (home.next.load(std::memory_order_relaxed) >= home.end) break;
        const std::int64_t index = home.next.fetch_add(1, std::memory_order_relaxed);
        if (index >= home.end) break;
        piece(context, index * grain, std::min(count, (index + 1) * grain), worker);
      }
    }
  }

  // Wakes one sleeper when there is something for it to do; it will wake the next.
  void wake_one() {
    if (sleeping.load() == 0) return;
    const int awake = size - sleeping.load();
    if (awake >= awake_limit || awake >= pieces) return;
    {
      const std::lock_guard lock(mutex);
      if (sleeping.load() == 0) return;
      sleeping.fetch_sub(1);
      ++wake_tickets;
    }
    wake.notify_one();
  }

  // Enters the open stage and says how many other workers are inside; absent when the gate is shut or the stage is the
  // one this worker has already left.
  std::optional<std::size_t> enter(std::uint64_t last_stage) {
    std::uint64_t value = gate.load(std::memory_order_acquire);
    while ((value & kOpen) != 0 && value / kStage != last_stage) {
      if (gate.compare_exchange_weak(value, value + 1, std::memory_order_acquire)) return value & kInside;
    }
    return std::nullopt;
  }

  // Returns false when the pool ends.
  bool sleep(std::uint64_t last_stage) {
    std::unique_lock lock(mutex);
    if (stopping) return false;
    sleeping.fetch_add(1);
    // A stage that opened meanwhile may have seen nobody asleep.
    const std::uint64_t value = gate.load();
    if ((value & kOpen) != 0 && value / kStage != last_stage) {
      sleeping.fetch_sub(1);
      return true;
    }
    wake.wait(lock, [&] { return wake_tickets > 0 || stopping; });
    if (stopping) return false;
    --wake_tickets;
    return true;
  }

  void run_worker(int worker) {
    const ScopedFloatEnvironment environment;
    if (!cpus.empty()) stay_on(cpus[worker % cpus.size()]);  // which the constructor has tried
    std::uint64_t last_stage = 0;
    for (;;) {
      std::optional<std::size_t> others;
      auto deadline = std::chrono::steady_clock::now() + kSpinTime;
      while (!(others = enter(last_stage))) {
        const auto now = std::chrono::steady_clock::now();
        const bool running = (gate.load(std::memory_order_relaxed) & (kOpen | kInside)) != 0;
        if (now >= deadline) {
          if (!running) break;
          std::this_thread::yield();  // others are still at the last stage: the next one is near
        } else {
          for (int i = 0; i < 16; ++i) pause_cpu();
        }
      }
      if (others) {
        last_stage = gate.load(std::memory_order_relaxed) / kStage;
        wake_one();
        work(worker, 1 + *others);  // the caller has the first home
        gate.fetch_sub(1, std::memory_order_release);
      } else if (!sleep(last_stage)) {
        return;
      }
    }
  }

  void stop() {
    {
      const std::lock_guard lock(mutex);
      stopping = true;
    }
    wake.notify_all();
    for (std::thread& thread : threads) thread.join();
  }
};

ThreadPool::ThreadPool(int threads, std::span<const int> cpus) : state_(std::make_unique<State>()) {
  if (threads < 1 || threads > kMaxThreads) {
    throw_error(ErrorCode::invalid_argument, "{} threads; between 1 and {} are possible", threads, kMaxThreads);
  }
  state_->awake_limit = std::min(threads, usable_cpus());
  if (!cpus.empty()) {
    state_->cpus.assign(cpus.begin(), cpus.end());
    state_->awake_limit = std::min(threads, static_cast<int>(std::set<int>(cpus.begin(), cpus.end()).size()));
    // The first one last: there it stays.
    for (std::size_t i = cpus.size(); i-- > 0;) {
      if (!stay_on(cpus[i])) {
        throw_error(ErrorCode::invalid_argument, "CPU {}: there is none of that number that this process may use",
                    cpus[i]);
      }
    }
  }
  state_->homes = std::vector<Home>(state_->awake_limit);
  state_->size = threads;
  try {
    for (int worker = 1; worker < threads; ++worker) {
      state_->threads.emplace_back([state = state_.get(), worker] { state->run_worker(worker); });
    }
  } catch (const std::system_error& error) {
    state_->stop();
    throw_error(ErrorCode::unavailable, "cannot start thread {} of {}: {}", state_->threads.size() + 2, threads,
                error.what());
  }
}

ThreadPool::~ThreadPool() {
  state_->stop();
}

int ThreadPool::size() const {
  return state_->size;
}

void ThreadPool::run(std::int64_t count, std::int64_t grain, Piece piece, void* context) {
  if (count <= 0) return;
  State& state = *state_;
  const std::int64_t pieces = (count - 1) / grain + 1;
  if (state.size == 1 || pieces == 1) {
    for (std::int64_t begin = 0; begin < count; begin += grain) {
      piece(context, begin, std::min(count, begin + grain), 0);
    }
    return;
  }
  state.count = count;
  state.grain = grain;
  state.piece = piece;
  state.context = context;
  state.pieces = pieces;
  const auto homes = static_cast<std::int64_t>(state.homes.size());
  for (std::int64_t home = 0; home < homes; ++home) {
    state.homes[home].next.store(pieces * home / homes, std::memory_order_relaxed);
    state.homes[home].end = pieces * (home + 1) / homes;
  }
  const std::uint64_t stage = state.gate.load(std::memory_order_relaxed) / kStage + 1;
  state.gate.store(stage * kStage | kOpen);
  state.wake_one();
  state.work(0, 0);
  // Every piece is taken. Shut the gate and wait for those who are still at theirs.
  state.gate.fetch_and(~kOpen, std::memory_order_relaxed);
  for (int spins = 0; (state.gate.load(std::memory_order_acquire) & kInside) != 0; ++spins) {
    if (spins < 1000) {
      pause_cpu();
    } else {
      std::this_thread::yield();  // the others may need this CPU
    }
  }
}

}  // namespace sparkx
