// The public side of conversations: requests in JSON, renders, and the parser of generated text.

#include "sparkx/chat.hpp"

#include <fmt/core.h>

#include <utility>

#include "core/error.h"
#include "core/json.h"
#include "engine/chat.h"
#include "text/output_parser.h"

namespace sparkx {
namespace {

constexpr json::ParseOptions kLastKeyWins = {.refuse_duplicate_keys = false};

void expect(bool condition, std::string_view name, const json::Value& value, const char* expected) {
  if (!condition) {
    throw_error(ErrorCode::invalid_argument, "{} is of type {}; expected {}", name, value.type_name(), expected);
  }
}

// An array, or null for no text.
json::Value parse_list(const std::string& text, const char* name) {
  if (text.empty()) return nullptr;
  json::Value list = json::parse(text, name, kLastKeyWins);
  expect(list.is_array() || list.is_null(), name, list, "a list");
  return list;
}

void check_tools(const json::Value& tools) {
  if (tools.is_null()) return;
  expect(tools.is_array(), "tools", tools, "a list");
  for (std::size_t i = 0; i < tools.as_array().size(); ++i) {
    const json::Value* function = tools.as_array()[i].find("function");
    if (function == nullptr || !function->is_object()) {
      throw_error(ErrorCode::invalid_argument,
                  "tools[{}] has no object \"function\"; expected {{\"type\": \"function\", \"function\": {{…}}}}", i);
    }
  }
}

jinja::Clock clock_of(const std::optional<std::tm>& now) {
  if (!now) return jinja::local_time_now;
  return [time = *now] { return jinja::LocalTime{time, 0}; };
}

}  // namespace

jinja::Rendered render_request(const ChatRequest& request, const ChatFormat& format) {
  ChatContext context;
  context.messages = json::parse(request.messages, "messages", kLastKeyWins);
  expect(context.messages.is_array(), "messages", context.messages, "a list");
  context.tools = parse_list(request.tools, "tools");
  context.documents = parse_list(request.documents, "documents");
  if (!request.messages_as_they_are) {
    context.messages = prepare_messages(context.messages);
    check_tools(context.tools);
  }
  context.add_generation_prompt = request.add_generation_prompt;
  context.special_tokens = format.special_tokens();
  if (request.enable_thinking) context.variables.emplace_back("enable_thinking", *request.enable_thinking);
  for (const std::string& text : request.variables) {
    const json::Value variables = json::parse(text, "variables", kLastKeyWins);
    expect(variables.is_object(), "variables", variables, "an object");
    for (const json::Member& member : variables.as_object()) context.variables.push_back(member);
  }

  const ChatTemplate given{"", request.template_text.value_or(""),
                           request.template_name.empty() ? "chat template" : request.template_name};
  const ChatTemplate& chosen = request.template_text            ? given
                               : !request.template_name.empty() ? format.named(request.template_name)
                                                                : format.choose(!context.tools.is_null());
  return render_chat(chosen, context, clock_of(request.now));
}

std::string render_chat(const ChatRequest& request) {
  return render_request(request, ChatFormat()).text();
}

ChatRequest parse_chat_request(std::string_view text, std::string_view what) {
  const json::Value root = json::parse(text, what, kLastKeyWins);
  ChatRequest request;
  if (root.is_array()) {
    request.messages = json::print(root);
    return request;
  }
  expect(root.is_object(), what, root, "a list of messages, or an object with \"messages\"");
  bool has_messages = false;
  json::Object variables;
  for (const auto& [key, value] : root.as_object()) {
    const std::string name = fmt::format("{}: {}", what, key);
    if (key == "messages") {
      expect(value.is_array(), name, value, "a list");
      request.messages = json::print(value);
      has_messages = true;
    } else if (key == "tools" || key == "documents") {
      expect(value.is_array() || value.is_null(), name, value, "a list");
      (key == "tools" ? request.tools : request.documents) = json::print(value);
    } else if (key == "add_generation_prompt") {
      expect(value.is_bool(), name, value, "true or false");
      request.add_generation_prompt = value.as_bool();
    } else if (key == "chat_template_kwargs") {
      expect(value.is_object() || value.is_null(), name, value, "an object");
      if (value.is_object()) variables.insert(variables.end(), value.as_object().begin(), value.as_object().end());
    } else {
      variables.emplace_back(key, value);
    }
  }
  if (!variables.empty()) request.variables.push_back(json::print(std::move(variables)));
  if (!has_messages) throw_error(ErrorCode::invalid_argument, "{}: there is no member \"messages\"", what);
  return request;
}

std::string parse_tools(std::string_view text, std::string_view what) {
  const json::Value root = json::parse(text, what, kLastKeyWins);
  const json::Value* tools = root.is_object() ? root.find("tools") : &root;
  if (tools == nullptr) throw_error(ErrorCode::invalid_argument, "{}: there is no member \"tools\"", what);
  expect(tools->is_array(), what, *tools, "a list of tools");
  check_tools(*tools);
  return json::print(*tools);
}

std::string messages_json(const std::vector<ChatMessage>& messages) {
  json::Array list;
  for (const ChatMessage& message : messages) {
    list.push_back(json::Object{{"role", message.role}, {"content", message.content}});
  }
  return json::print(list);
}

struct MessageParser::Impl {
  Impl(const json::Value& tools, bool thinking) : parser(tools, thinking) {}

  std::vector<MessageEvent> taken(std::vector<MessageEvent> events) {
    for (const MessageEvent& event : events) builder.add(event);
    return events;
  }

  OutputParser parser;
  MessageBuilder builder;
};

MessageParser::MessageParser(std::string_view tools, bool prompt_ended_in_think)
    : impl_(std::make_unique<Impl>(parse_list(std::string(tools), "tools"), prompt_ended_in_think)) {}
MessageParser::~MessageParser() = default;
MessageParser::MessageParser(MessageParser&&) noexcept = default;
MessageParser& MessageParser::operator=(MessageParser&&) noexcept = default;

std::vector<MessageEvent> MessageParser::feed(std::string_view text) {
  std::vector<MessageEvent> events;
  impl_->parser.feed(text, events);
  return impl_->taken(std::move(events));
}

std::vector<MessageEvent> MessageParser::finish() {
  std::vector<MessageEvent> events;
  impl_->parser.finish(events);
  return impl_->taken(std::move(events));
}

std::string MessageParser::message() const {
  return json::print(impl_->builder.message());
}

std::size_t MessageParser::ignored_bytes() const {
  return impl_->parser.ignored_bytes();
}

}  // namespace sparkx
