// One file from a hub to the disk: continued where an earlier try ended, tried again when the connection breaks, and
// under its name only when size and hash are right.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "formats/hub/digest.h"
#include "formats/hub/http.h"

namespace sparkx {

struct RetryPolicy {
  int attempts = 5;
  std::chrono::milliseconds delay{1'000};  // doubles with each failure; jitter takes away up to half
  std::function<bool()> go_on = {};
  std::function<void(const std::string&)> note = {};
};

// Performs a request whose answer is short. Throws what HttpClient::perform does, Error{network} for the last of
// several failures, and for a status that is not 2xx (or a redirect that was not to be followed) Error{not_found} or
// Error{network} about `what`.
HttpResponse perform_with_retries(HttpClient& client, const HttpRequest& request, const RetryPolicy& policy,
                                  const std::string& what);

// The body of such an answer. Throws also Error{corrupt} for more than `limit` bytes.
std::string fetch_text(HttpClient& client, const std::string& url, std::size_t limit, const RetryPolicy& policy,
                       const std::string& what);

struct Download {
  std::string what;  // in messages: "owner/name: model.safetensors"
  std::string url;
  std::uint64_t size;
  ExpectedHash hash;
  std::filesystem::path partial;  // in the same file system as …
  std::filesystem::path target;   // … which it replaces
};

// `progress` is told the bytes that are on the disk. Throws Error{corrupt} when the server does not send what it
// should, of which nothing then stays; otherwise what came stays for the next call: Error{network}, Error{not_found},
// Error{io}, Error{cancelled}.
void download(HttpClient& client, const Download& file, const RetryPolicy& policy,
              const std::function<void(std::uint64_t have)>& progress);

}  // namespace sparkx
