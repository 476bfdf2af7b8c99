#include "core/unicode.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>

#include "core/unicode_tables.h"

namespace sparkx {
namespace {

// Indexed as in tools/make_unicode_tables.py.
struct CategoryName {
  std::string_view letters;
  std::string_view name;  // folded as fold() does it
};
constexpr std::array<CategoryName, 30> kCategories = {
    {{"lu", "uppercaseletter"},    {"ll", "lowercaseletter"},  {"lt", "titlecaseletter"},
     {"lm", "modifierletter"},     {"lo", "otherletter"},      {"mn", "nonspacingmark"},
     {"mc", "spacingmark"},        {"me", "enclosingmark"},    {"nd", "decimalnumber"},
     {"nl", "letternumber"},       {"no", "othernumber"},      {"pc", "connectorpunctuation"},
     {"pd", "dashpunctuation"},    {"ps", "openpunctuation"},  {"pe", "closepunctuation"},
     {"pi", "initialpunctuation"}, {"pf", "finalpunctuation"}, {"po", "otherpunctuation"},
     {"sm", "mathsymbol"},         {"sc", "currencysymbol"},   {"sk", "modifiersymbol"},
     {"so", "othersymbol"},        {"zs", "spaceseparator"},   {"zl", "lineseparator"},
     {"zp", "paragraphseparator"}, {"cc", "control"},          {"cf", "format"},
     {"cs", "surrogate"},          {"co", "privateuse"},       {"cn", "unassigned"}}};
constexpr std::array<CategoryName, 7> kGroups = {{{"l", "letter"},
                                                  {"m", "mark"},
                                                  {"n", "number"},
                                                  {"p", "punctuation"},
                                                  {"s", "symbol"},
                                                  {"z", "separator"},
                                                  {"c", "other"}}};

std::string fold(std::string_view name) {
  std::string folded;
  for (const char c : name) {
    if (c == ' ' || c == '_' || c == '-') continue;
    folded += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  }
  return folded;
}

// The code points of every category whose index `wanted` accepts.
template <typename Wanted>
CodePointSet categories(Wanted wanted) {
  std::vector<CodePointRange> ranges;
  for (std::size_t i = 0; i < unicode_tables::kCategoryRunsCount; ++i) {
    const std::uint32_t run = unicode_tables::kCategoryRuns[i];
    if (!wanted(run & 31)) continue;
    const char32_t last =
        i + 1 < unicode_tables::kCategoryRunsCount ? (unicode_tables::kCategoryRuns[i + 1] >> 5) - 1 : kLastCodePoint;
    ranges.push_back({run >> 5, last});
  }
  return CodePointSet(ranges);
}

}  // namespace

CodePointSet::CodePointSet(std::initializer_list<CodePointRange> ranges) : ranges_(ranges) {
  normalize();
}

CodePointSet::CodePointSet(std::span<const CodePointRange> ranges) : ranges_(ranges.begin(), ranges.end()) {
  normalize();
}

void CodePointSet::add(char32_t first, char32_t last) {
  ranges_.push_back({first, last});
  normalize();
}

void CodePointSet::add(const CodePointSet& other) {
  ranges_.insert(ranges_.end(), other.ranges_.begin(), other.ranges_.end());
  normalize();
}

void CodePointSet::normalize() {
  std::sort(ranges_.begin(), ranges_.end(),
            [](const CodePointRange& a, const CodePointRange& b) { return a.first < b.first; });
  std::size_t kept = 0;
  for (const CodePointRange range : ranges_) {
    if (kept > 0 && range.first <= ranges_[kept - 1].last + 1) {
      ranges_[kept - 1].last = std::max(ranges_[kept - 1].last, range.last);
    } else {
      ranges_[kept++] = range;
    }
  }
  ranges_.resize(kept);
}

CodePointSet CodePointSet::complement() const {
  std::vector<CodePointRange> gaps;
  char32_t next = 0;
  for (const CodePointRange range : ranges_) {
    if (range.first > next) gaps.push_back({next, range.first - 1});
    next = range.last + 1;
  }
  if (next <= kLastCodePoint) gaps.push_back({next, kLastCodePoint});
  return CodePointSet(gaps);
}

bool CodePointSet::contains(char32_t code_point) const {
  const auto after = std::upper_bound(ranges_.begin(), ranges_.end(), code_point,
                                      [](char32_t c, const CodePointRange& range) { return c < range.first; });
  return after != ranges_.begin() && code_point <= std::prev(after)->last;
}

std::optional<CodePointSet> general_category_set(std::string_view name) {
  const std::string folded = fold(name);
  for (std::size_t i = 0; i < kCategories.size(); ++i) {
    if (folded == kCategories[i].letters || folded == kCategories[i].name) {
      return categories([i](std::size_t category) { return category == i; });
    }
  }
  for (const CategoryName& group : kGroups) {
    if (folded == group.letters || folded == group.name) {
      return categories([&](std::size_t category) { return kCategories[category].letters[0] == group.letters[0]; });
    }
  }
  return std::nullopt;
}

CodePointSet white_space_set() {
  return CodePointSet(std::span(unicode_tables::kWhiteSpace, unicode_tables::kWhiteSpaceCount));
}

CodePointSet word_set() {
  return CodePointSet(std::span(unicode_tables::kWord, unicode_tables::kWordCount));
}

CodePointSet single_word_set() {
  return CodePointSet(std::span(unicode_tables::kRustWord, unicode_tables::kRustWordCount));
}

CodePointSet numeric_set() {
  CodePointSet set = *general_category_set("N");
  set.add(CodePointSet(std::span(unicode_tables::kNumericBeyondNumber, unicode_tables::kNumericBeyondNumberCount)));
  return set;
}

CodePointTable::CodePointTable(std::span<const CodePointRange> ranges, std::span<const std::uint8_t> group_of_range) {
  blocks_.resize((kLastCodePoint >> 8) + 1);
  std::map<std::array<std::uint8_t, 256>, std::uint32_t> known;
  std::size_t next = 0;
  for (char32_t block = 0; block < blocks_.size(); ++block) {
    std::array<std::uint8_t, 256> groups{};
    const char32_t first = block << 8;
    const char32_t last = first | 0xFF;
    while (next < ranges.size() && ranges[next].last < first) ++next;
    for (std::size_t i = next; i < ranges.size() && ranges[i].first <= last; ++i) {
      const char32_t from = std::max(ranges[i].first, first);
      const char32_t to = std::min(ranges[i].last, last);
      std::fill(groups.begin() + (from - first), groups.begin() + (to - first) + 1, group_of_range[i]);
    }
    const auto [entry, is_new] = known.emplace(groups, static_cast<std::uint32_t>(entries_.size()));
    if (is_new) entries_.insert(entries_.end(), groups.begin(), groups.end());
    blocks_[block] = entry->second;
  }
}

CodePointTable::CodePointTable(const CodePointSet& set)
    : CodePointTable(set.ranges(), std::vector<std::uint8_t>(set.ranges().size(), 1)) {}

Utf8Character decode_utf8(std::string_view text) {
  const auto byte = [text](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return {lead, 1, true};
  // Bytes still to come, and the range of the first of them, which excludes overlong forms, surrogates and the beyond.
  const int more = lead >= 0xF0 ? 3 : lead >= 0xE0 ? 2 : 1;
  if (lead < 0xC2 || lead > 0xF4) return {kReplacementCharacter, 1, false};
  unsigned char low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  unsigned char high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  char32_t code_point = lead & (0x3F >> more);
  for (int i = 1; i <= more; ++i) {
    if (static_cast<std::size_t>(i) >= text.size() || byte(i) < low || byte(i) > high) {
      return {kReplacementCharacter, static_cast<std::uint8_t>(i), false};
    }
    code_point = code_point << 6 | (byte(i) & 0x3F);
    low = 0x80;
    high = 0xBF;
  }
  return {code_point, static_cast<std::uint8_t>(more + 1), true};
}

void append_utf8(std::string& out, char32_t code_point) {
  const auto put = [&out](char32_t byte) { out += static_cast<char>(byte); };
  if (code_point < 0x80) {
    put(code_point);
  } else if (code_point < 0x800) {
    put(0xC0 | code_point >> 6);
    put(0x80 | (code_point & 0x3F));
  } else if (code_point < 0x10000) {
    put(0xE0 | code_point >> 12);
    put(0x80 | (code_point >> 6 & 0x3F));
    put(0x80 | (code_point & 0x3F));
  } else {
    put(0xF0 | code_point >> 18);
    put(0x80 | (code_point >> 12 & 0x3F));
    put(0x80 | (code_point >> 6 & 0x3F));
    put(0x80 | (code_point & 0x3F));
  }
}

namespace {

// The size of the longest valid beginning of the text.
std::size_t valid_prefix_size(std::string_view text) {
  std::size_t i = 0;
  while (i < text.size()) {
    while (i + 8 <= text.size()) {  // eight ASCII bytes at a time
      std::uint64_t word;
      std::memcpy(&word, text.data() + i, 8);
      if (word & 0x8080808080808080u) break;
      i += 8;
    }
    if (i == text.size()) break;
    const auto byte = [&](std::size_t at) { return static_cast<unsigned char>(text[at]); };
    if (byte(i) >= 0xC2 && byte(i) <= 0xDF && i + 1 < text.size() && (byte(i + 1) & 0xC0) == 0x80) {
      i += 2;  // most of what a byte-level vocabulary has beyond ASCII
      continue;
    }
    const Utf8Character character = decode_utf8(text.substr(i));
    if (!character.valid) break;
    i += character.size;
  }
  return i;
}

}  // namespace

bool is_valid_utf8(std::string_view text) {
  return valid_prefix_size(text) == text.size();
}

std::string replace_invalid_utf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (true) {
    const std::size_t valid = valid_prefix_size(text);
    out.append(text.substr(0, valid));
    text.remove_prefix(valid);
    if (text.empty()) return out;
    out.append(kReplacementText);
    text.remove_prefix(decode_utf8(text).size);
  }
}

std::size_t unfinished_utf8_size(std::string_view text) {
  for (std::size_t size = 1; size <= std::min<std::size_t>(3, text.size()); ++size) {
    const std::string_view tail = text.substr(text.size() - size);
    const auto lead = static_cast<unsigned char>(tail[0]);
    if ((lead & 0xC0) == 0x80) continue;
    const std::size_t whole = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : lead >= 0xC0 ? 2 : 1;
    const Utf8Character character = decode_utf8(tail);
    // Unfinished only when the end of the text, not a wrong byte, cut it short.
    const bool lead_is_possible = lead >= 0xC2 && lead <= 0xF4;
    return lead_is_possible && !character.valid && character.size == size && size < whole ? size : 0;
  }
  return 0;
}

}  // namespace sparkx
