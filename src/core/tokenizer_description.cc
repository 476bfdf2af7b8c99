#include "core/tokenizer_description.h"

#include <bit>
#include <cstring>

#include "core/error.h"
#include "core/hash.h"
#include "core/printable.h"

namespace sparkx {

TokenIndex::TokenIndex(const std::vector<std::string>& tokens, std::string_view what) : tokens_(&tokens) {
  slots_.assign(std::bit_ceil(tokens.size() * 2 + 1), -1);
  for (std::size_t id = 0; id < tokens.size(); ++id) {
    if (tokens[id].empty()) continue;  // an id without a token
    std::size_t slot = hash_bytes(tokens[id]) & (slots_.size() - 1);
    for (; slots_[slot] >= 0; slot = (slot + 1) & (slots_.size() - 1)) {
      if (tokens[static_cast<std::size_t>(slots_[slot])] == tokens[id]) {
        throw_error(ErrorCode::corrupt, "{}: tokens {} and {} have the same text {}", what, slots_[slot], id,
                    in_quotes(tokens[id]));
      }
    }
    slots_[slot] = static_cast<TokenId>(id);
  }
}

std::optional<TokenId> TokenIndex::find(std::string_view text) const {
  if (slots_.empty()) return std::nullopt;
  for (std::size_t slot = hash_bytes(text) & (slots_.size() - 1); slots_[slot] >= 0;
       slot = (slot + 1) & (slots_.size() - 1)) {
    if ((*tokens_)[static_cast<std::size_t>(slots_[slot])] == text) return slots_[slot];
  }
  return std::nullopt;
}

}  // namespace sparkx
