#include "formats/hub/download.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <optional>
#include <random>
#include <system_error>
#include <thread>
#include <vector>

#include "core/error.h"
#include "core/printable.h"

namespace sparkx {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kReadBytes = 4 << 20;
constexpr std::uint64_t kProgressThatCounts = 1 << 20;  // bytes; with fewer a try has failed like the one before
constexpr auto kAnswerTime = std::chrono::seconds(60);  // for an answer that is short
constexpr auto kLongestPause = std::chrono::seconds(30);
constexpr auto kPauseStep = std::chrono::milliseconds(50);

// A server that does not send what it should.
struct Lie : Error {
  explicit Lie(const std::string& message) : Error(ErrorCode::corrupt, message) {}
};

// An answer that ends in good order, but too early.
struct ShortAnswer : TransientError {
  using TransientError::TransientError;
};

class Retries {
 public:
  explicit Retries(const RetryPolicy& policy) : policy_(policy) {}

  void progress_made() { failures_ = 0; }
  bool is_last() const { return failures_ + 1 >= policy_.attempts; }

  // Waits before the next try. Throws Error{network} when there is none, Error{cancelled}.
  void failed(const TransientError& error) {
    if (is_last()) throw Error(ErrorCode::network, error.what());
    ++failures_;
    std::chrono::milliseconds pause =
        std::min<std::chrono::milliseconds>(policy_.delay * (1LL << std::min(failures_ - 1, 16)), kLongestPause);
    pause = std::chrono::milliseconds(
        std::uniform_int_distribution<std::int64_t>(pause.count() / 2, pause.count())(random_));
    pause = std::max<std::chrono::milliseconds>(pause, error.retry_after());
    if (policy_.note) policy_.note(fmt::format("{}; trying again", error.what()));
    const auto end = std::chrono::steady_clock::now() + pause;
    while (std::chrono::steady_clock::now() < end) {
      if (policy_.go_on && !policy_.go_on()) throw_error(ErrorCode::cancelled, "cancelled");
      std::this_thread::sleep_for(
          std::min<std::chrono::nanoseconds>(kPauseStep, end - std::chrono::steady_clock::now()));
    }
  }

 private:
  const RetryPolicy& policy_;
  int failures_ = 0;
  std::minstd_rand random_{std::random_device{}()};
};

void check_status(const HttpResponse& response, const std::string& what) {
  if (response.status >= 200 && response.status < 400) return;
  const std::string* said = response.header("x-error-message");
  const std::string words = said == nullptr ? "" : fmt::format(" (the hub says: {})", in_quotes(*said, 300));
  switch (response.status) {
    case 401:
      throw_error(ErrorCode::not_found,
                  "{}: is not there, or not for everybody: then set HF_TOKEN to a token that may read it{}", what,
                  words);
    case 403:
      throw_error(ErrorCode::not_found,
                  "{}: is not for this user; if its page asks to accept conditions, do that, and set HF_TOKEN{}", what,
                  words);
    case 404:
    case 410:
      throw_error(ErrorCode::not_found, "{}: is not there{}", what, words);
    default:
      throw_error(ErrorCode::network, "{}: the hub answers with status {}{}", what, response.status, words);
  }
}

// The file that grows.
class Partial {
 public:
  explicit Partial(const Download& file) : file_(file), digest_(file.hash.kind, file.size) {
    descriptor_ = ::open(file.partial.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
    struct stat status {};
    if (descriptor_ < 0 || ::fstat(descriptor_, &status) != 0) fail("cannot be opened");
    if (!S_ISREG(status.st_mode)) throw_error(ErrorCode::io, "{}: is not a file", file.partial.string());
    found_ = static_cast<std::uint64_t>(status.st_size);
  }
  Partial(const Partial&) = delete;
  Partial& operator=(const Partial&) = delete;
  ~Partial() { ::close(descriptor_); }

  std::uint64_t have() const { return have_; }
  bool has_found_bytes() const { return has_found_bytes_; }  // that are older than this try

  // Takes what an earlier call left, hashing it.
  void resume(const RetryPolicy& policy, const std::function<void(std::uint64_t)>& progress) {
    if (found_ > file_.size || file_.hash.kind == HashKind::none) return restart();  // nothing would tell old from new
    std::vector<std::byte> buffer(kReadBytes);
    while (have_ < found_) {
      const ssize_t count = ::read(descriptor_, buffer.data(), buffer.size());
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) fail("cannot be read");
      if (count == 0) break;
      digest_.update(std::span(buffer).first(static_cast<std::size_t>(count)));
      have_ += static_cast<std::uint64_t>(count);
      has_found_bytes_ = true;
      progress(have_);
      if (policy.go_on && !policy.go_on()) throw_error(ErrorCode::cancelled, "cancelled");
    }
  }

