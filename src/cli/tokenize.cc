// sparkx tokenize: text to token ids, and back.

#include <fmt/core.h>

#include <string>
#include <vector>

#include "commands.h"
#include "console.h"
#include "json_text.h"
#include "model_arguments.h"

namespace sparkx::cli {
namespace {

constexpr const char* kExamples = R"(Examples:
  sparkx tokenize "53乘以42"
  sparkx tokenize -m DIR --pieces < text.txt
  sparkx tokenize -m DIR --decode 0 130973 53)";

struct TokenizeArguments {
  std::string model;
  FetchArguments fetch;
  std::vector<std::string> words;  // the text, or the ids
  bool pieces = false;
  bool no_added_tokens = false;
  bool decode = false;
};

int decode(const TokenizeArguments& a, const TextTokenizer& tokenizer) {
  std::string list;
  for (const std::string& word : a.words) list += word + ' ';
  std::string text = tokenizer.decode(parse_token_list(a.words.empty() ? read_input() : list));
  if (output_is_terminal() && !text.ends_with('\n')) text += '\n';  // else exactly the text
  write_output(text);
  return kDone;
}

int tokenize(const TokenizeArguments& a) {
  if (!a.decode && a.words.size() > 1) {
    throw UsageError{fmt::format("the text must be one argument, in quotes: found {}", a.words.size())};
  }
  if (a.words.empty() && input_is_terminal()) {
    throw UsageError{"there is nothing to read: give it as an argument, or pipe it in"};
  }
  const TextTokenizer tokenizer = load_tokenizer(a.model, a.fetch);
  if (a.decode) return decode(a, tokenizer);

  std::string out;
  for (TokenId id : tokenizer.encode(a.words.empty() ? read_input() : a.words[0], !a.no_added_tokens)) {
    if (a.pieces) {
      out += json_string(tokenizer.decode(std::span(&id, 1))) + '\n';
    } else {
      out += fmt::format("{}{}", out.empty() ? "" : " ", id);
    }
  }
  if (!a.pieces) out += '\n';
  write_output(out);
  return kDone;
}

}  // namespace

void add_tokenize(CLI::App& app, Run& run) {
  CLI::App* command = app.add_subcommand("tokenize", "Turn text into token ids, and back");
  command->footer(kExamples);
  const auto a = std::make_shared<TokenizeArguments>();
  command->add_option("text", a->words, "The text, or ids with --decode; without it standard input, to the last byte")
      ->type_name("TEXT");
  add_model_option(*command, a->model, a->fetch);
  CLI::Option* pieces =
      command->add_flag("--pieces", a->pieces, "Print each token's text as a JSON string, one a line");
  CLI::Option* no_added =
      command->add_flag("--no-added-tokens", a->no_added_tokens, "Markers such as <think> are text like any other");
  command->add_flag("--decode", a->decode, "Turn token ids back into text")->excludes(pieces)->excludes(no_added);
  command->callback([&run, a] { run = [a] { return tokenize(*a); }; });
}

}  // namespace sparkx::cli
