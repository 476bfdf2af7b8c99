// Models that are named instead of given by their path: found on this machine, or fetched.
#pragma once

#include <CLI/CLI.hpp>

#include <cstdint>
#include <filesystem>
#include <string>

#include "console.h"
#include "sparkx/hub.hpp"

namespace sparkx::cli {

struct FetchArguments {
  bool offline = false;
  bool yes = false;  // fetch without asking
};

void add_fetch_arguments(CLI::App& command, FetchArguments& arguments);

// What -m means: a path that exists, else a name; a model that is not here is fetched when the user, asked on a
// terminal, or --yes says so. What is neither comes back as it is: opening it says what is wrong. Throws what
// pull_model throws, and Error{not_found} when nobody can be asked.
std::filesystem::path model_path(const std::string& model, const FetchArguments& arguments);

// Shows progress with the time left, says what the hub makes us wait for, and ends on Ctrl-C. The bar must outlive the
// options.
FetchOptions fetch_options(ProgressBar& bar);

// "1.2 GB", in powers of 1000 as hubs have it.
std::string size_text(std::uint64_t bytes);

// Asks on the terminal; anything but yes is no. Throws Interrupted.
bool confirmed(const std::string& question);

}  // namespace sparkx::cli