  void restart() {
    if (::ftruncate(descriptor_, 0) != 0 || ::lseek(descriptor_, 0, SEEK_SET) != 0) fail("cannot be emptied");
    digest_ = Digest(file_.hash.kind, file_.size);
    have_ = 0;
    has_found_bytes_ = false;
  }

  void append(std::span<const std::byte> bytes) {
    digest_.update(bytes);
    while (!bytes.empty()) {
      const ssize_t count = ::write(descriptor_, bytes.data(), bytes.size());
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) fail("cannot be written");
      have_ += static_cast<std::uint64_t>(count);
      bytes = bytes.subspan(static_cast<std::size_t>(count));
    }
  }

  bool is_right() { return file_.hash.kind == HashKind::none || digest_.hex() == file_.hash.hex; }

  void finish() {
    if (::fsync(descriptor_) != 0) fail("cannot be written");
    std::error_code error;
    fs::rename(file_.partial, file_.target, error);
    if (error) throw_error(ErrorCode::io, "{}: cannot be written: {}", file_.target.string(), error.message());
  }

 private:
  [[noreturn]] void fail(const char* what) const {
    throw_error(ErrorCode::io, "{}: {}: {}", file_.partial.string(), what, std::generic_category().message(errno));
  }

  const Download& file_;
  Digest digest_;
  int descriptor_ = -1;
  std::uint64_t found_ = 0;
  std::uint64_t have_ = 0;  // bytes that are in the file and in the digest
  bool has_found_bytes_ = false;
};

// "bytes 100-199/200": where it begins and how long the whole is.
std::optional<std::pair<std::uint64_t, std::uint64_t>> content_range(const std::string* text) {
  constexpr std::string_view kUnit = "bytes ";
  if (text == nullptr || !text->starts_with(kUnit)) return std::nullopt;
  const char* at = text->data() + kUnit.size();
  const char* const end = text->data() + text->size();
  std::uint64_t numbers[3];
  for (int i = 0; i < 3; ++i) {
    const auto [next, error] = std::from_chars(at, end, numbers[i]);
    if (error != std::errc()) return std::nullopt;
    at = next;
    if (i == 2) break;
    if (at == end || *at++ != "-/"[i]) return std::nullopt;
  }
  if (at != end || numbers[0] > numbers[1] || numbers[1] >= numbers[2]) return std::nullopt;
  return std::pair(numbers[0], numbers[2]);
}

class Transfer {
 public:
  Transfer(const Download& file, Partial& partial, const std::function<void(std::uint64_t)>& progress)
      : file_(file), partial_(partial), progress_(progress) {}

  // One request for what is missing. Throws Lie, TransientError when the answer ends early, and the rest.
  void perform(HttpClient& client) {
    HttpRequest request{.url = file_.url, .from = partial_.have()};
    request.on_headers = [&](const HttpResponse& response) { begin(response, request.from); };
    request.on_body = [&](std::span<const std::byte> bytes) {
      if (bytes.size() > file_.size - partial_.have()) {
        throw lie(fmt::format("sends more than the {} bytes of the file", file_.size));
      }
      partial_.append(bytes);
      progress_(partial_.have());
    };
    html_ = false;
    const HttpResponse response = client.perform(request);
    if (response.status == 416) {
      if (request.from == 0) throw lie("says that the file has no first byte");
      partial_.restart();
      return;
    }
    check_status(response, file_.what);
    if (response.status >= 300) throw lie(fmt::format("answers with status {} instead of the file", response.status));
    if (partial_.have() < file_.size) {
      throw ShortAnswer(fmt::format("{}: only {} of {} bytes came", file_.what, partial_.have(), file_.size));
    }
  }

