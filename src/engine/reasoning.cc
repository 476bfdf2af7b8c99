#include "sparkx/reasoning.hpp"

#include <algorithm>
#include <utility>

namespace sparkx {
namespace {

constexpr std::string_view kOpen = "<think>";
constexpr std::string_view kClose = "</think>";

// Length of the longest end of `text` that begins the closing marker.
std::size_t possible_close(std::string_view text) {
  std::size_t length = std::min(text.size(), kClose.size() - 1);
  while (length > 0 && !text.ends_with(kClose.substr(0, length))) --length;
  return length;
}

}  // namespace

ReasoningSplitter::Parts ReasoningSplitter::feed(std::string_view text) {
  held_ += text;
  if (state_ == State::start) {
    if (kOpen.starts_with(held_) && held_.size() < kOpen.size()) return {};  // may still become the marker
    if (held_.starts_with(kOpen)) {
      held_.erase(0, kOpen.size());
      state_ = State::inside;
    } else {
      state_ = State::behind;
    }
  }
  if (state_ == State::behind) return {{}, std::exchange(held_, {})};

  if (const std::size_t close = held_.find(kClose); close != std::string::npos) {
    state_ = State::behind;
    Parts parts{held_.substr(0, close), held_.substr(close + kClose.size())};
    held_.clear();
    return parts;
  }
  const std::size_t certain = held_.size() - possible_close(held_);
  Parts parts{held_.substr(0, certain), {}};
  held_.erase(0, certain);
  return parts;
}

ReasoningSplitter::Parts ReasoningSplitter::finish() {
  if (state_ == State::inside) return {std::exchange(held_, {}), {}};
  return {{}, std::exchange(held_, {})};
}

}  // namespace sparkx
