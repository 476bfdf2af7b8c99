// sparkx: Spark-X2.5 language models in a C++ program. This header is the whole interface.
//
//   auto model = sparkx::LanguageModel::load("Spark-X2.5-1.7B");
//   auto sequence = model.create_sequence();
//   auto options = model.generation_defaults();
//   options.on_token = [](const sparkx::GeneratedToken& token) { std::cout << token.text << std::flush; return true; };
//   model.generate(sequence, model.tokenizer().encode_chat({sparkx::messages_json({{.content =
//   "53乘以42的结果是多少？"}})}), options);
//
// The same tokens give the same logits, to the bit, whatever the number of threads, the cut of the prompt into steps
// and the other sequences of a step. What cannot be done is thrown as sparkx::Error (sparkx/error.hpp), with a message
// for a person. Several models may live in one process, each used by one thread at a time, its sequences included.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sparkx/benchmark.hpp"
#include "sparkx/chat.hpp"
#include "sparkx/error.hpp"
#include "sparkx/evaluation.hpp"
#include "sparkx/generation.hpp"
#include "sparkx/hub.hpp"
#include "sparkx/inspect.hpp"
#include "sparkx/sampling.hpp"
#include "sparkx/types.hpp"

namespace sparkx {

class LanguageModel;

// Text to token ids and back. Copies share one tokenizer; any number of threads may use it.
class TextTokenizer {
 public:
  // That of a checkpoint folder or a GGUF file, without its weights. Throws Error{not_found} when there is none,
  // Error{corrupt} and Error{unsupported} for one that cannot be read.
  static TextTokenizer load(const std::filesystem::path& model);
  static TextTokenizer builtin();

  // Adds no marker of its own. With `added_tokens`, markers such as <think> in the text become their tokens; without,
  // none does, whatever the text says. Ill-formed UTF-8 becomes U+FFFD.
  std::vector<TokenId> encode(std::string_view text, bool added_tokens = true) const;

  // The prompt of a conversation, by the request's own template or the checkpoint's (docs/chat-format.md): as text, and
  // as ids, in which markers inside messages stay plain text. Throws Error{not_found} when there is no template,
  // Error{invalid_argument} for messages or a template that cannot be used, with the place in it, and
  // Error{unsupported} for content other than text.
  std::string render_chat(const ChatRequest& request) const;
  std::vector<TokenId> encode_chat(const ChatRequest& request) const;

  // Throws Error{invalid_argument} naming an id outside the vocabulary.
  std::string decode(std::span<const TokenId> ids, bool skip_special_tokens = false) const;

  // An added token by its text ("<think>"), or an ordinary one as the vocabulary spells it ("Ġthe").
  std::optional<TokenId> find(std::string_view token) const;

  std::int64_t vocab_size() const;  // ids are 0 … vocab_size() - 1

  // What makes it another vocabulary than that of `other`, for a person; empty when every id has the same text in both.
  std::string difference(const TextTokenizer& other) const;

  struct Impl;  // for the library itself

 private:
  friend class LanguageModel;
  explicit TextTokenizer(std::shared_ptr<const Impl> impl);
  std::shared_ptr<const Impl> impl_;
};

// Tokens that the model has seen, with what it remembers of them. Keeps its model alive.
class Sequence {
 public:
  ~Sequence();
  Sequence(Sequence&&) noexcept;
  Sequence& operator=(Sequence&&) noexcept;

  std::span<const TokenId> tokens() const;
  std::int64_t length() const;

  // Cuts it back to `length` tokens; what the model could not keep is computed again. Throws Error{invalid_argument}
  // unless 0 <= length <= length().
  void truncate(std::int64_t length);