  Lie lie(const std::string& what) const {
    return Lie(fmt::format("{}: the server {}{}", file_.what, what,
                           html_ ? "; it sends a web page (of a proxy, or to log in?)" : ""));
  }

 private:
  void begin(const HttpResponse& response, std::uint64_t from) {
    const std::string* type = response.header("content-type");
    html_ = type != nullptr && type->starts_with("text/html");
    if (const std::string* encoding = response.header("content-encoding")) {
      if (*encoding != "identity" && !encoding->empty()) {
        throw lie(fmt::format("sends the file in an encoding nobody asked for ({})", printable(*encoding)));
      }
    }
    if (response.status == 206) {
      const auto range = content_range(response.header("content-range"));
      if (!range || range->first != from || range->second != file_.size) {
        const std::string* text = response.header("content-range");
        throw lie(fmt::format("sends another part of the file than the one from byte {} of {}: {}", from, file_.size,
                              text == nullptr ? "none" : in_quotes(*text)));
      }
    } else if (response.status == 200) {
      if (from > 0) partial_.restart();  // it knows no parts
    } else {
      throw lie(fmt::format("answers with status {}", response.status));
    }
    const std::optional<std::uint64_t> length = response.content_length();
    if (length && *length != file_.size - partial_.have()) {
      throw lie(fmt::format("announces {} bytes, not the {} that the file has{}", *length, file_.size - partial_.have(),
                            partial_.have() == 0 ? "" : " left"));
    }
  }

  const Download& file_;
  Partial& partial_;
  const std::function<void(std::uint64_t)>& progress_;
  bool html_ = false;
};

void complete(HttpClient& client, const Download& file, const RetryPolicy& policy, Partial& partial,
              const std::function<void(std::uint64_t)>& progress) {
  Retries retries(policy);
  Transfer transfer(file, partial, progress);
  std::uint64_t counted = partial.have();
  bool restarted = false;
  for (;;) {
    while (partial.have() < file.size) {
      try {
        transfer.perform(client);
      } catch (const TransientError& error) {
        if (partial.have() >= counted + kProgressThatCounts) {
          counted = partial.have();
          retries.progress_made();
        }
        if (retries.is_last() && dynamic_cast<const ShortAnswer*>(&error) != nullptr) throw Lie(error.what());
        retries.failed(error);
      }
    }
    if (partial.is_right()) return;
    // What was left by an earlier call may be what is wrong.
    if (!partial.has_found_bytes() || restarted) {
      throw transfer.lie(fmt::format("sends other content than that with the hash {}", file.hash.hex));
    }
    restarted = true;
    partial.restart();
    counted = 0;
  }
}

}  // namespace

HttpResponse perform_with_retries(HttpClient& client, const HttpRequest& request, const RetryPolicy& policy,
                                  const std::string& what) {
  Retries retries(policy);
  for (;;) {
    try {
      HttpResponse response = client.perform(request);
      check_status(response, what);
      return response;
    } catch (const TransientError& error) {
      retries.failed(error);
    }
  }
}

std::string fetch_text(HttpClient& client, const std::string& url, std::size_t limit, const RetryPolicy& policy,
                       const std::string& what) {
  std::string text;
  HttpRequest request{.url = url, .time_limit = kAnswerTime};
  request.on_headers = [&](const HttpResponse&) { text.clear(); };
  request.on_body = [&](std::span<const std::byte> bytes) {
    if (bytes.size() > limit - text.size()) {
      throw_error(ErrorCode::corrupt, "{}: the answer is longer than {} bytes", what, limit);
    }
    text.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  };
  perform_with_retries(client, request, policy, what);
  return text;
}

void download(HttpClient& client, const Download& file, const RetryPolicy& policy,
              const std::function<void(std::uint64_t)>& progress) {
  Partial partial(file);
  try {
    partial.resume(policy, progress);
    complete(client, file, policy, partial, progress);
  } catch (const Error& error) {
    std::error_code ignored;
    if (partial.have() == 0 || dynamic_cast<const Lie*>(&error) != nullptr) fs::remove(file.partial, ignored);
    throw;
  }
  partial.finish();
}

}  // namespace sparkx
