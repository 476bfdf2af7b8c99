// Any tokenizer.json: refused with sparkx::Error, or a tokenizer that encodes and decodes.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "text/detokenizer.h"
#include "text/tokenizer.h"
#include "text/tokenizer_json.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  try {
    sparkx::TokenizerDescription description = sparkx::parse_tokenizer_json(input, "input");
    const sparkx::Tokenizer tokenizer(std::move(description));
    for (const sparkx::AddedTokens added : {sparkx::AddedTokens::all, sparkx::AddedTokens::none}) {
      const std::vector<sparkx::TokenId> ids = tokenizer.encode(input.substr(0, 4096), added);
      sparkx::Detokenizer detokenizer(tokenizer);
      std::string streamed;
      for (const sparkx::TokenId id : ids) streamed += detokenizer.append(id);
      if (streamed + detokenizer.finish() != tokenizer.decode(ids)) std::abort();
    }
  } catch (const sparkx::Error&) {
  }
  return 0;
}
