// Stop strings in a stream of text: the text up to the first stop string comes out, as early as it can be told that it
// does not begin one.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace sparkx {

class StopStrings {
 public:
  // Throws Error{invalid_argument} for an empty stop string, or one that begins inside a character: text is cut only
  // between characters.
  explicit StopStrings(const std::vector<std::string>& stops);

  // The text that is now certain to stand before every stop string. Held back is the longest end of the text that
  // begins a stop string. The stop string that ends first counts, of those that end together the longest; how the text
  // is cut into pieces makes no difference. After a stop nothing comes out any more.
  std::string feed(std::string_view text);

  bool stopped() const { return stopped_; }

  // What is still held back; the text has ended, so it begins no stop string.
  std::string finish();

 private:
  // Knuth, Morris and Pratt: how much of the stop string the text ends with.
  struct Pattern {
    std::string text;
    std::vector<std::size_t> border;  // [i] length of the longest proper end of text[0 … i] that begins it
    std::size_t matched = 0;
  };
  std::vector<Pattern> patterns_;
  std::string held_;
  bool stopped_ = false;
};

}  // namespace sparkx
