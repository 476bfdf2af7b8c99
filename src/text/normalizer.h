// Changes text before it is cut and encoded (docs/model.md, Tokenizer), and keeps account of who wrote what.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/regex.h"
#include "core/tokenizer_description.h"
#include "core/unicode.h"
#include "core/unicode_normalization.h"
#include "text/text_range.h"

namespace sparkx {

struct NormalizedText {
  std::string text;
  std::vector<TextRange> trusted;  // ascending, apart
};

class Normalizer {
 public:
  // Throws as Regex does for a pattern; `what` names the file.
  Normalizer(std::span<const NormalizerStep> steps, std::string_view what);

  bool empty() const { return steps_.empty(); }

  // `text` must be valid UTF-8, `trusted` ascending and apart. What a step makes of a part is trusted where all of the
  // part is, and what it puts in is not: a step never turns untrusted text into a trusted marker. Throws
  // Error{invalid_argument} when the result would have more than 2^31 bytes.
  NormalizedText normalize(std::string_view text, std::span<const TextRange> trusted) const;

  std::string normalize(std::string_view text) const { return normalize(text, {}).text; }

 private:
  struct Step {
    NormalizerStep::Kind kind;
    std::optional<UnicodeNormalizer> form;
    std::optional<Regex> pattern;
    std::string content;
    bool strip_left = false;
    bool strip_right = false;
  };

  NormalizedText apply(const Step& step, const NormalizedText& from) const;

  std::vector<Step> steps_;
  CodePointTable white_space_;
};

}  // namespace sparkx
