// The subcommands: each adds itself to the command line, and leaves in `run` what is to be done when it was chosen.
#pragma once

#include <CLI/CLI.hpp>

#include <functional>

namespace sparkx::cli {

using Run = std::function<int()>;  // returns the exit status

void add_generate(CLI::App& app, Run& run);
void add_logits(CLI::App& app, Run& run);
void add_render(CLI::App& app, Run& run);
void add_parse(CLI::App& app, Run& run);
void add_tokenize(CLI::App& app, Run& run);
void add_bench(CLI::App& app, Run& run);
void add_inspect(CLI::App& app, Run& run);
void add_perplexity(CLI::App& app, Run& run);
void add_compare(CLI::App& app, Run& run);
void add_convert(CLI::App& app, Run& run);
void add_pull(CLI::App& app, Run& run);
void add_models(CLI::App& app, Run& run);
void add_completion(CLI::App& app, Run& run);

}  // namespace sparkx::cli
