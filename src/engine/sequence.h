// A sequence of a model together with the tokens it holds, so that it can be cut back to any length: what the model
// could not keep is computed again.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/model.h"

namespace sparkx {

class TokenSequence {
 public:
  // The model must outlive the sequence. Throws Error{out_of_memory}.
  explicit TokenSequence(Model& model);
  ~TokenSequence();
  TokenSequence(const TokenSequence&) = delete;
  TokenSequence& operator=(const TokenSequence&) = delete;

  std::span<const TokenId> tokens() const { return tokens_; }
  std::int64_t length() const { return static_cast<std::int64_t>(tokens_.size()); }

  // Throws Error{invalid_argument} unless 0 <= length <= length(). When the missing tokens cannot be computed again the
  // sequence is left as long as the model has it, and the model's error is thrown.
  void truncate(std::int64_t length);

 private:
  friend class StepBatch;
  Model& model_;
  SequenceId id_;
  std::vector<TokenId> tokens_;
};

struct SequenceStep {
  TokenSequence* sequence;
  std::span<const TokenId> tokens;
  LogitsWanted logits = LogitsWanted::last;
};

// Steps of any mix of sequences of one model; the buffers live from step to step.
class StepBatch {
 public:
  explicit StepBatch(Model& model) : model_(model) {}

  // As Model::step; the sequences hold the tokens afterwards that the model has taken. Throws Error{invalid_argument}
  // for a sequence of another model or one that appears twice.
  std::span<const StepOutput> step(std::span<const SequenceStep> steps);

  // The same for one sequence; its error is thrown. Returns the logits, [positions][vocab_size].
  std::span<const float> step(TokenSequence& sequence, std::span<const TokenId> tokens, LogitsWanted logits);

 private:
  Model& model_;
  std::vector<StepItem> items_;
};

}  // namespace sparkx
