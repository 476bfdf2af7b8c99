// Reads what a model generates as a message (docs/model.md, Chat format): reasoning, content, tool calls.
//
// Works on a stream cut anywhere: the events put together are the same however the text is cut. Held back are only a
// possible beginning of a marker, blanks that may turn out to touch a call, the name of a call, and argument values
// whose type is not known to be a string.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/json.h"
#include "sparkx/chat.hpp"

namespace sparkx {

// Which JSON types a parameter may have.
struct ParameterTypes {
  bool declared = false;  // otherwise anything goes
  bool string = false, integer = false, number = false, boolean = false, array = false, object = false, null = false;
  bool only_string() const {
    return declared && string && !integer && !number && !boolean && !array && !object && !null;
  }
};

class OutputParser {
 public:
  // `tools` is the request's list of OpenAI tools; null or empty when there are none, or none may be called: then all
  // markup is content. `thinking`: the prompt ended in <think>. Throws Error{invalid_argument} when `tools` is no list.
  OutputParser(const json::Value& tools, bool thinking);

  // Appends the events of the next piece of text. Bytes that are no UTF-8 become U+FFFD.
  void feed(std::string_view text, std::vector<MessageEvent>& events);
  // The text is at its end: an open call is closed.
  void finish(std::vector<MessageEvent>& events);

  // Bytes inside calls, outside their tags and no blanks, that belonged to nothing.
  std::size_t ignored_bytes() const { return ignored_bytes_; }

 private:
  enum class State : std::uint8_t {
    start,  // perhaps <think>
    reasoning,
    content,
    name,     // behind <tool_call>
    payload,  // a call as JSON
    between,  // inside a call, outside its tags
    key,
    before_value,  // behind </arg_key>
    string_value,
    value,
  };

  using Events = std::vector<MessageEvent>;
  struct Tag;

  void take(std::string_view text, Events& events);
  bool step(Events& events, bool at_end);
  bool step_start(Events& events, bool at_end);
  bool step_payload(Events& events, bool at_end);
  Tag next_tag(std::string_view among, bool at_end) const;
  void on_text(std::string_view text, Events& events);
  void on_tag(char tag, Events& events);
  void content(std::string_view text, Events& events);
  void begin_call(std::string_view name, Events& events);
  void begin_value(Events& events);
  void end_value(Events& events);
  void end_call(Events& events);
  void reject_name(Events& events);
  bool emit_payload(std::string_view payload, Events& events);

  std::map<std::string, json::Value, std::less<>> functions_;  // name → parameters
  bool tools_;
  State state_;
  bool reasoning_announced_ = false;
  std::string unfinished_;  // the beginning of a character
  std::string buffer_;      // not yet understood
  std::string blanks_;      // of a stretch of content that has nothing else so far
  bool stretch_is_blank_ = true;
  bool behind_call_ = false;  // the stretch began at the end of a call
  std::string piece_;         // the name, key or value being read
  std::string name_;
  std::string key_;
  ParameterTypes types_;  // of the value being read
  bool has_arguments_ = false;
  std::size_t ignored_bytes_ = 0;
  // payload
  std::size_t scanned_ = 0;  // of buffer_
  bool in_string_ = false;
  bool escaped_ = false;
  std::size_t first_end_ = 0;  // of a closing tag that stood inside a string; 0 when there was none
  bool trust_strings_ = true;
};

// Puts events together.
class MessageBuilder {
 public:
  void add(const MessageEvent& event);

  // {"role": "assistant", "reasoning_content", "content", "tool_calls": [{"id": "call_0", "type": "function",
  // "function":
  // {"name", "arguments"}}]}: content and reasoning are null when there are none, tool_calls is left out.
  json::Value message() const;

 private:
  struct CallText {
    std::string name;
    std::string arguments;
  };
  bool has_reasoning_ = false;
  std::string reasoning_;
  std::string content_;
  std::vector<CallText> calls_;
};

// The types that a function's parameter may have; `parameters` is its JSON Schema.
ParameterTypes parameter_types(const json::Value& parameters, std::string_view name);
// The argument as JSON, by the rules of docs/model.md.
std::string argument_json(std::string_view text, const ParameterTypes& types);

}  // namespace sparkx
