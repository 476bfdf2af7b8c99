#include "console.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "sparkx/error.hpp"

namespace sparkx::cli {
namespace {

using namespace std::chrono_literals;

constexpr int kBarWidth = 30;
constexpr auto kBarDelay = 300ms;     // what is done sooner needs no bar
constexpr auto kBarInterval = 100ms;  // between two drawings
constexpr auto kTimeLeftDelay = 2s;   // before that nobody can tell how long it will take
constexpr std::size_t kReadBytes = 1 << 16;
constexpr std::size_t kMaxInputBytes = std::size_t{256} << 20;  // /dev/zero never ends
constexpr const char* kStandardInput = "standard input";

std::atomic<bool> interrupt_seen = false;
std::atomic<int> interrupt_signal = SIGINT;
static_assert(std::atomic<bool>::is_always_lock_free && std::atomic<int>::is_always_lock_free,
              "a signal handler may only touch lock-free atomics");

extern "C" void on_interrupt(int signal) {
  interrupt_signal.store(signal, std::memory_order_relaxed);
  interrupt_seen.store(true, std::memory_order_relaxed);
}

// An empty NO_COLOR counts as absent (no-color.org).
bool has_colour(int descriptor) {
  const char* no_color = std::getenv("NO_COLOR");
  return ::isatty(descriptor) != 0 && (no_color == nullptr || *no_color == '\0');
}

// What standard error does not take (its reader has gone, the disk is full) is lost: there is nowhere left to say so,
// and the output is worth more than the notes on it.
void write_note(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
}

void print_labelled(const char* sequence, std::string_view label, std::string_view message) {
  write_note(has_colour(STDERR_FILENO) ? fmt::format("sparkx: {}{}:\x1b[0m {}\n", sequence, label, message)
                                       : fmt::format("sparkx: {}: {}\n", label, message));
}

// Appends what one read gives; false at the end.
bool read_more(int descriptor, const std::string& name, std::string& text) {
  for (;;) {
    if (interrupted()) throw Interrupted();
    const std::size_t size = text.size();
    text.resize(size + kReadBytes);
    const ssize_t count = ::read(descriptor, text.data() + size, kReadBytes);
    text.resize(size + static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
    if (count >= 0) return count > 0;
    if (errno != EINTR) {
      throw Error(ErrorCode::io, fmt::format("cannot read {}: {}", name, std::strerror(errno)));
    }
  }
}

std::string read_all(int descriptor, const std::string& name) {
  std::string text;
  while (read_more(descriptor, name, text)) {
    if (text.size() > kMaxInputBytes) {
      throw Error(ErrorCode::io, fmt::format("cannot read {}: more than {} MiB of text", name, kMaxInputBytes >> 20));
    }
  }
  return text;
}

// ", 1:05 left", at the speed so far.
std::string time_left(std::chrono::steady_clock::duration elapsed, double share) {
  if (elapsed < kTimeLeftDelay || share <= 0) return "";
  const auto seconds = static_cast<std::int64_t>(std::chrono::duration<double>(elapsed).count() * (1 - share) / share);
  return fmt::format(", {}:{:02} left", seconds / 60, seconds % 60);
}

}  // namespace

void open_standard_descriptors() {
  // Each the wrong way round, so that using it is still an error.
  constexpr int kModes[] = {O_WRONLY, O_RDONLY, O_RDONLY};
  for (int descriptor = STDIN_FILENO; descriptor <= STDERR_FILENO; ++descriptor) {
    if (::fcntl(descriptor, F_GETFD) < 0) ::open("/dev/null", kModes[descriptor]);  // takes the lowest free number
  }
}

void install_signal_handlers() {
  struct sigaction interrupt = {};
  interrupt.sa_handler = on_interrupt;
  interrupt.sa_flags = static_cast<int>(SA_RESETHAND);  // the second one kills; no SA_RESTART: a waiting read ends
  ::sigaction(SIGINT, &interrupt, nullptr);
  ::sigaction(SIGTERM, &interrupt, nullptr);
  struct sigaction hangup = {};
  ::sigaction(SIGHUP, nullptr, &hangup);
  if (hangup.sa_handler != SIG_IGN) ::sigaction(SIGHUP, &interrupt, nullptr);
  struct sigaction ignore = {};
  ignore.sa_handler = SIG_IGN;
  ::sigaction(SIGPIPE, &ignore, nullptr);
  ::sigaction(SIGXFSZ, &ignore, nullptr);  // a file at the limit of its size is an error of write, too
}

const std::atomic<bool>& interrupted() {
  return interrupt_seen;
}

int interrupted_status() {
  return 128 + interrupt_signal.load(std::memory_order_relaxed);
}

void write_output(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(STDOUT_FILENO, text.data(), text.size());
    if (written >= 0) {
      text.remove_prefix(static_cast<std::size_t>(written));
    } else if (errno == EPIPE) {
      throw ClosedPipe();
    } else if (errno == EAGAIN) {  // somebody who shares the terminal made it non-blocking
      pollfd ready{STDOUT_FILENO, POLLOUT, 0};
      ::poll(&ready, 1, -1);
    } else if (errno != EINTR) {
      throw Error(ErrorCode::io, fmt::format("cannot write to standard output: {}", std::strerror(errno)));
    }
  }
}

std::string read_input() {
  return read_all(STDIN_FILENO, kStandardInput);
}

std::optional<std::string> read_input_piece() {
  std::string piece;
  if (!read_more(STDIN_FILENO, kStandardInput, piece)) return std::nullopt;
  return piece;
}

std::string read_file(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) {
    if (errno == EINTR && interrupted()) throw Interrupted();  // nobody has opened the other end of a pipe
    throw Error(errno == ENOENT ? ErrorCode::not_found : ErrorCode::io,
                fmt::format("cannot read {}: {}", path, std::strerror(errno)));
  }
  struct Close {
    int descriptor;
    ~Close() { ::close(descriptor); }
  } const close{descriptor};
  return read_all(descriptor, path);
}

