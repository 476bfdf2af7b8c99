// Standard output, standard error and signals: results go to the one, everything else to the other.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace sparkx::cli {

// Exit statuses of the program.
inline constexpr int kDone = 0;
inline constexpr int kFailed = 1;
inline constexpr int kUsage = 2;
inline constexpr int kUnsupported = 3;  // inspect: a checkpoint that can be read but not be run

// Thrown for a command line that makes no sense; main prints it and exits with kUsage.
struct UsageError {
  std::string message;
};

// Thrown when the reader of standard output has gone: there is nobody left to work for.
struct ClosedPipe {};

// Thrown when a signal ends what would otherwise wait.
struct Interrupted {};

// Gives the standard descriptors that are closed something to be: a file opened later must not get their number, and
// the messages in it.
void open_standard_descriptors();

// Ctrl-C, SIGTERM and SIGHUP (unless nohup has it ignored) set interrupted() once and kill the program the second time;
// a closed pipe becomes an error of write, as a limit on the size of files does.
void install_signal_handlers();
const std::atomic<bool>& interrupted();
int interrupted_status();  // exit status: 128 + the signal, 130 for Ctrl-C

// Writes all of it to standard output, at once. Throws ClosedPipe, and Error{io} for any other failure.
void write_output(std::string_view text);

// All of standard input, or of a file. Throws Error{not_found} or Error{io} with the name, and Interrupted on a signal.
std::string read_input();
std::string read_file(const std::string& path);

// What has come in on standard input, as soon as there is some; nothing at its end. Throws as read_input does.
std::optional<std::string> read_input_piece();

bool output_is_terminal();
bool output_has_colour();  // a terminal, and NO_COLOR does not forbid it
bool input_is_terminal();

void print_error(std::string_view message);
void print_warning(std::string_view message);
void print_note(std::string_view message);  // "sparkx: …"
void print_line(std::string_view line);     // to standard error, as it is
void print_part(std::string_view text);     // the same, without an end of line

// A bar on standard error with the time that is left, only where that is a terminal; it vanishes when it is done.
class ProgressBar {
 public:
  explicit ProgressBar(std::string label);
  ~ProgressBar() { clear(); }
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  void update(std::uint64_t done, std::uint64_t total, std::string_view note = "");  // the note stands behind it
  void clear();

 private:
  std::string label_;
  bool enabled_;
  bool shown_ = false;
  std::chrono::steady_clock::time_point begin_;
  std::chrono::steady_clock::time_point last_;
};

}  // namespace sparkx::cli
