#include "text/detokenizer.h"

#include "core/unicode.h"
#include "text/tokenizer.h"

namespace sparkx {

std::string Detokenizer::append(TokenId id) {
  const std::string_view bytes = tokenizer_->token_bytes(id);
  if (skip_special_tokens_ && tokenizer_->is_special(id)) return {};
  pending_ += bytes;
  const std::size_t ready = pending_.size() - unfinished_utf8_size(pending_);
  std::string text = replace_invalid_utf8(std::string_view(pending_).substr(0, ready));
  pending_.erase(0, ready);
  return text;
}

std::string Detokenizer::finish() {
  std::string text = replace_invalid_utf8(pending_);
  pending_.clear();
  return text;
}

}  // namespace sparkx
