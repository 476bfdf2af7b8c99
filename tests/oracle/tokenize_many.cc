// Encodes many texts in one process, for check_tokenizer.py.
//
// usage: tokenize_many TOKENIZER.json all|none <TEXTS
// Each text comes after its length in bytes (4 bytes, little endian); a line of ids answers each. A line says so too
// when decoding the ids at once and token by token does not give the same.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "core/unicode.h"
#include "sparkx/error.hpp"
#include "text/detokenizer.h"
#include "text/tokenizer.h"
#include "text/tokenizer_json.h"

namespace {

std::string read_all(std::istream& stream) {
  return {std::istreambuf_iterator<char>(stream), {}};
}

std::string answer(const sparkx::Tokenizer& tokenizer, std::string_view text, sparkx::AddedTokens added) {
  const std::vector<sparkx::TokenId> ids = tokenizer.encode(text, added);
  std::string line;
  for (const sparkx::TokenId id : ids) line += std::to_string(id) + ' ';
  for (const bool skip : {false, true}) {
    sparkx::Detokenizer detokenizer(tokenizer, skip);
    std::string streamed;
    for (const sparkx::TokenId id : ids) {
      const std::string part = detokenizer.append(id);
      if (!sparkx::is_valid_utf8(part)) line += "(half a character) ";
      streamed += part;
    }
    streamed += detokenizer.finish();
    if (streamed != tokenizer.decode(ids, skip)) line += "(streamed differently) ";
  }
  return line;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: tokenize_many TOKENIZER.json all|none <TEXTS\n");
    return 2;
  }
  try {
    const sparkx::AddedTokens added =
        std::string_view(argv[2]) == "none" ? sparkx::AddedTokens::none : sparkx::AddedTokens::all;
    std::ifstream file(argv[1], std::ios::binary);
    const sparkx::Tokenizer tokenizer(sparkx::parse_tokenizer_json(read_all(file), argv[1]));
    const std::string input = read_all(std::cin);
    for (std::string_view rest = input; rest.size() >= 4;) {
      std::uint32_t size;
      std::memcpy(&size, rest.data(), 4);
      std::puts(answer(tokenizer, rest.substr(4, size), added).c_str());
      rest.remove_prefix(std::min<std::size_t>(rest.size(), 4 + std::size_t{size}));
    }
  } catch (const sparkx::Error& error) {
    std::fprintf(stderr, "tokenize_many: %s\n", error.what());
    return 1;
  }
}
