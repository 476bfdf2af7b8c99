// A model whose logits the test decides: what the engine does with a model can be seen without one.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "model/model.h"

namespace sparkx::testing {

class ScriptedModel : public Model {
 public:
  // The next token after `tokens`.
  using Script = std::function<TokenId(std::span<const TokenId> tokens)>;

  ScriptedModel(std::int64_t vocab_size, std::int64_t context, Script script) : script_(std::move(script)) {
    info_ = {vocab_size, context, context, 0, 0, "none", "none", "none", "scripted"};
  }

  // Says the tokens of `answer` one after another, whatever the prompt of `prompt_length` tokens is, and then the last
  // of them again and again.
  static ScriptedModel saying(std::vector<TokenId> answer, std::size_t prompt_length, std::int64_t vocab_size,
                              std::int64_t context = 1000) {
    return ScriptedModel(vocab_size, context, [answer, prompt_length](std::span<const TokenId> tokens) {
      return answer[std::min(tokens.size() - prompt_length, answer.size() - 1)];
    });
  }

  const ModelInfo& info() const override { return info_; }

  SequenceId create_sequence() override {
    sequences_[next_];
    return next_++;
  }
  void free_sequence(SequenceId sequence) override { sequences_.erase(sequence); }
  std::int64_t length(SequenceId sequence) const override {
    return static_cast<std::int64_t>(sequences_.at(sequence).size());
  }

  std::span<const StepOutput> step(std::span<const StepItem> items) override {
    outputs_.assign(items.size(), {});
    logits_.assign(items.size(), {});
    for (std::size_t i = 0; i < items.size(); ++i) {
      steps.push_back(items[i].tokens.size());
      std::vector<TokenId>& tokens = sequences_.at(items[i].sequence);
      if (fail_at && tokens.size() + items[i].tokens.size() > *fail_at) {
        outputs_[i].error = ErrorCode::out_of_memory;
        outputs_[i].message = "no cache blocks left";
        continue;
      }
      for (TokenId token : items[i].tokens) {
        tokens.push_back(token);
        if (items[i].logits == LogitsWanted::all) append_logits(logits_[i], tokens);
      }
      if (items[i].logits == LogitsWanted::last) append_logits(logits_[i], tokens);
      outputs_[i].logits = logits_[i];
    }
    return outputs_;
  }

  // Keeps whole groups of `truncation_grain` tokens.
  std::int64_t truncate(SequenceId sequence, std::int64_t length) override {
    const std::int64_t kept = length / truncation_grain * truncation_grain;
    sequences_.at(sequence).resize(static_cast<std::size_t>(kept));
    return kept;
  }

  // Its positions are token 0.
  SequenceId create_synthetic_sequence(std::int64_t length) override {
    sequences_[next_].resize(static_cast<std::size_t>(length));
    return next_++;
  }
  // A byte for each position before the step, a multiplication for each token.
  StepWork work(std::span<const StepItem> items) const override {
    StepWork work;
    for (const StepItem& item : items) {
      work.bytes += static_cast<double>(length(item.sequence));
      work.multiply_adds += static_cast<double>(item.tokens.size());
    }
    return work;
  }
  double read_bandwidth() override { return bandwidth; }

  const std::vector<TokenId>& tokens_of(SequenceId sequence) const { return sequences_.at(sequence); }
  std::size_t sequence_count() const { return sequences_.size(); }

  std::vector<std::size_t> steps;      // tokens of each step so far
  std::optional<std::size_t> fail_at;  // a sequence that would be longer gets out_of_memory
  std::int64_t truncation_grain = 1;
  double bandwidth = 1e9;

 private:
  void append_logits(std::vector<float>& logits, std::span<const TokenId> tokens) {
    const std::size_t begin = logits.size();
    logits.resize(begin + static_cast<std::size_t>(info_.vocab_size), 0.0f);
    logits[begin + static_cast<std::size_t>(script_(tokens))] = 20.0f;
  }

  Script script_;
  ModelInfo info_;
  std::map<SequenceId, std::vector<TokenId>> sequences_;
  SequenceId next_ = 1;
  std::vector<StepOutput> outputs_;
  std::vector<std::vector<float>> logits_;
};

}  // namespace sparkx::testing
