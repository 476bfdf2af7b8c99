// What stands in for libcurl and OpenSSL in a build without them (SPARKX_FETCHING=OFF): models that are here are found
// and run, nothing is fetched or verified.
#include "core/error.h"
#include "formats/hub/digest.h"
#include "formats/hub/http.h"

namespace sparkx {
namespace {

[[noreturn]] void refuse() {
  throw_error(ErrorCode::unsupported, "this sparkx was built without libcurl and OpenSSL: it fetches nothing");
}

}  // namespace

struct Digest::State {};
Digest::Digest(HashKind, std::uint64_t) {
  refuse();
}
Digest::Digest(Digest&&) noexcept = default;
Digest& Digest::operator=(Digest&&) noexcept = default;
Digest::~Digest() = default;
void Digest::update(std::span<const std::byte>) {}
std::string Digest::hex() {
  return "";
}

struct HttpClient::State {};
HttpClient::HttpClient(HttpOptions) {
  refuse();
}
HttpClient::~HttpClient() = default;
HttpResponse HttpClient::perform(const HttpRequest&) {
  refuse();
}
const std::string* HttpResponse::header(std::string_view) const {
  return nullptr;
}
std::optional<std::uint64_t> HttpResponse::content_length() const {
  return std::nullopt;
}
std::string url_origin(const std::string&) {
  refuse();
}
std::string url_encoded(std::string_view, bool) {
  refuse();
}

}  // namespace sparkx
