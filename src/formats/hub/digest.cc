#include "formats/hub/digest.h"

#include <openssl/evp.h>

#include <array>
#include <utility>

#include "core/error.h"

namespace sparkx {

struct Digest::State {
  EVP_MD_CTX* context = nullptr;
  ~State() { EVP_MD_CTX_free(context); }
};

Digest::Digest(HashKind kind, std::uint64_t size) {
  if (kind == HashKind::none) return;
  state_ = std::make_unique<State>();
  state_->context = EVP_MD_CTX_new();
  const EVP_MD* algorithm = kind == HashKind::sha256 ? EVP_sha256() : EVP_sha1();
  if (state_->context == nullptr || EVP_DigestInit_ex(state_->context, algorithm, nullptr) != 1) {
    throw_error(ErrorCode::unsupported, "OpenSSL refuses to compute {}",
                kind == HashKind::sha256 ? "SHA-256" : "SHA-1");
  }
  if (kind == HashKind::git_blob) {
    const std::string header = fmt::format("blob {}", size);
    update(std::as_bytes(std::span(header.c_str(), header.size() + 1)));
  }
}

Digest::Digest(Digest&&) noexcept = default;
Digest& Digest::operator=(Digest&&) noexcept = default;
Digest::~Digest() = default;

void Digest::update(std::span<const std::byte> bytes) {
  if (state_) EVP_DigestUpdate(state_->context, bytes.data(), bytes.size());
}

std::string Digest::hex() {
  if (!state_) return "";
  std::array<unsigned char, EVP_MAX_MD_SIZE> bytes;
  unsigned int size = 0;
  EVP_DigestFinal_ex(state_->context, bytes.data(), &size);
  std::string text;
  for (unsigned int i = 0; i < size; ++i) text += fmt::format("{:02x}", bytes[i]);
  return text;
}

}  // namespace sparkx
