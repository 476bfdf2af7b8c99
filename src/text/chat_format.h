// The chat format of Spark-X2.5 for plain messages, written directly (docs/model.md, Chat format).
//
// The result says which parts are markup and which were written by someone else, so that a marker inside a message
// stays plain text: encode it with Tokenizer::encode(stretches).
#pragma once

#include <span>
#include <string>
#include <vector>

#include "sparkx/chat.hpp"
#include "text/tokenizer.h"

namespace sparkx {

// A rendered conversation. `stretches()` refers to its text.
class ChatPrompt {
 public:
  void append(std::string_view text, bool trusted);
  const std::string& text() const { return text_; }
  std::vector<Stretch> stretches() const;

 private:
  struct Part {
    std::size_t size;
    bool trusted;
  };
  std::string text_;
  std::vector<Part> parts_;
};

// Throws Error{invalid_argument} when there are no messages.
ChatPrompt render_chat(std::span<const ChatMessage> messages, const ChatOptions& options = {});

}  // namespace sparkx
