// JSON as this program prints it: one object a line.
#pragma once

#include <string>
#include <string_view>

namespace sparkx::cli {

// A string with its quotes. `text` is UTF-8.
std::string json_string(std::string_view text);

// The shortest decimal that reads back as the same number; null for what JSON has no number for.
std::string json_number(float value);
std::string json_number(double value);

}  // namespace sparkx::cli
