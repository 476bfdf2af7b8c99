#include "suggest.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstddef>
#include <utility>

namespace sparkx::cli {
namespace {

// What other programs call what we have under another name.
constexpr std::pair<std::string_view, std::string_view> kOtherNames[] = {
    {"--max-new-tokens", "--max-tokens"},
    {"--n-predict", "--max-tokens"},
    {"--predict", "--max-tokens"},
    {"--ctx-size", "--ctx"},
    {"--max-kv-size", "--ctx"},
    {"--repeat-penalty", "--repetition-penalty"},
    {"--repeat-last-n", "--repetition-window"},
    {"--cache-type-k", "--kv-dtype"},
    {"--cache-type-v", "--kv-dtype"},
};

std::vector<std::string> option_names(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

// Ours for another program's name, or "" when the command has none.
std::string translated(const CLI::App& command, std::string_view name) {
  for (const auto& [theirs, ours] : kOtherNames) {
    if (theirs == name && command.get_option_no_throw(std::string(ours)) != nullptr) return std::string(ours);
  }
  return "";
}

}  // namespace

int edit_distance(std::string_view a, std::string_view b) {
  const std::size_t width = b.size() + 1;
  std::vector<int> cost((a.size() + 1) * width);
  const auto at = [&](std::size_t i, std::size_t j) -> int& { return cost[i * width + j]; };
  for (std::size_t i = 0; i <= a.size(); ++i) {
    for (std::size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        at(i, j) = static_cast<int>(i + j);
        continue;
      }
      const int replaced = at(i - 1, j - 1) + (a[i - 1] == b[j - 1] ? 0 : 1);
      at(i, j) = std::min({replaced, at(i - 1, j) + 1, at(i, j - 1) + 1});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        at(i, j) = std::min(at(i, j), at(i - 2, j - 2) + 1);
      }
    }
  }
  return cost.back();
}

std::string nearest(std::string_view word, const std::vector<std::string>& candidates) {
  std::string best;
  const std::size_t dashes = std::min(word.find_first_not_of('-'), word.size());
  int best_distance = static_cast<int>(word.size() - dashes) / 3 + 1;  // further away it is another word
  for (const std::string& candidate : candidates) {
    const bool begins = word.size() >= 3 && candidate.starts_with(word);
    const int distance = begins ? 1 : edit_distance(word, candidate);
    if (distance < best_distance || (distance == best_distance && best.empty())) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

std::string describe_unknown(const CLI::App& command, const std::string& argument) {
  const bool is_option = argument.starts_with('-');
  const std::string name = argument.substr(0, argument.find('='));
  if (is_option) {
    std::string meant = translated(command, name);
    if (meant.empty()) meant = nearest(name, option_names(command));
    return fmt::format("unknown option {}{}", name, meant.empty() ? "" : fmt::format("; did you mean {}?", meant));
  }
  std::vector<std::string> commands;
  for (const CLI::App* subcommand : command.get_subcommands(nullptr)) commands.push_back(subcommand->get_name());
  if (!commands.empty()) {
    const std::string meant = nearest(argument, commands);
    return fmt::format("unknown command \"{}\"{}", argument,
                       meant.empty() ? "" : fmt::format("; did you mean {}?", meant));
  }
  const CLI::Option* prompt = command.get_option_no_throw("--prompt");
  if (prompt != nullptr && prompt->get_type_name() != "TEXT") prompt = nullptr;  // that of a benchmark is a length
  return fmt::format("unknown argument \"{}\"{}", argument,
                     prompt == nullptr      ? ""
                     : prompt->count() == 0 ? "; the prompt is given with -p TEXT"
                                            : "; a prompt of several words is one argument, in quotes");
}

std::string describe_mismatch(const std::string& message) {
  const std::string name = message.substr(0, message.find(':'));
  if (message.find(" missing") != std::string::npos) return name + " needs a value";
  if (message.find("At Most") != std::string::npos) return name + " is given more than once";
  return message;
}

}  // namespace sparkx::cli
