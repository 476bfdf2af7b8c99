// sparkx completion: scripts for shells, made from the commands and options themselves.

#include <fmt/core.h>

#include <algorithm>
#include <string>
#include <vector>

#include "commands.h"
#include "console.h"
#include "help.h"
#include "values.h"

namespace sparkx::cli {
namespace {

constexpr const char* kExamples = R"(Examples:
  source <(sparkx completion bash)                                    now, or in ~/.bashrc
  sparkx completion zsh > ~/.zfunc/_sparkx                            with ~/.zfunc in fpath
  sparkx completion fish > ~/.config/fish/completions/sparkx.fish)";

struct OptionWords {
  std::vector<std::string> names;  // "-m", "--model"
  std::string description;
  bool takes_value;
  bool is_file;        // or a folder
  std::string values;  // "auto float32": all that it takes; empty when that is no list
};

std::string joined(const std::vector<std::string>& words, std::string_view separator) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : std::string(separator)) + word;
  return text;
}

std::vector<OptionWords> options_of(const CLI::App& app) {
  std::vector<OptionWords> result;
  for (const CLI::Option* option : app.get_options()) {
    OptionWords words;
    for (const std::string& name : option->get_snames()) words.names.push_back("-" + name);
    for (const std::string& name : option->get_lnames()) words.names.push_back("--" + name);
    if (words.names.empty()) continue;  // positional
    words.description = option->get_description();
    words.takes_value = option->get_items_expected_max() > 0;
    const std::string type = option->get_type_name();
    words.is_file = type.find("FILE") != std::string::npos || type.find("PATH") != std::string::npos;
    words.values = joined(listed_values(*option), " ");
    result.push_back(std::move(words));
  }
  return result;
}

// Whether it takes files or folders beside its options.
bool takes_files(const CLI::App& app) {
  const auto options = app.get_options();
  return std::any_of(options.begin(), options.end(), [](const CLI::Option* option) {
    const std::string type = option->get_type_name();
    return option->get_positional() && (type == "FILE" || type.starts_with("PATH"));
  });
}

// The words that a command's first argument is one of, if it is.
std::string first_words(const CLI::App& command) {
  for (const CLI::Option* option : command.get_options()) {
    if (option->get_snames().empty() && option->get_lnames().empty()) return joined(listed_values(*option), " ");
  }
  return "";
}

std::string all_names(const std::vector<OptionWords>& options) {
  std::vector<std::string> names;
  for (const OptionWords& option : options) names.insert(names.end(), option.names.begin(), option.names.end());
  return joined(names, " ");
}

// For text inside single quotes; `special` are characters that the shell's own completion language wants escaped.
std::string shell_quoted(std::string_view text, std::string_view special = "") {
  std::string out;
  for (char c : text) {
    if (c == '\'') {
      out += "'\\''";
    } else {
      if (special.find(c) != std::string_view::npos) out += '\\';
      out += c;
    }
  }
  return out;
}

std::vector<const CLI::App*> commands_of(const CLI::App& app) {
  return app.get_subcommands(nullptr);
}

// What bash does for the value of an option.
std::string bash_value(const OptionWords& option) {
  if (!option.values.empty()) {
    return fmt::format("COMPREPLY=($(compgen -W \"{}\" -- \"$word\")); return", option.values);
  }
  if (!option.is_file) return "return";
  return "compopt -o filenames; COMPREPLY=($(compgen -f -- \"$word\")); return";
}

std::string zsh_value(const OptionWords& option) {
  if (!option.takes_value) return "";
  if (!option.values.empty()) return fmt::format(":value:({})", option.values);
  return option.is_file ? ":file:_files" : ":value: ";
}

std::string fish_value(const OptionWords& option) {
  if (!option.takes_value) return "";
  if (!option.values.empty()) return fmt::format(" -x -a '{}'", option.values);
  return option.is_file ? " -r -F" : " -x";
}

