#include "model/cpu_model.h"

#include <fmt/core.h>

#include <algorithm>
#include <string>
#include <utility>

#include "core/error.h"
#include "core/float_environment.h"

namespace sparkx {
namespace {

std::int64_t wanted_positions(const StepItem& item) {
  switch (item.logits) {
    case LogitsWanted::none:
      return 0;
    case LogitsWanted::last:
      return 1;
    case LogitsWanted::all:
      return static_cast<std::int64_t>(item.tokens.size());
  }
  return 0;
}

template <typename Sequences>
auto& find(Sequences& sequences, SequenceId sequence) {
  auto found = sequences.find(sequence);
  if (found == sequences.end()) throw_error(ErrorCode::invalid_argument, "there is no sequence {}", sequence);
  return found->second;
}

}  // namespace

KvLayout kv_layout(const ModelConfig& config, kernels::KvKind kind) {
  KvLayout layout{};
  layout.kind = kind;
  layout.head_dim = static_cast<int>(config.head_dim);
  layout.kv_heads = static_cast<int>(config.num_key_value_heads);
  layout.full_layers =
      static_cast<int>(std::count(config.layer_types.begin(), config.layer_types.end(), LayerType::full_attention));
  layout.sliding_layers = static_cast<int>(config.layer_types.size()) - layout.full_layers;
  layout.window = config.sliding_window;
  return layout;
}

CpuModel::CpuModel(CpuModelParts parts)
    : config_(std::move(parts.config)),
      weights_(std::move(parts.weights)),
      threads_(std::move(parts.threads)),
      cache_(kv_layout(config_, parts.kv_kind), parts.kv_limit_bytes),
      transformer_(config_, weights_, *parts.kernels, *threads_) {
  info_.vocab_size = config_.vocab_size;
  info_.max_position_embeddings = config_.max_position_embeddings;
  info_.context = parts.context;
  info_.weight_bytes = weights_.bytes;
  info_.kv_bytes_reserved = kv_sequence_bytes(cache_.layout(), parts.context, kPassTokens);
  info_.weights = weights_.kinds;
  info_.activations = weights_.activations;
  info_.kv = parts.kv_kind == kernels::KvKind::float32 ? "float32" : "bfloat16";
  info_.device =
      fmt::format("cpu: {}, {} thread{}", parts.kernels->name, threads_->size(), threads_->size() == 1 ? "" : "s");
}

SequenceId CpuModel::create_sequence() {
  if (!cache_.has_room()) throw_error(ErrorCode::out_of_memory, "no room in the KV cache for another sequence");
  SequenceId id = next_sequence_++;
  sequences_.try_emplace(id);
  return id;
}

void CpuModel::free_sequence(SequenceId sequence) {
  cache_.free(find(sequences_, sequence).kv);
  sequences_.erase(sequence);
}

std::int64_t CpuModel::length(SequenceId sequence) const {
  return find(sequences_, sequence).kv.length;
}

std::int64_t CpuModel::truncate(SequenceId sequence, std::int64_t length) {
  if (length < 0) throw_error(ErrorCode::invalid_argument, "a sequence cannot be shortened to {} positions", length);
  return cache_.truncate(find(sequences_, sequence).kv, length);
}

std::span<const StepOutput> CpuModel::step(std::span<const StepItem> items) {
  check_items(items);
  outputs_.assign(items.size(), {});
  for (std::size_t i = 0; i < items.size(); ++i) check_tokens(i, items[i]);
  make_room_for_logits(items);
  work_.clear();
  float* logits = logits_.data();
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (outputs_[i].error) continue;
    KvSequence& sequence = find(sequences_, items[i].sequence).kv;
    auto tokens = static_cast<std::int64_t>(items[i].tokens.size());
    if (!cache_.reserve(sequence, tokens, kPassTokens)) {
      refuse(i, ErrorCode::out_of_memory,
             fmt::format("the KV cache has no room for {} more positions of this sequence", tokens));
      continue;
    }
    std::int64_t wanted = wanted_positions(items[i]);
    work_.push_back({&sequence, items[i].tokens, tokens - wanted, logits});
    outputs_[i].logits = {logits, static_cast<std::size_t>(wanted * config_.vocab_size)};
    logits += outputs_[i].logits.size();
  }
  run_passes();
  for (Work& work : work_) cache_.finish(*work.sequence);
  return outputs_;
}

