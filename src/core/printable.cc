#include "core/printable.h"

#include <algorithm>

#include "core/json.h"

namespace sparkx {

namespace {

std::string cut(std::string text, std::size_t longest) {
  return text.size() > longest ? text.substr(0, longest) + "…" : text;
}

}  // namespace

std::string printable(std::string_view text, std::size_t longest) {
  const bool plain = !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c <= '~'; });
  return plain ? cut(std::string(text), longest) : in_quotes(text, longest);
}

std::string in_quotes(std::string_view text, std::size_t longest) {
  // An escape is up to six bytes long: what is cut off first would not be shown either.
  return cut(json::print(std::string(text.substr(0, longest)), {.ensure_ascii = true}), longest);
}

std::string without_controls(std::string_view text) {
  std::string shown;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const bool c1 = byte == 0xC2 && i + 1 < text.size() && static_cast<unsigned char>(text[i + 1]) < 0xA0;
    if (byte < 0x20 || byte == 0x7F || c1) {
      shown += "\xEF\xBF\xBD";
      i += c1 ? 1 : 0;
    } else {
      shown += text[i];
    }
  }
  return shown;
}

}  // namespace sparkx
