// The filter wordwrap: Python's textwrap, as far as the filter uses it.
#include <algorithm>

#include "text/jinja/arguments.h"
#include "text/jinja/filters.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/operators.h"
#include "text/jinja/strings.h"
#include "text/jinja/unicode.h"

namespace sparkx::jinja {
namespace {

bool is_blank(char32_t c) {
  return (c >= 0x09 && c <= 0x0d) || c == ' ';
}
bool is_letter(char32_t c) {
  return is_word(c) && !is_decimal(c);
}
bool is_word_or_punctuation(char32_t c) {
  return is_word(c) || std::u32string_view(U"!\"'&.,?").find(c) != std::u32string_view::npos;
}

class Wrapper {
 public:
  Wrapper(Budget& budget, const Text& line, std::int64_t width, bool break_words, bool break_hyphens)
      : budget_(budget), line_(line), width_(width), break_words_(break_words), break_hyphens_(break_hyphens) {
    budget.require(line.size() * (sizeof(char32_t) + sizeof(std::size_t)));
    for (std::size_t offset = 0; offset < line.size();) {
      offsets_.push_back(offset);
      chars_ += next_char(line.view(), offset);
    }
    offsets_.push_back(line.size());
  }

  // The lines, each a stretch of the text.
  std::vector<Text> run() {
    if (width_ <= 0) fail(Fault::value_error, "invalid width (must be > 0)");
    split();
    const auto width = static_cast<std::size_t>(width_);
    std::vector<Text> lines;
    for (std::size_t next = 0; next < chunks_.size();) {
      budget_.step();
      // Blanks at the beginning of a line go, but not on the first one.
      if (!lines.empty() && is_blank_chunk(next)) ++next;
      if (next >= chunks_.size()) break;
      const std::size_t begin = chunks_[next].begin;
      std::size_t end = begin;
      while (next < chunks_.size() && chunks_[next].end - begin <= width) end = chunks_[next++].end;
      if (next < chunks_.size() && chunks_[next].end - chunks_[next].begin > width)
        end = take_long_word(next, begin, end);
      // Blanks at the end of a line go.
      std::size_t last = end;
      while (last > begin && is_blank(chars_[last - 1])) --last;
      const bool blank_only = last == begin && end > begin;
      if (!blank_only && end > begin) lines.push_back(line_.slice(budget_, offsets_[begin], offsets_[last]));
    }
    return lines;
  }

 private:
  struct Chunk {
    std::size_t begin;
    std::size_t end;
  };

  bool is_blank_chunk(std::size_t index) const {
    return std::all_of(chars_.begin() + static_cast<std::ptrdiff_t>(chunks_[index].begin),
                       chars_.begin() + static_cast<std::ptrdiff_t>(chunks_[index].end),
                       [](char32_t c) { return is_space(c); });
  }

  // A word that is longer than a line: as much of it as there is room. Returns the new end of the line.
  std::size_t take_long_word(std::size_t& next, std::size_t begin, std::size_t end) {
    Chunk& chunk = chunks_[next];
    const std::size_t room = static_cast<std::size_t>(width_) - (end - begin);
    if (!break_words_) {
      if (end > begin) return end;
      return chunks_[next++].end;
    }
    std::size_t cut = chunk.begin + room;
    if (break_hyphens_) {
      for (std::size_t hyphen = room; hyphen-- > 1;) {
        if (chars_[chunk.begin + hyphen] != '-') continue;
        const auto first = chars_.begin() + static_cast<std::ptrdiff_t>(chunk.begin);
        if (std::any_of(first, first + static_cast<std::ptrdiff_t>(hyphen), [](char32_t c) { return c != '-'; })) {
          cut = chunk.begin + hyphen + 1;
        }
        break;
      }
    }
    chunk.begin = cut;
    return cut;
  }

  char32_t at(std::size_t index) const { return index < chars_.size() ? chars_[index] : U'\0'; }
  bool letter_at(std::size_t index) const { return index < chars_.size() && is_letter(chars_[index]); }
  bool word_at(std::size_t index) const { return index < chars_.size() && is_word(chars_[index]); }

  std::size_t dashes_end(std::size_t from) const {
    while (at(from) == '-') ++from;
    return from;
  }

  // Whether a word may end before `index`, at `from` its first character.
  bool ends_before(std::size_t index) const {
    if (index >= chars_.size() || is_blank(chars_[index])) return true;
    // Before an em-dash.
    if (at(index) == '-' && at(index + 1) == '-' && is_word_or_punctuation(chars_[index - 1])) {
      return word_at(dashes_end(index));
    }
    return false;
  }

  // Whether the hyphen at `index` joins two parts of a word that may be torn there.
  bool breaks_behind_hyphen(std::size_t index) const {
    if (at(index) != '-') return false;
    const bool before =
        (index >= 2 && letter_at(index - 1) && letter_at(index - 2)) ||
        (index >= 3 && letter_at(index - 3) && at(index - 2) == '-' && is_word_or_punctuation(chars_[index - 1]));
    if (!before || !letter_at(index + 1)) return false;
    return letter_at(index + 2) || (at(index + 2) == '-' && letter_at(index + 3));
  }

  void split() {
    for (std::size_t begin = 0; begin < chars_.size();) {
      budget_.step();
      budget_.require((chunks_.size() + 1) * sizeof(Chunk));
      std::size_t end = begin + 1;
      if (is_blank(chars_[begin])) {
        while (end < chars_.size() && is_blank(chars_[end])) ++end;
      } else if (!break_hyphens_) {
        while (end < chars_.size() && !is_blank(chars_[end])) ++end;
      } else if (const std::size_t dashes = dashes_end(begin);
                 dashes >= begin + 2 && begin > 0 && is_word_or_punctuation(chars_[begin - 1]) && word_at(dashes)) {
        end = dashes;
      } else {
        while (true) {
          // The hyphen is part of the word, so it is looked at before the word's end behind it.
          if (breaks_behind_hyphen(end) && end > begin) {
            ++end;
            break;
          }
          if (ends_before(end)) break;
          ++end;
        }
      }
      chunks_.push_back({begin, end});
      begin = end;
    }
  }

  Budget& budget_;
  const Text& line_;
  std::int64_t width_;
  bool break_words_;
  bool break_hyphens_;
  std::u32string chars_;
  std::vector<std::size_t> offsets_;
  std::vector<Chunk> chunks_;
};

}  // namespace

Value filter_wordwrap(Interpreter& interpreter, const Value& value, Call& call) {
  const Arguments arguments("wordwrap", call, {"width", "break_long_words", "wrapstring", "break_on_hyphens"});
  if (!value.is(Kind::string)) type_error("wordwrap needs a string");
  Budget& budget = interpreter.budget();
  const Text between = arguments.given(2) ? arguments.string(2).text() : Text("\n", Origin::source);
  const bool break_words = arguments.flag(interpreter, 1, true);
  const bool break_hyphens = arguments.flag(interpreter, 3, true);
  Text result;
  bool first = true;
  for (const Text& line : split_lines(budget, value.text(), false)) {
    if (!first) result.append(budget, between);
    first = false;
    bool first_part = true;
    for (const Text& part : Wrapper(budget, line, arguments.integer(0, 79), break_words, break_hyphens).run()) {
      if (!first_part) result.append(budget, between);
      first_part = false;
      result.append(budget, part);
    }
  }
  return interpreter.text(std::move(result));
}

}  // namespace sparkx::jinja
