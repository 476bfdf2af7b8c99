// Choosing the next token from the logits (docs/numerics.md, rule 11).
//
// The same logits, options and tokens give the same choice on every machine: no function of the C library takes part,
// every sum has its order, and ties take the lowest id. The steps, each on what the one before it left:
//
//   1. tokens that are not allowed leave: l = -inf
//   2. repetition penalty r, once for each id among the last `repetition_window` tokens: l = l > 0 ? l / r : l * r
//   3. frequency and presence penalty, for ids generated n > 0 times: l = l - n * frequency, then l = l - presence
//   4. bias: l = l + bias
//   5. temperature 0: the largest l is the choice. Else z = (l - max l) / temperature
//   6. top-k: the k largest l stay
//   7. top-p: of the largest l the fewest stay whose exp(z) sum to at least top_p times the sum of all that step 6 left
//   8. min-p: those with exp(z) >= min_p stay, which is min_p times the largest probability
//   9. draw: u = the random number of (seed, position), position being the number of tokens before this one; the choice
//      is the first id, in ascending order, at which the running sum of exp(z) exceeds u times the sum of all that stay
//
// Sums of exp(z) are taken by id modulo 16 and a tree in float32, running sums in float64.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "sparkx/types.hpp"

namespace sparkx {

struct LogitBias {
  TokenId id;
  float bias;
};

// Which distribution log-probabilities speak of.
enum class LogprobsOf {
  model,   // the model's own, before every step above
  choice,  // the one that the token was drawn from, after all of them; a greedy choice has probability 1
};

struct SamplingOptions {
  float temperature = 1.0f;            // 0 is greedy
  std::int64_t top_k = 0;              // 0 and -1: off
  float top_p = 1.0f;                  // in [0, 1]; 1: off, 0: one token stays
  float min_p = 0.0f;                  // in [0, 1]; 0: off
  float repetition_penalty = 1.0f;     // > 0; 1: off
  std::int64_t repetition_window = 0;  // tokens, prompt included; 0: all
  float presence_penalty = 0.0f;       // of generated tokens; 0: off
  float frequency_penalty = 0.0f;      // of generated tokens; 0: off
  std::vector<LogitBias> logit_bias;
  std::uint64_t seed = 0;

  std::optional<std::int64_t> logprobs;  // report log-probabilities: of the choice and of so many most probable tokens
  LogprobsOf logprobs_of = LogprobsOf::model;
};

struct TokenLogprob {
  TokenId id;
  float logprob;  // natural logarithm
};

struct SampledToken {
  TokenId id = 0;
  float logprob = 0.0f;                    // of the choice, when SamplingOptions::logprobs asks
  std::vector<TokenLogprob> top_logprobs;  // most probable first; under LogprobsOf::choice only what could be drawn
};

class Sampler {
 public:
  // Throws Error{invalid_argument} for an option outside its range, or a bias for an id outside the vocabulary.
  Sampler(SamplingOptions options, std::int64_t vocab_size);
  ~Sampler();
  Sampler(Sampler&&) noexcept;
  Sampler& operator=(Sampler&&) noexcept;

  // The token after `tokens`, of which the first `prompt_length` were not generated. `allowed`: one bit an id, the
  // lowest bit of a word first, ceil(vocab_size / 64) words; empty allows all. Throws Error{invalid_argument} when
  // sizes do not fit, tokens are outside the vocabulary, or no token is allowed, and Error{corrupt} when a logit is NaN
  // or +inf.
  SampledToken sample(std::span<const float> logits, std::span<const TokenId> tokens, std::size_t prompt_length,
                      std::span<const std::uint64_t> allowed = {});

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sparkx
