// Generating text: what can be asked for, what is reported on the way, and what comes out.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sparkx/sampling.hpp"
#include "sparkx/types.hpp"

namespace sparkx {

enum class FinishReason {
  stop,       // a stop token or a stop string
  length,     // max_tokens, or the context is full
  cancelled,  // by the caller
};

// A token as it is generated. The views live as long as the call that shows them.
struct GeneratedToken {
  std::int64_t index;  // from 0
  TokenId id;          // a stop token is reported too; it has no text of its own
  // What this token makes certain: whole characters only, and nothing that may still become part of a stop string. The
  // texts of all tokens put together are the generated text.
  std::string_view text;
  std::optional<float> logprob;  // when SamplingOptions::logprobs asks
  std::span<const TokenLogprob> top_logprobs;
};

struct GenerationOptions {
  SamplingOptions sampling;
  std::optional<std::int64_t> max_tokens;  // absent: until the model ends or the context is full
  std::vector<TokenId> stop_tokens;        // the model's end-of-text tokens, and others
  std::vector<std::string> stop_strings;   // not part of the text; UTF-8
  bool skip_special_tokens = true;         // sentence markers and their like stay out of the text
  std::int64_t prompt_chunk = 512;         // tokens of the prompt that one step takes

  std::function<void(std::int64_t done, std::int64_t total)> on_prompt;  // after each step of the prompt
  std::function<bool(const GeneratedToken&)> on_token;                   // false: cancel
  const std::atomic<bool>* cancel = nullptr;  // looked at in each layer; may be set by a signal handler
};

struct GenerationTimings {
  double prompt_seconds = 0;      // until the logits of the first token are there
  double generation_seconds = 0;  // from there to the end
};

struct GenerationResult {
  FinishReason finish_reason = FinishReason::cancelled;
  std::vector<TokenId> tokens;  // a stop token is the last of them
  std::string text;             // after a cancellation it may end with text that on_token has not been shown
  std::int64_t prompt_tokens = 0;
  GenerationTimings timings;
};

// "stop", "length" or "cancelled".
std::string_view finish_reason_name(FinishReason reason);

}  // namespace sparkx
