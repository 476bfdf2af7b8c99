#include "text/jinja/text.h"

#include "text/jinja/unicode.h"

namespace sparkx::jinja {

Origin Text::origin_at(std::size_t position) const {
  if (stretches_.empty()) return origin_;
  Origin origin = stretches_.back().origin;
  if (position < size()) each_stretch(position, position + 1, [&](std::size_t, std::size_t, Origin o) { origin = o; });
  return origin;
}

void Text::mark(std::size_t added, Origin origin) {
  if (added == 0) return;
  const std::size_t before = bytes_.size() - added;
  if (before == 0) {
    stretches_.clear();
    origin_ = origin;
  } else if (stretches_.empty()) {
    if (origin == origin_) return;
    stretches_ = {{before, origin_}, {bytes_.size(), origin}};
  } else if (stretches_.back().origin == origin) {
    stretches_.back().end = bytes_.size();
  } else {
    stretches_.push_back({bytes_.size(), origin});
  }
}

void Text::append(Budget& budget, std::string_view bytes, Origin origin) {
  budget.require(size() + bytes.size());
  budget.work(bytes.size());
  bytes_.append(bytes);
  mark(bytes.size(), origin);
}

void Text::append(Budget& budget, const Text& other, std::size_t begin, std::size_t end) {
  other.each_stretch(begin, end, [&](std::size_t first, std::size_t last, Origin origin) {
    append(budget, std::string_view(other.bytes_).substr(first, last - first), origin);
  });
}

void Text::append_char(Budget& budget, char32_t c, Origin origin) {
  const std::size_t before = size();
  budget.require(before + 4);
  jinja::append_char(bytes_, c);
  mark(size() - before, origin);
}

void Text::repeat(Budget& budget, std::string_view bytes, std::size_t times, Origin origin) {
  if (bytes.empty() || times == 0) return;
  const std::size_t limit = budget.limits().memory_bytes;
  budget.require(times > limit / bytes.size() ? limit + 1 : size() + bytes.size() * times);
  budget.work(bytes.size() * times);
  bytes_.reserve(size() + bytes.size() * times);
  for (std::size_t i = 0; i < times; ++i) bytes_.append(bytes);
  mark(bytes.size() * times, origin);
}

Text Text::slice(Budget& budget, std::size_t begin, std::size_t end) const {
  Text result;
  if (end > begin) budget.require(end - begin);
  result.append(budget, *this, begin, end);
  return result;
}

}  // namespace sparkx::jinja
