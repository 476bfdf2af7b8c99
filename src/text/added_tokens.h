// Finds added tokens in text, as Hugging Face `tokenizers` does: the leftmost match, of those the longest; first the
// tokens that are not `normalized`, then the others, normalized themselves, in what is left and normalized.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "core/tokenizer_description.h"
#include "core/unicode.h"
#include "text/normalizer.h"
#include "text/text_range.h"

namespace sparkx {

// A part of a text that is one added token, or ordinary text.
struct TextSegment {
  TextRange range;
  std::optional<TokenId> token;
};

class AddedTokenFinder {
 public:
  enum class Pass { exact, normalized };

  // Throws Error{unsupported} for a token of more than 1024 bytes, which keeps finding linear, and for one of which the
  // normalizer leaves nothing.
  AddedTokenFinder(std::span<const AddedTokenDescription> tokens, const Normalizer& normalizer, std::string_view what);

  // Cuts a segment of the text into the added tokens of one pass, which lie inside one of the `trusted` ranges
  // (ascending, apart), and the rest. `text` must be valid UTF-8.
  std::vector<TextSegment> split(Pass pass, std::string_view text, TextRange segment,
                                 std::span<const TextRange> trusted) const;

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

  std::vector<AddedTokenDescription> tokens_;
  Tree exact_;
  Tree normalized_;
  CodePointTable single_word_;
  CodePointTable white_space_;
};

}  // namespace sparkx
