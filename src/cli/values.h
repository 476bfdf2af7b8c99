// The values that options take, checked while the command line is read; what is wrong is said with the value in quotes.
#pragma once

#include <CLI/CLI.hpp>

#include <cstdint>
#include <initializer_list>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sparkx::cli {

// The whole of `text` as a number in plain decimal notation; floats must be finite.
std::optional<std::int64_t> parse_whole(std::string_view text);
std::optional<std::uint64_t> parse_unsigned(std::string_view text);
std::optional<float> parse_float(std::string_view text);

// To be given to Option::transform, not to check: CLI11's own conversion takes 010 as octal, so the text is first made
// one that can be read in one way only.
CLI::Validator whole_number(std::int64_t least, std::int64_t most = std::numeric_limits<std::int64_t>::max());
CLI::Validator number();
CLI::Validator number_of(float least);     // or more
CLI::Validator number_above(float bound);  // not the bound itself
CLI::Validator number_within(float least, float most);

// One of these words. Help and completion list them.
CLI::Validator one_of(const std::vector<std::string>& words);

// Not "".
CLI::Validator not_empty();

}  // namespace sparkx::cli