std::string bash_script(const CLI::App& app) {
  std::vector<std::string> names;
  std::string cases;
  std::string files;
  std::string first;
  for (const CLI::App* command : commands_of(app)) {
    names.push_back(command->get_name());
    const std::vector<OptionWords> options = options_of(*command);
    cases += fmt::format("    {}) words=\"{}\"{} ;;\n", command->get_name(), all_names(options),
                         takes_files(*command) ? " files=yes" : "");
    if (const std::string values = first_words(*command); !values.empty()) {
      first += fmt::format("    {}:2) COMPREPLY=($(compgen -W \"{}\" -- \"$word\")) ;;\n", command->get_name(), values);
    }
    for (const OptionWords& option : options) {
      if (option.takes_value) {
        files += fmt::format("    {}:{}) {} ;;\n", command->get_name(),
                             joined(option.names, fmt::format(" | {}:", command->get_name())), bash_value(option));
      }
    }
  }
  return fmt::format(R"(# bash completion for sparkx: source <(sparkx completion bash)
_sparkx() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD - 1]}} command=${{COMP_WORDS[1]}} words files
  COMPREPLY=()
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W "{} {}" -- "$word"))
    return
  fi
  case $command:$previous in
{}  esac
  case $command in
{}    *) return ;;
  esac
  case $word in
    -*) COMPREPLY=($(compgen -W "$words" -- "$word")); return ;;
    *) [ -n "$files" ] && compopt -o filenames && COMPREPLY=($(compgen -f -- "$word")) ;;
  esac
  case $command:$COMP_CWORD in
{}  esac
}}
complete -F _sparkx sparkx
)",
                     joined(names, " "), all_names(options_of(app)), files, cases, first);
}

std::string zsh_script(const CLI::App& app) {
  std::string commands;
  std::string cases;
  for (const CLI::App* command : commands_of(app)) {
    commands += fmt::format("    '{}:{}'\n", command->get_name(), shell_quoted(command->get_description(), ":"));
    cases += fmt::format("    {})\n      _arguments", command->get_name());
    for (const OptionWords& option : options_of(*command)) {
      const std::string description = shell_quoted(option.description, "[]:");
      const std::string action = zsh_value(option);
      for (const std::string& name : option.names) {
        cases += fmt::format(" \\\n        '*{}[{}]{}'", name, description, action);
      }
    }
    if (takes_files(*command)) cases += " \\\n        '*:file:_files'";
    if (const std::string values = first_words(*command); !values.empty()) {
      cases += fmt::format(" \\\n        '1:what:({})'", values);
    }
    cases += "\n      ;;\n";
  }
  std::string general;
  for (const OptionWords& option : options_of(app)) {
    for (const std::string& name : option.names) {
      general += fmt::format("    '{}:{}'\n", name, shell_quoted(option.description, ":"));
    }
  }
  return fmt::format(R"(#compdef sparkx
# zsh completion for sparkx: sparkx completion zsh > a file named _sparkx in a folder of fpath
_sparkx() {{
  local -a commands=(
{}{}  )
  if (( CURRENT == 2 )); then
    _describe command commands
    return
  fi
  local command=$words[2]
  shift words
  (( CURRENT-- ))
  case $command in
{}  esac
}}
if [[ $funcstack[1] == _sparkx ]]; then
  _sparkx "$@"
else
  compdef _sparkx sparkx
fi
)",
                     commands, general, cases);
}

std::string fish_options(const CLI::App& app, const std::string& condition) {
  std::string lines;
  for (const OptionWords& option : options_of(app)) {
    std::string names;
    for (const std::string& name : option.names) {
      names += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
    }
    lines += fmt::format("complete -c sparkx -n '{}'{}{} -d '{}'\n", condition, names, fish_value(option),
                         shell_quoted(option.description));
  }
  return lines;
}

std::string fish_script(const CLI::App& app) {
  std::string text = "# fish completion for sparkx: sparkx completion fish | source\ncomplete -c sparkx -f\n";
  text += fish_options(app, "__fish_use_subcommand");
  for (const CLI::App* command : commands_of(app)) {
    const std::string& name = command->get_name();
    text += fmt::format("complete -c sparkx -n '__fish_use_subcommand' -a {} -d '{}'\n", name,
                        shell_quoted(command->get_description()));
    text += fish_options(*command, "__fish_seen_subcommand_from " + name);
    if (takes_files(*command)) text += fmt::format("complete -c sparkx -n '__fish_seen_subcommand_from {}' -F\n", name);
    if (const std::string values = first_words(*command); !values.empty()) {
      text += fmt::format("complete -c sparkx -n '__fish_seen_subcommand_from {}' -a '{}'\n", name, values);
    }
  }
  return text;
}

int print_completion(const CLI::App& app, const std::string& shell) {
  write_output(shell == "bash" ? bash_script(app) : shell == "zsh" ? zsh_script(app) : fish_script(app));
  return kDone;
}

}  // namespace

void add_completion(CLI::App& app, Run& run) {
  CLI::App* command = app.add_subcommand("completion", "Print a completion script for a shell");
  command->footer(kExamples);
  const auto shell = std::make_shared<std::string>();
  command->add_option("shell", *shell, "bash, zsh or fish")
      ->required()
      ->check(one_of({"bash", "zsh", "fish"}))
      ->type_name("SHELL");
  command->callback([&app, &run, shell] { run = [&app, shell] { return print_completion(app, *shell); }; });
}

}  // namespace sparkx::cli
