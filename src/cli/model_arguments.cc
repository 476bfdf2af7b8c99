#include "model_arguments.h"

#include <fmt/core.h>

#include <charconv>
#include <limits>
#include <utility>

#include "console.h"
#include "values.h"

namespace sparkx::cli {
namespace {

std::string mebibytes(std::size_t bytes) {
  return fmt::format("{:.1f} MiB", static_cast<double>(bytes) / 1048576.0);
}

// "0,2-5": CPUs by their numbers. Nothing for what is no such list.
std::optional<std::vector<int>> parse_cpus(std::string_view text) {
  constexpr int kMost = 1024;  // as many threads as there can be
  std::vector<int> cpus;
  const char* at = text.data();
  const char* const end = at + text.size();
  const auto number = [&](int& value) {
    const auto [next, error] = std::from_chars(at, end, value);
    at = next;
    return error == std::errc() && value >= 0;
  };
  for (;;) {
    int first = 0;
    if (!number(first)) return std::nullopt;
    int last = first;
    if (at != end && *at == '-' && (++at, !number(last) || last < first)) return std::nullopt;
    if (last - first >= kMost - static_cast<int>(cpus.size())) return std::nullopt;
    for (int cpu = first; cpu <= last; ++cpu) cpus.push_back(cpu);
    if (at == end) return cpus;
    if (*at++ != ',') return std::nullopt;
  }
}

}  // namespace

void add_model_option(CLI::App& command, std::string& model, FetchArguments& fetch, const std::string& alias) {
  command
      .add_option("-m,--model" + (alias.empty() ? "" : "," + alias), model,
                  "Folder or GGUF file of the model, or its name as in owner/name or owner/name:Q4_K_M, to be found "
                  "here or fetched; without it the built-in model is used")
      ->type_name("PATH|NAME");
  add_fetch_arguments(command, fetch);
}

void add_precision_arguments(CLI::App& command, ModelArguments& arguments) {
  command.add_option("--dtype", arguments.dtype, "Type of the weights in memory; auto keeps the file's")
      ->check(one_of({"auto", "float32", "bfloat16", "bfloat16-fast", "float16"}))
      ->type_name("TYPE")
      ->capture_default_str();
  CLI::Option* quantize =
      command.add_option("--quantize", arguments.quantize, "Quantize the weights while loading, as MLX does")
          ->check(one_of({"none", "2bit", "3bit", "4bit", "5bit", "6bit", "8bit", "mxfp4", "mxfp8", "nvfp4"}))
          ->type_name("MODE")
          ->capture_default_str();
  command
      .add_option(
          "--group-size", arguments.group_size,
          "Columns that share a scale when quantizing; by default 64, of mxfp4 and mxfp8 always 32, of nvfp4 16")
      ->check(one_of({"16", "32", "64", "128"}))
      ->needs(quantize)
      ->type_name("N");
  command
      .add_flag("--head-quantize,!--no-head-quantize", arguments.head_quantize,
                "Quantize the head too, which is the embedding of a tied model; so by default")
      ->needs(quantize);
  command
      .add_option("--activations", arguments.activations,
                  "How activations meet quantized weights: int8 is fast, float32 is exact")
      ->check(one_of({"int8", "float32"}))
      ->type_name("TYPE")
      ->capture_default_str();
  command
      .add_option("--kv-dtype", arguments.kv_dtype,
                  "Type of the cache of keys and values; float32 with --dtype or --activations float32, else bfloat16")
      ->check(one_of({"float32", "bfloat16", "int8"}))
      ->type_name("TYPE");
}

void add_threads_argument(CLI::App& command, std::optional<int>& threads) {
  command.add_option("--threads", threads, "Number of threads; by default one for each physical core")
      ->transform(whole_number(1, std::numeric_limits<int>::max()))
      ->type_name("N");
}

void add_model_arguments(CLI::App& command, ModelArguments& arguments) {
  add_model_option(command, arguments.model, arguments.fetch);
  add_precision_arguments(command, arguments);
  command.add_option("--device", arguments.device, "Where to compute")
      ->check(one_of({"cpu"}))
      ->type_name("DEVICE")
      ->capture_default_str();
  add_threads_argument(command, arguments.threads);
  command
      .add_option("--cpu-affinity", arguments.cpu_affinity,
                  "CPUs that the threads stay on, such as 0,2-5; as many threads by default")
      ->check(CLI::Validator(
          [](std::string& text) {
            return parse_cpus(text) ? std::string() : fmt::format("\"{}\" is no list of CPUs such as 0,2-5", text);
          },
          ""))
      ->type_name("LIST");
  command.add_flag("--mlock", arguments.mlock, "Keep weights and cache in memory, whatever else the system needs");
  command
      .add_option("--ctx", arguments.context,
                  "Positions of the context; by default the model's, at most 32768 and what fits into memory")
      ->transform(whole_number(1))
      ->type_name("N");
  command.add_flag("--verbose", arguments.verbose, "Say what is used, and how long it took");
}

void add_evaluation_arguments(CLI::App& command, EvaluationOptions& options) {
  command.add_option("--context,--ctx", options.context, "Tokens of a window; by default 2048, or what the model can")
      ->transform(whole_number(1))
      ->type_name("N");
  command.add_option("--stride", options.stride, "Tokens from one window to the next; by default half of the context")
      ->transform(whole_number(1))
      ->type_name("N");
}

ModelOptions model_options(const ModelArguments& arguments, ModelOptions options) {
  options.dtype = arguments.dtype;
  options.quantize = arguments.quantize;
  options.group_size = arguments.group_size;
  options.head_quantize = arguments.head_quantize;
  options.activations = arguments.activations;
  if (arguments.kv_dtype) options.kv_dtype = *arguments.kv_dtype;
  options.threads = arguments.threads;
  if (!arguments.cpu_affinity.empty()) options.cpu_affinity = parse_cpus(arguments.cpu_affinity).value();
  options.lock_memory = arguments.mlock;
  if (arguments.context) options.context = arguments.context;
  return options;
}

LanguageModel load_model(const ModelArguments& arguments, ModelOptions options, const std::string& shape) {
  options = model_options(arguments, std::move(options));
  const std::filesystem::path path = model_path(arguments.model, arguments.fetch);
  ProgressBar bar("loading");
  options.progress = [&bar](std::uint64_t done, std::uint64_t total) {
    bar.update(done, total);
    return !interrupted();
  };
  const bool builtin = arguments.model.empty() && shape.empty();
  if (builtin) print_note("no model given (-m): using the built-in demonstration model");
  LanguageModel model = !shape.empty() ? LanguageModel::synthetic(shape, options)
                        : builtin      ? LanguageModel::builtin(options)
                                       : LanguageModel::load(path, options);
  bar.clear();
  for (const std::string& warning : model.warnings()) print_warning(warning);
  if (arguments.verbose) {
    const ModelInfo& info = model.info();
    print_line(fmt::format("model: {}, {} of {} weights, {} activations, {} cache, context {} of {}, {}",
                           builtin         ? "built-in"
                           : shape.empty() ? arguments.model
                                           : shape,
                           mebibytes(info.weight_bytes), info.weights, info.activations, info.kv, info.context,
                           info.max_position_embeddings, info.device));
  }
  return model;
}

TextTokenizer load_tokenizer(const std::string& model, const FetchArguments& fetch) {
  return model.empty() ? TextTokenizer::builtin() : TextTokenizer::load(model_path(model, fetch));
}

}  // namespace sparkx::cli
