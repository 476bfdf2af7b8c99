// Cuts text into the pieces that BPE encodes one by one (docs/model.md, Tokenizer).
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
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

  // Calls use(piece) for every piece in order; a piece lives as long as the call. `text` must be valid UTF-8. Together
  // the pieces are the text, but for what steps drop and the blanks that ByteLevel puts in front.
  template <typename Use>
  void split(std::string_view text, Use&& use) const {
    split_from(0, text, use);
  }

 private:
  struct Step {
    enum class Kind { split, digits, prefix_space };
    Kind kind = Kind::split;
    std::optional<Regex> pattern;
    PreTokenizerStep::Keep keep = PreTokenizerStep::Keep::all;
    bool individual_digits = false;
  };

  template <typename Use>
  void split_from(std::size_t index, std::string_view text, Use& use) const {
    if (text.empty()) return;
    if (index == steps_.size()) return use(text);
    switch (steps_[index].kind) {
      case Step::Kind::split:
        return split_by_pattern(index, text, use);
      case Step::Kind::digits:
        return split_by_digits(index, text, use);
      case Step::Kind::prefix_space:
        return text[0] == ' ' ? split_from(index + 1, text, use) : split_from(index + 1, " " + std::string(text), use);
    }
  }

  template <typename Use>
  void split_by_pattern(std::size_t index, std::string_view text, Use& use) const {
    const Step& step = steps_[index];
    const bool keep_matches = step.keep != PreTokenizerStep::Keep::rest;
    const bool keep_rest = step.keep != PreTokenizerStep::Keep::matches;
    RegexScanner scanner(*step.pattern, text);
    std::size_t done = 0;
    while (const std::optional<RegexScanner::Match> match = scanner.next()) {
      if (keep_rest) split_from(index + 1, text.substr(done, match->begin - done), use);
      if (keep_matches) split_from(index + 1, text.substr(match->begin, match->end - match->begin), use);
      done = match->end;
    }
    if (keep_rest) split_from(index + 1, text.substr(done), use);
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
