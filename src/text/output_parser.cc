#include "text/output_parser.h"

#include <algorithm>

#include "core/error.h"
#include "core/unicode.h"

namespace sparkx {
namespace {

constexpr std::string_view kThink = "<think>";
constexpr std::string_view kEndThink = "</think>";

// The tags of a call, by a letter for each.
constexpr std::pair<char, std::string_view> kTags[] = {
    {'C', "<tool_call>"}, {'c', "</tool_call>"}, {'K', "<arg_key>"}, {'k', "</arg_key>"},
    {'V', "<arg_value>"}, {'v', "</arg_value>"}, {'t', kEndThink},
};

std::string_view tag_text(char tag) {
  for (const auto& [letter, text] : kTags) {
    if (letter == tag) return text;
  }
  return {};
}

bool is_blank(char c) {
  return c == ' ' || (c >= '\t' && c <= '\r');
}
bool is_blank(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return is_blank(c); });
}

std::string_view trim(std::string_view text) {
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
  return text;
}

void emit(std::vector<MessageEvent>& events, MessageEvent::Kind kind, std::string_view text) {
  const bool joins = kind == MessageEvent::Kind::reasoning || kind == MessageEvent::Kind::content ||
                     kind == MessageEvent::Kind::arguments;
  if (joins && !events.empty() && events.back().kind == kind) {
    events.back().text += text;
  } else {
    events.push_back({kind, std::string(text)});
  }
}

// The characters between the quotes.
std::string escaped(std::string_view text) {
  const std::string quoted = json::print(text);
  return quoted.substr(1, quoted.size() - 2);
}

}  // namespace

// The next of the wanted tags in the buffer: `begin` is where it, or what may become one, begins.
struct OutputParser::Tag {
  char letter;  // 0: none yet
  std::size_t begin;
};

OutputParser::OutputParser(const json::Value& tools, bool thinking)
    : tools_(false), state_(thinking ? State::reasoning : State::start) {
  if (!tools.is_null() && !tools.is_array()) {
    throw_error(ErrorCode::invalid_argument, "tools must be a list, not {}", tools.type_name());
  }
  if (tools.is_null()) return;
  for (const json::Value& tool : tools.as_array()) {
    const json::Value* function = tool.find("function");
    if (function == nullptr) function = &tool;
    const json::Value* name = function->find("name");
    if (name == nullptr || !name->is_string()) continue;
    const json::Value* parameters = function->find("parameters");
    functions_.emplace(name->as_string(), parameters == nullptr ? json::Value() : *parameters);
  }
  tools_ = !tools.as_array().empty();
}

void OutputParser::feed(std::string_view text, Events& events) {
  if (state_ == State::reasoning && !reasoning_announced_) {
    reasoning_announced_ = true;
    emit(events, MessageEvent::Kind::reasoning, "");
  }
  std::string joined;
  if (!unfinished_.empty()) {
    joined = unfinished_ + std::string(text);
    text = joined;
  }
  const std::string_view whole = text.substr(0, text.size() - unfinished_utf8_size(text));
  const std::string rest(text.substr(whole.size()));
  if (is_valid_utf8(whole)) {
    take(whole, events);
  } else {
    take(replace_invalid_utf8(whole), events);
  }
  unfinished_ = rest;
}

void OutputParser::finish(Events& events) {
  feed("", events);
  if (!unfinished_.empty()) take(replace_invalid_utf8(unfinished_), events);
  unfinished_.clear();
  while (step(events, true)) {
  }
  switch (state_) {
    case State::start:
    case State::reasoning:
    case State::payload:
      break;
    case State::content:
      if (!behind_call_) emit(events, MessageEvent::Kind::content, blanks_);
      break;
    case State::name:
      if (trim(piece_).empty()) {
        reject_name(events);
      } else {
        begin_call(trim(piece_), events);
        end_call(events);
      }
      break;
    case State::string_value:
    case State::value:
      end_value(events);
      end_call(events);
      break;
    case State::between:
    case State::key:
    case State::before_value:
      end_call(events);
      break;
  }
  std::erase_if(events, [](const MessageEvent& event) {
    return event.kind == MessageEvent::Kind::content && event.text.empty();
  });
}

