#include "text/jinja/unicode.h"

#include <algorithm>
#include <iterator>

namespace sparkx::jinja {
namespace {

struct FlagRange {  // up to the next range
  char32_t first;
  std::uint16_t flags;
};
struct CaseRun {
  char32_t first;
  char32_t last;
  int stride;
  int delta;
};
struct CaseSpecial {
  char32_t from;
  char32_t to[3];
};

#include "text/jinja/unicode_tables.inc"

std::uint16_t flags_of(char32_t c) {
  auto after = std::upper_bound(std::begin(kFlagRanges), std::end(kFlagRanges), c,
                                [](char32_t value, const FlagRange& range) { return value < range.first; });
  return std::prev(after)->flags;
}

bool has(char32_t c, std::uint16_t flag) {
  return (flags_of(c) & flag) != 0;
}

template <std::size_t Runs, std::size_t Specials>
CaseResult convert(char32_t c, const CaseRun (&runs)[Runs], const CaseSpecial (&specials)[Specials]) {
  auto special = std::lower_bound(std::begin(specials), std::end(specials), c,
                                  [](const CaseSpecial& entry, char32_t value) { return entry.from < value; });
  if (special != std::end(specials) && special->from == c) {
    CaseResult result{{special->to[0], special->to[1], special->to[2]}, 2};
    if (special->to[2] != 0) result.count = 3;
    return result;
  }
  // Runs of stride 2 may interleave, so a character is looked for in the runs before it too.
  auto run = std::upper_bound(std::begin(runs), std::end(runs), c,
                              [](char32_t value, const CaseRun& entry) { return value < entry.first; });
  for (int tries = 0; run != std::begin(runs) && tries < 3; ++tries) {
    --run;
    if (c <= run->last && (c - run->first) % run->stride == 0) {
      return {{static_cast<char32_t>(static_cast<int>(c) + run->delta), 0, 0}, 1};
    }
  }
  return {{c, 0, 0}, 1};
}

}  // namespace

bool is_space(char32_t c) {
  return has(c, kSpace);
}
bool is_decimal(char32_t c) {
  return has(c, kDecimal);
}
bool is_digit(char32_t c) {
  return has(c, kDigit);
}
bool is_numeric(char32_t c) {
  return has(c, kNumeric);
}
bool is_alpha(char32_t c) {
  return has(c, kAlpha);
}
bool is_lower(char32_t c) {
  return has(c, kLower);
}
bool is_upper(char32_t c) {
  return has(c, kUpper);
}
bool is_title(char32_t c) {
  return has(c, kTitle);
}
bool is_printable(char32_t c) {
  return has(c, kPrintable);
}
bool is_cased(char32_t c) {
  return has(c, kCased);
}
bool is_case_ignorable(char32_t c) {
  return has(c, kIgnorable);
}
bool is_identifier_start(char32_t c) {
  return has(c, kIdentifierStart);
}
bool is_identifier_part(char32_t c) {
  return has(c, kIdentifier);
}

bool is_line_end(char32_t c) {
  return (c >= 0x0a && c <= 0x0d) || (c >= 0x1c && c <= 0x1e) || c == 0x85 || c == 0x2028 || c == 0x2029;
}

int decimal_value(char32_t c) {
  if (c >= '0' && c <= '9') return static_cast<int>(c - '0');
  if (c < 0x80 || !is_decimal(c)) return -1;
  // Decimal digits come in tens that begin with a zero, and every range of them begins with one.
  auto after = std::upper_bound(std::begin(kFlagRanges), std::end(kFlagRanges), c,
                                [](char32_t value, const FlagRange& range) { return value < range.first; });
  return static_cast<int>((c - std::prev(after)->first) % 10);
}

CaseResult to_upper(char32_t c) {
  return convert(c, kUpperRuns, kUpperSpecial);
}
CaseResult to_lower(char32_t c) {
  return convert(c, kLowerRuns, kLowerSpecial);
}
CaseResult to_title(char32_t c) {
  return convert(c, kTitleRuns, kTitleSpecial);
}
CaseResult fold_case(char32_t c) {
  return convert(c, kFoldRuns, kFoldSpecial);
}

char32_t next_char(std::string_view text, std::size_t& position) {
  const auto byte = [&](std::size_t at) { return static_cast<unsigned char>(text[at]); };
  const unsigned char lead = byte(position++);
  if (lead < 0x80) return lead;
  int more = lead >= 0xf0 ? 3 : lead >= 0xe0 ? 2 : 1;
  if (lead < 0xc2 || lead > 0xf4 || text.size() - position < static_cast<std::size_t>(more)) return 0xfffd;
  char32_t c = lead & (0x3f >> more);
  for (int i = 0; i < more; ++i) {
    if ((byte(position + i) & 0xc0) != 0x80) return 0xfffd;
    c = (c << 6) | (byte(position + i) & 0x3f);
  }
  constexpr char32_t kLeast[] = {0, 0x80, 0x800, 0x10000};
  if (c < kLeast[more] || c > 0x10ffff) return 0xfffd;
  position += more;
  return c;
}

char32_t last_char(std::string_view text, std::size_t& end) {
  std::size_t begin = end - 1;
  while (begin > 0 && end - begin < 4 && (static_cast<unsigned char>(text[begin]) & 0xc0) == 0x80) --begin;
  std::size_t behind = begin;
  const char32_t c = next_char(text.substr(0, end), behind);
  if (behind != end) {  // a stray byte
    --end;
    return 0xfffd;
  }
  end = begin;
  return c;
}

void append_char(std::string& text, char32_t c) {
  if (c < 0x80) {
    text += static_cast<char>(c);
  } else if (c < 0x800) {
    text += {static_cast<char>(0xc0 | (c >> 6)), static_cast<char>(0x80 | (c & 0x3f))};
  } else if (c < 0x10000) {
    text += {static_cast<char>(0xe0 | (c >> 12)), static_cast<char>(0x80 | ((c >> 6) & 0x3f)),
             static_cast<char>(0x80 | (c & 0x3f))};
  } else {
    text += {static_cast<char>(0xf0 | (c >> 18)), static_cast<char>(0x80 | ((c >> 12) & 0x3f)),
             static_cast<char>(0x80 | ((c >> 6) & 0x3f)), static_cast<char>(0x80 | (c & 0x3f))};
  }
}

bool is_ascii(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

std::size_t count_chars(std::string_view text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

bool is_identifier(std::string_view text) {
  std::size_t position = 0;
  if (text.empty() || !is_identifier_start(next_char(text, position))) return false;
  while (position < text.size()) {
    if (!is_identifier_part(next_char(text, position))) return false;
  }
  return true;
}

}  // namespace sparkx::jinja
