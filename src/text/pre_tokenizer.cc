#include "text/pre_tokenizer.h"

#include "core/error.h"
#include "core/printable.h"

namespace sparkx {
namespace {

constexpr std::string_view kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

Regex compile(std::string_view pattern, std::string_view what, std::size_t step) {
  try {
    return Regex(pattern, RegexSyntax::oniguruma);
  } catch (const Error& error) {
    throw_error(error.code(), "{}: pre_tokenizer, step {}: {}", what, step + 1, without_controls(error.what()));
  }
}

}  // namespace

PreTokenizer::PreTokenizer(std::span<const PreTokenizerStep> steps, std::string_view what) {
  for (std::size_t i = 0; i < steps.size(); ++i) {
    switch (steps[i].kind) {
      case PreTokenizerStep::Kind::split:
        steps_.push_back(
            {.kind = Step::Kind::split, .pattern = compile(steps[i].pattern, what, i), .keep = steps[i].keep});
        break;
      case PreTokenizerStep::Kind::digits:
        steps_.push_back({.kind = Step::Kind::digits, .pattern = {}, .individual_digits = steps[i].individual_digits});
        numeric_ = CodePointTable(numeric_set());
        break;
      case PreTokenizerStep::Kind::byte_level:
        if (i + 1 != steps.size()) {
          throw_error(ErrorCode::unsupported, "{}: pre_tokenizer: a step after ByteLevel is not supported", what);
        }
        if (steps[i].prefix_space) steps_.push_back({.kind = Step::Kind::prefix_space, .pattern = {}});
        if (steps[i].with_pattern)
          steps_.push_back({.kind = Step::Kind::split, .pattern = compile(kGpt2Pattern, what, i)});
        break;
    }
  }
}

}  // namespace sparkx
