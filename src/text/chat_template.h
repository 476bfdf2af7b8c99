// Chat templates and what they are given (docs/chat-format.md): messages in OpenAI's form, the tools, the special
// tokens of the checkpoint.
//
// What comes out knows which stretches the template wrote. Only those may become added tokens, so that a marker inside
// a message stays text.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/json.h"
#include "text/jinja/template.h"
#include "text/tokenizer.h"

namespace sparkx {

struct ChatTemplate {
  std::string name;    // "default", "tool_use"
  std::string source;  // Jinja
  std::string where;   // how messages call it: "DIR/chat_template.jinja"
};

// What the files of a checkpoint say about its chat format.
class ChatFormat {
 public:
  // tokenizer_config.json: `chat_template`, a string or a list of named ones, and the special tokens. Throws
  // Error{corrupt}; `what` names the file.
  void read_config(std::string_view text, std::string_view what);
  // chat_template.jinja, which comes before what tokenizer_config.json says.
  void set_template(std::string source, std::string where);

  // What other containers say: a template by name, and a special token, such as "bos_token", as text.
  void add_template(std::string name, std::string source, std::string where);
  void set_special_token(std::string name, std::string text);

  // The template for a request: a list's "tool_use" when there are tools, else its "default". Throws Error{not_found}
  // when there is none.
  const ChatTemplate& choose(bool has_tools) const;
  // Throws Error{not_found} with the names that there are.
  const ChatTemplate& named(std::string_view name) const;

  // All of them, in the order of the files.
  const std::vector<ChatTemplate>& templates() const { return templates_; }

  // bos_token, eos_token, pad_token and unk_token as strings, those that there are.
  const json::Object& special_tokens() const { return special_tokens_; }

 private:
  std::vector<ChatTemplate> templates_;
  json::Object special_tokens_;
};

// The variables of a render.
struct ChatContext {
  json::Value messages;   // an array
  json::Value tools;      // an array or null
  json::Value documents;  // an array or null
  bool add_generation_prompt = true;
  json::Object special_tokens;  // text of the checkpoint: counts as the template's own
  json::Object variables;       // come before all others
};

// Checks OpenAI messages and brings them into the form that templates expect: arguments of tool calls as a mapping in
// their order, `reasoning` as `reasoning_content`, the role `developer` as `system`. All else is passed on as it is.
// Throws Error{invalid_argument} for what is no message, and Error{unsupported} for content that is no text.
json::Value prepare_messages(const json::Value& messages);

// Throws jinja::TemplateError.
jinja::Rendered render_chat(const ChatTemplate& chat_template, const ChatContext& context, const jinja::Clock& clock);

// The ids of a rendered conversation. An added token is recognized only when the template wrote all of it;
// `parse_special_content` recognizes them anywhere.
std::vector<TokenId> encode_chat(const Tokenizer& tokenizer, const jinja::Rendered& rendered,
                                 bool parse_special_content);

}  // namespace sparkx
