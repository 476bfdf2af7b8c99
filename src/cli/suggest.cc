#include "suggest.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstddef>

namespace sparkx::cli {

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
  std::vector<std::string> candidates;
  const bool option = argument.starts_with('-');
  if (option) {
    for (const CLI::Option* o : command.get_options()) {
      for (const std::string& name : o->get_lnames()) candidates.push_back("--" + name);
    }
  } else {
    for (const CLI::App* subcommand : command.get_subcommands(nullptr)) candidates.push_back(subcommand->get_name());
  }
  const std::string name = argument.substr(0, argument.find('='));
  const std::string meant = nearest(name, candidates);
  const char* kind = option ? "option" : candidates.empty() ? "argument" : "command";
  return fmt::format("unknown {} {}{}", kind, option ? name : '"' + name + '"',
                     meant.empty() ? "" : fmt::format("; did you mean {}?", meant));
}

}  // namespace sparkx::cli
