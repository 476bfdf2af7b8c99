#include "model/cpu_model.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "core/error.h"
#include "core/float_environment.h"
#include "core/memory_bandwidth.h"
#include "core/random.h"

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

// What a projection has to read, and to multiply for one token.
StepWork work_of(const Linear& linear) {
  const kernels::PanelMatrix& matrix = linear.matrix;
  return {static_cast<double>(matrix.panel_count()) * static_cast<double>(matrix.panel_bytes),
          static_cast<double>(matrix.rows) * static_cast<double>(matrix.columns)};
}

// Bandwidth is measured on as many bytes at least, more than caches have.
constexpr std::size_t kBandwidthBytes = std::size_t{512} << 20;

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

std::string cpu_device_name(const kernels::KernelTable& kernels, int threads) {
  return fmt::format("cpu: {}, {} thread{}", kernels.name, threads, threads == 1 ? "" : "s");
}

CpuModel::CpuModel(CpuModelParts parts)
    : config_(std::move(parts.config)),
      weights_(std::move(parts.weights)),
      kernels_(*parts.kernels),
      threads_(std::move(parts.threads)),
      cache_(kv_layout(config_, parts.kv_kind), parts.kv_limit_bytes),
      transformer_(config_, weights_, kernels_, *threads_, parts.observer) {
  if (parts.locked_sequences > 0) {
    weights_lock_ = MemoryLock(weights_.storage.span(), "the weights");
    cache_.lock_memory(parts.locked_sequences, parts.context, kPassTokens);
  }
  info_.vocab_size = config_.vocab_size;
  info_.max_position_embeddings = config_.max_position_embeddings;
  info_.context = parts.context;
  info_.weight_bytes = weights_.bytes;
  info_.kv_bytes_reserved = kv_sequence_bytes(cache_.layout(), parts.context, kPassTokens);
  info_.weights = weights_.kinds;
  info_.activations = weights_.activations;
  info_.kv = kv_kind_name(parts.kv_kind);
  info_.device = cpu_device_name(kernels_, threads_->size());
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

SequenceId CpuModel::create_synthetic_sequence(std::int64_t length) {
  if (length < 0 || length > info_.context) {
    throw_error(ErrorCode::invalid_argument, "a sequence of {} positions: the context has {}", length, info_.context);
  }
  const SequenceId id = create_sequence();
  KvSequence& sequence = find(sequences_, id).kv;
  if (!cache_.reserve(sequence, length, kPassTokens)) {
    free_sequence(id);
    throw_error(ErrorCode::out_of_memory, "the KV cache has no room for a sequence of {} positions", length);
  }
  for (std::int64_t left = length; left > 0; left -= std::min(left, kPassTokens)) {
    cache_.place(sequence, std::min(left, kPassTokens));
    cache_.commit(sequence, std::min(left, kPassTokens));
  }
  cache_.finish(sequence);
  fill(sequence);
  return id;
}

// Writes the same made-up positions into every block of a sequence.
void CpuModel::fill(const KvSequence& sequence) {
  const KvLayout& layout = cache_.layout();
  const auto kind = static_cast<int>(layout.kind);
  const std::size_t bytes = kernels::kv_block_bytes(layout.kind, layout.head_dim);
  AlignedBuffer<std::byte> keys(bytes), values(bytes);
  AlignedBuffer<float> head(static_cast<std::size_t>(layout.head_dim) + kernels::kLanes);
  std::uint64_t drawn = 0;
  const auto draw = [&] {
    for (int channel = 0; channel < layout.head_dim; ++channel) {
      head[channel] = static_cast<float>(random_unit(0, drawn++)) - 0.5f;
    }
    return head.data();
  };
  for (int slot = 0; slot < kernels::kBlockPositions; ++slot) {
    kernels_.store_key[kind](keys.data(), slot, draw(), layout.head_dim);
    kernels_.store_value[kind](values.data(), slot, draw(), layout.head_dim);
  }
  const auto fill_pool = [&](LayerType type, std::span<const BlockId> blocks, int layers) {
    threads_->parallel_for(static_cast<std::int64_t>(blocks.size()), 1, [&](std::int64_t i, std::int64_t, int) {
      if (blocks[i] == kNoBlock) return;
      for (int layer = 0; layer < layers; ++layer) {
        for (int kv_head = 0; kv_head < layout.kv_heads; ++kv_head) {
          std::memcpy(cache_.keys(type, blocks[i], layer, kv_head), keys.data(), bytes);
          std::memcpy(cache_.values(type, blocks[i], layer, kv_head), values.data(), bytes);
        }
      }
    });
  };
  fill_pool(LayerType::full_attention, sequence.full, layout.full_layers);
  fill_pool(LayerType::sliding_attention, sequence.sliding, layout.sliding_layers);
}

StepWork CpuModel::work(std::span<const StepItem> items) const {
  StepWork layers;  // of one token in all layers, without attention
  for (const LayerWeights& layer : weights_.layers) {
    for (const Linear* linear :
         {&layer.q_k_v_proj, &layer.g_proj, &layer.out_proj, &layer.gate_proj, &layer.up_proj, &layer.down_proj}) {
      layers.bytes += work_of(*linear).bytes;
      layers.multiply_adds += work_of(*linear).multiply_adds;
    }
  }
  const StepWork head = work_of(weights_.lm_head);
  const KvLayout& layout = cache_.layout();
  const double position_bytes = 2.0 * static_cast<double>(kernels::kv_block_bytes(layout.kind, layout.head_dim)) *
                                layout.kv_heads / kernels::kBlockPositions;
  const double pair_multiply_adds = 2.0 * static_cast<double>(config_.attention_width());

  StepWork work;
  std::int64_t room = 0;        // in the pass
  bool logits_in_pass = false;  // some are wanted of it
  for (const StepItem& item : items) {
    const auto tokens = static_cast<std::int64_t>(item.tokens.size());
    const std::int64_t first_logits = tokens - wanted_positions(item);
    const std::int64_t length = find(sequences_, item.sequence).kv.length;
    for (std::int64_t done = 0; done < tokens;) {
      if (room == 0) {
        room = kPassTokens;
        logits_in_pass = false;
        work.bytes += layers.bytes;
      }
      const std::int64_t count = std::min(room, tokens - done);
      const std::int64_t begin = length + done;
      done += count;
      room -= count;
      work.multiply_adds += static_cast<double>(count) * layers.multiply_adds;
      work.bytes += position_bytes * layout.full_layers * static_cast<double>(begin + count);
      if (layout.sliding_layers > 0) {
        work.bytes += position_bytes * layout.sliding_layers *
                      static_cast<double>(std::min(begin + count, count + layout.window - 1));
      }
      for (std::int64_t position = begin; position < begin + count; ++position) {
        const auto seen = static_cast<double>(position + 1);
        const double seen_in_window = std::min(seen, static_cast<double>(layout.window));
        work.multiply_adds += pair_multiply_adds * (layout.full_layers * seen + layout.sliding_layers * seen_in_window);
      }
      if (done <= first_logits) continue;
      work.multiply_adds += static_cast<double>(std::min(count, done - first_logits)) * head.multiply_adds;
      if (!logits_in_pass) work.bytes += head.bytes;
      logits_in_pass = true;
    }
  }
  return work;
}

double CpuModel::read_bandwidth() {
  if (weights_.storage.size() >= kBandwidthBytes) return sparkx::read_bandwidth(*threads_, weights_.storage.span());
  try {
    AlignedBuffer<std::byte> buffer(kBandwidthBytes);
    std::fill(buffer.begin(), buffer.end(), std::byte{1});  // pages that nobody has written are all one
    return sparkx::read_bandwidth(*threads_, buffer.span());
  } catch (const Error&) {
    return 0;
  }
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
      const char* reason = cache_.system_refused() ? "out of memory: the system has none" : "the KV cache has no room";
      refuse(i, ErrorCode::out_of_memory, fmt::format("{} for {} more positions of this sequence", reason, tokens));
      continue;
    }
    std::int64_t wanted = wanted_positions(items[i]);
    work_.push_back({i, &sequence, items[i].tokens, tokens - wanted, logits});
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
    if (!transformer_.forward(chunks_, cache_, cancel_)) {
      // What the pass has written lies behind the ends of the sequences, as if it had never been.
      for (std::size_t i = done; i < work_.size(); ++i) refuse(work_[i].item, ErrorCode::cancelled, "cancelled");
      return;
    }
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
