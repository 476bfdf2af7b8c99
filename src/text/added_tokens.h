// Finds added tokens in text, as Hugging Face `tokenizers` does: the leftmost match, of those the longest; first the
// tokens that are not `normalized`, then the others in what is left.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "core/tokenizer_description.h"
#include "core/unicode.h"

namespace sparkx {

// A part of a text: [begin, end) in bytes.
struct TextRange {
  std::size_t begin;
  std::size_t end;
};

// A part of a text that is one added token, or ordinary text.
struct TextSegment {
  TextRange range;
  std::optional<TokenId> token;
};

class AddedTokenFinder {
 public:
  // Throws Error{unsupported} for a token of more than 1024 bytes, which keeps finding linear.
  AddedTokenFinder(std::span<const AddedTokenDescription> tokens, std::string_view what);

  // Cuts the text into added tokens, which lie inside one of the `trusted` ranges (ascending, apart), and the rest.
  // `text` must be valid UTF-8.
  std::vector<TextSegment> split(std::string_view text, std::span<const TextRange> trusted) const;

 private:
  // The tokens as a tree of bytes. Node 0 is the root.
  struct Node {
    int token = -1;  // index into tokens_
    int first_child = -1;
    int sibling = -1;
    unsigned char byte = 0;
  };
  struct Tree {
    std::vector<Node> nodes = std::vector<Node>(1);
    std::array<bool, 256> starts{};  // bytes that begin a token
    void add(std::string_view text, int token);
    bool empty() const { return nodes.size() == 1; }
  };
  struct Match {
    TextRange range;
    int token;
  };

  std::optional<Match> find(const Tree& tree, std::string_view text, TextRange where) const;
  void split_segment(const Tree& tree, std::string_view text, TextRange segment, std::span<const TextRange> trusted,
                     std::vector<TextSegment>& out) const;

  std::vector<AddedTokenDescription> tokens_;
  Tree first_;   // not `normalized`
  Tree second_;  // `normalized`
  CodePointTable single_word_;
  CodePointTable white_space_;
};

}  // namespace sparkx
