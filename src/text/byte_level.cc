#include "text/byte_level.h"

#include <array>
#include <cstdint>

#include "core/unicode.h"

namespace sparkx {
namespace {

// Printable Latin-1 stands for itself; the other bytes, in order, get the characters from U+0100 on.
constexpr bool stands_for_itself(int byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

constexpr int kAlphabetEnd = 0x100 + 68;  // one past the last character

struct Alphabet {
  std::array<char32_t, 256> character_of{};
  std::array<std::int16_t, kAlphabetEnd> byte_of{};

  constexpr Alphabet() {
    for (std::int16_t& byte : byte_of) byte = -1;
    char32_t next = 0x100;
    for (int byte = 0; byte < 256; ++byte) {
      character_of[static_cast<std::size_t>(byte)] = stands_for_itself(byte) ? static_cast<char32_t>(byte) : next++;
      byte_of[character_of[static_cast<std::size_t>(byte)]] = static_cast<std::int16_t>(byte);
    }
  }
};
constexpr Alphabet kAlphabet;
static_assert(kAlphabet.character_of[' '] == 0x120 && kAlphabet.byte_of[kAlphabetEnd - 1] == 0xAD);

// Calls use(byte) for each character while they are in the alphabet; false when one is not.
template <typename Use>
bool for_each_byte(std::string_view text, Use use) {
  while (!text.empty()) {
    const Utf8Character character = decode_utf8(text);
    if (character.code_point >= kAlphabetEnd || kAlphabet.byte_of[character.code_point] < 0) return false;
    use(static_cast<char>(kAlphabet.byte_of[character.code_point]));
    text.remove_prefix(character.size);
  }
  return true;
}

}  // namespace

std::string token_text_to_bytes(std::string_view text) {
  std::string bytes;
  bytes.reserve(text.size());
  return for_each_byte(text, [&](char byte) { bytes += byte; }) ? bytes : std::string(text);
}

bool is_byte_level(std::string_view text) {
  return for_each_byte(text, [](char) {});
}

std::string bytes_to_token_text(std::string_view bytes) {
  std::string text;
  text.reserve(bytes.size() * 2);
  for (const char byte : bytes) append_utf8(text, kAlphabet.character_of[static_cast<unsigned char>(byte)]);
  return text;
}

}  // namespace sparkx