void OutputParser::take(std::string_view text, Events& events) {
  constexpr std::size_t kPiece = 4096;  // what stands behind a tag moves each time one is taken away
  for (std::size_t at = 0; at < text.size(); at += kPiece) {
    buffer_ += text.substr(at, kPiece);
    while (step(events, false)) {
    }
  }
}

// Understands one piece of the buffer; false when more text is needed.
bool OutputParser::step(Events& events, bool at_end) {
  if (buffer_.empty()) return false;
  if (state_ == State::start) return step_start(events, at_end);
  if (state_ == State::payload) return step_payload(events, at_end);
  if (state_ == State::content && !tools_) {
    emit(events, MessageEvent::Kind::content, buffer_);
    buffer_.clear();
    return false;
  }
  std::string_view wanted;
  switch (state_) {
    case State::reasoning:
      wanted = "t";
      break;
    case State::content:
      wanted = "C";
      break;
    case State::name:
    case State::between:
    case State::key:
    case State::before_value:
      wanted = "CcKkVv";
      break;
    default:
      wanted = "v";
  }
  const Tag tag = next_tag(wanted, at_end);
  const std::string text = buffer_.substr(0, tag.begin);
  buffer_.erase(0, tag.begin + tag_text(tag.letter).size());
  if (!text.empty()) on_text(text, events);
  if (state_ == State::payload) {
    // The text began a JSON payload: all of it is looked at there, the tag too.
    buffer_.insert(0, tag_text(tag.letter));
    buffer_.insert(0, piece_);
    piece_.clear();
    return true;
  }
  if (tag.letter != 0) on_tag(tag.letter, events);
  return tag.letter != 0;
}

bool OutputParser::step_start(Events& events, bool at_end) {
  if (!at_end && buffer_.size() < kThink.size() && kThink.starts_with(buffer_)) return false;
  if (buffer_.starts_with(kThink)) {
    buffer_.erase(0, kThink.size());
    state_ = State::reasoning;
    reasoning_announced_ = true;
    emit(events, MessageEvent::Kind::reasoning, "");
  } else {
    state_ = State::content;
  }
  return true;
}

OutputParser::Tag OutputParser::next_tag(std::string_view among, bool at_end) const {
  for (std::size_t at = buffer_.find('<'); at != std::string::npos; at = buffer_.find('<', at + 1)) {
    const std::string_view rest = std::string_view(buffer_).substr(at);
    for (char letter : among) {
      const std::string_view tag = tag_text(letter);
      if (rest.starts_with(tag)) return {letter, at};
      if (!at_end && rest.size() < tag.size() && tag.starts_with(rest)) return {0, at};
    }
  }
  return {0, buffer_.size()};
}

void OutputParser::on_text(std::string_view text, Events& events) {
  switch (state_) {
    case State::reasoning:
      emit(events, MessageEvent::Kind::reasoning, text);
      break;
    case State::content:
      content(text, events);
      break;
    case State::name:
      piece_ += text;
      if (trim(piece_).starts_with('{')) {
        state_ = State::payload;
        scanned_ = 0;
        in_string_ = escaped_ = false;
        first_end_ = 0;
      }
      break;
    case State::between:
    case State::before_value:
      ignored_bytes_ +=
          static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) { return !is_blank(c); }));
      break;
    case State::key:
    case State::value:
      piece_ += text;
      break;
    case State::string_value:
      emit(events, MessageEvent::Kind::arguments, escaped(text));
      break;
    case State::start:
    case State::payload:
      break;
  }
}

