// Text to token ids and back, exactly as Hugging Face `tokenizers` does it for byte-level BPE (docs/model.md,
// Tokenizer).
//
// A tokenizer does not change after construction: any number of threads may use one at the same time.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/tokenizer_description.h"

namespace sparkx {

// Whether added tokens, such as <think> or the sentence markers, are recognized in a text. `none` means that no added
// token of any kind, special or not, comes out of the text: what a user writes stays plain text.
enum class AddedTokens { all, none };

// A part of a text and who wrote it: added tokens are recognized only inside runs of trusted stretches.
struct Stretch {
  std::string_view text;
  bool trusted = false;
};

class Tokenizer {
 public:
  // Throws Error{corrupt} for a description that contradicts itself (an id out of range, two tokens with the same text,
  // a merge whose result is no token) and Error{unsupported} for a pattern that core/regex.h refuses; the message says
  // where.
  explicit Tokenizer(TokenizerDescription description);
  ~Tokenizer();
  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;

  // Invalid UTF-8 becomes U+FFFD for each maximal ill-formed part. Adds no marker of its own (no BOS).
  std::vector<TokenId> encode(std::string_view text, AddedTokens added = AddedTokens::all) const;

  // Encodes the stretches as one text. The text between two recognized added tokens is pre-tokenized as one piece,
  // whoever wrote its parts, so that an ordinary conversation gets the ids that its concatenation gets.
  std::vector<TokenId> encode(std::span<const Stretch> stretches) const;

  // The text of the ids: the bytes of all tokens, with U+FFFD for each maximal ill-formed part. Throws
  // Error{invalid_argument} naming an id that is not in the vocabulary.
  std::string decode(std::span<const TokenId> ids, bool skip_special_tokens = false) const;

  // Ids are 0 … vocab_size() - 1. One that the vocabulary leaves out decodes to nothing, and no text becomes it.
  std::int64_t vocab_size() const;
  bool contains(std::int64_t id) const { return id >= 0 && id < vocab_size(); }

  // These three throw Error{invalid_argument} for an id that is not in the vocabulary.
  std::string_view token_bytes(TokenId id) const;  // what the token adds to a text; not always whole characters
  bool is_added(TokenId id) const;
  bool is_special(TokenId id) const;  // skip_special_tokens leaves it out

  // The id of an added token by its plain text ("<think>"), or of an ordinary one as the vocabulary spells it ("Ġthe").
  std::optional<TokenId> find(std::string_view token) const;

  std::optional<TokenId> bos() const;
  std::optional<TokenId> eos() const;
  std::optional<TokenId> pad() const;
  std::optional<TokenId> unknown() const;

  const TokenizerDescription& description() const;

 private:
  struct Impl;
  std::unique_ptr<const Impl> impl_;
};

}  // namespace sparkx
