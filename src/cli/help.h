// How --help looks.
#pragma once

#include <CLI/CLI.hpp>

#include <string>
#include <vector>

namespace sparkx::cli {

// Options with a type name alone beside them, and what else there is to know behind their description: the values, the
// default, the options that go with it. Everything is wrapped to the width of a terminal.
class HelpFormatter : public CLI::Formatter {
 public:
  HelpFormatter() { column_width(32); }

  std::string make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const override;
  std::string make_option(const CLI::Option* option, bool is_positional) const override;
  std::string make_option_name(const CLI::Option* option, bool is_positional) const override;
  std::string make_option_opts(const CLI::Option* option) const override;
  std::string make_option_desc(const CLI::Option* option) const override;
};

// The words that one_of() lists in an option's type name ("TYPE:{auto,float32}"); empty when it takes other values.
std::vector<std::string> listed_values(const CLI::Option& option);

}  // namespace sparkx::cli
