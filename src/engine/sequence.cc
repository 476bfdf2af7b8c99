#include "engine/sequence.h"

#include <algorithm>

#include "core/error.h"

namespace sparkx {
namespace {

constexpr std::size_t kRecomputedChunk = 512;  // tokens of a step that brings back what truncation lost

}  // namespace

TokenSequence::TokenSequence(Model& model) : model_(model), id_(model.create_sequence()) {}

TokenSequence::~TokenSequence() {
  model_.free_sequence(id_);
}

void TokenSequence::truncate(std::int64_t length) {
  if (length < 0 || length > this->length()) {
    throw_error(ErrorCode::invalid_argument, "cannot cut a sequence of {} tokens to {}", this->length(), length);
  }
  const std::int64_t kept = model_.truncate(id_, length);
  const std::vector<TokenId> lost(tokens_.begin() + kept, tokens_.begin() + length);
  tokens_.resize(static_cast<std::size_t>(kept));
  StepBatch batch(model_);
  for (std::size_t begin = 0; begin < lost.size(); begin += kRecomputedChunk) {
    const std::span<const TokenId> rest = std::span(lost).subspan(begin);
    batch.step(*this, rest.first(std::min(rest.size(), kRecomputedChunk)), LogitsWanted::none);
  }
}

std::span<const StepOutput> StepBatch::step(std::span<const SequenceStep> steps) {
  items_.clear();
  for (const SequenceStep& s : steps) {
    if (&s.sequence->model_ != &model_) {
      throw_error(ErrorCode::invalid_argument, "a sequence of another model cannot be part of this step");
    }
    items_.push_back({s.sequence->id_, s.tokens, s.logits});
  }
  const std::span<const StepOutput> outputs = model_.step(items_);
  for (std::size_t i = 0; i < steps.size(); ++i) {
    TokenSequence& sequence = *steps[i].sequence;
    auto taken = static_cast<std::int64_t>(steps[i].tokens.size());
    if (outputs[i].error) taken = model_.length(sequence.id_) - sequence.length();  // none, unless it was cancelled
    sequence.tokens_.insert(sequence.tokens_.end(), steps[i].tokens.begin(), steps[i].tokens.begin() + taken);
  }
  return outputs;
}

std::span<const float> StepBatch::step(TokenSequence& sequence, std::span<const TokenId> tokens, LogitsWanted logits) {
  const SequenceStep one{&sequence, tokens, logits};
  const StepOutput& output = step(std::span(&one, 1)).front();
  if (output.error) throw Error(*output.error, output.message);
  return output.logits;
}

}  // namespace sparkx
