#include "engine/benchmark.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <span>

#include "core/error.h"
#include "core/memory_info.h"

namespace sparkx {
namespace {

constexpr std::int64_t kPromptChunk = 512;  // tokens of a sequence that one step takes, as generating does
constexpr std::int64_t kWarmUpPrompt = 512;
constexpr std::int64_t kWarmUpDecode = 4;

// Between measurements of the bandwidth: machines that are shared change their speed, and the best counts.
constexpr auto kBandwidthInterval = std::chrono::seconds(2);

void check(std::span<const std::int64_t> values, std::int64_t least, const char* what) {
  for (const std::int64_t value : values) {
    if (value < least) throw_error(ErrorCode::invalid_argument, "a {} of {}: must be {} or more", what, value, least);
  }
}

void check(const BenchmarkOptions& options) {
  check(options.prompt_tokens, 1, "prompt");
  check(options.decode_tokens, 1, "number of decoded tokens");
  check(options.depths, 0, "depth");
  check(options.batches, 1, "batch");
  if (options.repeat < 1)
    throw_error(ErrorCode::invalid_argument, "{} measurements: must be 1 or more", options.repeat);
}

std::int64_t largest(const std::vector<std::int64_t>& values, std::int64_t otherwise) {
  return values.empty() ? otherwise : *std::max_element(values.begin(), values.end());
}

// Sequences that live as long as one measurement.
class Batch {
 public:
  Batch(Model& model, std::int64_t sequences, std::int64_t depth) : model_(model) {
    for (std::int64_t i = 0; i < sequences; ++i) ids_.push_back(model.create_synthetic_sequence(depth));
  }
  ~Batch() {
    for (const SequenceId id : ids_) model_.free_sequence(id);
  }
  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;

  // The same tokens for every sequence. Adds to `seconds` and to `work`.
  void step(std::span<const TokenId> tokens, LogitsWanted logits) {
    items_.clear();
    for (const SequenceId id : ids_) items_.push_back({id, tokens, logits});
    const StepWork step_work = model_.work(items_);
    const auto begin = std::chrono::steady_clock::now();
    const std::span<const StepOutput> outputs = model_.step(items_);
    seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    for (const StepOutput& output : outputs) {
      if (output.error) throw Error(*output.error, output.message);
    }
    work.bytes += step_work.bytes;
    work.multiply_adds += step_work.multiply_adds;
  }

  double seconds = 0;
  StepWork work;

 private:
  Model& model_;
  std::vector<SequenceId> ids_;
  std::vector<StepItem> items_;
};

class Measuring {
 public:
  Measuring(Model& model, const BenchmarkOptions& options) : model_(model), options_(options) {
    const auto tests = options.prompt_tokens.size() + options.decode_tokens.size();
    total_ = static_cast<std::int64_t>(tests * options.depths.size() * options.batches.size()) * options.repeat;
    const std::int64_t most = std::max(largest(options.prompt_tokens, 0), largest(options.decode_tokens, 0));
    for (std::int64_t i = 0; i < most; ++i) {
      // Rows all over the embedding: neighbours would be in the cache.
      tokens_.push_back(static_cast<TokenId>(i * 7919 % model.info().vocab_size));
    }
  }

  BenchmarkResult measure(BenchmarkResult::Test test, std::int64_t tokens, std::int64_t depth, std::int64_t batch) {
    const bool prompt = test == BenchmarkResult::Test::prompt;
    run(test, std::min(tokens, prompt ? kWarmUpPrompt : kWarmUpDecode), depth, batch);
    std::vector<double> seconds;
    StepWork work;
    for (int i = 0; i < options_.repeat; ++i) {
      const Run measured = run(test, tokens, depth, batch);
      seconds.push_back(measured.seconds);
      work = measured.work;
      ++done_;
    }
    std::sort(seconds.begin(), seconds.end());
    const std::size_t middle = seconds.size() / 2;
    const double median = seconds.size() % 2 == 1 ? seconds[middle] : (seconds[middle - 1] + seconds[middle]) / 2;
    const double all_tokens = static_cast<double>(tokens) * static_cast<double>(batch);
    BenchmarkResult result{};
    result.test = test;
    result.tokens = tokens;
    result.depth = depth;
    result.batch = batch;
    result.tokens_per_second = all_tokens / median;
    result.min = all_tokens / seconds.back();
    result.max = all_tokens / seconds.front();
    result.bytes_per_second = work.bytes / median;
    result.multiply_adds_per_second = work.multiply_adds / median;
    return result;
  }

