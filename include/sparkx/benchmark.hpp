// Measuring a model: how fast prompts are read and tokens are generated, and how near that comes to the memory's speed.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

namespace sparkx {

// Every number of prompt and of decoded tokens is measured at every depth with every batch.
struct BenchmarkOptions {
  std::vector<std::int64_t> prompt_tokens = {512};  // of each sequence, in steps of at most 512; logits of the last
  std::vector<std::int64_t> decode_tokens = {64};   // of each sequence, one a step, with logits
  std::vector<std::int64_t> depths = {0};           // positions that the sequences already have, made up
  std::vector<std::int64_t> batches = {1};          // sequences that are stepped together
  int repeat = 5;                                   // measurements of each, after a short warm-up
  // Told between steps how many of how many measurements are done; false cancels.
  std::function<bool(std::int64_t done, std::int64_t total)> progress = {};
};

// Positions that a sequence has at most, for ModelOptions::context, and sequences at most, for ModelOptions::sequences.
// Both throw Error{invalid_argument} unless every number of tokens, batch and repeat is at least 1 and every depth at
// least 0.
std::int64_t longest_sequence(const BenchmarkOptions& options);
std::int64_t largest_batch(const BenchmarkOptions& options);

struct BenchmarkResult {
  enum class Test { prompt, decode };
  Test test;
  std::int64_t tokens;  // of each sequence
  std::int64_t depth;
  std::int64_t batch;
  // Tokens of all sequences a second, by the wall clock: the median of the measurements, the slowest and the fastest.
  double tokens_per_second;
  double min;
  double max;
  // At the median speed, of what there is to do at the least: the weights are read once for each pass of at most 512
  // tokens, and the keys and values that its tokens see once.
  double bytes_per_second;
  double bandwidth_share;  // of BenchmarkReport::read_bandwidth; NaN where that is unknown
  double multiply_adds_per_second;
};

struct BenchmarkReport {
  // Bytes a second that the model's threads can read from memory, the best of what was measured between the results and
  // at the end; 0: unknown.
  double read_bandwidth;
  std::uint64_t peak_memory_bytes;  // of the process, without what measuring the bandwidth took
  std::vector<BenchmarkResult> results;
};

}  // namespace sparkx
