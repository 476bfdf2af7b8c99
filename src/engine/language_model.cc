// The public LanguageModel and Sequence: a checkpoint, the model made of it, and its tokenizer, put together.

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "core/cpu_features.h"
#include "core/error.h"
#include "engine/benchmark.h"
#include "engine/evaluation.h"
#include "engine/generation.h"
#include "engine/model_options.h"
#include "engine/sequence.h"
#include "engine/text_tokenizer.h"
#include "formats/checkpoint.h"
#include "formats/published_shapes.h"
#include "formats/safetensors.h"
#include "model/load.h"
#include "sparkx/sparkx.hpp"

namespace sparkx {
namespace {

// Recommended by the authors of the models, for checkpoints that say nothing (docs/model.md, Chat format).
constexpr float kTemperature = 1.0f;
constexpr float kTopP = 0.95f;
constexpr std::string_view kTokenizerFile = "tokenizer.json";

GenerationOptions suggested_options(const ModelConfig& config, const GenerationConfig& suggestion) {
  GenerationOptions options;
  SamplingOptions& sampling = options.sampling;
  const auto narrow = [](const std::optional<double>& value, float otherwise) {
    return value ? static_cast<float>(*value) : otherwise;
  };
  sampling.temperature = suggestion.do_sample.value_or(true) ? narrow(suggestion.temperature, kTemperature) : 0.0f;
  sampling.top_p = narrow(suggestion.top_p, kTopP);
  sampling.top_k = suggestion.top_k.value_or(sampling.top_k);
  sampling.min_p = narrow(suggestion.min_p, sampling.min_p);
  sampling.repetition_penalty = narrow(suggestion.repetition_penalty, sampling.repetition_penalty);
  options.stop_tokens = suggestion.eos_token_ids.value_or(config.eos_token_ids);
  return options;
}

}  // namespace

struct LanguageModel::Impl {
  Impl(const Checkpoint& checkpoint, const ModelOptions& options)
      : defaults(suggested_options(checkpoint.config(), checkpoint.generation_config())),
        warnings(checkpoint.warnings()),
        no_tokenizer(checkpoint.gguf_metadata() != nullptr
                         ? fmt::format("{}: there is no tokenizer in it", checkpoint.gguf_metadata()->file())
                         : fmt::format("{}: there is no such file", checkpoint.display_name(kTokenizerFile))) {
    LoadOptions load = load_options(options);
    threads = options.threads.value_or(default_thread_count());
    if (options.tokenizer) {
      // Before the weights: a tokenizer that cannot be read is said at once.
      if (std::optional<TextTokenizer::Impl> found = TextTokenizer::Impl::read(checkpoint)) {
        tokenizer.emplace(TextTokenizer(std::make_shared<const TextTokenizer::Impl>(std::move(*found))));
      }
      if (options.on_tokenizer) options.on_tokenizer(text());
    }
    model = load_model(checkpoint, std::move(load));
    batch.emplace(*model);
  }

  const TextTokenizer& text() const {
    if (!tokenizer) throw Error(ErrorCode::not_found, no_tokenizer);
    return *tokenizer;
  }
  const Tokenizer* text_tokenizer() const { return tokenizer ? &tokenizer->impl_->tokenizer : nullptr; }

  GenerationOptions defaults;
  std::vector<std::string> warnings;
  int threads = 0;           // for work beside the model's own
  std::string no_tokenizer;  // the message when it is asked for
  std::optional<TextTokenizer> tokenizer;
  std::unique_ptr<Model> model;
  std::optional<StepBatch> batch;
};

struct Sequence::Impl {
  Impl(std::shared_ptr<void> of, Model& model) : owner(std::move(of)), sequence(model) {}

