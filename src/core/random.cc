#include "core/random.h"

namespace sparkx {
namespace {

constexpr int kRounds = 10;
constexpr std::uint32_t kMultiplier0 = 0xD2511F53;
constexpr std::uint32_t kMultiplier1 = 0xCD9E8D57;
constexpr std::uint32_t kWeyl0 = 0x9E3779B9;  // added to the key after each round
constexpr std::uint32_t kWeyl1 = 0xBB67AE85;

std::uint32_t low_word(std::uint64_t x) {
  return static_cast<std::uint32_t>(x);
}
std::uint32_t high_word(std::uint64_t x) {
  return static_cast<std::uint32_t>(x >> 32);
}

}  // namespace

std::array<std::uint32_t, 4> philox4x32(const std::array<std::uint32_t, 4>& counter,
                                        const std::array<std::uint32_t, 2>& key) {
  auto [c0, c1, c2, c3] = counter;
  auto [k0, k1] = key;
  for (int round = 0; round < kRounds; ++round) {
    const std::uint64_t product0 = std::uint64_t{kMultiplier0} * c0;
    const std::uint64_t product1 = std::uint64_t{kMultiplier1} * c2;
    c0 = high_word(product1) ^ c1 ^ k0;
    c1 = low_word(product1);
    c2 = high_word(product0) ^ c3 ^ k1;
    c3 = low_word(product0);
    k0 += kWeyl0;
    k1 += kWeyl1;
  }
  return {c0, c1, c2, c3};
}

double random_unit(std::uint64_t seed, std::uint64_t position) {
  const std::array<std::uint32_t, 4> block =
      philox4x32({low_word(position), high_word(position), 0, 0}, {low_word(seed), high_word(seed)});
  const std::uint64_t bits = std::uint64_t{block[0]} << 21 | block[1] >> 11;
  return static_cast<double>(bits) * 0x1p-53;
}

}  // namespace sparkx
