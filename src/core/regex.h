// Regular expressions as checkpoints carry them (tokenizer patterns, quantization targets), matched in time linear in
// the text.
//
// Matches are those of a backtracking engine (leftmost; among alternatives the first that leads to a match), found by a
// deterministic automaton over classes of code points: one table lookup per code point. The automaton is built at once
// and its size is bounded, so a compiled expression never changes and any number of threads may use it.
//
// Supported: literals, `.`, classes with ranges and negation, \p{..} and \P{..} for general categories, \s \S \d \D \w
// \W, \r \n \t \f \v \a \e \xHH \x{H..} \uHHHH, groups ( ) (?: ) and (?i: ) for ASCII, alternatives, greedy and lazy
// quantifiers with bounds up to 1000, ^ $ \A \z, and lookahead (?= ) (?! ) for one character. Everything else
// (backreferences, possessive quantifiers, lookbehind, …) is refused by name and place.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "core/unicode.h"

namespace sparkx {

// Whose rules hold where engines differ: oniguruma is Ruby syntax as in the `tokenizers` library (^ and $ at every
// line, \x{..}, Unicode properties); python is the `re` module (^ and $ at the ends of the text).
enum class RegexSyntax { oniguruma, python };

class Regex {
 public:
  // Throws Error{unsupported} or, where the pattern is wrong for everyone, Error{invalid_argument}.
  Regex(std::string_view pattern, RegexSyntax syntax);

  // The end of the match that begins at the start of the text, as Python's re.match. The text must be valid UTF-8.
  std::optional<std::size_t> match(std::string_view text) const;

  const std::string& pattern() const { return pattern_; }

 private:
  friend class RegexScanner;
  friend class AutomatonBuilder;

  // A transition is the next state's row in transitions_ times two, plus one when a match ends before the character.
  // Row 0 is the state that nothing leads out of.
  std::uint32_t transition(std::uint32_t row, std::uint8_t character_class) const {
    return transitions_[row + character_class];
  }
  std::uint32_t start_row(std::string_view text, std::size_t position) const;

  std::string pattern_;
  CodePointTable classes_;
  std::vector<std::uint32_t> transitions_;  // [state][class]
  std::uint8_t end_class_ = 0;              // stands for the end of the text
  std::uint8_t last_newline_class_ = 0;     // stands for a newline that ends the text, where the pattern cares
  bool has_last_newline_class_ = false;
  std::uint32_t start_rows_[3] = {};  // at the start of the text, after a newline, elsewhere
};

// Finds all matches in a text, one after the other, as the `tokenizers` library goes through them: an empty match is
// not accepted right after another match. The regex and the text (valid UTF-8) must outlive the scanner.
class RegexScanner {
 public:
  struct Match {
    std::size_t begin;
    std::size_t end;
    bool operator==(const Match&) const = default;
  };

  RegexScanner(const Regex& regex, std::string_view text) : regex_(&regex), text_(text) {}
  std::optional<Match> next();
  // The end of the match that begins at `position`.
  std::optional<std::size_t> match_at(std::size_t position);

 private:
  std::uint8_t class_at(std::size_t position, std::size_t& size) const;
  std::optional<std::size_t> match_slowly(std::size_t position, std::uint32_t row,
                                          std::optional<std::size_t> match_end);

  const Regex* regex_;
  std::string_view text_;
  std::size_t position_ = 0;
  std::optional<std::size_t> last_match_end_;
  // Where the automaton has read on without finding a longer match: places (position, state) that need not be visited
  // again. This is what keeps the whole scan linear when matches are much shorter than what must be read to find them.
  std::unordered_set<std::uint64_t> hopeless_;
  std::vector<std::uint64_t> visited_;
};

}  // namespace sparkx
