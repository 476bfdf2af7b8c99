// A text that knows where each stretch of it came from: written by the template, or part of the data it was given.
// Every string operation of the interpreter keeps that, so that only what the template wrote can become a marker.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/jinja/budget.h"

namespace sparkx::jinja {

enum class Origin : std::uint8_t { data, source };  // source: the template itself

class Text {
 public:
  struct Stretch {
    std::size_t end;  // in bytes; the stretch begins where the one before it ends
    Origin origin;
  };

  Text() = default;
  Text(std::string bytes, Origin origin) : bytes_(std::move(bytes)), origin_(origin) {}

  const std::string& bytes() const { return bytes_; }
  std::string_view view() const { return bytes_; }
  std::size_t size() const { return bytes_.size(); }
  bool empty() const { return bytes_.empty(); }
  bool uniform() const { return stretches_.empty(); }
  Origin origin_at(std::size_t position) const;  // of the byte at `position`; of the last one behind the end
  std::size_t memory() const { return bytes_.capacity() + stretches_.capacity() * sizeof(Stretch); }

  // Calls visit(begin, end, origin) for each stretch inside [begin, end).
  template <typename Visit>
  void each_stretch(std::size_t begin, std::size_t end, Visit&& visit) const;

  // Throw Fault::limit beyond what the budget allows.
  void append(Budget& budget, std::string_view bytes, Origin origin);
  void append(Budget& budget, const Text& other) { append(budget, other, 0, other.size()); }
  void append(Budget& budget, const Text& other, std::size_t begin, std::size_t end);
  void append_char(Budget& budget, char32_t c, Origin origin);
  void repeat(Budget& budget, std::string_view bytes, std::size_t times, Origin origin);

  Text slice(Budget& budget, std::size_t begin, std::size_t end) const;

 private:
  void mark(std::size_t added, Origin origin);

  std::string bytes_;
  std::vector<Stretch> stretches_;  // empty when all of it has one origin; neighbours differ
  Origin origin_ = Origin::source;  // of all of it, when there are no stretches
};

template <typename Visit>
void Text::each_stretch(std::size_t begin, std::size_t end, Visit&& visit) const {
  if (begin >= end) return;
  if (stretches_.empty()) {
    visit(begin, end, origin_);
    return;
  }
  std::size_t low = 0, high = stretches_.size();
  while (low < high) {
    const std::size_t middle = (low + high) / 2;
    if (stretches_[middle].end <= begin) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  for (; begin < end; ++low) {
    const std::size_t stop = stretches_[low].end < end ? stretches_[low].end : end;
    visit(begin, stop, stretches_[low].origin);
    begin = stop;
  }
}

}  // namespace sparkx::jinja
