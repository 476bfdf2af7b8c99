// sparkx render: a conversation in, the prompt that a chat template makes of it out.

#include <fmt/core.h>

#include <ctime>
#include <optional>
#include <string>
#include <vector>

#include "chat_arguments.h"
#include "commands.h"
#include "console.h"
#include "model_arguments.h"

namespace sparkx::cli {
namespace {

constexpr const char* kExamples = R"(Examples:
  sparkx render --messages chat.json
  sparkx render -m DIR --messages chat.json --tools tools.json --kwargs '{"enable_thinking": false}'
  sparkx render --messages chat.json --chat-template chat_template.jinja --now 2026-01-31
  sparkx render -m DIR --messages chat.json --tokens)";

struct RenderArguments {
  std::string model;
  FetchArguments fetch;
  std::string messages;
  ChatArguments chat;
  bool add_generation_prompt = false;
  bool no_generation_prompt = false;
  std::string now;
  bool tokens = false;
};

// A date, or a date and a time.
std::optional<std::tm> parse_time(const std::string& text) {
  for (const char* format :
       {"%Y-%m-%d", "%Y-%m-%dT%H:%M", "%Y-%m-%d %H:%M", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M:%S"}) {
    std::tm time = {};
    const char* end = ::strptime(text.c_str(), format, &time);
    if (end == nullptr || *end != '\0') continue;
    std::tm normal = time;
    ::timegm(&normal);
    if (normal.tm_mday != time.tm_mday || normal.tm_sec != time.tm_sec) return std::nullopt;  // February 30
    normal.tm_isdst = -1;
    return normal;
  }
  return std::nullopt;
}

std::string check_time(const std::string& text) {
  return parse_time(text) ? "" : fmt::format("\"{}\" is no time such as 2026-01-31 or 2026-01-31T23:59:59", text);
}

int render(const RenderArguments& a) {
  ChatRequest request = parse_chat_request(read_file(a.messages), a.messages);
  if (!a.chat.tools.empty()) request.tools = read_tools(a.chat.tools);
  const bool own_template = apply_chat_arguments(a.chat, request);
  request.messages_as_they_are = own_template;
  if (a.add_generation_prompt) request.add_generation_prompt = true;
  if (a.no_generation_prompt) request.add_generation_prompt = false;
  if (!a.now.empty()) request.now = parse_time(a.now);

  if (own_template && a.model.empty() && !a.tokens) {
    write_output(render_chat(request));
    return kDone;
  }
  const TextTokenizer tokenizer = load_tokenizer(a.model, a.fetch);
  if (!a.tokens) {
    write_output(tokenizer.render_chat(request));
    return kDone;
  }
  std::string out;
  for (TokenId id : tokenizer.encode_chat(request)) out += fmt::format("{}{}", out.empty() ? "" : " ", id);
  write_output(out + '\n');
  return kDone;
}

}  // namespace

void add_render(CLI::App& app, Run& run) {
  CLI::App* command = app.add_subcommand("render", "Show the prompt that a conversation becomes");
  command->footer(kExamples);
  const auto a = std::make_shared<RenderArguments>();
  command
      ->add_option("--messages", a->messages,
                   "File with OpenAI messages: a JSON list, or an object with \"messages\" and \"tools\"")
      ->required()
      ->type_name("FILE");
  add_model_option(*command, a->model, a->fetch);
  add_chat_arguments(*command, a->chat, "Options");
  CLI::Option* open = command->add_flag("--add-generation-prompt", a->add_generation_prompt,
                                        "Open the answer; the default, unless the file says otherwise");
  command->add_flag("--no-generation-prompt", a->no_generation_prompt, "Do not open the answer")->excludes(open);
  command->add_option("--now", a->now, "The time that the template's strftime_now sees; by default the local time")
      ->check(check_time)
      ->type_name("TIME");
  command->add_flag("--tokens", a->tokens, "Print token ids, not text");
  command->callback([&run, a] { run = [a] { return render(*a); }; });
}

}  // namespace sparkx::cli
