// engine/chat: any request renders with the built-in model's template, or is refused; the ids decode to the text, and
// are those of the text when markers in messages count.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "expect.h"
#include "sparkx/sparkx.hpp"

namespace {

using namespace sparkx;
using fuzz::require;

const TextTokenizer& tokenizer() {
  static const TextTokenizer kTokenizer = TextTokenizer::builtin();
  return kTokenizer;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    ChatRequest request = parse_chat_request(text, "request");
    const std::string rendered = tokenizer().render_chat(request);
    require(tokenizer().decode(tokenizer().encode_chat(request)) == rendered);
    request.parse_special_content = true;
    require(tokenizer().encode_chat(request) == tokenizer().encode(rendered));
  } catch (const Error&) {
  }
  return 0;
}
