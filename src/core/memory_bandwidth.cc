#include "core/memory_bandwidth.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <limits>

namespace sparkx {
namespace {

constexpr std::size_t kLine = 64;
constexpr std::size_t kPieceBytes = std::size_t{1} << 20;  // that a worker takes at a time
constexpr std::size_t kMostBytes = std::size_t{1} << 30;   // of a round: more takes longer and says the same
constexpr int kRounds = 2;                                 // of each way

// Reads a piece in so many streams side by side, a line of each in turn, asking for lines `ahead` bytes before they are
// needed (0: leaving that to the CPU). Returns a sum, so that nothing is left out.
template <int kStreams>
std::uint64_t read_piece(const std::byte* piece, std::size_t ahead) {
  constexpr std::size_t kStreamBytes = kPieceBytes / kStreams;
  std::uint64_t sums[kLine / sizeof(std::uint64_t)] = {};
  for (std::size_t offset = 0; offset < kStreamBytes; offset += kLine) {
    for (int stream = 0; stream < kStreams; ++stream) {
      const std::byte* line = piece + static_cast<std::size_t>(stream) * kStreamBytes + offset;
      if (ahead != 0) __builtin_prefetch(line + ahead);  // beyond the end it does nothing
      std::uint64_t words[kLine / sizeof(std::uint64_t)];
      std::memcpy(words, line, kLine);
      for (std::size_t i = 0; i < std::size(words); ++i) sums[i] += words[i];
    }
  }
  std::uint64_t total = 0;
  for (const std::uint64_t sum : sums) total += sum;
  return total;
}

struct Way {
  std::uint64_t (*read)(const std::byte* piece, std::size_t ahead);
  std::size_t ahead;
};
constexpr Way kWays[] = {
    {read_piece<1>, 0}, {read_piece<1>, 2048}, {read_piece<2>, 0}, {read_piece<2>, 1024},
    {read_piece<4>, 0}, {read_piece<4>, 1024}, {read_piece<8>, 0}, {read_piece<8>, 512},
};

}  // namespace

double read_bandwidth(ThreadPool& threads, std::span<const std::byte> data) {
  const std::size_t pieces = std::min(data.size(), kMostBytes) / kPieceBytes;
  if (pieces == 0) return 0;
  std::atomic<std::uint64_t> sum = 0;
  double best_seconds = std::numeric_limits<double>::infinity();
  for (int round = 0; round < kRounds; ++round) {
    for (const Way& way : kWays) {
      const auto begin = std::chrono::steady_clock::now();
      threads.parallel_for(static_cast<std::int64_t>(pieces), 1, [&](std::int64_t piece, std::int64_t, int) {
        const std::uint64_t total = way.read(data.data() + static_cast<std::size_t>(piece) * kPieceBytes, way.ahead);
        sum.fetch_add(total, std::memory_order_relaxed);
      });
      const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
      best_seconds = std::min(best_seconds, seconds.count());
    }
  }
  return static_cast<double>(pieces * kPieceBytes) / best_seconds;
}

}  // namespace sparkx
