// sparkx logits: the logits of every position, into a file.

#include <algorithm>
#include <string>
#include <vector>

#include "commands.h"
#include "console.h"
#include "model_arguments.h"
#include "values.h"

namespace sparkx::cli {
namespace {

constexpr const char* kExamples = R"(Examples:
  sparkx logits -m DIR --tokens "0, 130973, 53" -o logits.safetensors
  sparkx logits -m DIR --tokens golden.safetensors --chunk 7 --threads 2 -o logits.safetensors)";

constexpr std::int64_t kDefaultChunk = 64;  // tokens a step: 32 MiB of logits with a vocabulary of 131072

struct LogitsArguments {
  ModelArguments model;
  std::string tokens;
  std::int64_t chunk = kDefaultChunk;
  std::string output;
};

bool is_list(const std::string& text) {
  return text.find_first_not_of("0123456789, \t\r\n") == std::string::npos;
}

int logits(LogitsArguments a) {
  const std::vector<TokenId> tokens = is_list(a.tokens) ? parse_token_list(a.tokens) : read_token_file(a.tokens);
  if (tokens.empty()) throw Error(ErrorCode::invalid_argument, "there are no tokens");
  // Numbers to compare with others: the cache must not round them, and the context is as long as the tokens need.
  if (!a.model.kv_dtype) a.model.kv_dtype = "float32";
  ModelOptions options;
  options.tokenizer = false;
  options.context = static_cast<std::int64_t>(tokens.size());
  LanguageModel model = load_model(a.model, options);
  ProgressBar bar("logits");
  model.write_logits(tokens, a.output, a.chunk, [&](std::int64_t done, std::int64_t total) {
    bar.update(static_cast<std::uint64_t>(done), static_cast<std::uint64_t>(total));
    return !interrupted();
  });
  return kDone;
}

}  // namespace

void add_logits(CLI::App& app, Run& run) {
  CLI::App* command = app.add_subcommand("logits", "Write the logits of every position to a safetensors file");
  command->footer(kExamples);
  const auto a = std::make_shared<LogitsArguments>();
  command
      ->add_option("--tokens", a->tokens,
                   "Token ids with commas or blanks between, or a file: such a text, or safetensors with `tokens`")
      ->required()
      ->type_name("LIST|FILE");
  command->add_option("-o,--output", a->output, "The file to write: `logits`, float32 [tokens, vocabulary]")
      ->required()
      ->type_name("FILE");
  command->add_option("--chunk", a->chunk, "Tokens of one step; the result does not depend on it")
      ->transform(whole_number(1))
      ->type_name("N")
      ->capture_default_str();
  add_model_arguments(*command, a->model);
  command->get_option("--kv-dtype")->description("Type of the cache of keys and values; by default float32");
  command->get_option("--ctx")->description("Positions of the context; by default as many as there are tokens");
  command->callback([&run, a] { run = [a] { return logits(*a); }; });
}

}  // namespace sparkx::cli
