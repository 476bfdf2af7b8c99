// Runs a program as a person would: arguments, standard input, signals, and what it says on both of its outputs.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <functional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace sparkx::testing {

struct ProcessOptions {
  std::string input = {};                                             // standard input, closed behind it
  bool keep_input_open = false;                                       // … or not: then the program waits for more
  bool terminal_input = false;                                        // standard input is a terminal
  bool terminal_output = false;                                       // standard output is a terminal
  bool terminal_error = false;                                        // standard error is one
  bool ignore_hangup = false;                                         // as nohup has it
  std::vector<std::pair<std::string, std::string>> environment = {};  // added to ours
};

// A root file system without /dev/pts has no terminal to give.
inline bool has_terminals() {
  const int terminal = ::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
  if (terminal >= 0) ::close(terminal);
  return terminal >= 0;
}

struct ProcessResult {
  int status = -1;  // exit status, or 128 + the signal
  std::string out;
  std::string err;
};

class Process {
 public:
  explicit Process(const std::vector<std::string>& arguments, const ProcessOptions& options = {}) {
    int in[2], out[2], err[2];
    open_pair(in, options.terminal_input);
    if (options.terminal_input) std::swap(in[0], in[1]);  // the program reads at the other end
    open_pair(out, options.terminal_output);
    open_pair(err, options.terminal_error);
    std::vector<char*> argv;
    for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
    argv.push_back(nullptr);
    pid_ = ::fork();
    if (pid_ < 0) fail("fork");
    if (pid_ == 0) {
      ::dup2(in[0], STDIN_FILENO);
      ::dup2(out[1], STDOUT_FILENO);
      ::dup2(err[1], STDERR_FILENO);
      ::signal(SIGPIPE, SIG_DFL);
      for (int signal : {SIGINT, SIGTERM, SIGHUP})
        ::signal(signal, options.ignore_hangup && signal == SIGHUP ? SIG_IGN : SIG_DFL);
      for (const auto& [name, value] : options.environment) ::setenv(name.c_str(), value.c_str(), 1);
      ::execv(argv[0], argv.data());
      ::_exit(127);
    }
    ::close(in[0]);
    ::close(out[1]);
    ::close(err[1]);
    in_ = in[1];
    out_ = out[0];
    err_ = err[0];
    ::fcntl(in_, F_SETFL, O_NONBLOCK);
    ::signal(SIGPIPE, SIG_IGN);  // a program may leave its input unread
    input_ = options.input;
    keep_input_open_ = options.keep_input_open;
  }

  ~Process() {
    if (pid_ > 0) {
      ::kill(pid_, SIGKILL);
      ::waitpid(pid_, nullptr, 0);
    }
    for (int* descriptor : {&in_, &out_, &err_}) close_descriptor(*descriptor);
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  void send_signal(int signal) { ::kill(pid_, signal); }
  void close_output() { close_descriptor(out_); }

  // Passes bytes along until `done` says so of what came out so far, or both outputs have ended.
  void run_until(const std::function<bool(const ProcessResult&)>& done) {
    const auto deadline = std::chrono::steady_clock::now() + kTimeout;
    while (!done(result_) && (out_ >= 0 || err_ >= 0)) {
      if (std::chrono::steady_clock::now() > deadline) {
        ADD_FAILURE() << "the program takes too long; it said:\n" << result_.out << result_.err;
        return;
      }
      pump();
    }
  }

  ProcessResult wait() {
    run_until([](const ProcessResult&) { return false; });
    int status = 0;
    ::waitpid(pid_, &status, 0);
    pid_ = -1;
    result_.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return result_;
  }

 private:
  static constexpr std::chrono::seconds kTimeout{120};  // sanitizers are slow

  [[noreturn]] static void fail(const char* what) {
    throw std::runtime_error(std::string(what) + ": " + std::strerror(errno));
  }

  // What is written to the second comes out of the first: a pipe, or a terminal.
  static void open_pair(int (&ends)[2], bool terminal) {
    if (!terminal) {
      if (::pipe2(ends, O_CLOEXEC) != 0) fail("pipe2");
      return;
    }
    ends[0] = ::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (ends[0] < 0 || ::grantpt(ends[0]) != 0 || ::unlockpt(ends[0]) != 0) fail("posix_openpt");
    ends[1] = ::open(::ptsname(ends[0]), O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (ends[1] < 0) fail("ptsname");
  }

  static void close_descriptor(int& descriptor) {
    if (descriptor >= 0) ::close(std::exchange(descriptor, -1));
  }

  void pump() {
    if (input_.empty() && !keep_input_open_) close_descriptor(in_);
    std::array<pollfd, 3> polled = {{{input_.empty() ? -1 : in_, POLLOUT, 0}, {out_, POLLIN, 0}, {err_, POLLIN, 0}}};
    ::poll(polled.data(), polled.size(), 100);
    if (polled[0].revents != 0) {
      const ssize_t written = ::write(in_, input_.data(), input_.size());
      if (written > 0) {
        input_.erase(0, static_cast<std::size_t>(written));
      } else if (errno != EAGAIN) {
        input_.clear();
        close_descriptor(in_);
      }
    }
    if (polled[1].revents != 0) read_some(out_, result_.out);
    if (polled[2].revents != 0) read_some(err_, result_.err);
  }

  static void read_some(int& descriptor, std::string& to) {
    std::array<char, 4096> buffer;
    const ssize_t count = ::read(descriptor, buffer.data(), buffer.size());
    if (count > 0) {
      to.append(buffer.data(), static_cast<std::size_t>(count));
    } else {
      close_descriptor(descriptor);  // a terminal ends with EIO
    }
  }

  pid_t pid_ = -1;
  int in_ = -1;
  int out_ = -1;
  int err_ = -1;
  std::string input_;
  bool keep_input_open_ = false;
  ProcessResult result_;
};

inline ProcessResult run_process(const std::vector<std::string>& arguments, const ProcessOptions& options = {}) {
  return Process(arguments, options).wait();
}

}  // namespace sparkx::testing
