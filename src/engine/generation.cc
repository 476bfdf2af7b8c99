#include "engine/generation.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "core/error.h"
#include "engine/stop.h"
#include "text/detokenizer.h"

namespace sparkx {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

bool is_cancelled(const GenerationOptions& options) {
  return options.cancel != nullptr && options.cancel->load(std::memory_order_relaxed);
}

// Tokens to the text that may be shown: whole characters, and no part of a stop string.
class TextStream {
 public:
  TextStream(const GenerationOptions& options, const Tokenizer* tokenizer)
      : tokenizer_(tokenizer), stops_(options.stop_strings) {
    if (tokenizer != nullptr) {
      detokenizer_.emplace(*tokenizer, options.skip_special_tokens);
    } else if (!options.stop_strings.empty()) {
      throw_error(ErrorCode::invalid_argument, "stop strings need a tokenizer, and the model has none");
    }
  }

  // A model may have more logits than its tokenizer has tokens; the surplus has no text.
  std::string append(TokenId id) {
    return detokenizer_ && tokenizer_->contains(id) ? stops_.feed(detokenizer_->append(id)) : std::string();
  }

  std::string finish() {
    std::string rest;
    if (detokenizer_) rest = stops_.feed(detokenizer_->finish());
    return rest + stops_.finish();
  }

  bool stopped() const { return stops_.stopped(); }

 private:
  const Tokenizer* tokenizer_;
  std::optional<Detokenizer> detokenizer_;
  StopStrings stops_;
};

// While it lives, the model's steps end early when the caller cancels.
class CancelledSteps {
 public:
  CancelledSteps(Model& model, const std::atomic<bool>* cancel) : model_(model) { model_.cancel_steps_on(cancel); }
  CancelledSteps(const CancelledSteps&) = delete;
  CancelledSteps& operator=(const CancelledSteps&) = delete;
  ~CancelledSteps() { model_.cancel_steps_on(nullptr); }

 private:
  Model& model_;
};

// One step; absent when it was cancelled.
std::optional<std::span<const float>> step(StepBatch& batch, TokenSequence& sequence, std::span<const TokenId> tokens,
                                           LogitsWanted wanted) {
  const SequenceStep one{&sequence, tokens, wanted};
  const StepOutput& output = batch.step(std::span(&one, 1)).front();
  if (output.error == ErrorCode::cancelled) return std::nullopt;
  if (output.error) throw Error(*output.error, output.message);
  return output.logits;
}

void check_prompt(const Model& model, const TokenSequence& sequence, std::span<const TokenId> prompt,
                  const GenerationOptions& options) {
  if (prompt.empty()) throw_error(ErrorCode::invalid_argument, "the prompt has no tokens");
  if (options.prompt_chunk < 1) {
    throw_error(ErrorCode::invalid_argument, "prompt_chunk must be 1 or more, not {}", options.prompt_chunk);
  }
  if (options.max_tokens && *options.max_tokens < 0) {
    throw_error(ErrorCode::invalid_argument, "max_tokens must be 0 or more, not {}", *options.max_tokens);
  }
  const std::int64_t room = model.info().context - sequence.length();
  if (static_cast<std::int64_t>(prompt.size()) > room) {
    throw_error(ErrorCode::invalid_argument, "the prompt has {} tokens, but the context has room for {}", prompt.size(),
                room);
  }
}

}  // namespace

std::string_view finish_reason_name(FinishReason reason) {
  switch (reason) {
    case FinishReason::stop:
      return "stop";
    case FinishReason::length:
      return "length";
    case FinishReason::cancelled:
      break;
  }
  return "cancelled";
}

GenerationResult generate(Model& model, TokenSequence& sequence, std::span<const TokenId> prompt,
                          const GenerationOptions& options, const Tokenizer* tokenizer) {
  check_prompt(model, sequence, prompt, options);
  Sampler sampler(options.sampling, model.info().vocab_size);
  TextStream stream(options, tokenizer);
  StepBatch batch(model);
  const CancelledSteps cancelled_steps(model, options.cancel);
  GenerationResult result;
  const std::int64_t total = static_cast<std::int64_t>(prompt.size());

  const std::int64_t begin = sequence.length();
  auto start = Clock::now();
  std::span<const float> logits;
  while (result.prompt_tokens < total && !is_cancelled(options)) {
    const std::int64_t count = std::min(options.prompt_chunk, total - result.prompt_tokens);
    const bool last = result.prompt_tokens + count == total;
    const auto stepped =
        step(batch, sequence,
             prompt.subspan(static_cast<std::size_t>(result.prompt_tokens), static_cast<std::size_t>(count)),
             last ? LogitsWanted::last : LogitsWanted::none);
    result.prompt_tokens = sequence.length() - begin;
    if (!stepped) break;
    logits = *stepped;
    if (options.on_prompt) options.on_prompt(result.prompt_tokens, total);
  }
  result.timings.prompt_seconds = seconds_since(start);
  if (result.prompt_tokens < total) return result;

  start = Clock::now();
  const std::size_t prompt_end = sequence.tokens().size();
  std::optional<FinishReason> finish;
  if (options.max_tokens && *options.max_tokens == 0) finish = FinishReason::length;
  while (!finish) {
    if (is_cancelled(options)) {
      finish = FinishReason::cancelled;
      break;
    }
    const SampledToken token = sampler.sample(logits, sequence.tokens(), prompt_end);
    const std::int64_t index = static_cast<std::int64_t>(result.tokens.size());
    result.tokens.push_back(token.id);

    std::string text;
    const bool is_stop_token =
        std::find(options.stop_tokens.begin(), options.stop_tokens.end(), token.id) != options.stop_tokens.end();
    if (!is_stop_token) text = stream.append(token.id);
    if (is_stop_token || stream.stopped()) {
      finish = FinishReason::stop;
    } else if ((options.max_tokens && index + 1 == *options.max_tokens) || sequence.length() == model.info().context) {
      finish = FinishReason::length;
    }
    if (finish) {
      text += stream.finish();
      if (stream.stopped()) finish = FinishReason::stop;
    }

    result.text += text;
    if (options.on_token) {
      GeneratedToken event{index, token.id, text, std::nullopt, token.top_logprobs};
      if (options.sampling.logprobs) event.logprob = token.logprob;
      if (!options.on_token(event) && !finish) finish = FinishReason::cancelled;
    }
    if (finish) break;
    if (const auto stepped = step(batch, sequence, std::span(&token.id, 1), LogitsWanted::last)) {
      logits = *stepped;
    } else {
      finish = FinishReason::cancelled;
    }
  }
  if (finish == FinishReason::cancelled) result.text += stream.finish();
  result.finish_reason = *finish;
  result.timings.generation_seconds = seconds_since(start);
  return result;
}

}  // namespace sparkx
