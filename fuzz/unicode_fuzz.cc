// UTF-8 repair: the result is valid, whole texts stay, and repairing in two parts cut where nothing is unfinished is
// the same.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "core/unicode.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const std::string repaired = sparkx::replace_invalid_utf8(input);
  if (!sparkx::is_valid_utf8(repaired)) std::abort();
  if (sparkx::is_valid_utf8(input) != (repaired == input)) std::abort();
  std::string streamed, pending;
  for (const char byte : input) {
    pending += byte;
    const std::size_t ready = pending.size() - sparkx::unfinished_utf8_size(pending);
    streamed += sparkx::replace_invalid_utf8(std::string_view(pending).substr(0, ready));
    pending.erase(0, ready);
    if (pending.size() > 3) std::abort();
  }
  streamed += sparkx::replace_invalid_utf8(pending);
  if (streamed != repaired) std::abort();
  return 0;
}
