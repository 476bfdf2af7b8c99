// sparkx compare: how far one model is from another, weight by weight and in what they predict.

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "commands.h"
#include "console.h"
#include "json_text.h"
#include "model_arguments.h"
#include "sparkx/compare.hpp"
#include "values.h"

namespace sparkx::cli {
namespace {

constexpr const char* kExamples = R"(Examples:
  sparkx compare DIR DIR-4bit                       weights and predictions, on a text that is built in
  sparkx compare DIR FILE.gguf text.txt --logits    what they predict on a text of your own
  sparkx compare DIR DIR --logits --quantize 4bit   what quantizing the second while loading would cost
  sparkx compare DIR DIR-4bit --max-kl 0.05         for scripts: status 1 when they are farther apart

The first model is the reference, in any format, and so is the second. KL is the Kullback-Leibler divergence of the
second model's predictions from the first one's, in nats a token: 0 where both say the same.)";

struct CompareArguments {
  std::string reference;
  std::string other;
  std::string file;
  ModelArguments model;
  EvaluationOptions options;
  std::optional<double> max_divergence;
  bool tensors = false;
  bool logits = false;
  bool json = false;
};

// The predictions of two models on a text.
struct Predictions {
  LogitsComparison result;
  std::string text;  // its name
};

CheckpointDifference compare_tensors(const CompareArguments& a) {
  ProgressBar bar("weights");
  CompareOptions options;
  options.threads = a.model.threads;
  options.progress = [&bar](std::uint64_t done, std::uint64_t total) {
    bar.update(done, total);
    return !interrupted();
  };
  return compare_checkpoints(a.reference, a.other, options);
}

void check_same_tokenizer(const TextTokenizer& reference, const TextTokenizer& other) {
  const std::string difference = reference.difference(other);
  if (difference.empty()) return;
  throw Error(ErrorCode::invalid_argument,
              fmt::format("the models have different tokenizers, so that their predictions cannot be compared: {}; "
                          "--tensors compares the weights alone",
                          difference));
}

Predictions compare_predictions(CompareArguments a) {
  Predictions predictions;
  predictions.text = a.file.empty() ? "the built-in text" : a.file;
  const std::string text = a.file.empty() ? std::string(comparison_text()) : read_file(a.file);
  ModelOptions options;
  options.context = a.options.context;
  std::optional<TextTokenizer> tokenizer;
  options.on_tokenizer = [&tokenizer](const TextTokenizer& found) { tokenizer = found; };
  ModelArguments reference_arguments = a.model;
  reference_arguments.model = a.reference;
  reference_arguments.quantize = "none";
  LanguageModel reference = load_model(reference_arguments, options);
  const std::vector<TokenId> tokens = reference.tokenizer().encode(text);
  options.on_tokenizer = [&](const TextTokenizer& found) {
    check_same_tokenizer(reference.tokenizer(), found);
    if (found.encode(text) != tokens) {
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("the models' tokenizers have the same tokens, but cut {} differently", predictions.text));
    }
  };
  a.model.model = a.other;
  LanguageModel other = load_model(a.model, options);
  ProgressBar bar("predictions");
  a.options.progress = [&bar](std::int64_t done, std::int64_t total) {
    bar.update(static_cast<std::uint64_t>(done), static_cast<std::uint64_t>(total));
    return !interrupted();
  };
  predictions.result = reference.compare_logits(other, tokens, a.options);
  return predictions;
}

// ---- as JSON

std::string json_tensors(const CheckpointDifference& d) {
  std::string out = fmt::format(R"({{"relative_rms":{},"largest":{},"configuration":[)", json_number(d.relative_rms),
                                json_number(d.largest));
  for (const std::string& field : d.configuration) {
    out += fmt::format("{}{}", out.back() == '[' ? "" : ",", json_string(field));
  }
  out += R"(],"tensors":[)";
  for (const TensorDifference& t : d.tensors) {
    std::string shape;
    for (const std::int64_t size : t.shape) shape += fmt::format("{}{}", shape.empty() ? "" : ",", size);
    out += fmt::format(R"({}{{"name":{},"shape":[{}],"reference":{},"other":{},"relative_rms":{},"largest":{}}})",
                       out.back() == '[' ? "" : ",", json_string(t.name), shape, json_string(t.reference_type),
                       json_string(t.other_type), json_number(t.relative_rms), json_number(t.largest));
  }
  return out + "]}";
}

std::string json_perplexity(const PerplexityResult& r) {
  return fmt::format(R"({{"perplexity":{},"standard_error":{},"nats_per_token":{}}})", json_number(r.perplexity),
                     json_number(r.standard_error), json_number(r.surprise.mean));
}

std::string json_predictions(const Predictions& p) {
  const LogitsComparison& r = p.result;
  return fmt::format(
      R"({{"text":{},"tokens":{},"context":{},"stride":{},"kl":{},"kl_standard_error":{},"kl_median":{},"kl_largest":{},)"
      R"("same_top_token":{},"reference":{},"other":{}}})",
      json_string(p.text), r.reference.tokens, r.reference.context, r.reference.stride, json_number(r.divergence.mean),
      json_number(r.divergence.standard_error), json_number(r.median_divergence), json_number(r.largest_divergence),
      json_number(r.same_top_token), json_perplexity(r.reference), json_perplexity(r.other));
}

