#include "chat_arguments.h"

#include <filesystem>

#include "console.h"

namespace sparkx::cli {

void add_tools_option(CLI::App& command, std::string& tools) {
  command.add_option("--tools", tools, "File with the OpenAI tools that may be called: a JSON list")->type_name("FILE");
}

void add_chat_arguments(CLI::App& command, ChatArguments& arguments, const std::string& group) {
  add_tools_option(command, arguments.tools);
  command.get_option("--tools")->group(group);
  command
      .add_option("--chat-template", arguments.chat_template,
                  "Jinja template in place of the model's: a file, or one of the model's by its name")
      ->type_name("FILE|NAME")
      ->group(group);
  command
      .add_option("--kwargs", arguments.kwargs,
                  "Further variables of the template as a JSON object, such as {\"enable_thinking\": false}")
      ->type_name("JSON")
      ->group(group);
  command
      .add_flag("--parse-special-content", arguments.parse_special_content,
                "Markers inside messages become tokens (unsafe with text of others)")
      ->group(group);
}

std::string read_tools(const std::string& file) {
  return file.empty() ? std::string() : parse_tools(read_file(file), file);
}

bool apply_chat_arguments(const ChatArguments& arguments, ChatRequest& request) {
  if (!arguments.kwargs.empty()) request.variables.push_back(arguments.kwargs);
  request.parse_special_content = arguments.parse_special_content;
  request.template_name = arguments.chat_template;
  std::error_code ignored;
  if (arguments.chat_template.empty() || !std::filesystem::exists(arguments.chat_template, ignored)) return false;
  request.template_text = read_file(arguments.chat_template);
  return true;
}

}  // namespace sparkx::cli
