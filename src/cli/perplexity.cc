// sparkx perplexity: how well a model predicts a text.

#include <fmt/core.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "commands.h"
#include "console.h"
#include "json_text.h"
#include "model_arguments.h"
#include "values.h"

namespace sparkx::cli {
namespace {

constexpr const char* kExamples = R"(Examples:
  sparkx perplexity -m DIR text.txt
  sparkx perplexity -m DIR text.txt --quantize 4bit                what quantizing costs
  sparkx perplexity -m DIR text.txt --context 4096 --stride 4096   faster: windows that do not overlap

The text is taken as it is: no chat template, no marker in front. It is read in windows of --context tokens, one every
--stride tokens; every token but the first of the text counts once. Compare perplexities only of models with the same
tokenizer, on the same text, with the same context and stride.)";

struct PerplexityArguments {
  ModelArguments model;
  std::string file;
  EvaluationOptions options;
  bool no_added_tokens = false;
  bool json = false;
};

int perplexity(PerplexityArguments a) {
  const std::string text = read_file(a.file);
  ModelOptions options;
  options.context = a.options.context;
  std::vector<TokenId> tokens;
  options.on_tokenizer = [&](const TextTokenizer& tokenizer) { tokens = tokenizer.encode(text, !a.no_added_tokens); };
  LanguageModel model = load_model(a.model, options);
  ProgressBar bar("perplexity");
  a.options.progress = [&bar](std::int64_t done, std::int64_t total) {
    bar.update(static_cast<std::uint64_t>(done), static_cast<std::uint64_t>(total));
    return !interrupted();
  };
  const auto begin = std::chrono::steady_clock::now();
  const PerplexityResult r = model.perplexity(tokens, a.options);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  bar.clear();
  if (a.json) {
    write_output(fmt::format(R"({{"perplexity":{},"standard_error":{},"nats_per_token":{},"tokens":{},"windows":{},)"
                             R"("context":{},"stride":{},"seconds":{}}})"
                             "\n",
                             json_number(r.perplexity), json_number(r.standard_error), json_number(r.surprise.mean),
                             r.tokens, r.windows, r.context, r.stride, json_number(seconds)));
  } else {
    write_output(fmt::format("perplexity {:.4f} ± {:.4f} ({} tokens)\n", r.perplexity, r.standard_error, r.tokens));
  }
  if (a.model.verbose) {
    print_line(
        fmt::format("{} windows of {} tokens, one every {}, in {:.1f} s", r.windows, r.context, r.stride, seconds));
  }
  return kDone;
}

}  // namespace

void add_perplexity(CLI::App& app, Run& run) {
  CLI::App* command = app.add_subcommand("perplexity", "Measure how well a model predicts a text");
  command->footer(kExamples);
  const auto a = std::make_shared<PerplexityArguments>();
  command->add_option("file", a->file, "The text")->required()->type_name("FILE");
  add_model_arguments(*command, a->model);
  command->remove_option(command->get_option("--ctx"));
  add_evaluation_arguments(*command, a->options);
  command->add_flag("--no-added-tokens", a->no_added_tokens, "Markers such as <think> are text like any other");
  command->add_flag("--json", a->json, "Print one JSON document");
  command->callback([&run, a] { run = [a] { return perplexity(*a); }; });
}

}  // namespace sparkx::cli
