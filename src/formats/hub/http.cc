#include "formats/hub/http.h"

#include <curl/curl.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <utility>

#include "core/printable.h"
#include "core/version.h"

namespace sparkx {
namespace {

constexpr int kMaxRedirects = 10;
constexpr std::size_t kMaxHeaderBytes = 256 << 10;  // of one request, redirects included
constexpr std::size_t kMaxErrorBody = 64 << 10;     // nobody reads it; past this the connection is not worth keeping
constexpr long kStallBytesPerSecond = 1;

struct UrlParts {
  CURLU* url = curl_url();
  ~UrlParts() { curl_url_cleanup(url); }

  std::string get(CURLUPart part, unsigned int flags = 0) const {
    char* text = nullptr;
    if (curl_url_get(url, part, &text, flags) != CURLUE_OK) return "";
    std::string result = text;
    curl_free(text);
    return result;
  }
};

std::string lowercase(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return lower;
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r\n";
  const std::size_t begin = text.find_first_not_of(kBlanks);
  if (begin == text.npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlanks) - begin + 1);
}

std::optional<std::uint64_t> whole(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// Nobody else can read what goes there.
bool is_private(const std::string& origin) {
  if (origin.starts_with("https://")) return true;
  constexpr std::string_view kScheme = "http://";
  for (const std::string_view host : {"127.0.0.1", "localhost", "[::1]"}) {
    if (!std::string_view(origin).substr(kScheme.size()).starts_with(host)) continue;
    const std::string_view rest = std::string_view(origin).substr(kScheme.size() + host.size());
    if (rest.empty() || rest.front() == ':') return true;
  }
  return false;
}

bool is_redirect(long status) {
  return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

bool is_transient(CURLcode code) {
  switch (code) {
    case CURLE_COULDNT_RESOLVE_PROXY:
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_CONNECT:
    case CURLE_WEIRD_SERVER_REPLY:
    case CURLE_HTTP2:
    case CURLE_HTTP2_STREAM:
    case CURLE_PARTIAL_FILE:
    case CURLE_OPERATION_TIMEDOUT:
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_GOT_NOTHING:
    case CURLE_SEND_ERROR:
    case CURLE_RECV_ERROR:
      return true;
    default:
      return false;
  }
}

bool is_transient(long status) {
  return status == 408 || status == 425 || status == 429 || status == 500 || (status >= 502 && status <= 504);
}

void initialize_curl() {
  static std::once_flag once;
  std::call_once(once, [] { curl_global_init(CURL_GLOBAL_DEFAULT); });
}

}  // namespace

const std::string* HttpResponse::header(std::string_view name) const {
  const auto found = headers.find(name);
  return found == headers.end() ? nullptr : &found->second;
}

std::optional<std::uint64_t> HttpResponse::content_length() const {
  const std::string* text = header("content-length");
  return text == nullptr ? std::nullopt : whole(*text);
}

struct HttpClient::State {
  HttpOptions options;
  CURL* curl = nullptr;
  char message[CURL_ERROR_SIZE] = {};

  // Of the request that is going on.
  const HttpRequest* request = nullptr;
  HttpResponse response;
  std::map<std::string, std::string, std::less<>> current;  // headers of the answer that is coming in
  std::size_t header_bytes = 0;
  std::size_t error_body = 0;
  bool told_headers = false;
  std::exception_ptr thrown;
  bool cancelled = false;

  ~State() { curl_easy_cleanup(curl); }

  // What a callback throws must not go through the C library.
  template <typename Action>
  bool guarded(Action action) {
    try {
      action();
      return true;
    } catch (...) {
      thrown = std::current_exception();
      return false;
    }
  }

  static std::size_t on_header(char* data, std::size_t, std::size_t size, void* self) {
    State& state = *static_cast<State*>(self);
    const std::string_view line(data, size);
    state.header_bytes += size;
    if (state.header_bytes > kMaxHeaderBytes) return 0;
    if (line.starts_with("HTTP/")) {
      state.current.clear();
    } else if (const std::size_t colon = line.find(':'); colon != line.npos && colon > 0) {
      state.current[lowercase(trimmed(line.substr(0, colon)))] = std::string(trimmed(line.substr(colon + 1)));
    }
    return size;
  }

  // Before the first byte of the body, or at the end when there is none.
  void tell_headers() {
    if (std::exchange(told_headers, true)) return;
    curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &response.status);
    for (auto& [name, value] : current) response.headers.insert_or_assign(name, value);
    if (response.status >= 200 && response.status < 300 && request->on_headers) request->on_headers(response);
  }

  static std::size_t on_body(char* data, std::size_t, std::size_t size, void* self) {
    State& state = *static_cast<State*>(self);
    const bool done = state.guarded([&] {
      state.tell_headers();
      if (state.response.status >= 200 && state.response.status < 300) {
        if (state.request->on_body) state.request->on_body(std::as_bytes(std::span(data, size)));
      } else {
        state.error_body += size;
      }
    });
    return done && state.error_body <= kMaxErrorBody ? size : 0;
  }

  static int on_progress(void* self, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
    State& state = *static_cast<State*>(self);
    const bool done = state.guarded([&] { state.cancelled = state.options.go_on && !state.options.go_on(); });
    return done && !state.cancelled ? 0 : 1;
  }

  template <typename Value>
  void set(CURLoption option, Value value) {
    curl_easy_setopt(curl, option, value);
  }

  void set_up(const std::string& url, std::chrono::milliseconds time_limit);
  void transfer(const std::string& url, std::chrono::milliseconds time_limit);
};

void HttpClient::State::set_up(const std::string& url, std::chrono::milliseconds time_limit) {
  curl_easy_reset(curl);  // keeps the connections
  set(CURLOPT_URL, url.c_str());
  set(CURLOPT_PROTOCOLS_STR, "http,https");
  set(CURLOPT_ERRORBUFFER, message);
  set(CURLOPT_NOSIGNAL, 1L);
  set(CURLOPT_FOLLOWLOCATION, 0L);
  set(CURLOPT_NETRC, static_cast<long>(CURL_NETRC_IGNORED));
  set(CURLOPT_SSLVERSION, static_cast<long>(CURL_SSLVERSION_TLSv1_2));
  set(CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(options.connect_timeout.count()));
  set(CURLOPT_TIMEOUT_MS, static_cast<long>(time_limit.count()));
  set(CURLOPT_LOW_SPEED_LIMIT, kStallBytesPerSecond);
  set(CURLOPT_LOW_SPEED_TIME, static_cast<long>(std::max<std::int64_t>(1, options.stall_timeout.count() / 1000)));
  set(CURLOPT_BUFFERSIZE, 256L << 10);
  set(CURLOPT_USERAGENT, (std::string("sparkx/") + version().version).c_str());
  set(CURLOPT_HEADERFUNCTION, &State::on_header);
  set(CURLOPT_HEADERDATA, this);
  set(CURLOPT_WRITEFUNCTION, &State::on_body);
  set(CURLOPT_WRITEDATA, this);
  set(CURLOPT_XFERINFOFUNCTION, &State::on_progress);
  set(CURLOPT_XFERINFODATA, this);
  set(CURLOPT_NOPROGRESS, 0L);
  if (request->head) set(CURLOPT_NOBODY, 1L);
  // The library does not look at what the command line tool and others do.
  for (const char* name : {"CURL_CA_BUNDLE", "SSL_CERT_FILE"}) {
    const char* file = std::getenv(name);
    if (file == nullptr || *file == '\0') continue;
    set(CURLOPT_CAINFO, file);
    break;
  }
}

void HttpClient::State::transfer(const std::string& url, std::chrono::milliseconds time_limit) {
  set_up(url, time_limit);
  curl_slist* list = nullptr;
  const auto add = [&](const std::string& line) { list = curl_slist_append(list, line.c_str()); };
  add("Accept-Encoding: identity");
  if (request->from > 0) add(fmt::format("Range: bytes={}-", request->from));
  const std::string origin = url_origin(url);
  if (!options.token.empty() && origin == options.token_origin && is_private(origin)) {
    add("Authorization: Bearer " + options.token);
  }
  set(CURLOPT_HTTPHEADER, list);
  set(CURLOPT_HEADEROPT, static_cast<long>(CURLHEADER_SEPARATE));  // none of them to a proxy
  current.clear();
  told_headers = false;
  error_body = 0;
  message[0] = '\0';
  response.url = url;
  const CURLcode code = curl_easy_perform(curl);
  curl_slist_free_all(list);

  if (cancelled) throw_error(ErrorCode::cancelled, "cancelled");
  if (thrown) std::rethrow_exception(thrown);
  if (code == CURLE_WRITE_ERROR && error_body > kMaxErrorBody) return;
  if (code != CURLE_OK) {
    const std::string what = fmt::format("{}: {}", printable(origin),
                                         without_controls(message[0] != '\0' ? message : curl_easy_strerror(code)));
    if (is_transient(code)) throw TransientError(what);
    throw Error(ErrorCode::network, what);
  }
  tell_headers();
}

HttpClient::HttpClient(HttpOptions options) : state_(std::make_unique<State>()) {
  for (const char c : options.token) {
    if (c <= ' ' || c > '~') throw_error(ErrorCode::invalid_argument, "the token has a character that no token has");
  }
  initialize_curl();
  state_->options = std::move(options);
  state_->curl = curl_easy_init();
  if (state_->curl == nullptr) throw_error(ErrorCode::out_of_memory, "libcurl cannot be initialized");
}

HttpClient::~HttpClient() = default;

HttpResponse HttpClient::perform(const HttpRequest& request) {
  State& state = *state_;
  state.request = &request;
  state.response = {};
  state.header_bytes = 0;
  state.thrown = nullptr;
  state.cancelled = false;
  const auto begin = std::chrono::steady_clock::now();
  std::string url = request.url;
  for (int redirects = 0;; ++redirects) {
    std::chrono::milliseconds left{0};
    if (request.time_limit.count() > 0) {
      left = request.time_limit -
             std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - begin);
      if (left.count() <= 0) throw TransientError(fmt::format("{}: takes too long", printable(url_origin(url))));
    }
    std::erase_if(state.response.headers, [](const auto& header) { return !header.first.starts_with("x-"); });
    state.transfer(url, left);
    HttpResponse& response = state.response;
    if (is_transient(response.status)) {
      const std::string* after = response.header("retry-after");
      const std::uint64_t seconds = after == nullptr ? 0 : std::min<std::uint64_t>(whole(*after).value_or(0), 300);
      throw TransientError(fmt::format("{}: answers with status {}", printable(url_origin(url)), response.status),
                           std::chrono::seconds(seconds));
    }
    const std::string* location = response.header("location");
    if (!is_redirect(response.status) || location == nullptr) return std::move(response);

    UrlParts target;
    if (curl_url_set(target.url, CURLUPART_URL, url.c_str(), 0) != CURLUE_OK ||
        curl_url_set(target.url, CURLUPART_URL, location->c_str(), 0) != CURLUE_OK) {
      throw_error(ErrorCode::network, "{}: redirects to {}, which is no URL", printable(url_origin(url)),
                  in_quotes(*location));
    }
    const std::string next = target.get(CURLUPART_URL);
    const std::string here = url_origin(url);
    std::string there;
    try {
      there = url_origin(next);
    } catch (const Error&) {
      throw_error(ErrorCode::network, "{}: redirects to {}, where nothing is fetched from", here, in_quotes(next));
    }
    if (here.starts_with("https://") && !there.starts_with("https://")) {
      throw_error(ErrorCode::network, "{}: redirects to {}, which is not encrypted", here, in_quotes(there));
    }
    if (request.redirects == Redirects::same_origin && here != there) return std::move(response);
    if (redirects == kMaxRedirects) {
      throw_error(ErrorCode::network, "{}: more than {} redirects", url_origin(request.url), kMaxRedirects);
    }
    url = next;
  }
}

std::string url_origin(const std::string& url) {
  const UrlParts parts;
  const bool parsed = curl_url_set(parts.url, CURLUPART_URL, url.c_str(), 0) == CURLUE_OK;
  const std::string scheme = lowercase(parts.get(CURLUPART_SCHEME));
  if (!parsed || (scheme != "http" && scheme != "https") || !parts.get(CURLUPART_USER).empty() ||
      !parts.get(CURLUPART_PASSWORD).empty()) {
    throw_error(ErrorCode::invalid_argument, "{} is no address of the form https://host", in_quotes(url));
  }
  const std::string port = parts.get(CURLUPART_PORT, CURLU_NO_DEFAULT_PORT);
  return scheme + "://" + lowercase(parts.get(CURLUPART_HOST)) + (port.empty() ? "" : ":" + port);
}

std::string url_encoded(std::string_view text, bool keep_slashes) {
  std::string out;
  for (const char c : text) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
                       c == '.' || c == '_' || c == '~' || (keep_slashes && c == '/');
    if (plain) {
      out += c;
    } else {
      out += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    }
  }
  return out;
}

}  // namespace sparkx
