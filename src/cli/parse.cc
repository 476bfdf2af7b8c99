// sparkx parse: generated text in, the OpenAI message that it is out.

#include <fmt/core.h>

#include <string>
#include <vector>

#include "chat_arguments.h"
#include "commands.h"
#include "console.h"
#include "json_text.h"

namespace sparkx::cli {
namespace {

constexpr const char* kExamples = R"(Examples:
  sparkx parse --tools tools.json < generated.txt
  sparkx parse --thinking --tools tools.json --stream < generated.txt)";

struct ParseArguments {
  std::string tools;
  bool thinking = false;
  bool stream = false;
};

// Events as the deltas that OpenAI streams, one a line.
class Deltas {
 public:
  std::string lines(const std::vector<MessageEvent>& events) {
    std::string out;
    for (const MessageEvent& event : events) {
      if (event.kind != MessageEvent::Kind::call_end) out += delta(event) + '\n';  // OpenAI has no such delta
    }
    return out;
  }

 private:
  std::string delta(const MessageEvent& event) {
    const std::string text = json_string(event.text);
    switch (event.kind) {
      case MessageEvent::Kind::reasoning:
        return fmt::format("{{\"reasoning_content\": {}}}", text);
      case MessageEvent::Kind::content:
        return fmt::format("{{\"content\": {}}}", text);
      case MessageEvent::Kind::call_begin:
        ++call_;
        return fmt::format(
            "{{\"tool_calls\": [{{\"index\": {0}, \"id\": \"call_{0}\", \"type\": \"function\", \"function\": "
            "{{\"name\": {1}, \"arguments\": \"\"}}}}]}}",
            call_, text);
      default:
        return fmt::format("{{\"tool_calls\": [{{\"index\": {}, \"function\": {{\"arguments\": {}}}}}]}}", call_, text);
    }
  }

  int call_ = -1;
};

int parse(const ParseArguments& a) {
  MessageParser parser(read_tools(a.tools), a.thinking);
  if (!a.stream) {
    parser.feed(read_input());
    parser.finish();
    write_output(parser.message() + '\n');
    return kDone;
  }
  Deltas deltas;
  write_output("{\"role\": \"assistant\"}\n");
  while (const std::optional<std::string> piece = read_input_piece()) write_output(deltas.lines(parser.feed(*piece)));
  write_output(deltas.lines(parser.finish()));
  return kDone;
}

}  // namespace

void add_parse(CLI::App& app, Run& run) {
  CLI::App* command = app.add_subcommand("parse", "Read generated text from standard input as a message");
  command->footer(kExamples);
  const auto a = std::make_shared<ParseArguments>();
  add_tools_option(*command, a->tools);
  command->add_flag("--thinking", a->thinking, "The prompt ended in <think>: the text begins with reasoning");
  command->add_flag("--stream", a->stream, "Print deltas while the text comes, one JSON object a line");
  command->callback([&run, a] { run = [a] { return parse(*a); }; });
}

}  // namespace sparkx::cli