void CpuModel::check_items(std::span<const StepItem> items) {
  ++steps_;
  for (const StepItem& item : items) {
    Sequence& sequence = find(sequences_, item.sequence);
    if (sequence.last_step == steps_) {
      throw_error(ErrorCode::invalid_argument, "sequence {} is twice in one step", item.sequence);
    }
    sequence.last_step = steps_;
  }
}

void CpuModel::refuse(std::size_t item, ErrorCode code, std::string message) {
  outputs_[item] = {code, std::move(message), {}};
}

void CpuModel::check_tokens(std::size_t item, const StepItem& step_item) {
  std::int64_t length = find(sequences_, step_item.sequence).kv.length;
  auto tokens = static_cast<std::int64_t>(step_item.tokens.size());
  if (tokens == 0)
    return refuse(item, ErrorCode::invalid_argument, "a step needs at least one token for each sequence");
  if (tokens > info_.context - length) {
    return refuse(item, ErrorCode::invalid_argument,
                  fmt::format("the context of {} positions is full: {} are taken, {} more were asked for",
                              info_.context, length, tokens));
  }
  for (TokenId token : step_item.tokens) {
    if (token >= 0 && token < config_.vocab_size) continue;
    return refuse(item, ErrorCode::invalid_argument,
                  fmt::format("token {} is outside the vocabulary of {}", token, config_.vocab_size));
  }
}

void CpuModel::make_room_for_logits(std::span<const StepItem> items) {
  std::size_t floats = 0;
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (!outputs_[i].error) floats += wanted_positions(items[i]) * config_.vocab_size;
  }
  if (logits_.size() < floats) {
    try {
      logits_ = {};  // the old one first: both may not fit
      logits_ = AlignedBuffer<float>(floats);
    } catch (const Error&) {
      for (std::size_t i = 0; i < items.size(); ++i) {
        if (outputs_[i].error || wanted_positions(items[i]) == 0) continue;
        refuse(i, ErrorCode::out_of_memory,
               fmt::format("no memory for the logits of this step: {} bytes", floats * sizeof(float)));
      }
    }
  }
}

void CpuModel::run_passes() {
  ScopedFloatEnvironment float_environment;
  chunks_.reserve(work_.size());
  in_pass_.reserve(work_.size());
  std::size_t done = 0;  // work_[0 … done) is complete
  while (done < work_.size()) {
    chunks_.clear();
    in_pass_.clear();
    std::int64_t room = kPassTokens;
    for (std::size_t i = done; i < work_.size() && room > 0; ++i) {
      Work& work = work_[i];
      auto tokens = std::min(room, static_cast<std::int64_t>(work.tokens.size()));
      room -= tokens;
      cache_.place(*work.sequence, tokens);
      std::int64_t first_logits = std::clamp<std::int64_t>(work.first_logits, 0, tokens);
      chunks_.push_back({work.sequence, work.tokens.first(tokens), first_logits, work.logits});
      in_pass_.push_back(&work);
    }
    transformer_.forward(chunks_, cache_);
    for (std::size_t i = 0; i < chunks_.size(); ++i) {
      Work& work = *in_pass_[i];
      auto tokens = static_cast<std::int64_t>(chunks_[i].tokens.size());
      cache_.commit(*work.sequence, tokens);
      work.tokens = work.tokens.subspan(tokens);
      work.first_logits -= tokens;
      work.logits += (tokens - chunks_[i].first_logits) * config_.vocab_size;
      if (work.tokens.empty()) ++done;
    }
  }
}

}  // namespace sparkx