  std::shared_ptr<void> owner;  // of the model; before the sequence, which must go first
  TokenSequence sequence;
};

Sequence::Sequence(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Sequence::~Sequence() = default;
Sequence::Sequence(Sequence&&) noexcept = default;
Sequence& Sequence::operator=(Sequence&&) noexcept = default;

std::span<const TokenId> Sequence::tokens() const {
  return impl_->sequence.tokens();
}
std::int64_t Sequence::length() const {
  return impl_->sequence.length();
}
void Sequence::truncate(std::int64_t length) {
  impl_->sequence.truncate(length);
}

LanguageModel::LanguageModel(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
LanguageModel::~LanguageModel() = default;
LanguageModel::LanguageModel(LanguageModel&&) noexcept = default;
LanguageModel& LanguageModel::operator=(LanguageModel&&) noexcept = default;

LanguageModel LanguageModel::load(const std::filesystem::path& model, const ModelOptions& options) {
  return LanguageModel(std::make_shared<Impl>(Checkpoint::open(model), options));
}

LanguageModel LanguageModel::builtin(const ModelOptions& options) {
  return LanguageModel(std::make_shared<Impl>(Checkpoint::open(kBuiltinName, builtin_files()), options));
}

LanguageModel LanguageModel::synthetic(const std::string& shape, const ModelOptions& options) {
  const std::optional<std::string> config = published_config(shape);
  if (!config) throw_error(ErrorCode::invalid_argument, "shape \"{}\": 1.7b and 4b are known", shape);
  return LanguageModel(std::make_shared<Impl>(Checkpoint::synthetic(shape, *config), options));
}

const ModelInfo& LanguageModel::info() const {
  return impl_->model->info();
}
const std::vector<std::string>& LanguageModel::warnings() const {
  return impl_->warnings;
}
bool LanguageModel::has_tokenizer() const {
  return impl_->tokenizer.has_value();
}

const TextTokenizer& LanguageModel::tokenizer() const {
  return impl_->text();
}

GenerationOptions LanguageModel::generation_defaults() const {
  return impl_->defaults;
}

Sequence LanguageModel::create_sequence() {
  return Sequence(std::make_unique<Sequence::Impl>(impl_, *impl_->model));
}

std::span<const StepOutput> LanguageModel::step(std::span<const BatchItem> items) {
  std::vector<SequenceStep> steps;
  steps.reserve(items.size());
  for (const BatchItem& item : items) steps.push_back({&item.sequence->impl_->sequence, item.tokens, item.logits});
  return impl_->batch->step(steps);
}

GenerationResult LanguageModel::generate(Sequence& sequence, std::span<const TokenId> prompt,
                                         const GenerationOptions& options) {
  return sparkx::generate(*impl_->model, sequence.impl_->sequence, prompt, options, impl_->text_tokenizer());
}

void LanguageModel::write_logits(std::span<const TokenId> tokens, const std::filesystem::path& file, std::int64_t chunk,
                                 const std::function<bool(std::int64_t done, std::int64_t total)>& progress) {
  const std::int64_t total = static_cast<std::int64_t>(tokens.size());
  const ModelInfo& info = impl_->model->info();
  if (total == 0) throw_error(ErrorCode::invalid_argument, "there are no tokens");
  if (chunk < 1) throw_error(ErrorCode::invalid_argument, "a chunk must have 1 token or more, not {}", chunk);
  if (total > info.context) {
    throw_error(ErrorCode::invalid_argument, "{} tokens, but the context has room for {}", total, info.context);
  }
  SafetensorsTensor logits;
  logits.name = "logits";
  logits.dtype = Dtype::float32;
  logits.shape = {total, info.vocab_size};
  SafetensorsWriter writer(file, std::span(&logits, 1));
  TokenSequence sequence(*impl_->model);
  for (std::int64_t done = 0; done < total;) {
    const std::int64_t count = std::min(chunk, total - done);
    const auto piece = tokens.subspan(static_cast<std::size_t>(done), static_cast<std::size_t>(count));
    writer.write(std::as_bytes(impl_->batch->step(sequence, piece, LogitsWanted::all)));
    done += count;
    if (progress && !progress(done, total)) throw_error(ErrorCode::cancelled, "cancelled");
  }
  writer.commit();
}

PerplexityResult LanguageModel::perplexity(std::span<const TokenId> tokens, const EvaluationOptions& options) {
  ThreadPool threads(impl_->threads);
  return evaluate_perplexity(*impl_->model, tokens, options, threads);
}

LogitsComparison LanguageModel::compare_logits(LanguageModel& other, std::span<const TokenId> tokens,
                                               const EvaluationOptions& options) {
  ThreadPool threads(impl_->threads);
  return evaluate_difference(*impl_->model, *other.impl_->model, tokens, options, threads);
}

BenchmarkReport LanguageModel::benchmark(const BenchmarkOptions& options) {
  return run_benchmark(*impl_->model, options);
}

}  // namespace sparkx
