// Python's str operations on texts that remember their origins.
#pragma once

#include <cstdint>
#include <optional>

#include "text/jinja/value.h"

namespace sparkx::jinja {

class Interpreter;

enum class Case { upper, lower, title, capitalized, swapped, folded };
Text change_case(Budget& budget, const Text& text, Case to);

enum class Side { left, right, both };
// Without `chars`, blanks.
Text strip(Budget& budget, const Text& text, Side side, const Text* chars = nullptr);

// Splits at `separator`, or at blanks without one; at most `limit` times unless that is negative.
std::vector<Text> split(Budget& budget, const Text& text, const Text* separator, std::int64_t limit, bool from_right);
std::vector<Text> split_lines(Budget& budget, const Text& text, bool keep_ends);

Text replace(Budget& budget, const Text& text, const Text& old, const Text& replacement, std::int64_t limit);

// Pads to `width` characters.
Text justify(Budget& budget, const Text& text, std::int64_t width, Side text_at, const Text& fill);
Text center(Budget& budget, const Text& text, std::int64_t width, const Text& fill);

}  // namespace sparkx::jinja
