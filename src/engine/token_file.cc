// Token ids from texts and files (sparkx/sparkx.hpp).

#include <charconv>
#include <cstring>
#include <limits>
#include <string>

#include "core/error.h"
#include "core/file.h"
#include "formats/safetensors.h"
#include "sparkx/sparkx.hpp"

namespace sparkx {
namespace {

constexpr std::uint64_t kMaxTextBytes = std::uint64_t{64} << 20;
constexpr std::size_t kShownCharacters = 40;  // of something that is no token id

bool is_separator(char c) {
  return c == ',' || c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

std::vector<TokenId> parse_tokens(std::string_view text, const std::string& where) {
  std::vector<TokenId> tokens;
  const char* const end = text.data() + text.size();
  for (const char* p = text.data(); p != end;) {
    if (is_separator(*p)) {
      ++p;
      continue;
    }
    TokenId token = -1;
    const auto [next, error] = std::from_chars(p, end, token);
    if (error != std::errc() || token < 0 || (next != end && !is_separator(*next))) {
      const char* stop = p;
      while (stop != end && !is_separator(*stop)) ++stop;
      const std::string_view word(p, std::min<std::size_t>(static_cast<std::size_t>(stop - p), kShownCharacters));
      throw_error(ErrorCode::invalid_argument, "{}\"{}\" is not a token id", where, word);
    }
    tokens.push_back(token);
    p = next;
  }
  return tokens;
}

template <typename Integer>
std::vector<TokenId> to_tokens(std::span<const std::byte> bytes, const std::string& file) {
  std::vector<TokenId> tokens(bytes.size() / sizeof(Integer));
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    Integer value;
    std::memcpy(&value, bytes.data() + i * sizeof value, sizeof value);
    if (value < 0 || value > std::numeric_limits<TokenId>::max()) {
      throw_error(ErrorCode::corrupt, "{}: {} is not a token id (tokens[{}])", file, value, i);
    }
    tokens[i] = static_cast<TokenId>(value);
  }
  return tokens;
}

std::vector<TokenId> read_tokens_tensor(const ByteSource& file) {
  for (const SafetensorsTensor& tensor : read_safetensors_header(file).tensors) {
    if (tensor.name != "tokens") continue;
    const bool integers = tensor.dtype == Dtype::int32 || tensor.dtype == Dtype::int64;
    if (!integers || tensor.shape.size() != 1) {
      throw_error(ErrorCode::corrupt, "{}: tensor tokens is {} with {} dimensions, expected int32 or int64 with one",
                  file.name(), dtype_name(tensor.dtype), tensor.shape.size());
    }
    std::vector<std::byte> bytes(tensor.bytes);
    file.read(tensor.offset, bytes);
    return tensor.dtype == Dtype::int32 ? to_tokens<std::int32_t>(bytes, file.name())
                                        : to_tokens<std::int64_t>(bytes, file.name());
  }
  throw_error(ErrorCode::corrupt, "{}: there is no tensor tokens", file.name());
}

// A safetensors file begins with the length of its header, whose first character is a brace; a list of numbers has
// none.
bool is_safetensors(const ByteSource& file) {
  std::byte ninth{};
  if (file.size() < 9) return false;
  file.read(8, std::span(&ninth, 1));
  return ninth == std::byte{'{'};
}

}  // namespace

std::vector<TokenId> parse_token_list(std::string_view text) {
  return parse_tokens(text, "");
}

std::vector<TokenId> read_token_file(const std::filesystem::path& path) {
  const ByteSource file = ByteSource::open(path);
  if (is_safetensors(file)) return read_tokens_tensor(file);
  return parse_tokens(file.read_all(kMaxTextBytes), file.name() + ": ");
}

}  // namespace sparkx