void OutputParser::on_tag(char tag, Events& events) {
  if (state_ == State::reasoning) {
    state_ = State::content;
    return;
  }
  if (state_ == State::content) {
    state_ = State::name;
    piece_.clear();
    return;
  }
  if (state_ == State::string_value || state_ == State::value) return end_value(events);
  if (state_ == State::name) {
    if (trim(piece_).empty()) {
      reject_name(events);
      buffer_.insert(0, tag_text(tag));  // content too, or the next call
      return;
    }
    begin_call(trim(piece_), events);
  }
  switch (tag) {
    case 'C':
      end_call(events);
      state_ = State::name;
      piece_.clear();
      break;
    case 'c':
      end_call(events);
      break;
    case 'K':
      if (state_ == State::key || state_ == State::before_value) ignored_bytes_ += piece_.size();
      state_ = State::key;
      piece_.clear();
      break;
    case 'k':
      if (state_ == State::key) {
        state_ = State::before_value;
      } else {
        ignored_bytes_ += tag_text(tag).size();
      }
      break;
    case 'V':
      if (state_ == State::key || state_ == State::before_value) {
        begin_value(events);
      } else {
        ignored_bytes_ += tag_text(tag).size();
      }
      break;
    default:
      ignored_bytes_ += tag_text(tag).size();
  }
}

void OutputParser::content(std::string_view text, Events& events) {
  if (stretch_is_blank_) {
    if (is_blank(text)) {
      blanks_ += text;
      return;
    }
    stretch_is_blank_ = false;
    emit(events, MessageEvent::Kind::content, blanks_);
    blanks_.clear();
  }
  emit(events, MessageEvent::Kind::content, text);
}

void OutputParser::reject_name(Events& events) {
  state_ = State::content;
  content(tag_text('C'), events);
  content(piece_, events);
  piece_.clear();
}

void OutputParser::begin_call(std::string_view name, Events& events) {
  blanks_.clear();
  name_ = name;
  has_arguments_ = false;
  state_ = State::between;
  emit(events, MessageEvent::Kind::call_begin, name_);
  piece_.clear();
}

void OutputParser::begin_value(Events& events) {
  key_ = trim(piece_);
  piece_.clear();
  const auto function = functions_.find(name_);
  types_ = function == functions_.end() ? ParameterTypes() : parameter_types(function->second, key_);
  emit(events, MessageEvent::Kind::arguments, (has_arguments_ ? ", " : "{") + json::print(key_) + ": ");
  has_arguments_ = true;
  state_ = types_.only_string() ? State::string_value : State::value;
  if (state_ == State::string_value) emit(events, MessageEvent::Kind::arguments, "\"");
}

void OutputParser::end_value(Events& events) {
  emit(events, MessageEvent::Kind::arguments,
       state_ == State::string_value ? std::string("\"") : argument_json(piece_, types_));
  piece_.clear();
  state_ = State::between;
}

void OutputParser::end_call(Events& events) {
  if (state_ == State::key || state_ == State::before_value) ignored_bytes_ += piece_.size();
  emit(events, MessageEvent::Kind::arguments, has_arguments_ ? "}" : "{}");
  emit(events, MessageEvent::Kind::call_end, "");
  piece_.clear();
  state_ = State::content;
  stretch_is_blank_ = true;
  behind_call_ = true;
}