// ---- for a person

// "0", or four digits of something small.
std::string error_text(double value) {
  return value == 0 ? "0" : fmt::format("{:.2e}", value);
}

std::string tensors_text(const CheckpointDifference& d) {
  std::size_t name = 5, types = 9;
  const auto types_of = [](const TensorDifference& t) {
    return t.reference_type == t.other_type ? t.other_type : t.reference_type + " / " + t.other_type;
  };
  for (const TensorDifference& t : d.tensors) {
    name = std::max(name, t.name.size());
    types = std::max(types, types_of(t).size());
  }
  std::string out = fmt::format("{:<{}}  {:>9}  {:>9}  {}\n", "weights", name, "rel. RMS", "largest", "stored as");
  for (const TensorDifference& t : d.tensors) {
    out += fmt::format("{:<{}}  {:>9}  {:>9}  {}\n", t.name, name, error_text(t.relative_rms), error_text(t.largest),
                       types_of(t));
  }
  out += fmt::format("{:<{}}  {:>9}  {:>9}\n", "all", name, error_text(d.relative_rms), error_text(d.largest));
  for (const std::string& field : d.configuration) out += fmt::format("config differs: {}\n", field);
  return out;
}

std::string predictions_text(const Predictions& p) {
  const LogitsComparison& r = p.result;
  std::string out = fmt::format("predictions on {}, {} tokens\n", p.text, r.reference.tokens);
  out += fmt::format("KL           {:.6f} ± {:.6f} nats a token, median {:.6f}, largest {:.4f}\n", r.divergence.mean,
                     r.divergence.standard_error, r.median_divergence, r.largest_divergence);
  out += fmt::format("same top     {:.2f} %\n", r.same_top_token * 100);
  const double change = (r.other.perplexity / r.reference.perplexity - 1) * 100;
  out += fmt::format("perplexity   {:.4f} ± {:.4f} and {:.4f} ± {:.4f} ({:+.2f} %)\n", r.reference.perplexity,
                     r.reference.standard_error, r.other.perplexity, r.other.standard_error, change);
  return out;
}

int compare(CompareArguments a) {
  if (a.tensors && a.max_divergence) throw UsageError{"--max-kl is about predictions, which --tensors leaves out"};
  if (a.tensors && !a.file.empty()) throw UsageError{"a text is for predictions, which --tensors leaves out"};
  a.reference = model_path(a.reference, a.model.fetch).string();
  a.other = model_path(a.other, a.model.fetch).string();
  std::optional<CheckpointDifference> tensors;
  std::optional<Predictions> predictions;
  if (!a.logits) tensors = compare_tensors(a);
  if (!a.json && tensors) write_output(tensors_text(*tensors));
  if (!a.tensors) predictions = compare_predictions(a);
  if (!a.json && predictions) write_output((tensors ? "\n" : "") + predictions_text(*predictions));
  if (a.json) {
    write_output(fmt::format("{{\"weights\":{},\"predictions\":{}}}\n", tensors ? json_tensors(*tensors) : "null",
                             predictions ? json_predictions(*predictions) : "null"));
  }
  if (!a.max_divergence || predictions->result.divergence.mean <= *a.max_divergence) return kDone;
  print_error(fmt::format("the divergence {:.6f} is above {}", predictions->result.divergence.mean, *a.max_divergence));
  return kFailed;
}

}  // namespace

void add_compare(CLI::App& app, Run& run) {
  CLI::App* command = app.add_subcommand("compare", "Show how far one model is from another");
  command->footer(kExamples);
  const auto a = std::make_shared<CompareArguments>();
  command->add_option("reference", a->reference, "Folder, GGUF file or name of the reference")
      ->required()
      ->type_name("PATH|NAME");
  command->add_option("other", a->other, "… of the model to compare with it")->required()->type_name("PATH|NAME");
  command->add_option("file", a->file, "A text; without it one that is built in")->type_name("FILE");
  CLI::Option* tensors = command->add_flag("--tensors", a->tensors, "Compare the weights only");
  command->add_flag("--logits", a->logits, "Compare the predictions only")->excludes(tensors);
  command->add_option("--max-kl", a->max_divergence, "Fail when the divergence is larger")
      ->transform(number_of(0))
      ->type_name("X");
  add_fetch_arguments(*command, a->model.fetch);
  add_evaluation_arguments(*command, a->options);
  command->add_flag("--json", a->json, "Print one JSON document");
  add_precision_arguments(*command, a->model);
  command->get_option("--quantize")->description("Quantize the second model while loading, as MLX does");
  add_threads_argument(*command, a->model.threads);
  command->callback([&run, a] { run = [a] { return compare(*a); }; });
}

}  // namespace sparkx::cli
