#include "core/printable.h"

#include <algorithm>

#include "core/json.h"

namespace sparkx {

std::string printable(std::string_view text, std::size_t longest) {
  const bool plain = !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c <= '~'; });
  std::string shown;
  if (plain) {
    shown = text;
  } else {
    // An escape is up to six bytes long: what is cut off here would not be shown below either.
    shown = json::print(std::string(text.substr(0, longest)), {.ensure_ascii = true});
  }
  if (shown.size() > longest) shown = shown.substr(0, longest) + "…";
  return shown;
}

}  // namespace sparkx