 private:
  friend class LanguageModel;
  struct Impl;
  explicit Sequence(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// Tokens to append to one sequence in a step.
struct BatchItem {
  Sequence* sequence;
  std::span<const TokenId> tokens;  // at least one
  LogitsWanted logits = LogitsWanted::last;
};

struct ModelOptions {
  // Of the weights in memory: "auto" (as in the file), "float32", "bfloat16", "float16"; "bfloat16-fast" also rounds
  // activations to bfloat16 and sums by the CPU's own instruction: results then depend on the CPU.
  std::string dtype = "auto";
  // While loading, as MLX does: "none", "2bit" to "6bit", "8bit", and with floats as codes "mxfp4", "mxfp8", "nvfp4".
  std::string quantize = "none";
  std::optional<int>
      group_size;  // columns that share a scale: 32, 64 or 128, or a mode of floats' own; absent: 64, or that
  bool head_quantize = true;         // also the head, which is the embedding of a model with tied embeddings
  std::string activations = "int8";  // as they meet quantized weights: "int8" is fast, "float32" is exact
  // Of the cache: "float32", "bfloat16", "int8" (half of bfloat16's memory); "auto" is float32 when dtype or
  // activations are, else bfloat16.
  std::string kv_dtype = "auto";
  std::optional<int> threads;  // absent: one for each of cpu_affinity, else the physical cores this process may use
  // CPUs that the threads stay on, one after another; the thread that loads the model is the first of them, and stays
  // there afterwards too. Empty: the system decides.
  std::vector<int> cpu_affinity;
  // Keep weights and cache, of the whole context, in memory: Error{out_of_memory} where the system does not allow it.
  bool lock_memory = false;
  std::optional<std::int64_t>
      context;                 // positions of a sequence; absent: the least of the model's, 32768 and what fits
  std::int64_t sequences = 1;  // of that context, for which there must be memory when the model is loaded
  bool tokenizer = true;       // false: leave the checkpoint's tokenizer aside
  // Called before the weights are read: what is wrong with a prompt can be thrown while it costs nothing. A checkpoint
  // without a tokenizer is then refused.
  std::function<void(const TextTokenizer&)> on_tokenizer;
  std::function<bool(std::uint64_t done, std::uint64_t total)> progress;  // bytes of weights; false cancels
};

class LanguageModel {
 public:
  // A checkpoint folder (config.json, safetensors, tokenizer.json), or a GGUF file, of a split one the first. Throws
  // Error{not_found}, Error{corrupt} and Error{unsupported} naming file, field or tensor, Error{out_of_memory} with the
  // sizes, Error{invalid_argument} for options that make no sense, Error{cancelled}.
  static LanguageModel load(const std::filesystem::path& model, const ModelOptions& options = {});

  // The small demonstration model inside the library.
  static LanguageModel builtin(const ModelOptions& options = {});

  // A model in the size of a published one, "1.7b" or "4b", with made-up weights and no tokenizer, for measurements.
  // Throws Error{invalid_argument} for any other name, and what load throws.
  static LanguageModel synthetic(const std::string& shape, const ModelOptions& options = {});

  ~LanguageModel();
  LanguageModel(LanguageModel&&) noexcept;
  LanguageModel& operator=(LanguageModel&&) noexcept;

  const ModelInfo& info() const;
  const std::vector<std::string>& warnings() const;  // of the checkpoint: unknown config keys and the like

  bool has_tokenizer() const;
  const TextTokenizer& tokenizer() const;  // throws Error{not_found} when there is none

  // What the checkpoint suggests (generation_config.json): sampling and the end-of-text tokens. Where it is silent:
  // temperature 1, top_p 0.95.
  GenerationOptions generation_defaults() const;

  // Throws Error{out_of_memory}.
  Sequence create_sequence();

  // Appends each item's tokens to its sequence and gives the logits asked for, in the order of the items. What goes
  // wrong for one sequence is said in its output. Throws Error{invalid_argument} for a sequence of another model or one
  // that appears twice.
  std::span<const StepOutput> step(std::span<const BatchItem> items);

  // Appends the prompt to the sequence and generates from there. The sequence then holds every generated token but the
  // last, which no step needed. Throws Error{invalid_argument} when the prompt is empty or does not fit into the
  // context, and for options outside their range.
  GenerationResult generate(Sequence& sequence, std::span<const TokenId> prompt, const GenerationOptions& options);

  // Writes the logits of every position to a safetensors file, as float32 [tokens][vocab_size] named "logits", `chunk`
  // tokens a step. The file appears when it is complete. `progress` is told the tokens done; false cancels. Throws
  // Error{invalid_argument} for no tokens or more than the context holds, Error{io}, Error{cancelled}.
  void write_logits(std::span<const TokenId> tokens, const std::filesystem::path& file, std::int64_t chunk,
                    const std::function<bool(std::int64_t done, std::int64_t total)>& progress = {});

  // How well the model predicts `tokens` (sparkx/evaluation.hpp). Throws Error{invalid_argument} for fewer than two
  // tokens, one outside the vocabulary, and options outside their range, Error{corrupt} when the model's logits are not
  // finite, Error{cancelled}.
  PerplexityResult perplexity(std::span<const TokenId> tokens, const EvaluationOptions& options = {});

  // How far the predictions of `other` are from this model's. Also throws Error{invalid_argument} for the same object
  // twice and for vocabularies of different sizes.
  LogitsComparison compare_logits(LanguageModel& other, std::span<const TokenId> tokens,
                                  const EvaluationOptions& options = {});

  // Measures the speed of prompts and of decoding. Throws Error{invalid_argument} for options that make no sense or
  // sequences longer than the context, Error{out_of_memory} when there is no room for the batch, Error{cancelled}.
  BenchmarkReport benchmark(const BenchmarkOptions& options);

 private:
  struct Impl;
  explicit LanguageModel(std::shared_ptr<Impl> impl);
  std::shared_ptr<Impl> impl_;
};

// What a checkpoint is, of which LanguageModel::load takes the path; an empty one is the built-in model. `options` are
// those that it would be loaded with. `contexts`: positions for which the size of the cache is wanted; none: some usual
// ones. Throws Error{not_found}, Error{corrupt} and Error{io} for what cannot be read, Error{invalid_argument} for what
// is no checkpoint and for options that make no sense; what can be read but not be run is in the report.
CheckpointReport inspect(const std::filesystem::path& model, const ModelOptions& options = {},
                         std::span<const std::int64_t> contexts = {});

// Token ids from a text: decimal numbers with commas or blanks between. Throws Error{invalid_argument} naming what is
// no token id.
std::vector<TokenId> parse_token_list(std::string_view text);

// Token ids from a file: such a text, or a safetensors file with an int32 or int64 tensor `tokens` of one dimension.
// Throws Error{not_found}, Error{corrupt}, Error{io}.
std::vector<TokenId> read_token_file(const std::filesystem::path& file);

struct BuildInfo {
  std::string version;          // "0.1.0"
  std::string commit;           // of the sources; "unknown" outside a checkout
  std::string compiler;         // "GCC 12.2.0"
  std::string instruction_set;  // in use on this machine: "avx2"
  std::string caveat;           // of it: how far it was tested, if not on such a machine; else empty
};

// Throws Error{unsupported} when the environment variable SPARKX_ISA names an instruction set that this CPU lacks.
BuildInfo build_info();

struct MachineInfo {
  std::string cpu;  // "AMD EPYC 9554"; empty where the system does not say
  int cores;        // physical ones that this process may use: the default number of threads
  std::uint64_t memory_bytes;
};
MachineInfo machine_info();

// The most memory this process has had, in bytes; 0 where the system does not say.
std::uint64_t peak_memory_bytes();

}  // namespace sparkx
