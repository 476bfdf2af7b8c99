#include "fetch_arguments.h"

#include <fmt/core.h>
#include <unistd.h>

#include <chrono>
#include <memory>
#include <optional>
#include <system_error>

namespace sparkx::cli {
namespace {

// From the bytes of the last seconds, so that what was here before does not count and a new pace shows soon.
class Pace {
 public:
  std::string left(std::uint64_t done, std::uint64_t total) {
    const auto now = std::chrono::steady_clock::now();
    if (!begin_ || done < done_at_begin_) {
      begin_ = now;
      done_at_begin_ = done;
    }
    const double seconds = std::chrono::duration<double>(now - *begin_).count();
    std::string text = fmt::format("{} of {}", size_text(done), size_text(total));
    if (seconds < kEnough) return text;
    const double rate = static_cast<double>(done - done_at_begin_) / seconds;
    if (seconds > kWindow) {  // half of it stays in memory as an average
      begin_ = now - std::chrono::milliseconds(static_cast<int>(kWindow * 500));
      done_at_begin_ = done - static_cast<std::uint64_t>(rate * kWindow / 2);
    }
    if (rate < 1) return text;
    const auto seconds_left = static_cast<std::uint64_t>(static_cast<double>(total - done) / rate);
    return fmt::format("{}, {}/s, {}:{:02} left", text, size_text(static_cast<std::uint64_t>(rate)), seconds_left / 60,
                       seconds_left % 60);
  }

 private:
  static constexpr double kEnough = 1;  // seconds
  static constexpr double kWindow = 20;
  std::optional<std::chrono::steady_clock::time_point> begin_;
  std::uint64_t done_at_begin_ = 0;
};

bool can_ask() {
  return input_is_terminal() && ::isatty(STDERR_FILENO) != 0;
}

}  // namespace

void add_fetch_arguments(CLI::App& command, FetchArguments& arguments) {
  command.add_flag("--offline", arguments.offline, "Fetch nothing: use only models that are on this machine");
  command.add_flag("-y,--yes", arguments.yes, "Fetch a model that is not on this machine without asking");
}

std::string size_text(std::uint64_t bytes) {
  const double size = static_cast<double>(bytes);
  if (bytes < 1'000) return fmt::format("{} B", bytes);
  if (bytes < 1'000'000) return fmt::format("{:.1f} kB", size / 1e3);
  if (bytes < 1'000'000'000) return fmt::format("{:.1f} MB", size / 1e6);
  return fmt::format("{:.1f} GB", size / 1e9);
}

bool confirmed(const std::string& question) {
  print_part(fmt::format("sparkx: {} [y/N] ", question));
  const std::string answer = read_input_piece().value_or("");
  return answer.starts_with('y') || answer.starts_with('Y');
}

FetchOptions fetch_options(ProgressBar& bar) {
  FetchOptions options;
  options.progress = [&bar, pace = std::make_shared<Pace>()](const FetchProgress& progress) {
    bar.update(progress.done, progress.total, pace->left(progress.done, progress.total));
    return !interrupted();
  };
  options.note = [&bar](const std::string& note) {
    bar.clear();
    print_note(note);
  };
  return options;
}

std::filesystem::path model_path(const std::string& model, const FetchArguments& arguments) {
  std::error_code error;
  if (std::filesystem::exists(model, error) || !is_model_name(model)) return model;
  if (const auto path = find_model(model)) return *path;
  const bool ask = !arguments.yes && can_ask();
  if (!arguments.yes && !ask && !arguments.offline && !is_offline()) {
    throw Error(ErrorCode::not_found,
                fmt::format("{}: there is no such file or folder, nor a model of that name on this machine; --yes "
                            "fetches it",
                            model));
  }
  ProgressBar bar("fetching");
  FetchOptions options = fetch_options(bar);
  options.offline = arguments.offline;
  bool refused = false;
  options.confirm = [&](const FetchPlan& plan) {
    if (ask) {
      refused = !confirmed(fmt::format("fetch {} ({} in {} files) from {}?", plan.name, size_text(plan.to_fetch),
                                       plan.files.size(), plan.host));
    } else {
      print_note(fmt::format("fetching {} ({}) from {}", plan.name, size_text(plan.to_fetch), plan.host));
    }
    return !refused;
  };
  try {
    return pull_model(model, options);
  } catch (const Error& failure) {
    if (failure.code() != ErrorCode::cancelled || !refused) throw;
    throw Error(ErrorCode::not_found, fmt::format("{}: is not on this machine, and was not fetched", model));
  }
}

}  // namespace sparkx::cli
