// What the thread pool costs a loaded model: with as many threads as cores and with four times as many, and while it
// has nothing to do. The model has the 1.7B shape in 4 bits.
//
//   scripts/bench threads -- --benchmark_repetitions=5 --benchmark_enable_random_interleaving=true
#include <benchmark/benchmark.h>
#include <time.h>

#include <chrono>
#include <map>
#include <thread>

#include "sparkx/sparkx.hpp"

namespace sparkx {
namespace {

LanguageModel& model_with_threads(int threads) {
  static std::map<int, LanguageModel> models;
  const auto found = models.find(threads);
  if (found != models.end()) return found->second;
  ModelOptions options;
  options.quantize = "4bit";
  options.context = 1024;
  options.threads = threads;
  return models.emplace(threads, LanguageModel::synthetic("1.7b", options)).first->second;
}

// Tokens a step, times as many threads as cores.
void step(benchmark::State& state) {
  LanguageModel& model = model_with_threads(machine_info().cores * static_cast<int>(state.range(1)));
  const std::vector<TokenId> tokens(static_cast<std::size_t>(state.range(0)), 1);
  for (auto _ : state) {
    state.PauseTiming();
    Sequence sequence = model.create_sequence();
    const BatchItem item{&sequence, tokens};
    state.ResumeTiming();
    model.step({&item, 1});
  }
  state.counters["tokens/s"] =
      benchmark::Counter(static_cast<double>(tokens.size()), benchmark::Counter::kIsIterationInvariantRate);
}
BENCHMARK(step)->ArgsProduct({{1, 128}, {1, 4}})->Unit(benchmark::kMillisecond)->UseRealTime()->MinTime(2);

double cpu_seconds() {
  timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// Ten seconds after a step; `core` is the share of one core that went into doing nothing.
void idle(benchmark::State& state) {
  LanguageModel& model = model_with_threads(machine_info().cores * static_cast<int>(state.range(0)));
  const std::vector<TokenId> tokens(1, 1);
  for (auto _ : state) {
    Sequence sequence = model.create_sequence();
    const BatchItem item{&sequence, tokens};
    model.step({&item, 1});
    const double before = cpu_seconds();
    std::this_thread::sleep_for(std::chrono::seconds(10));
    state.counters["core"] = (cpu_seconds() - before) / 10;
  }
}
BENCHMARK(idle)->Arg(1)->Arg(4)->Iterations(1)->Unit(benchmark::kSecond)->UseRealTime();

}  // namespace
}  // namespace sparkx
