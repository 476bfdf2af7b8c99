// Token ids to text as they come: never half a character, and the parts put together equal Tokenizer::decode of all
// ids.
#pragma once

#include <string>

#include "core/tokenizer_description.h"

namespace sparkx {

class Tokenizer;

class Detokenizer {
 public:
  // The tokenizer must outlive the detokenizer.
  explicit Detokenizer(const Tokenizer& tokenizer, bool skip_special_tokens = false)
      : tokenizer_(&tokenizer), skip_special_tokens_(skip_special_tokens) {}

  // The text that this token makes certain: whole characters, U+FFFD for each maximal ill-formed part. At most three
  // bytes are held back. Throws Error{invalid_argument} for an id that is not in the vocabulary, and is then as before.
  std::string append(TokenId id);

  // What was held back, as U+FFFD, or "". The detokenizer is then as new.
  std::string finish();

 private:
  const Tokenizer* tokenizer_;
  bool skip_special_tokens_;
  std::string pending_;  // the beginning of a character whose end has not come yet
};

}  // namespace sparkx
