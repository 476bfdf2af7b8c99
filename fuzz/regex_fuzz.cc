// A pattern and a text, the first newline between them: whatever the pattern is, compiling it ends, and a scan gives
// matches in order.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "core/error.h"
#include "core/regex.h"
#include "core/unicode.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const std::size_t newline = input.find('\n');
  if (newline == std::string_view::npos) return 0;
  const std::string text = sparkx::replace_invalid_utf8(input.substr(newline + 1));
  for (const auto syntax : {sparkx::RegexSyntax::oniguruma, sparkx::RegexSyntax::python}) {
    try {
      const sparkx::Regex regex(input.substr(0, newline), syntax);
      sparkx::RegexScanner scanner(regex, text);
      std::size_t done = 0;
      while (const auto match = scanner.next()) {
        if (match->begin < done || match->end < match->begin || match->end > text.size()) std::abort();
        done = match->end;
      }
      if (regex.match(text).value_or(0) > text.size()) std::abort();
    } catch (const sparkx::Error&) {
    }
  }
  return 0;
}
