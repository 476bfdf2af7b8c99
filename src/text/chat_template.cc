#include "text/chat_template.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "core/error.h"

namespace sparkx {
namespace {

constexpr std::string_view kDefault = "default";
constexpr std::string_view kToolUse = "tool_use";

[[noreturn]] void refuse(const std::string& where, std::string_view name, const json::Value& value,
                         std::string_view expected) {
  throw_error(ErrorCode::invalid_argument, "{}: {} is of type {}; expected {}", where, name, value.type_name(),
              expected);
}

const std::string& template_text(const json::Value& value, std::string_view what) {
  if (!value.is_string()) {
    throw_error(ErrorCode::corrupt, "{}: chat_template is of type {}; expected a string or a list of named ones", what,
                value.type_name());
  }
  return value.as_string();
}

// A member that is there and says something.
const json::Value* given(const json::Value& object, std::string_view key) {
  const json::Value* value = object.find(key);
  return value != nullptr && !value->is_null() ? value : nullptr;
}

void check_content(const json::Value& content, const std::string& where) {
  if (content.is_string() || content.is_null()) return;
  if (!content.is_array()) refuse(where, "content", content, "a string, a list of parts, or null");
  const json::Array& parts = content.as_array();
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::string part = fmt::format("{}: content[{}]", where, i);
    const json::Value* type = parts[i].find("type");
    if (type == nullptr || !type->is_string()) {
      throw_error(ErrorCode::invalid_argument, "{} has no type; expected {{\"type\": \"text\", \"text\": …}}", part);
    }
    if (type->as_string() != "text") {
      throw_error(ErrorCode::unsupported, "{} is of type \"{}\"; sparkx reads parts of type \"text\" only", part,
                  type->as_string());
    }
    const json::Value* text = parts[i].find("text");
    if (text == nullptr || !text->is_string()) {
      throw_error(ErrorCode::invalid_argument, "{} has no text", part);
    }
  }
}

// OpenAI's clients send the arguments as JSON text; templates want the mapping.
json::Value arguments_mapping(const json::Value& arguments, const std::string& where) {
  if (arguments.is_object()) return arguments;
  if (arguments.is_null()) return json::Object();
  if (!arguments.is_string()) refuse(where, "arguments", arguments, "an object, or a string with its JSON");
  if (arguments.as_string().empty()) return json::Object();
  json::Value parsed;
  try {
    parsed = json::parse(arguments.as_string(), "arguments", {.refuse_duplicate_keys = false});
  } catch (const Error& error) {
    throw_error(ErrorCode::invalid_argument, "{}: the text of arguments is no JSON: {}", where, error.what());
  }
  if (!parsed.is_object()) refuse(where, "the JSON in arguments", parsed, "an object");
  return parsed;
}

json::Value prepare_call(const json::Value& call, const std::string& where) {
  if (!call.is_object()) throw_error(ErrorCode::invalid_argument, "{} is no object", where);
  if (const json::Value* type = given(call, "type");
      type != nullptr && !(type->is_string() && type->as_string() == "function")) {
    throw_error(ErrorCode::unsupported, "{}: type is {}; sparkx knows calls of type \"function\" only", where,
                json::print(*type));
  }
  const json::Value* function = call.find("function");
  if (function == nullptr || !function->is_object()) {
    throw_error(ErrorCode::invalid_argument, "{} has no object \"function\"", where);
  }
  if (const json::Value* name = function->find("name"); name == nullptr || !name->is_string()) {
    throw_error(ErrorCode::invalid_argument, "{}.function has no name", where);
  }
  json::Object prepared = call.as_object();
  for (auto& [key, value] : prepared) {
    if (key != "function") continue;
    for (auto& [name, member] : value.as_object()) {
      if (name == "arguments") member = arguments_mapping(member, where + ".function");
    }
  }
  return prepared;
}

json::Value prepare_calls(const json::Value& calls, const std::string& where) {
  if (calls.is_null()) return calls;
  if (!calls.is_array()) refuse(where, "tool_calls", calls, "a list");
  json::Array prepared;
  for (std::size_t i = 0; i < calls.as_array().size(); ++i) {
    prepared.push_back(prepare_call(calls.as_array()[i], fmt::format("{}.tool_calls[{}]", where, i)));
  }
  return prepared;
}

json::Value prepare_message(const json::Value& message, const std::string& where) {
  if (!message.is_object()) throw_error(ErrorCode::invalid_argument, "{} is no object", where);
  const json::Value* role = message.find("role");
  if (role == nullptr || !role->is_string()) {
    throw_error(ErrorCode::invalid_argument, "{} has no role", where);
  }
  for (const char* key : {"audio", "function_call"}) {
    if (given(message, key) != nullptr) {
      throw_error(ErrorCode::unsupported, "{}: sparkx does not read \"{}\"", where, key);
    }
  }
  for (const char* key : {"name", "tool_call_id", "reasoning_content", "reasoning"}) {
    if (const json::Value* value = given(message, key); value != nullptr && !value->is_string()) {
      refuse(where, key, *value, "a string");
    }
  }
  const bool has_reasoning = given(message, "reasoning_content") != nullptr;
  const bool rename_reasoning = !has_reasoning && given(message, "reasoning") != nullptr;
  json::Object prepared;
  for (const auto& [key, value] : message.as_object()) {
    if (key == "role" && value.as_string() == "developer") {
      prepared.emplace_back(key, "system");
    } else if (key == "content") {
      check_content(value, where);
      prepared.emplace_back(key, value);
    } else if (key == "tool_calls") {
      prepared.emplace_back(key, prepare_calls(value, where));
    } else if (key == "reasoning" && rename_reasoning) {
      prepared.emplace_back("reasoning_content", value);
    } else if (!(key == "reasoning_content" && rename_reasoning)) {
      prepared.emplace_back(key, value);
    }
  }
  return prepared;
}

void put(json::Object& object, const std::string& key, json::Value value) {
  const auto same = [&](const json::Member& member) { return member.first == key; };
  if (const auto found = std::find_if(object.begin(), object.end(), same); found != object.end()) {
    found->second = std::move(value);
  } else {
    object.emplace_back(key, std::move(value));
  }
}

}  // namespace

