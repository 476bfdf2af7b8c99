#include "core/tokenizer_description.h"

#include <algorithm>
#include <array>
#include <bit>

#include "core/error.h"
#include "core/hash.h"
#include "core/printable.h"

namespace sparkx {
namespace {

constexpr std::size_t kTogether = 32;  // texts whose slots are fetched before the first is looked at

}  // namespace

TokenIndex::TokenIndex(const std::vector<std::string>& tokens, std::string_view what) : tokens_(&tokens) {
  slots_.resize(std::bit_ceil(tokens.size() * 2 + 1));
  const std::size_t mask = slots_.size() - 1;
  std::array<std::uint64_t, kTogether> hashes;
  for (std::size_t id = 0; id < tokens.size(); ++id) {
    if (id % kTogether == 0) {
      for (std::size_t i = id; i < std::min(id + kTogether, tokens.size()); ++i) {
        hashes[i % kTogether] = hash_bytes(tokens[i]);
        __builtin_prefetch(&slots_[hashes[i % kTogether] & mask], 1);
      }
    }
    if (tokens[id].empty()) continue;  // an id without a token
    const std::uint64_t hash = hashes[id % kTogether];
    const auto tag = static_cast<std::uint32_t>(hash >> 32);
    std::size_t slot = hash & mask;
    for (; slots_[slot].id >= 0; slot = (slot + 1) & mask) {
      if (slots_[slot].tag == tag && tokens[static_cast<std::size_t>(slots_[slot].id)] == tokens[id]) {
        throw_error(ErrorCode::corrupt, "{}: tokens {} and {} have the same text {}", what, slots_[slot].id, id,
                    in_quotes(tokens[id]));
      }
    }
    slots_[slot] = {static_cast<TokenId>(id), tag};
  }
}

TokenId TokenIndex::find(std::string_view text, std::uint64_t hash) const {
  const auto tag = static_cast<std::uint32_t>(hash >> 32);
  for (std::size_t slot = hash & (slots_.size() - 1); slots_[slot].id >= 0; slot = (slot + 1) & (slots_.size() - 1)) {
    if (slots_[slot].tag == tag && (*tokens_)[static_cast<std::size_t>(slots_[slot].id)] == text)
      return slots_[slot].id;
  }
  return -1;
}

std::optional<TokenId> TokenIndex::find(std::string_view text) const {
  if (slots_.empty()) return std::nullopt;
  const TokenId id = find(text, hash_bytes(text));
  return id < 0 ? std::nullopt : std::optional(id);
}

void TokenIndex::find(std::span<const std::string_view> texts, std::span<TokenId> ids) const {
  std::array<std::uint64_t, kTogether> hashes;
  for (std::size_t begin = 0; begin < texts.size(); begin += kTogether) {
    const auto part = texts.subspan(begin, std::min(kTogether, texts.size() - begin));
    for (std::size_t i = 0; i < part.size(); ++i) {
      hashes[i] = hash_bytes(part[i]);
      __builtin_prefetch(&slots_[hashes[i] & (slots_.size() - 1)]);
    }
    for (std::size_t i = 0; i < part.size(); ++i) {
      const Slot& slot = slots_[hashes[i] & (slots_.size() - 1)];
      if (slot.id >= 0) __builtin_prefetch(&(*tokens_)[static_cast<std::size_t>(slot.id)]);
    }
    for (std::size_t i = 0; i < part.size(); ++i) ids[begin + i] = find(part[i], hashes[i]);
  }
}

}  // namespace sparkx
