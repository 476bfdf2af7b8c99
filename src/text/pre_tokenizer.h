// Cuts text into the pieces that BPE encodes one by one (docs/model.md, Tokenizer).
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "core/regex.h"
#include "core/tokenizer_description.h"
#include "core/unicode.h"

namespace sparkx {

class PreTokenizer {
 public:
  // Throws as Regex does for a pattern; `what` names the file.
  PreTokenizer(std::span<const PreTokenizerStep> steps, std::string_view what);

  // Calls use(piece) for every piece in order. `text` must be valid UTF-8; together the pieces are the text.
  template <typename Use>
  void split(std::string_view text, Use&& use) const {
    split_from(0, text, use);
  }

 private:
  struct Step {
    std::optional<Regex> pattern;  // absent: the digits step
    bool individual_digits = false;
  };

  template <typename Use>
  void split_from(std::size_t index, std::string_view text, Use& use) const {
    if (text.empty()) return;
    if (index == steps_.size()) {
      use(text);
    } else if (steps_[index].pattern) {
      split_by_pattern(index, text, use);
    } else {
      split_by_digits(index, text, use);
    }
  }

  template <typename Use>
  void split_by_pattern(std::size_t index, std::string_view text, Use& use) const {
    RegexScanner scanner(*steps_[index].pattern, text);
    std::size_t done = 0;
    while (const std::optional<RegexScanner::Match> match = scanner.next()) {
      split_from(index + 1, text.substr(done, match->begin - done), use);
      split_from(index + 1, text.substr(match->begin, match->end - match->begin), use);
      done = match->end;
    }
    split_from(index + 1, text.substr(done), use);
  }

  template <typename Use>
  void split_by_digits(std::size_t index, std::string_view text, Use& use) const {
    std::size_t begin = 0;
    bool in_digits = false;
    for (std::size_t i = 0; i < text.size();) {
      const Utf8Character character = decode_valid_utf8(text.data() + i);
      const bool digit = numeric_[character.code_point] != 0;
      if (i > begin && (digit != in_digits || (digit && steps_[index].individual_digits))) {
        split_from(index + 1, text.substr(begin, i - begin), use);
        begin = i;
      }
      in_digits = digit;
      i += character.size;
    }
    split_from(index + 1, text.substr(begin), use);
  }

  std::vector<Step> steps_;
  CodePointTable numeric_;
};

}  // namespace sparkx
