#include "text/chat_format.h"

#include <string_view>

#include "core/error.h"

namespace sparkx {
namespace {

constexpr std::string_view kStart = "<｜start▁of▁sentence｜>";
constexpr std::string_view kEnd = "<｜end▁of▁sentence｜>";
constexpr std::string_view kDefaultSystem = "you are a helpful assistant.";

}  // namespace

void ChatPrompt::append(std::string_view text, bool trusted) {
  if (text.empty()) return;
  text_ += text;
  parts_.push_back({text.size(), trusted});
}

std::vector<Stretch> ChatPrompt::stretches() const {
  std::vector<Stretch> stretches;
  std::string_view rest = text_;
  for (const Part& part : parts_) {
    stretches.push_back({rest.substr(0, part.size), part.trusted});
    rest.remove_prefix(part.size);
  }
  return stretches;
}

ChatPrompt render_chat(std::span<const ChatMessage> messages, const ChatOptions& options) {
  if (messages.empty()) throw_error(ErrorCode::invalid_argument, "a conversation needs at least one message");
  ChatPrompt prompt;
  const auto markup = [&](std::string_view text) { prompt.append(text, true); };
  const auto content = [&](std::string_view text) { prompt.append(text, false); };

  markup(kStart);
  markup("<|System|>\n");
  markup(kDefaultSystem);
  if (messages[0].role == ChatRole::system && !messages[0].content.empty()) {
    markup("\n\n");
    content(messages[0].content);
  }
  markup(kEnd);
  for (const ChatMessage& message : messages) {
    if (message.role == ChatRole::system && &message == messages.data()) continue;  // is in the opening block
    markup(kStart);
    switch (message.role) {
      case ChatRole::system:
        markup("<|System|>\n");
        break;
      case ChatRole::user:
        markup("<|User|>");
        break;
      case ChatRole::assistant:
        markup("<|Bot|>");
        if (!message.reasoning.empty()) {
          markup("<think>");
          content(message.reasoning);
        }
        markup("</think>");
        break;
    }
    content(message.content);
    markup(kEnd);
  }
  if (options.add_generation_prompt) {
    markup(kStart);
    markup("<|Bot|>");
    markup(options.enable_thinking ? "<think>" : "</think>");
  }
  return prompt;
}

}  // namespace sparkx
