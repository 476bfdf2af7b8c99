// The byte-level alphabet of GPT-2: each byte has a printable character, and vocabularies spell tokens with these
// characters.
#pragma once

#include <string>
#include <string_view>

namespace sparkx {

// The bytes that a token stands for, as the ByteLevel decoder has them: each character's byte when all characters are
// in the alphabet, else (added tokens with other characters) the text itself. `text` must be valid UTF-8.
std::string token_text_to_bytes(std::string_view text);

// Whether all characters are in the alphabet: only such tokens can come out of ordinary text.
bool is_byte_level(std::string_view text);

// How vocabularies spell these bytes.
std::string bytes_to_token_text(std::string_view bytes);

}  // namespace sparkx
