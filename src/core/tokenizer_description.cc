#include "core/tokenizer_description.h"

#include <bit>
#include <cstring>

#include "core/error.h"
#include "core/hash.h"
#include "core/printable.h"

namespace sparkx {

TokenIndex::TokenIndex(const std::vector<std::string>& tokens, std::string_view what) : tokens_(&tokens) {
  slots_.resize(std::bit_ceil(tokens.size() * 2 + 1));
  for (std::size_t id = 0; id < tokens.size(); ++id) {
    if (tokens[id].empty()) continue;  // an id without a token
    const std::uint64_t hash = hash_bytes(tokens[id]);
    const auto tag = static_cast<std::uint32_t>(hash >> 32);
    std::size_t slot = hash & (slots_.size() - 1);
    for (; slots_[slot].id >= 0; slot = (slot + 1) & (slots_.size() - 1)) {
      if (slots_[slot].tag == tag && tokens[static_cast<std::size_t>(slots_[slot].id)] == tokens[id]) {
        throw_error(ErrorCode::corrupt, "{}: tokens {} and {} have the same text {}", what, slots_[slot].id, id,
                    in_quotes(tokens[id]));
      }
    }
    slots_[slot] = {static_cast<TokenId>(id), tag};
  }
}

std::optional<TokenId> TokenIndex::find(std::string_view text) const {
  if (slots_.empty()) return std::nullopt;
  const std::uint64_t hash = hash_bytes(text);
  const auto tag = static_cast<std::uint32_t>(hash >> 32);
  for (std::size_t slot = hash & (slots_.size() - 1); slots_[slot].id >= 0; slot = (slot + 1) & (slots_.size() - 1)) {
    if (slots_[slot].tag == tag && (*tokens_)[static_cast<std::size_t>(slots_[slot].id)] == text)
      return slots_[slot].id;
  }
  return std::nullopt;
}

}  // namespace sparkx
