// Byte-pair encoding of one piece of text (docs/model.md, Tokenizer): as long as two neighbours have a merge, the pair
// whose merge has the lowest rank is merged, the leftmost of equal ones first. O(n log n) for a piece of n bytes.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/tokenizer_description.h"

namespace sparkx {

// The bytes of all tokens in one buffer.
class TokenBytes {
 public:
  explicit TokenBytes(const std::vector<std::string>& tokens);
  std::string_view operator[](TokenId id) const {
    const auto i = static_cast<std::size_t>(id);
    return std::string_view(bytes_).substr(offsets_[i], offsets_[i + 1] - offsets_[i]);
  }
  std::size_t size() const { return offsets_.size() - 1; }

 private:
  std::string bytes_;
  std::vector<std::size_t> offsets_;  // [tokens + 1]
};

class Bpe {
 public:
  // `token_bytes` must outlive this. Throws Error{corrupt} for a merge whose parts or result are no tokens and for a
  // merge given twice, Error{unsupported} when a byte has no token and there is no unknown token.
  Bpe(const TokenizerDescription& description, const TokenIndex& index, const TokenBytes& token_bytes);

  // Appends the tokens of one piece.
  void encode(std::string_view piece, std::vector<TokenId>& out) const;

  // Takes apart, from ids[begin] on, the added tokens that merges have put together. (A token of one byte stays.)
  void take_added_apart(std::vector<TokenId>& ids, std::size_t begin) const;

 private:
  static constexpr std::uint32_t kNoMerge = 0xFFFFFFFF;  // as a rank
  struct Merge {
    std::uint32_t rank = kNoMerge;
    TokenId token = -1;
  };
  struct MergeSlot {
    std::uint64_t pair = ~std::uint64_t{0};
    Merge merge;
  };
  enum Whole : std::uint8_t { kUnknown, kYes, kNo };

  static std::uint64_t pair_of(TokenId left, TokenId right) {
    return static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32 | static_cast<std::uint32_t>(right);
  }
  void read_merges(const TokenizerDescription& description, const TokenIndex& index);
  void add_merge(const TokenizerDescription& description, std::size_t rank, TokenId merged);
  void read_bytes(const TokenizerDescription& description, const TokenIndex& index);
  void index_pieces(const TokenizerDescription& description);

  const Merge& find_merge(TokenId left, TokenId right) const;
  std::optional<TokenId> find_piece(std::string_view piece) const;
  void merge_piece(std::string_view piece, std::vector<TokenId>& out) const;
  void merge_few(TokenId* symbols, std::size_t count, std::vector<TokenId>& out) const;
  void merge_many(std::vector<TokenId>& symbols, std::vector<TokenId>& out) const;

  const TokenBytes* token_bytes_;
  bool ignore_merges_;
  bool fuse_unknown_;
  TokenId unknown_;  // -1: none
  std::array<TokenId, 256> byte_tokens_;
  std::vector<bool> added_;                                         // [token]
  std::unordered_map<TokenId, std::pair<TokenId, TokenId>> parts_;  // of added tokens that are the result of a merge
  std::vector<MergeSlot> merges_;                                   // open addressing
  std::vector<TokenId> pieces_;    // open addressing by bytes: tokens that ordinary text can become
  std::size_t longest_piece_ = 0;  // in bytes
  // Whether a token's own text becomes that token: found out the first time it is seen.
  std::unique_ptr<std::atomic<std::uint8_t>[]> whole_;
};

}  // namespace sparkx