void ChatFormat::read_config(std::string_view text, std::string_view what) {
  const json::Value config = json::parse(text, what);
  if (!config.is_object()) {
    throw_error(ErrorCode::corrupt, "{}: the document is of type {}; expected an object", what, config.type_name());
  }
  for (const char* key : {"bos_token", "eos_token", "pad_token", "unk_token"}) {
    const json::Value* value = config.find(key);
    if (value != nullptr && value->is_object()) value = value->find("content");
    if (value != nullptr && value->is_string()) special_tokens_.emplace_back(key, *value);
  }
  const json::Value* found = given(config, "chat_template");
  if (found == nullptr) return;
  const std::string where = fmt::format("{}: chat_template", what);
  if (!found->is_array()) {
    templates_.push_back({std::string(kDefault), template_text(*found, what), where});
    return;
  }
  for (const json::Value& entry : found->as_array()) {
    const json::Value* name = entry.find("name");
    const json::Value* source = entry.find("template");
    if (name == nullptr || !name->is_string() || source == nullptr) {
      throw_error(ErrorCode::corrupt, "{}: an entry of chat_template lacks its name or template", what);
    }
    templates_.push_back({name->as_string(), template_text(*source, what), where + " " + name->as_string()});
  }
}

void ChatFormat::set_template(std::string source, std::string where) {
  templates_.clear();
  templates_.push_back({std::string(kDefault), std::move(source), std::move(where)});
}

void ChatFormat::add_template(std::string name, std::string source, std::string where) {
  templates_.push_back({std::move(name), std::move(source), std::move(where)});
}

void ChatFormat::set_special_token(std::string name, std::string text) {
  special_tokens_.emplace_back(std::move(name), std::move(text));
}

const ChatTemplate& ChatFormat::choose(bool has_tools) const {
  if (templates_.empty()) {
    throw_error(ErrorCode::not_found,
                "the checkpoint has no chat template (chat_template.jinja, or chat_template in tokenizer_config.json): "
                "give one with --chat-template FILE, or take the prompt as it is with --raw");
  }
  const auto is_named = [](std::string_view name) {
    return [name](const ChatTemplate& entry) { return entry.name == name; };
  };
  if (has_tools) {
    const auto found = std::find_if(templates_.begin(), templates_.end(), is_named(kToolUse));
    if (found != templates_.end()) return *found;
  }
  return named(kDefault);
}

const ChatTemplate& ChatFormat::named(std::string_view name) const {
  std::string names;
  for (const ChatTemplate& entry : templates_) {
    if (entry.name == name) return entry;
    names += (names.empty() ? "" : ", ") + entry.name;
  }
  throw_error(ErrorCode::not_found, "there is no chat template \"{}\": no such file, and the checkpoint has {}", name,
              names.empty() ? "none" : names);
}

json::Value prepare_messages(const json::Value& messages) {
  if (!messages.is_array()) {
    throw_error(ErrorCode::invalid_argument, "messages is of type {}; expected a list", messages.type_name());
  }
  json::Array prepared;
  for (std::size_t i = 0; i < messages.as_array().size(); ++i) {
    prepared.push_back(prepare_message(messages.as_array()[i], fmt::format("messages[{}]", i)));
  }
  return prepared;
}

jinja::Rendered render_chat(const ChatTemplate& chat_template, const ChatContext& context, const jinja::Clock& clock) {
  jinja::RenderOptions options;
  options.clock = clock;
  json::Object variables = context.special_tokens;
  for (const auto& [name, value] : context.special_tokens) {
    const auto same = [&, &key = name](const json::Member& member) { return member.first == key; };
    if (std::none_of(context.variables.begin(), context.variables.end(), same)) options.trusted.push_back(name);
  }
  variables.emplace_back("messages", context.messages);
  variables.emplace_back("tools", context.tools);
  variables.emplace_back("documents", context.documents);
  variables.emplace_back("add_generation_prompt", context.add_generation_prompt);
  for (const auto& [name, value] : context.variables) put(variables, name, value);
  return jinja::Template::parse(chat_template.source, chat_template.where).render(std::move(variables), options);
}

std::vector<TokenId> encode_chat(const Tokenizer& tokenizer, const jinja::Rendered& rendered,
                                 bool parse_special_content) {
  std::vector<Stretch> stretches;
  stretches.reserve(rendered.stretches.size());
  for (const jinja::Stretch& stretch : rendered.stretches) {
    stretches.push_back({stretch.text, stretch.from_template || parse_special_content});
  }
  return tokenizer.encode(stretches);
}

}  // namespace sparkx
