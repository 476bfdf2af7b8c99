// HTTP requests, one after another on kept connections: redirects under our own rules, time-outs, cancelling.
//
// A token goes to the origin it belongs to and to no other, and never over a connection that others can read.
// Compression is not asked for, so what comes in is never more than what was sent.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "core/error.h"

namespace sparkx {

// A failure that may pass: a broken connection, a server that is busy.
class TransientError : public Error {
 public:
  explicit TransientError(const std::string& message, std::chrono::seconds retry_after = {})
      : Error(ErrorCode::network, message), retry_after_(retry_after) {}
  std::chrono::seconds retry_after() const { return retry_after_; }  // as the server asked; 0 when it did not

 private:
  std::chrono::seconds retry_after_;
};

struct HttpResponse {
  long status = 0;
  std::string url;  // of this answer, after redirects
  // By lowercase name; of several with one name the last. Those of earlier redirects that begin with "x-" stay.
  std::map<std::string, std::string, std::less<>> headers;

  const std::string* header(std::string_view name) const;
  std::optional<std::uint64_t> content_length() const;
};

enum class Redirects { all, same_origin };  // same_origin: one that leads elsewhere is the answer

struct HttpRequest {
  std::string url;
  bool head = false;
  std::uint64_t from = 0;  // first byte wanted; 0: all
  Redirects redirects = Redirects::all;
  std::chrono::milliseconds time_limit{0};  // of the whole request; 0: none
  // Of an answer with status 2xx; what they throw ends the request.
  std::function<void(const HttpResponse&)> on_headers = {};
  std::function<void(std::span<const std::byte>)> on_body = {};
};

struct HttpOptions {
  std::string token_origin;  // "https://huggingface.co": where the token belongs
  std::string token;
  std::chrono::milliseconds connect_timeout{15'000};
  std::chrono::milliseconds stall_timeout{30'000};
  std::function<bool()> go_on = {};  // asked all the time; false cancels
};

class HttpClient {
 public:
  // Throws Error{unsupported} in a build without libcurl, Error{invalid_argument} for a token with other than visible
  // characters.
  explicit HttpClient(HttpOptions options);
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  // The answer, whatever its status, but TransientError for those that say "later". Throws TransientError,
  // Error{network} for what will not pass (no such protocol, a certificate that is not trusted, redirects in a circle
  // or from https to http), Error{cancelled}, and what the callbacks throw.
  HttpResponse perform(const HttpRequest& request);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// "https://host:8443" of a URL, in lowercase, without a standard port. Throws Error{invalid_argument} for what is no
// http or https URL, or has a user or password in it.
std::string url_origin(const std::string& url);

// For one part of a path or query: everything but letters, digits and "-._~" as %XX; "/" too unless it is kept.
std::string url_encoded(std::string_view text, bool keep_slashes = false);

}  // namespace sparkx
