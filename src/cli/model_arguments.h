// The options that every command which runs a model has.
#pragma once

#include <CLI/CLI.hpp>

#include <cstdint>
#include <optional>
#include <string>

#include "fetch_arguments.h"
#include "sparkx/sparkx.hpp"

namespace sparkx::cli {

struct ModelArguments {
  std::string model;  // empty: the built-in model
  std::string dtype = "auto";
  std::string quantize = "none";
  std::optional<int> group_size;
  bool head_quantize = true;
  std::string activations = "int8";
  std::optional<std::string> kv_dtype;
  std::string device = "cpu";
  std::optional<int> threads;
  std::string cpu_affinity;
  bool mlock = false;
  std::optional<std::int64_t> context;
  bool verbose = false;
  FetchArguments fetch;
};

// `alias`: another name for the option, such as "--hf-path".
void add_model_option(CLI::App& command, std::string& model, FetchArguments& fetch, const std::string& alias = "");
void add_model_arguments(CLI::App& command, ModelArguments& arguments);
// Some of them: the types and quantization of weights, activations and cache; the number of threads.
void add_precision_arguments(CLI::App& command, ModelArguments& arguments);
void add_threads_argument(CLI::App& command, std::optional<int>& threads);

// `options` gives what the command decides.
ModelOptions model_options(const ModelArguments& arguments, ModelOptions options = {});

// How a text is read to be evaluated: --context, which is --ctx too, and --stride.
void add_evaluation_arguments(CLI::App& command, EvaluationOptions& options);

// Loads the model with a progress bar, says once when it is the built-in one, and prints its warnings. `options` gives
// what the command decides. With a `shape` it is a synthetic model. Throws Error{cancelled} on Ctrl-C.
LanguageModel load_model(const ModelArguments& arguments, ModelOptions options, const std::string& shape = "");

// The tokenizer alone.
TextTokenizer load_tokenizer(const std::string& model, const FetchArguments& fetch);

}  // namespace sparkx::cli