bool output_is_terminal() {
  return ::isatty(STDOUT_FILENO) != 0;
}
bool output_has_colour() {
  return has_colour(STDOUT_FILENO);
}
bool input_is_terminal() {
  return ::isatty(STDIN_FILENO) != 0;
}

void print_error(std::string_view message) {
  print_labelled("\x1b[31m", "error", message);
}
void print_warning(std::string_view message) {
  print_labelled("\x1b[33m", "warning", message);
}
void print_note(std::string_view message) {
  write_note(fmt::format("sparkx: {}\n", message));
}
void print_line(std::string_view line) {
  write_note(fmt::format("{}\n", line));
}

void print_part(std::string_view text) {
  write_note(text);
}

ProgressBar::ProgressBar(std::string label)
    : label_(std::move(label)),
      enabled_(::isatty(STDERR_FILENO) != 0),
      begin_(std::chrono::steady_clock::now()),
      last_(begin_) {}

void ProgressBar::update(std::uint64_t done, std::uint64_t total, std::string_view note) {
  if (!enabled_ || total == 0) return;
  const auto now = std::chrono::steady_clock::now();
  if (now - begin_ < kBarDelay || now - last_ < kBarInterval) return;
  last_ = now;
  shown_ = true;
  const double share = std::min(1.0, static_cast<double>(done) / static_cast<double>(total));
  const int filled = static_cast<int>(share * kBarWidth);
  write_note(fmt::format("\r{} [{}{}] {:3.0f} %{}\x1b[K", label_, std::string(static_cast<std::size_t>(filled), '#'),
                         std::string(static_cast<std::size_t>(kBarWidth - filled), ' '), share * 100,
                         note.empty() ? time_left(now - begin_, share) : fmt::format(", {}", note)));
}

void ProgressBar::clear() {
  if (std::exchange(shown_, false)) write_note("\r\x1b[K");
}

}  // namespace sparkx::cli
