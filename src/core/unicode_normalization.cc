#include "core/unicode_normalization.h"

#include <algorithm>
#include <span>
#include <vector>

#include "core/unicode_normalization_tables.h"

namespace sparkx {
namespace {

// Hangul syllables are made of a leading consonant, a vowel and perhaps a trailing consonant (Unicode, section 3.12).
constexpr char32_t kSyllables = 0xAC00, kLeading = 0x1100, kVowels = 0x1161, kTrailing = 0x11A7;
constexpr char32_t kLeadingCount = 19, kVowelCount = 21, kTrailingCount = 28;
constexpr char32_t kSyllableCount = kLeadingCount * kVowelCount * kTrailingCount;
constexpr char32_t kFirstActive = 0xA0;  // the lowest code point that any form changes

struct Mark {
  char32_t code_point;
  std::uint8_t combining_class;
};

std::uint8_t combining_class(char32_t c) {
  const std::span classes(unicode_tables::kCombiningClasses, unicode_tables::kCombiningClassesCount);
  const auto found =
      std::partition_point(classes.begin(), classes.end(), [c](const auto& range) { return range.last < c; });
  return found != classes.end() && found->first <= c ? found->value : 0;
}

const unicode_tables::Decomposition* find(std::span<const unicode_tables::Decomposition> table, char32_t c) {
  const auto found =
      std::partition_point(table.begin(), table.end(), [c](const auto& entry) { return entry.code_point < c; });
  return found != table.end() && found->code_point == c ? &*found : nullptr;
}

std::span<const unicode_tables::Decomposition> canonical_table() {
  return {unicode_tables::kCanonical, unicode_tables::kCanonicalCount};
}
std::span<const unicode_tables::Decomposition> compatible_table() {
  return {unicode_tables::kCompatible, unicode_tables::kCompatibleCount};
}

// 0 when the two do not compose.
char32_t compose(char32_t first, char32_t second) {
  if (first - kLeading < kLeadingCount && second - kVowels < kVowelCount) {
    return kSyllables + ((first - kLeading) * kVowelCount + (second - kVowels)) * kTrailingCount;
  }
  if (first - kSyllables < kSyllableCount && (first - kSyllables) % kTrailingCount == 0 && second > kTrailing &&
      second < kTrailing + kTrailingCount) {
    return first + (second - kTrailing);
  }
  const std::span table(unicode_tables::kCompositions, unicode_tables::kCompositionsCount);
  const auto found = std::partition_point(table.begin(), table.end(), [&](const auto& entry) {
    return entry.first != first ? entry.first < first : entry.second < second;
  });
  return found != table.end() && found->first == first && found->second == second ? found->composed : 0;
}

void decompose(char32_t c, bool compatible, std::vector<Mark>& out) {
  if (c - kSyllables < kSyllableCount) {
    const char32_t index = c - kSyllables;
    out.push_back({kLeading + index / (kVowelCount * kTrailingCount), 0});
    out.push_back({kVowels + index / kTrailingCount % kVowelCount, 0});
    if (index % kTrailingCount != 0) out.push_back({kTrailing + index % kTrailingCount, 0});
    return;
  }
  const unicode_tables::Decomposition* found = compatible ? find(compatible_table(), c) : nullptr;
  if (!found) found = find(canonical_table(), c);
  if (!found) return out.push_back({c, combining_class(c)});
  for (std::size_t i = 0; i < found->size; ++i) {
    const char32_t part = unicode_tables::kDecomposed[found->begin + i];
    out.push_back({part, combining_class(part)});
  }
}

// The canonical order: each run of marks by class, those of one class as they came.
void order(std::vector<Mark>& marks) {
  for (auto begin = marks.begin(); begin != marks.end();) {
    const auto end = std::find_if(begin, marks.end(), [](const Mark& mark) { return mark.combining_class == 0; });
    std::stable_sort(begin, end, [](const Mark& a, const Mark& b) { return a.combining_class < b.combining_class; });
    begin = end == marks.end() ? end : end + 1;
  }
}

// Joins each character to the last starter before it unless one of the same or a higher class stands between.
void compose(std::vector<Mark>& marks) {
  constexpr std::size_t kNone = static_cast<std::size_t>(-1);
  std::size_t starter = kNone, kept = 0;
  for (const Mark mark : marks) {
    if (starter != kNone) {
      const bool adjacent = kept == starter + 1;
      if (adjacent || marks[kept - 1].combining_class < mark.combining_class) {
        if (const char32_t composed = compose(marks[starter].code_point, mark.code_point)) {
          marks[starter].code_point = composed;
          continue;
        }
      }
    }
    if (mark.combining_class == 0) starter = kept;
    marks[kept++] = mark;
  }
  marks.resize(kept);
}

}  // namespace

UnicodeNormalizer::UnicodeNormalizer(NormalizationForm form) : form_(form) {
  std::vector<CodePointRange> active;
  for (const auto& range : std::span(unicode_tables::kCombiningClasses, unicode_tables::kCombiningClassesCount)) {
    active.push_back({range.first, range.last});
  }
  for (const auto& entry : canonical_table()) {
    // A character that comes apart and together again is as it was.
    std::vector<Mark> marks;
    decompose(entry.code_point, false, marks);
    compose(marks);
    const bool stays = composes() && marks.size() == 1 && marks[0].code_point == entry.code_point;
    if (!stays) active.push_back({entry.code_point, entry.code_point});
  }
  if (compatible()) {
    for (const auto& entry : compatible_table()) active.push_back({entry.code_point, entry.code_point});
  }
  if (composes()) {
    for (const auto& entry : std::span(unicode_tables::kCompositions, unicode_tables::kCompositionsCount)) {
      active.push_back({entry.second, entry.second});
    }
    active.push_back({kVowels, kVowels + kVowelCount - 1});
    active.push_back({kTrailing + 1, kTrailing + kTrailingCount - 1});
  } else {
    active.push_back({kSyllables, kSyllables + kSyllableCount - 1});
  }
  active_ = CodePointTable(CodePointSet(active));
}

bool UnicodeNormalizer::find_block(std::string_view text, std::size_t& begin, std::size_t& end) const {
  std::size_t before = begin;  // the character before, which a mark may join
  for (std::size_t i = begin; i < text.size();) {
    const Utf8Character character = decode_valid_utf8(text.data() + i);
    if (character.code_point < kFirstActive || active_[character.code_point] == 0) {
      before = i;
      i += character.size;
      continue;
    }
    begin = before;
    for (end = i; end < text.size();) {
      const Utf8Character next = decode_valid_utf8(text.data() + end);
      if (active_[next.code_point] == 0) break;
      end += next.size;
    }
    return true;
  }
  return false;
}

std::string UnicodeNormalizer::normalize_block(std::string_view block) const {
  std::vector<Mark> marks;
  for (std::size_t i = 0; i < block.size();) {
    const Utf8Character character = decode_valid_utf8(block.data() + i);
    decompose(character.code_point, compatible(), marks);
    i += character.size;
  }
  order(marks);
  if (composes()) compose(marks);
  std::string out;
  out.reserve(block.size());
  for (const Mark& mark : marks) append_utf8(out, mark.code_point);
  return out;
}

std::string UnicodeNormalizer::normalize(std::string_view text) const {
  std::string out;
  out.reserve(text.size());
  normalize(
      text, [&](std::string_view part) { out += part; },
      [&](std::string_view, const std::string& normalized) { out += normalized; });
  return out;
}

}  // namespace sparkx
