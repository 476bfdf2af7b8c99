#include "engine/stop.h"

#include <algorithm>
#include <utility>

#include "core/error.h"

namespace sparkx {
namespace {

std::vector<std::size_t> borders(std::string_view text) {
  std::vector<std::size_t> border(text.size(), 0);
  for (std::size_t i = 1; i < text.size(); ++i) {
    std::size_t length = border[i - 1];
    while (length > 0 && text[i] != text[length]) length = border[length - 1];
    border[i] = text[i] == text[length] ? length + 1 : 0;
  }
  return border;
}

}  // namespace

StopStrings::StopStrings(const std::vector<std::string>& stops) {
  for (const std::string& stop : stops) {
    if (stop.empty()) throw_error(ErrorCode::invalid_argument, "a stop string is empty");
    if ((static_cast<unsigned char>(stop[0]) & 0xC0) == 0x80) {
      throw_error(ErrorCode::invalid_argument, "a stop string is not UTF-8");
    }
    patterns_.push_back({stop, borders(stop)});
  }
}

std::string StopStrings::feed(std::string_view text) {
  if (stopped_) return {};
  std::string out = std::exchange(held_, {});
  std::size_t held = out.size();
  for (char c : text) {
    out += c;
    held = 0;
    for (Pattern& p : patterns_) {
      while (p.matched > 0 && p.text[p.matched] != c) p.matched = p.border[p.matched - 1];
      if (p.text[p.matched] == c) ++p.matched;
      held = std::max(held, p.matched);
      if (p.matched == p.text.size()) stopped_ = true;
    }
    if (!stopped_) continue;
    std::size_t stop = 0;
    for (const Pattern& p : patterns_) {
      if (p.matched == p.text.size()) stop = std::max(stop, p.matched);
    }
    out.resize(out.size() - stop);
    return out;
  }
  held_ = out.substr(out.size() - held);
  out.resize(out.size() - held);
  return out;
}

std::string StopStrings::finish() {
  return std::exchange(held_, {});
}

}  // namespace sparkx