// A call as JSON ends at the first closing tag outside its strings. When that never comes, the first one of all counts,
// and from then on quotes are not trusted: every text is gone through at most twice.
bool OutputParser::step_payload(Events& events, bool at_end) {
  const std::string_view open = tag_text('C'), close = tag_text('c');
  std::size_t end = std::string::npos;  // of the payload
  std::size_t behind = 0;
  while (scanned_ < buffer_.size()) {
    const char c = buffer_[scanned_];
    const std::string_view rest = std::string_view(buffer_).substr(scanned_);
    if (c == '<') {
      if (!at_end && rest.size() < close.size() && (close.starts_with(rest) || open.starts_with(rest))) break;
      if (rest.starts_with(close)) {
        if (!in_string_ || !trust_strings_) {
          end = scanned_;
          behind = scanned_ + close.size();
          break;
        }
        if (first_end_ == 0) first_end_ = scanned_ + close.size();
      } else if (rest.starts_with(open) && (!in_string_ || !trust_strings_)) {
        end = behind = scanned_;
        break;
      }
    }
    if (escaped_) {
      escaped_ = false;
    } else if (in_string_ && c == '\\') {
      escaped_ = true;
    } else if (c == '"') {
      in_string_ = !in_string_;
    }
    ++scanned_;
  }
  if (end == std::string::npos && !at_end) return false;
  const bool closed = end != std::string::npos && behind > end;
  if (closed && emit_payload(std::string_view(buffer_).substr(0, end), events)) {
    buffer_.erase(0, behind);
    return true;
  }
  // No call: markup and all are content.
  if (end == std::string::npos) {
    trust_strings_ = trust_strings_ && first_end_ == 0;
    behind = first_end_ == 0 ? buffer_.size() : first_end_;
  }
  const std::string text = buffer_.substr(0, behind), rest = buffer_.substr(behind);
  buffer_.clear();
  state_ = State::content;
  content(open, events);
  content(text, events);
  take(rest, events);
  return true;
}

bool OutputParser::emit_payload(std::string_view payload, Events& events) {
  json::Value call;
  try {
    call = json::parse(payload, "tool call", {.refuse_duplicate_keys = false});
  } catch (const Error&) {
    return false;
  }
  const json::Value* name = call.find("name");
  const json::Value* arguments = call.find("arguments");
  if (arguments == nullptr) arguments = call.find("parameters");
  if (name == nullptr || !name->is_string() || trim(name->as_string()).empty()) return false;
  json::Value object(nullptr);
  if (arguments != nullptr && arguments->is_object()) {
    object = *arguments;
  } else if (arguments != nullptr && arguments->is_string()) {
    try {
      object = json::parse(arguments->as_string(), "arguments", {.refuse_duplicate_keys = false});
    } catch (const Error&) {
      return false;
    }
    if (!object.is_object()) return false;
  } else if (arguments != nullptr && !arguments->is_null()) {
    return false;
  }
  begin_call(trim(name->as_string()), events);
  has_arguments_ = object.is_object() && !object.as_object().empty();
  if (has_arguments_) {
    std::string text = json::print(object);
    text.pop_back();  // end_call closes it
    emit(events, MessageEvent::Kind::arguments, text);
  }
  end_call(events);
  return true;
}

void MessageBuilder::add(const MessageEvent& event) {
  switch (event.kind) {
    case MessageEvent::Kind::reasoning:
      has_reasoning_ = true;
      reasoning_ += event.text;
      break;
    case MessageEvent::Kind::content:
      content_ += event.text;
      break;
    case MessageEvent::Kind::call_begin:
      calls_.push_back({event.text, ""});
      break;
    case MessageEvent::Kind::arguments:
      calls_.back().arguments += event.text;
      break;
    case MessageEvent::Kind::call_end:
      break;
  }
}

json::Value MessageBuilder::message() const {
  const auto text_or_null = [](bool there, const std::string& text) {
    json::Value value(nullptr);
    if (there) value = text;
    return value;
  };
  json::Object message = {{"role", "assistant"},
                          {"reasoning_content", text_or_null(has_reasoning_, reasoning_)},
                          {"content", text_or_null(!content_.empty(), content_)}};
  json::Array calls;
  for (std::size_t i = 0; i < calls_.size(); ++i) {
    const json::Object function = {{"name", calls_[i].name}, {"arguments", calls_[i].arguments}};
    json::Object call = {{"id", "call_" + std::to_string(i)}, {"type", "function"}, {"function", function}};
    calls.push_back(std::move(call));
  }
  if (!calls.empty()) message.emplace_back("tool_calls", std::move(calls));
  return message;
}

}  // namespace sparkx
