// Conversations: OpenAI messages in, the model's prompt out; generated text in, an OpenAI message out
// (docs/chat-format.md). JSON passes as UTF-8 text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <ctime>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sparkx {

// What a chat template is asked to render.
struct ChatRequest {
  std::string messages;                     // a JSON array of OpenAI message objects
  std::string tools = {};                   // a JSON array of OpenAI tools; empty: none
  std::string documents = {};               // a JSON array; empty: none
  std::vector<std::string> variables = {};  // JSON objects of further variables (`chat_template_kwargs`): the last wins
  std::optional<bool> enable_thinking = {};  // absent: the template decides
  bool add_generation_prompt = true;         // the opening of the assistant's next turn

  // In place of the checkpoint's template: its text, and what messages call it. A name alone chooses among the
  // templates of a checkpoint that has several.
  std::optional<std::string> template_text = {};
  std::string template_name = {};

  bool parse_special_content = false;  // markers inside messages become tokens, as upstream has it
  bool messages_as_they_are = false;   // neither checked nor brought into the form that templates expect
  std::optional<std::tm> now = {};     // what strftime_now sees; absent: the local time
};

// A conversation in JSON: an array of messages, or an object with `messages` and what goes with them: `tools`,
// `documents`, `add_generation_prompt`, `chat_template_kwargs`; other members are variables of the template, too.
// `what` names the text in messages. Throws Error{corrupt} when it is no JSON, Error{invalid_argument} for another
// form.
ChatRequest parse_chat_request(std::string_view json, std::string_view what);

// A list of tools in JSON: an array, or an object with `tools`. Throws as parse_chat_request does.
std::string parse_tools(std::string_view json, std::string_view what);

// A message that is text alone.
struct ChatMessage {
  std::string role = "user";
  std::string content = {};
};

std::string messages_json(const std::vector<ChatMessage>& messages);

// Renders template_text without a checkpoint: bos_token and its like are undefined. Throws Error{invalid_argument} for
// messages or a template that cannot be used, with the place in it, and Error{unsupported} for content other than text.
std::string render_chat(const ChatRequest& request);

// What a generated text turns out to be, piece by piece.
struct MessageEvent {
  enum class Kind : std::uint8_t {
    reasoning,   // a piece of it; an empty one begins reasoning that may stay empty
    content,     // a piece of it
    call_begin,  // text: the function's name
    arguments,   // a piece of the JSON object that the arguments are
    call_end,
  };
  Kind kind;
  std::string text;
  bool operator==(const MessageEvent&) const = default;
};

// Reads generated text as a message while it comes in (docs/model.md, Reading an answer). The events put together are
// the same however the text is cut; each has whole characters. Held back are only a possible beginning of a marker,
// blanks that may turn out to touch a call, the name of a call, and argument values that may not be strings.
class MessageParser {
 public:
  // `tools`: those of the request, as JSON; empty when there are none or none may be called, then all markup is
  // content. Throws Error{corrupt} or Error{invalid_argument} when that is no list.
  MessageParser(std::string_view tools, bool prompt_ended_in_think);
  ~MessageParser();
  MessageParser(MessageParser&&) noexcept;
  MessageParser& operator=(MessageParser&&) noexcept;

  std::vector<MessageEvent> feed(std::string_view text);
  std::vector<MessageEvent> finish();  // the text has ended: an open call is closed

  // All so far, as JSON: {"role", "reasoning_content", "content", "tool_calls": [{"id": "call_0", "type": "function",
  // "function": {"name", "arguments"}}]}. Content and reasoning are null when there are none, tool_calls is left out.
  std::string message() const;

  // Bytes inside calls, outside their tags and no blanks, that belonged to nothing.
  std::size_t ignored_bytes() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sparkx
