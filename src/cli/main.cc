// The program: reads the command line, runs the command that was chosen, and turns what goes wrong into a message and
// an exit status.

#include <fmt/core.h>

#include <exception>
#include <memory>
#include <new>
#include <string>

#include "commands.h"
#include "console.h"
#include "help.h"
#include "sparkx/sparkx.hpp"
#include "suggest.h"

namespace sparkx::cli {
namespace {

constexpr const char* kExamples = R"(Examples:
  sparkx generate -p "53乘以42的结果是多少？"     answer with the built-in model
  sparkx generate -m DIR -p TEXT                 answer with the model in a folder
  sparkx generate -m owner/name -p TEXT          … or with one from Hugging Face, fetched on first use
  sparkx tokenize -m DIR TEXT                    show the token ids of a text
  sparkx render --messages FILE                  show the prompt of a conversation
  sparkx bench -m DIR                            measure how fast it is here
  sparkx convert -m DIR -o DIR-4bit -q           quantize it to 4 bits, in MLX's format
  source <(sparkx completion bash)               complete commands and options

sparkx COMMAND --help says more about a command.)";

std::string version_text() {
  const BuildInfo info = build_info();
  const std::string caveat = info.caveat.empty() ? "" : fmt::format(", {}", info.caveat);
  return fmt::format("sparkx {} (commit {}, {}, {}{})", info.version, info.commit, info.compiler, info.instruction_set,
                     caveat);
}

// The command that was chosen, or the program itself.
const CLI::App& chosen(const CLI::App& app) {
  const auto subcommands = app.get_subcommands();
  return subcommands.empty() ? app : *subcommands.front();
}

// Prints help or version, or says what is wrong with the command line.
int report(const CLI::App& app, const CLI::ParseError& error) {
  const CLI::App& command = chosen(app);
  if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::Success)) {
    write_output(dynamic_cast<const CLI::CallForVersion*>(&error) != nullptr ? error.what() + std::string("\n")
                                                                             : app.help());
    return kDone;
  }
  std::string message = error.what();
  if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr) {
    const std::vector<std::string> unknown = command.remaining(true);
    if (!unknown.empty()) message = describe_unknown(command, unknown.front());
  } else if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr) {
    message = describe_mismatch(message);
  }
  while (message.ends_with('\n')) message.pop_back();
  print_error(message);
  print_line(fmt::format("See {} --help.", &command == &app ? "sparkx" : "sparkx " + command.get_name()));
  return kUsage;
}

int run_program(int argc, char** argv) {
  CLI::App app("sparkx runs Spark-X2.5 language models on this machine.", "sparkx");
  app.set_version_flag("--version", version_text, "Version, commit, compiler, and the instruction set in use");
  app.footer(kExamples);
  app.formatter(std::make_shared<HelpFormatter>());
  Run run;
  add_generate(app, run);
  add_logits(app, run);
  add_tokenize(app, run);
  add_render(app, run);
  add_parse(app, run);
  add_bench(app, run);
  add_inspect(app, run);
  add_perplexity(app, run);
  add_compare(app, run);
  add_convert(app, run);
  add_pull(app, run);
  add_models(app, run);
  add_completion(app, run);
  try {
    app.parse(argc, argv);
    if (!run) {
      print_error("there is no command");
      print_line(app.help());
      return kUsage;
    }
    return run();
  } catch (const CLI::ParseError& error) {
    return report(app, error);
  } catch (const UsageError& error) {
    print_error(error.message);
    print_line(fmt::format("See sparkx {} --help.", chosen(app).get_name()));
    return kUsage;
  }
}

int guarded(int argc, char** argv) {
  try {
    return run_program(argc, argv);
  } catch (const ClosedPipe&) {
    return kDone;
  } catch (const Interrupted&) {
    return interrupted_status();
  } catch (const Error& error) {
    if (error.code() == ErrorCode::cancelled) return interrupted_status();
    print_error(error.what());
  } catch (const std::bad_alloc&) {
    print_error("out of memory");
  } catch (const std::exception& error) {
    print_error(error.what());
  }
  return kFailed;
}

}  // namespace
}  // namespace sparkx::cli

int main(int argc, char** argv) {
  sparkx::cli::open_standard_descriptors();
  sparkx::cli::install_signal_handlers();
  return sparkx::cli::guarded(argc, argv);
}
