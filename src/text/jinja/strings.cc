#include "text/jinja/strings.h"

#include <algorithm>

#include "text/jinja/interpreter.h"
#include "text/jinja/unicode.h"

namespace sparkx::jinja {
namespace {

CaseResult same(char32_t c) {
  return {{c, 0, 0}, 1};
}

// A sigma behind a cased letter and before none is final.
bool is_final_sigma(std::string_view text, std::size_t begin, std::size_t end) {
  char32_t c = 0;
  std::size_t before = begin;
  do {
    if (before == 0) return false;
    c = last_char(text, before);
  } while (is_case_ignorable(c));
  if (!is_cased(c)) return false;
  while (end < text.size()) {
    c = next_char(text, end);
    if (!is_case_ignorable(c)) return !is_cased(c);
  }
  return true;
}

CaseResult lower_in(std::string_view text, std::size_t begin, std::size_t end, char32_t c) {
  if (c == 0x3a3) return same(is_final_sigma(text, begin, end) ? 0x3c2 : 0x3c3);
  return to_lower(c);
}

bool contains_char(std::string_view chars, char32_t c) {
  for (std::size_t position = 0; position < chars.size();) {
    if (next_char(chars, position) == c) return true;
  }
  return false;
}

std::vector<Text> split_blanks(Budget& budget, const Text& text, std::int64_t limit, bool from_right) {
  const std::string_view bytes = text.view();
  std::vector<Text> parts;
  if (!from_right) {
    std::size_t at = 0;
    while (true) {
      std::size_t next = at;
      while (at < bytes.size() && is_space(next_char(bytes, next))) at = next;
      if (at >= bytes.size()) return parts;
      const std::size_t begin = at;
      if (limit == 0) {
        parts.push_back(text.slice(budget, begin, bytes.size()));
        return parts;
      }
      --limit;
      next = at;
      while (at < bytes.size() && !is_space(next_char(bytes, next))) at = next;
      budget.step();
      parts.push_back(text.slice(budget, begin, at));
    }
  }
  std::size_t end = bytes.size();
  while (true) {
    std::size_t before = end;
    while (end > 0 && is_space(last_char(bytes, before))) end = before;
    if (end == 0) break;
    if (limit == 0) {
      parts.push_back(text.slice(budget, 0, end));
      break;
    }
    --limit;
    std::size_t begin = end;
    before = begin;
    while (begin > 0 && !is_space(last_char(bytes, before))) begin = before;
    budget.step();
    parts.push_back(text.slice(budget, begin, end));
    end = begin;
  }
  std::reverse(parts.begin(), parts.end());
  return parts;
}

}  // namespace

Text change_case(Budget& budget, const Text& text, Case to) {
  Text result;
  const std::string_view bytes = text.view();
  bool inside_word = false;
  budget.work(bytes.size() * 8);
  text.each_stretch(0, text.size(), [&](std::size_t begin, std::size_t end, Origin origin) {
    std::string changed;
    budget.require(end - begin);
    for (std::size_t position = begin; position < end;) {
      const std::size_t at = position;
      const char32_t c = next_char(bytes, position);
      CaseResult converted = same(c);
      switch (to) {
        case Case::upper:
          converted = to_upper(c);
          break;
        case Case::lower:
          converted = lower_in(bytes, at, position, c);
          break;
        case Case::folded:
          converted = fold_case(c);
          break;
        case Case::title:
          converted = inside_word ? lower_in(bytes, at, position, c) : to_title(c);
          inside_word = is_cased(c);
          break;
        case Case::capitalized:
          converted = at == 0 ? to_title(c) : lower_in(bytes, at, position, c);
          break;
        case Case::swapped:
          if (is_upper(c)) converted = lower_in(bytes, at, position, c);
          if (is_lower(c)) converted = to_upper(c);
          break;
      }
      for (int i = 0; i < converted.count; ++i) append_char(changed, converted.chars[i]);
    }
    result.append(budget, changed, origin);
  });
  return result;
}

Text strip(Budget& budget, const Text& text, Side side, const Text* chars) {
  const std::string_view bytes = text.view();
  const auto strips = [&](char32_t c) { return chars == nullptr ? is_space(c) : contains_char(chars->view(), c); };
  std::size_t begin = 0, end = bytes.size();
  if (side != Side::right) {
    for (std::size_t next = 0; begin < end && strips(next_char(bytes, next));) begin = next;
  }
  if (side != Side::left) {
    for (std::size_t before = end; end > begin && strips(last_char(bytes, before));) end = before;
  }
  if (chars != nullptr) budget.work((bytes.size() - (end - begin)) * chars->size());
  return text.slice(budget, begin, end);
}

std::vector<Text> split(Budget& budget, const Text& text, const Text* separator, std::int64_t limit, bool from_right) {
  if (separator == nullptr) return split_blanks(budget, text, limit, from_right);
  if (separator->empty()) fail(Fault::value_error, "empty separator");
  const std::string& bytes = text.bytes();
  const std::string& mark = separator->bytes();
  std::vector<Text> parts;
  budget.work(bytes.size());
  const auto add = [&](std::size_t begin, std::size_t end) {
    budget.step();
    budget.require((parts.size() + 1) * sizeof(Text));
    parts.push_back(text.slice(budget, begin, end));
  };
  if (!from_right) {
    std::size_t begin = 0;
    for (std::size_t found = bytes.find(mark); found != std::string::npos && limit-- != 0;
         found = bytes.find(mark, begin)) {
      add(begin, found);
      begin = found + mark.size();
    }
    add(begin, bytes.size());
    return parts;
  }
  std::size_t end = bytes.size();
  while (limit-- != 0 && end >= mark.size()) {
    const std::size_t found = bytes.rfind(mark, end - mark.size());
    if (found == std::string::npos) break;
    add(found + mark.size(), end);
    end = found;
  }
  add(0, end);
  std::reverse(parts.begin(), parts.end());
  return parts;
}

std::vector<Text> split_lines(Budget& budget, const Text& text, bool keep_ends) {
  const std::string_view bytes = text.view();
  std::vector<Text> lines;
  std::size_t begin = 0;
  for (std::size_t position = 0; position < bytes.size();) {
    const std::size_t end = position;
    const char32_t c = next_char(bytes, position);
    if (!is_line_end(c)) continue;
    if (c == '\r' && position < bytes.size() && bytes[position] == '\n') ++position;
    budget.step();
    budget.require((lines.size() + 1) * sizeof(Text));
    lines.push_back(text.slice(budget, begin, keep_ends ? position : end));
    begin = position;
  }
  if (begin < bytes.size()) lines.push_back(text.slice(budget, begin, bytes.size()));
  return lines;
}

Text replace(Budget& budget, const Text& text, const Text& old, const Text& replacement, std::int64_t limit) {
  const std::string& bytes = text.bytes();
  Text result;
  budget.work(bytes.size());
  std::size_t begin = 0;
  if (old.empty()) {
    // Before every character and at the end.
    for (std::size_t position = 0; limit != 0; --limit) {
      budget.step();
      result.append(budget, replacement);
      if (position >= bytes.size()) return result;
      begin = position;
      next_char(bytes, position);
      result.append(budget, text, begin, position);
      begin = position;
    }
    result.append(budget, text, begin, bytes.size());
    return result;
  }
  for (std::size_t found = bytes.find(old.bytes()); found != std::string::npos && limit-- != 0;
       found = bytes.find(old.bytes(), begin)) {
    budget.step();
    result.append(budget, text, begin, found);
    result.append(budget, replacement);
    begin = found + old.size();
  }
  result.append(budget, text, begin, bytes.size());
  return result;
}

Text justify(Budget& budget, const Text& text, std::int64_t width, Side text_at, const Text& fill) {
  const auto length = static_cast<std::int64_t>(count_chars(text.view()));
  if (width <= length) return text;
  const auto padding = static_cast<std::size_t>(width - length);
  Text result;
  if (text_at == Side::left) result.append(budget, text);
  result.repeat(budget, fill.view(), padding, fill.origin_at(0));
  if (text_at == Side::right) result.append(budget, text);
  return result;
}

Text center(Budget& budget, const Text& text, std::int64_t width, const Text& fill) {
  const auto length = static_cast<std::int64_t>(count_chars(text.view()));
  if (width <= length) return text;
  const std::int64_t padding = width - length;
  const std::int64_t left = padding / 2 + (padding & width & 1);
  return justify(budget, justify(budget, text, length + left, Side::right, fill), width, Side::left, fill);
}

}  // namespace sparkx::jinja
