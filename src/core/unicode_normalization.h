// The four Unicode normalization forms, with the tables of the `tokenizers` library
// (tools/make_normalization_tables.py): its Unicode is older than that of core/unicode.h, so that characters younger
// than Unicode 13 stay as they are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/unicode.h"

namespace sparkx {

enum class NormalizationForm { nfc, nfd, nfkc, nfkd };

class UnicodeNormalizer {
 public:
  explicit UnicodeNormalizer(NormalizationForm form);

  // Normalizes a valid text in time O(n log n). Calls keep(part) for a part that stays as it is and
  // replace(part, normalized) for one that changes or may change; the parts are the text, in order.
  template <typename Keep, typename Replace>
  void normalize(std::string_view text, Keep&& keep, Replace&& replace) const {
    std::size_t kept = 0;
    for (std::size_t begin = 0, end = 0; find_block(text, begin, end); begin = kept = end) {
      if (begin > kept) keep(text.substr(kept, begin - kept));
      const std::string_view block = text.substr(begin, end - begin);
      replace(block, normalize_block(block));
    }
    if (kept < text.size()) keep(text.substr(kept));
  }

  std::string normalize(std::string_view text) const;

 private:
  bool composes() const { return form_ == NormalizationForm::nfc || form_ == NormalizationForm::nfkc; }
  bool compatible() const { return form_ == NormalizationForm::nfkc || form_ == NormalizationForm::nfkd; }
  // The next stretch, from `begin` on, that has to be looked at: a run of active characters and the one before it.
  bool find_block(std::string_view text, std::size_t& begin, std::size_t& end) const;
  std::string normalize_block(std::string_view block) const;

  NormalizationForm form_;
  CodePointTable active_;  // 1: may change, or change with what stands before it
};

}  // namespace sparkx
