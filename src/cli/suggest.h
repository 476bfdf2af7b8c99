// What somebody may have meant who mistyped an option or a command.
#pragma once

#include <CLI/CLI.hpp>

#include <string>
#include <string_view>
#include <vector>

namespace sparkx::cli {

// Insertions, deletions, replacements and swaps of neighbours that make one word of the other.
int edit_distance(std::string_view a, std::string_view b);

// The nearest of `candidates`, or "" when none is near enough to be meant.
std::string nearest(std::string_view word, const std::vector<std::string>& candidates);

// What to say of an argument that `command` does not know: "unknown option --tmep; did you mean --temp?".
std::string describe_unknown(const CLI::App& command, const std::string& argument);

// CLI11's message on an option with too few or too many values, as a sentence: "--prompt needs a value".
std::string describe_mismatch(const std::string& message);

}  // namespace sparkx::cli
