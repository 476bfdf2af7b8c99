#include "help.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <sstream>
#include <string_view>

namespace sparkx::cli {
namespace {

constexpr std::size_t kWidth = 100;

// Characters; each takes one column in the texts of this program's options.
std::size_t width(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

// Lines of at most `most` columns, broken at blanks; a longer word has a line of its own.
std::vector<std::string> wrapped(const std::string& text, std::size_t most) {
  std::vector<std::string> lines(1);
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    if (!lines.back().empty() && width(lines.back()) + 1 + width(word) > most) lines.emplace_back();
    if (!lines.back().empty()) lines.back() += ' ';
    lines.back() += word;
  }
  return lines;
}

std::string names_of(const std::set<CLI::Option*>& options) {
  std::vector<std::string> names;
  for (const CLI::Option* option : options) names.push_back(option->get_name());
  std::sort(names.begin(), names.end());
  return fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace

std::vector<std::string> listed_values(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  const std::size_t open = type.find(":{");
  if (open == std::string::npos || !type.ends_with('}')) return {};
  std::vector<std::string> values;
  std::istringstream list(type.substr(open + 2, type.size() - open - 3));
  for (std::string value; std::getline(list, value, ',');) values.push_back(value);
  return values;
}

std::string HelpFormatter::make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const {
  // Groups of options begin and end with an empty line.
  return CLI::detail::find_and_replace(CLI::Formatter::make_help(app, std::move(name), mode), "\n\n\n", "\n\n");
}

std::string HelpFormatter::make_option(const CLI::Option* option, bool is_positional) const {
  const std::size_t column = get_column_width();
  const std::string left = "  " + make_option_name(option, is_positional) + make_option_opts(option);
  std::string out = left;
  std::size_t at = width(left);
  if (at + 2 > column) {
    out += '\n';
    at = 0;
  }
  for (const std::string& line : wrapped(make_option_desc(option), kWidth - column)) {
    out += std::string(column - at, ' ') + line + '\n';
    at = 0;
  }
  return out;
}

// "-m, --model"; further names stand behind the description.
std::string HelpFormatter::make_option_name(const CLI::Option* option, bool is_positional) const {
  if (is_positional) return option->get_name(true, false);
  std::vector<std::string> names;
  for (const std::string& name : option->get_snames()) names.push_back("-" + name);
  if (!option->get_lnames().empty()) names.push_back("--" + option->get_lnames().front());
  return fmt::format("{}", fmt::join(names, ", "));
}

std::string HelpFormatter::make_option_opts(const CLI::Option* option) const {
  if (option->get_type_size() == 0) return "";
  const std::string type = option->get_type_name();
  return type.empty() ? "" : ' ' + type.substr(0, type.find(':'));
}

std::string HelpFormatter::make_option_desc(const CLI::Option* option) const {
  std::vector<std::string> notes;
  for (std::size_t i = 1; i < option->get_lnames().size(); ++i) notes.push_back("or --" + option->get_lnames()[i]);
  if (option->get_required()) notes.emplace_back("required");
  const std::vector<std::string> values = listed_values(*option);
  if (!values.empty()) notes.push_back(fmt::format("{}", fmt::join(values, ", ")));
  if (!option->get_default_str().empty() && values.size() != 1) {
    const std::string list = option->get_default_str();  // "[1,2]" for one of several values
    notes.push_back("default " + (list.starts_with('[') ? list.substr(1, list.size() - 2) : list));
  }
  if (!option->get_needs().empty()) notes.push_back("with " + names_of(option->get_needs()));
  if (!option->get_excludes().empty()) notes.push_back("not with " + names_of(option->get_excludes()));
  std::string description = option->get_description();
  if (!notes.empty()) description += fmt::format(" ({})", fmt::join(notes, "; "));
  return description;
}

}  // namespace sparkx::cli
