// Text from files in messages.
#pragma once

#include <string>
#include <string_view>

namespace sparkx {

// A name or value from a file as a message shows it: plain printable ASCII as it is, anything else as a JSON string
// with escapes, so that no file writes control sequences to a terminal; at most `longest` characters, then "…".
std::string printable(std::string_view text, std::size_t longest = 200);

// The same, always in quotes.
std::string in_quotes(std::string_view text, std::size_t longest = 200);

// A message that may quote a file: every control character becomes U+FFFD. Throws nothing for bytes that are not UTF-8.
std::string without_controls(std::string_view text);

}  // namespace sparkx
