// text/output_parser: any text in any cuts gives the same message, and its arguments are JSON objects.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "core/json.h"
#include "expect.h"
#include "text/output_parser.h"

namespace {

using namespace sparkx;
using fuzz::require;

const json::Value& tools() {
  static const json::Value kTools = json::parse(
      R"([{"type": "function", "function": {"name": "f", "parameters": {"properties": {"s": {"type": "string"}, "i":
      {"type": "integer"}, "u": {"type": ["number", "string", "null"]}, "o": {"type": "object"}}}}}])",
      "tools");
  return kTools;
}

json::Value parse(std::string_view text, bool thinking, std::size_t piece) {
  OutputParser parser(tools(), thinking);
  MessageBuilder builder;
  std::vector<MessageEvent> events;
  for (std::size_t at = 0; at < text.size(); at += piece) parser.feed(text.substr(at, piece), events);
  parser.finish(events);
  for (const MessageEvent& event : events) builder.add(event);
  return builder.message();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  const bool thinking = (data[0] & 1) != 0;
  const json::Value whole = parse(text, thinking, size);
  require(parse(text, thinking, 1 + data[0] % 13) == whole);
  if (const json::Value* calls = whole.find("tool_calls")) {
    for (const json::Value& call : calls->as_array()) {
      const std::string& arguments = call.find("function")->find("arguments")->as_string();
      require(json::parse(arguments, "arguments", {.refuse_duplicate_keys = false}).is_object());
    }
  }
  return 0;
}
