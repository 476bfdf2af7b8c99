// The options of commands that use a chat template.
#pragma once

#include <CLI/CLI.hpp>

#include <string>

#include "sparkx/chat.hpp"

namespace sparkx::cli {

struct ChatArguments {
  std::string chat_template;  // a file, or the name of one of the checkpoint's; empty: the checkpoint's own
  std::string tools;          // a file
  std::string kwargs;         // JSON
  bool parse_special_content = false;
};

void add_tools_option(CLI::App& command, std::string& tools);
void add_chat_arguments(CLI::App& command, ChatArguments& arguments, const std::string& group);

// The tools of a file as JSON; empty without one.
std::string read_tools(const std::string& file);

// Puts what the options but --tools say into the request. True when --chat-template names a file.
bool apply_chat_arguments(const ChatArguments& arguments, ChatRequest& request);

}  // namespace sparkx::cli
