// What a byte-level BPE tokenizer is, as plain data: the readers of tokenizer.json (text/tokenizer_json.h) and of other
// containers fill it in, text/tokenizer.h runs it (docs/model.md, Tokenizer).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sparkx {

using TokenId = std::int32_t;  // 0 is a real token; never test an id for truth

struct AddedTokenDescription {
  TokenId id = 0;
  std::string content;       // plain text, matched before pre-tokenization
  bool special = false;      // vanishes under skip_special_tokens
  bool lstrip = false;       // takes the blanks before it
  bool rstrip = false;       // takes the blanks after it
  bool single_word = false;  // not recognized inside a word
  bool normalized = false;   // looked for after the others, in what they leave once it is normalized

  bool operator==(const AddedTokenDescription&) const = default;
};

// One step of the normalizer, which changes the text between added tokens before it is cut.
struct NormalizerStep {
  enum class Kind {
    nfc,
    nfd,
    nfkc,
    nfkd,
    replace,  // every match of `pattern` by `content`
    prepend,  // `content` in front of a text that is not empty
    strip,    // the blanks at its ends go
  };
  Kind kind = Kind::nfc;
  std::string pattern;
  std::string content;
  bool strip_left = false;
  bool strip_right = false;

  bool operator==(const NormalizerStep&) const = default;
};

// One step of the pre-tokenizer; each step cuts the pieces of the step before it further.
struct PreTokenizerStep {
  enum class Kind {
    split,       // `pattern` cuts; `keep` says what becomes a piece
    digits,      // individual_digits: every numeric character is a piece, else every run of them
    byte_level,  // with_pattern: GPT-2's pattern splits first; always the last step
  };
  enum class Keep {
    all,      // every match and every stretch between matches
    matches,  // what stands between them is dropped
    rest,     // the matches are dropped
  };
  Kind kind = Kind::byte_level;
  std::string pattern;
  Keep keep = Keep::all;
  bool individual_digits = false;
  bool prefix_space = false;  // byte_level puts a blank before a piece that begins with none
  bool with_pattern = false;

  bool operator==(const PreTokenizerStep&) const = default;
};

struct TokenizerDescription {
  std::string source;  // names the file in error messages
  // [id] as the vocabulary spells it: byte-level alphabet, added tokens as plain text; "" is an id without a token.
  std::vector<std::string> tokens;
  std::vector<std::pair<TokenId, TokenId>> merges;  // in order of rank
  std::vector<AddedTokenDescription> added_tokens;  // their ids are in `tokens` too
  std::vector<NormalizerStep> normalizer;
  std::vector<PreTokenizerStep> pre_tokenizer;
  bool ignore_merges = false;  // a piece that is a token of the vocabulary is not taken apart
  bool fuse_unknown = false;   // one unknown token for a run of unknown bytes
  std::optional<TokenId> bos;
  std::optional<TokenId> eos;
  std::optional<TokenId> pad;
  std::optional<TokenId> unknown;     // stands for bytes that have no token
  std::vector<std::string> warnings;  // what the file says that sparkx, like transformers, leaves aside
};

// Finds tokens by their text. Refers to the vector it was made from, which must outlive it and stay where it is; more
// tokens may join those that it knows.
class TokenIndex {
 public:
  TokenIndex() = default;
  // Throws Error{corrupt} naming the token when two ids have the same text; `what` names the file.
  TokenIndex(const std::vector<std::string>& tokens, std::string_view what);

  std::optional<TokenId> find(std::string_view text) const;
  // The same for many texts, -1 where there is none: they wait for memory together, not each for itself.
  void find(std::span<const std::string_view> texts, std::span<TokenId> ids) const;

 private:
  TokenId find(std::string_view text, std::uint64_t hash) const;

  struct Slot {
    TokenId id = -1;        // -1: free
    std::uint32_t tag = 0;  // the upper half of the hash, which spares most looks at other tokens
  };

  const std::vector<std::string>* tokens_ = nullptr;
  std::vector<Slot> slots_;  // open addressing
};

}  // namespace sparkx
