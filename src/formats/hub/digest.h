// The hashes by which hubs name files: SHA-256, and git's own for small files (SHA-1 of "blob SIZE\0" and the content).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace sparkx {

enum class HashKind { none, sha256, git_blob };

// What a file must have; lowercase hexadecimal. `none` when the hub says nothing.
struct ExpectedHash {
  HashKind kind = HashKind::none;
  std::string hex;
};

// By its length: 64 digits are SHA-256, 40 are git's; anything else is `none`.
inline ExpectedHash hash_from_hex(std::string_view text) {
  ExpectedHash hash;
  for (char c : text) {
    if (c >= 'A' && c <= 'F') c = static_cast<char>(c - 'A' + 'a');
    if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'))) return {};
    hash.hex += c;
  }
  hash.kind = text.size() == 64 ? HashKind::sha256 : text.size() == 40 ? HashKind::git_blob : HashKind::none;
  return hash.kind == HashKind::none ? ExpectedHash{} : hash;
}

class Digest {
 public:
  // `size` is the file's, which git hashes first. With `none` the digest is empty. Throws Error{unsupported} in a build
  // without OpenSSL.
  Digest(HashKind kind, std::uint64_t size);
  Digest(Digest&&) noexcept;
  Digest& operator=(Digest&&) noexcept;
  ~Digest();

  void update(std::span<const std::byte> bytes);
  std::string hex();  // ends it

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace sparkx
