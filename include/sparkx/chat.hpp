// Conversations as plain data.
#pragma once

#include <string>

namespace sparkx {

enum class ChatRole { system, user, assistant };

struct ChatMessage {
  ChatRole role = ChatRole::user;
  std::string content = {};
  std::string reasoning = {};  // assistant only; empty: the turn opens with </think>
};

struct ChatOptions {
  bool enable_thinking = true;
  bool add_generation_prompt = true;  // the opening of the assistant's next turn
};

}  // namespace sparkx