 private:
  struct Run {
    double seconds;
    StepWork work;
  };

  Run run(BenchmarkResult::Test test, std::int64_t count, std::int64_t depth, std::int64_t batch) {
    Batch sequences(model_, batch, depth);
    const bool prompt = test == BenchmarkResult::Test::prompt;
    const std::span<const TokenId> tokens = std::span(tokens_).first(static_cast<std::size_t>(count));
    for (std::int64_t done = 0; done < count;) {
      if (options_.progress && !options_.progress(done_, total_)) throw_error(ErrorCode::cancelled, "cancelled");
      const std::int64_t chunk = prompt ? std::min(kPromptChunk, count - done) : 1;
      const bool logits = !prompt || done + chunk == count;
      sequences.step(tokens.subspan(static_cast<std::size_t>(done), static_cast<std::size_t>(chunk)),
                     logits ? LogitsWanted::last : LogitsWanted::none);
      done += chunk;
    }
    return {sequences.seconds, sequences.work};
  }

  Model& model_;
  const BenchmarkOptions& options_;
  std::vector<TokenId> tokens_;
  std::int64_t done_ = 0;
  std::int64_t total_ = 0;
};

}  // namespace

std::int64_t longest_sequence(const BenchmarkOptions& options) {
  check(options);
  const std::int64_t tokens = std::max(largest(options.prompt_tokens, 1), largest(options.decode_tokens, 1));
  const std::int64_t depth = largest(options.depths, 0);
  // More than any context has; the sum may not overflow.
  return depth > std::numeric_limits<std::int64_t>::max() - tokens ? depth : depth + tokens;
}

std::int64_t largest_batch(const BenchmarkOptions& options) {
  check(options);
  return largest(options.batches, 1);
}

BenchmarkReport run_benchmark(Model& model, const BenchmarkOptions& options) {
  if (longest_sequence(options) > model.info().context) {
    throw_error(ErrorCode::invalid_argument, "the longest sequence has {} positions, but the context has room for {}",
                longest_sequence(options), model.info().context);
  }
  BenchmarkReport report{};
  Measuring measuring(model, options);
  // Measuring the bandwidth may take memory of its own, so the peak is that of before, and later what is resident: the
  // model gives none back.
  bool bandwidth_measured = false;
  auto last = std::chrono::steady_clock::now();
  const auto measure_bandwidth = [&] {
    report.read_bandwidth = std::max(report.read_bandwidth, model.read_bandwidth());
    bandwidth_measured = true;
    last = std::chrono::steady_clock::now();
  };
  const auto measure = [&](BenchmarkResult::Test test, std::int64_t tokens, std::int64_t depth, std::int64_t batch) {
    report.results.push_back(measuring.measure(test, tokens, depth, batch));
    report.peak_memory_bytes =
        std::max(report.peak_memory_bytes, bandwidth_measured ? resident_bytes() : peak_resident_bytes());
    if (std::chrono::steady_clock::now() - last >= kBandwidthInterval) measure_bandwidth();
  };
  for (const std::int64_t depth : options.depths) {
    for (const std::int64_t batch : options.batches) {
      for (const std::int64_t tokens : options.prompt_tokens) {
        measure(BenchmarkResult::Test::prompt, tokens, depth, batch);
      }
      for (const std::int64_t tokens : options.decode_tokens) {
        measure(BenchmarkResult::Test::decode, tokens, depth, batch);
      }
    }
  }
  measure_bandwidth();
  for (BenchmarkResult& result : report.results) {
    result.bandwidth_share = report.read_bandwidth > 0 ? result.bytes_per_second / report.read_bandwidth : NAN;
  }
  return report;
}

}  // namespace sparkx
