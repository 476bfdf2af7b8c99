#include "values.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>

namespace sparkx::cli {
namespace {

template <typename Number>
std::optional<Number> parse(std::string_view text) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::string refusal(const std::string& text, std::string_view expected) {
  return fmt::format("\"{}\" is not {}", text, expected);
}

CLI::Validator float_where(std::function<bool(float)> valid, std::string expected) {
  return CLI::Validator(
      [valid = std::move(valid), expected = std::move(expected)](std::string& text) {
        const std::optional<float> value = parse_float(text);
        return value && valid(*value) ? std::string() : refusal(text, expected);
      },
      "");
}

}  // namespace

std::optional<std::int64_t> parse_whole(std::string_view text) {
  return parse<std::int64_t>(text);
}
std::optional<std::uint64_t> parse_unsigned(std::string_view text) {
  return parse<std::uint64_t>(text);
}
std::optional<float> parse_float(std::string_view text) {
  const std::optional<float> value = parse<float>(text);
  return value && std::isfinite(*value) ? value : std::nullopt;
}

CLI::Validator whole_number(std::int64_t least, std::int64_t most) {
  return CLI::Validator(
      [least, most](std::string& text) {
        const std::optional<std::int64_t> value = parse_whole(text);
        if (!value || *value < least || *value > most) {
          const bool open = most == std::numeric_limits<std::int64_t>::max();
          return refusal(text, open ? fmt::format("a whole number of {} or more", least)
                                    : fmt::format("a whole number from {} to {}", least, most));
        }
        text = fmt::format("{}", *value);
        return std::string();
      },
      "");
}

CLI::Validator number() {
  return float_where([](float) { return true; }, "a number");
}

CLI::Validator number_of(float least) {
  return float_where([least](float x) { return x >= least; }, fmt::format("a number of {} or more", least));
}

CLI::Validator number_above(float bound) {
  return float_where([bound](float x) { return x > bound; }, fmt::format("a number above {}", bound));
}

CLI::Validator number_within(float least, float most) {
  return float_where([least, most](float x) { return x >= least && x <= most; },
                     fmt::format("a number from {} to {}", least, most));
}

CLI::Validator one_of(const std::vector<std::string>& words) {
  return CLI::Validator(
      [words](std::string& text) {
        return std::find(words.begin(), words.end(), text) != words.end()
                   ? std::string()
                   : refusal(text, fmt::format("{}{}", words.size() > 1 ? "one of " : "", fmt::join(words, ", ")));
      },
      fmt::format("{{{}}}", fmt::join(words, ",")));
}

CLI::Validator not_empty() {
  return CLI::Validator([](std::string& text) { return text.empty() ? "the text is empty" : std::string(); }, "");
}

}  // namespace sparkx::cli
