#include "model/transformer.h"

#include <algorithm>
#include <cstring>

namespace sparkx {

using kernels::kBlockPositions;
using kernels::kLanes;

namespace {

constexpr std::int64_t kTilePanels = 4;   // float GEMV hides its latency behind so many panels
constexpr std::int64_t kTileTokens = 48;  // so many rows of activations stay in L2 while panels pass by
constexpr std::int64_t kTokenGrain = 4;   // tokens that a worker takes at once where each is a stage of its own

std::int64_t round_up(std::int64_t n, std::int64_t step) {
  return (n + step - 1) / step * step;
}
std::int64_t divide_up(std::int64_t n, std::int64_t by) {
  return (n + by - 1) / by;
}

static_assert(kTilePanels * kLanes % 64 == 0);  // a tile of linear_gelu_mul has whole groups of activation codes

// An input of projections: the forms of activations that those of any layer read, and whether some want its columns in
// another order, and then in which forms.
struct InputForms {
  template <typename... Linears>
  void add(const Linears&... linears) {
    forms = forms | forms_for(linears...);
    ((sorted = sorted || linears.column_order != nullptr), ...);
    ((sorted_forms =
          sorted_forms | (linears.column_order != nullptr ? ActivationForms::of(linears.form) : ActivationForms())),
     ...);
  }
  std::int64_t sorted_rows() const { return sorted ? kPassTokens : 0; }
  // What a token takes, with `copies` in other orders.
  std::size_t row_bytes(std::int64_t columns, int copies) const {
    return InputRows::row_bytes(columns, forms) + (sorted ? copies * InputRows::row_bytes(columns, sorted_forms) : 0);
  }
  ActivationForms forms, sorted_forms;
  bool sorted = false;
};

struct AllInputForms {
  explicit AllInputForms(const PackedWeights& weights) {
    normed.add(weights.lm_head);
    for (const LayerWeights& layer : weights.layers) {
      normed.add(layer.q_k_v_proj, layer.g_proj, layer.gate_proj, layer.up_proj);
      heads.add(layer.out_proj);
      hidden.add(layer.down_proj);
    }
  }
  InputForms normed, heads, hidden;
};

InputRows sorted_rows(std::int64_t columns, const InputForms& forms) {
  return InputRows(forms.sorted_rows(), columns, forms.sorted_forms);
}

AttentionShape attention_shape(const ModelConfig& config) {
  return {static_cast<int>(config.num_attention_heads), static_cast<int>(config.num_key_value_heads),
          static_cast<int>(config.head_dim), config.sliding_window};
}

}  // namespace

Transformer::Transformer(const ModelConfig& config, const PackedWeights& weights, const kernels::KernelTable& kernels,
                         ThreadPool& threads, InputObserver* observer)
    : config_(config),
      weights_(weights),
      kernels_(kernels),
      threads_(threads),
      observer_(observer),
      attention_(attention_shape(config), kPassTokens, kernels, threads),
      x_(kPassTokens, config.hidden_size),
      normed_(kPassTokens, config.hidden_size, AllInputForms(weights).normed.forms),
      qkv_(kPassTokens, config.q_k_v_rows()),
      gates_(kPassTokens, config.num_attention_heads),
      heads_(kPassTokens, config.attention_width(), AllInputForms(weights).heads.forms),
      hidden_(kPassTokens, config.intermediate_size, AllInputForms(weights).hidden.forms),
      sorted_normed_{sorted_rows(config.hidden_size, AllInputForms(weights).normed),
                     sorted_rows(config.hidden_size, AllInputForms(weights).normed)},
      sorted_heads_(sorted_rows(config.attention_width(), AllInputForms(weights).heads)),
      sorted_hidden_(sorted_rows(config.intermediate_size, AllInputForms(weights).hidden)),
      queries_(kPassTokens * config.num_attention_heads, config.head_dim) {
  int layers_of_type[kLayerTypes] = {};
  for (LayerType type : config.layer_types) {
    places_.push_back({type, layers_of_type[static_cast<int>(type)]++});
    if (types_[static_cast<int>(type)]) continue;
    auto rotary_dims = static_cast<int>(config.rope(type).rotary_dims);
    types_[static_cast<int>(type)].emplace(
        TypeState{RopeTable(static_cast<int>(config.head_dim), rotary_dims, config.rope(type).rope_theta),
                  AttentionPlan(type, attention_shape(config), kPassTokens), Rows(kPassTokens, rotary_dims / 2),
                  Rows(kPassTokens, rotary_dims / 2)});
  }
  for (int i = 0; i < threads.size(); ++i) tiles_.emplace_back(2 * kTileTokens, kTilePanels * kLanes);
  token_places_.reserve(kPassTokens);
  attention_chunks_.reserve(kPassTokens);
  wanted_.reserve(kPassTokens);
}

std::size_t Transformer::buffer_bytes(const ModelConfig& config, const PackedWeights& weights, int threads) {
  const AllInputForms forms(weights);
  std::size_t input_bytes = forms.normed.row_bytes(config.hidden_size, 2) +
                            forms.heads.row_bytes(config.attention_width(), 1) +
                            forms.hidden.row_bytes(config.intermediate_size, 1);
  std::int64_t floats = round_up(config.hidden_size, kLanes) + round_up(config.q_k_v_rows(), kLanes) +
                        round_up(config.num_attention_heads, kLanes) +
                        config.num_attention_heads * round_up(config.head_dim, kLanes);
  for (const RopeParameters& rope : config.rope_parameters) floats += 2 * round_up(rope.rotary_dims / 2, kLanes);
  std::int64_t floats_per_thread = 2 * kTileTokens * kTilePanels * kLanes;
  return kPassTokens * (input_bytes + floats * sizeof(float)) + threads * floats_per_thread * sizeof(float) +
         Attention::buffer_bytes(attention_shape(config), threads);
}

bool Transformer::forward(std::span<const Chunk> chunks, KvCache& cache, const std::atomic<bool>* cancel) {
  plan_pass(chunks);
  embed(x_);
  for (std::size_t i = 0; i < weights_.layers.size(); ++i) {
    if (cancel != nullptr && cancel->load(std::memory_order_relaxed)) return false;
    const LayerWeights& layer = weights_.layers[i];
    rms_norm(x_, layer.input_layernorm, forms_for(layer.q_k_v_proj, layer.g_proj), normed_);
    observe(LinearInput::attention, i, normed_, tokens_);
    linear_both(normed_, layer.g_proj, gates_, layer.q_k_v_proj, qkv_);
    rotate_and_store(qkv_, places_[i], cache);
    gated_attention(places_[i], cache, forms_for(layer.out_proj), heads_);
    observe(LinearInput::heads, i, heads_, tokens_);
    linear_add(heads_, sorted_heads_, layer.out_proj, x_);
    rms_norm(x_, layer.post_attention_layernorm, forms_for(layer.gate_proj, layer.up_proj), normed_);
    observe(LinearInput::mlp, i, normed_, tokens_);
    linear_gelu_mul(normed_, layer.gate_proj, layer.up_proj, forms_for(layer.down_proj), hidden_);
    observe(LinearInput::hidden, i, hidden_, tokens_);
    linear_add(hidden_, sorted_hidden_, layer.down_proj, x_);
  }
  write_logits(x_, normed_);
  return true;
}

void Transformer::plan_pass(std::span<const Chunk> chunks) {
  token_places_.clear();
  attention_chunks_.clear();
  wanted_.clear();
  for (const Chunk& chunk : chunks) {
    auto first_row = static_cast<std::int64_t>(token_places_.size());
    auto tokens = static_cast<std::int64_t>(chunk.tokens.size());
    attention_chunks_.push_back({chunk.sequence, first_row, tokens});
    for (std::int64_t i = 0; i < tokens; ++i) {
      token_places_.push_back({chunk.tokens[i], chunk.sequence, chunk.sequence->length + i});
      if (i < chunk.first_logits) continue;
      wanted_.push_back({first_row + i, chunk.logits + (i - chunk.first_logits) * config_.vocab_size});
    }
  }
  tokens_ = static_cast<std::int64_t>(token_places_.size());
  for (std::optional<TypeState>& type : types_) {
    if (!type) continue;
    type->plan.make(attention_chunks_, threads_.size());
    threads_.parallel_for(tokens_, kTokenGrain, [&](std::int64_t begin, std::int64_t end, int) {
      for (std::int64_t t = begin; t < end; ++t) {
        type->rope.cos_sin(token_places_[t].position, type->cos.row(t), type->sin.row(t));
      }
    });
  }
}

void Transformer::embed(Rows& x) {
  const Linear& embedding = weights_.embedding ? *weights_.embedding : weights_.lm_head;
  threads_.parallel_for(tokens_, kTokenGrain, [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t t = begin; t < end; ++t) {
      embedding.decode_row(kernels_, token_places_[t].id, x.row(t));
      // A NaN of the row's last user may stand behind the columns.
      std::fill(x.row(t) + config_.hidden_size, x.row(t) + x.stride, 0.0f);
    }
  });
}

void Transformer::rms_norm(const Rows& x, const float* weight, ActivationForms forms, InputRows& out) {
  threads_.parallel_for(tokens_, kTokenGrain, [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t t = begin; t < end; ++t) {
      kernels_.rms_norm(x.row(t), weight, config_.hidden_size, static_cast<float>(config_.rms_norm_eps), out.row(t));
      out.code(kernels_, forms, t);
    }
  });
}

const InputRows& Transformer::in_order(const InputRows& in, const Linear& projection, std::int64_t tokens,
                                       InputRows& sorted) {
  if (projection.column_order == nullptr) return in;
  threads_.parallel_for(tokens, kTokenGrain, [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t t = begin; t < end; ++t) {
      sorted.gather(kernels_, ActivationForms::of(projection.form), t, in.row(t), projection.column_order);
    }
  });
  return sorted;
}

template <typename Body>
void Transformer::for_each_tile(std::int64_t panels, std::int64_t tokens, int token_tile, Body&& body) {
  // Blocks of tokens of about one size, each a whole number of register tiles.
  std::int64_t blocks = divide_up(tokens, kTileTokens);
  std::int64_t block = round_up(divide_up(tokens, blocks), token_tile);
  if (block > kTileTokens) block = divide_up(tokens, blocks);
  blocks = divide_up(tokens, block);
  threads_.parallel_for(
      divide_up(panels, kTilePanels) * blocks, 1, [&](std::int64_t begin, std::int64_t end, int worker) {
        for (std::int64_t unit = begin; unit < end; ++unit) {
          std::int64_t panel = unit / blocks * kTilePanels;
          std::int64_t token = unit % blocks * block;
          body(Tile{panel, std::min(panels, panel + kTilePanels), token, std::min(tokens, token + block)}, worker);
        }
      });
}

// first_out = first · in and second_out = second · in, in one stage: g_proj alone would keep one thread busy at most.
void Transformer::linear_both(const InputRows& in, const Linear& first, Rows& first_out, const Linear& second,
                              Rows& second_out) {
  const InputRows& first_in = in_order(in, first, tokens_, sorted_normed_[0]);
  const InputRows& second_in = in_order(in, second, tokens_, sorted_normed_[1]);
  const std::int64_t first_panels = round_up(first.matrix.panel_count(), kTilePanels);
  const std::int64_t panels = first_panels + second.matrix.panel_count();
  for_each_tile(panels, tokens_, second.token_tile(kernels_), [&](const Tile& tile, int) {
    const bool in_first = tile.panel_begin < first_panels;
    const Linear& projection = in_first ? first : second;
    Rows& out = in_first ? first_out : second_out;
    const std::int64_t panel_begin = tile.panel_begin - (in_first ? 0 : first_panels);
    const std::int64_t panel_end =
        std::min(projection.matrix.panel_count(), tile.panel_end - (in_first ? 0 : first_panels));
    projection.dot(kernels_, panel_begin, panel_end, in_first ? first_in : second_in, tokens_, tile.token_begin,
                   tile.token_end, out.row(tile.token_begin) + panel_begin * kLanes, out.stride);
  });
}

// x += projection · in, tile by tile, so that the projection itself never goes through memory.
void Transformer::linear_add(const InputRows& all, InputRows& sorted, const Linear& projection, Rows& x) {
  const InputRows& in = in_order(all, projection, tokens_, sorted);
  const int token_tile = projection.token_tile(kernels_);
  for_each_tile(projection.matrix.panel_count(), tokens_, token_tile, [&](const Tile& tile, int worker) {
    Rows& y = tiles_[worker];
    projection.dot(kernels_, tile.panel_begin, tile.panel_end, in, tokens_, tile.token_begin, tile.token_end, y.row(0),
                   y.stride);
    std::int64_t lanes = (tile.panel_end - tile.panel_begin) * kLanes;
    for (std::int64_t t = tile.token_begin; t < tile.token_end; ++t) {
      kernels_.add(x.row(t) + tile.panel_begin * kLanes, y.row(t - tile.token_begin), lanes);
    }
  });
}

// out = gelu(gate_proj · in) · (up_proj · in), tile by tile, and its codes while they are in the cache.
void Transformer::linear_gelu_mul(const InputRows& in, const Linear& gate_proj, const Linear& up_proj,
                                  ActivationForms forms, InputRows& out) {
  const InputRows& gate_in = in_order(in, gate_proj, tokens_, sorted_normed_[0]);
  const InputRows& up_in = in_order(in, up_proj, tokens_, sorted_normed_[1]);
  const std::int64_t columns = gate_proj.matrix.rows;
  const int token_tile = gate_proj.token_tile(kernels_);
  for_each_tile(gate_proj.matrix.panel_count(), tokens_, token_tile, [&](const Tile& tile, int worker) {
    Rows& rows = tiles_[worker];
    float* gate = rows.row(0);
    float* up = rows.row(kTileTokens);
    gate_proj.dot(kernels_, tile.panel_begin, tile.panel_end, gate_in, tokens_, tile.token_begin, tile.token_end, gate,
                  rows.stride);
    up_proj.dot(kernels_, tile.panel_begin, tile.panel_end, up_in, tokens_, tile.token_begin, tile.token_end, up,
                rows.stride);
    std::int64_t begin = tile.panel_begin * kLanes;
    std::int64_t end = tile.panel_end * kLanes;
    for (std::int64_t t = tile.token_begin; t < tile.token_end; ++t, gate += rows.stride, up += rows.stride) {
      kernels_.gelu_mul(gate, up, end - begin, out.row(t) + begin);
      out.code(kernels_, forms, t, begin, std::min(end, columns));
    }
  });
  if (!forms.has(kernels::ActivationForm::token_codes)) return;
  threads_.parallel_for(tokens_, kTokenGrain, [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t t = begin; t < end; ++t) out.code_token(kernels_, forms, t);
  });
}

// q, k = rope(q), rope(k): queries go to queries_, keys and values to the cache.
void Transformer::rotate_and_store(const Rows& qkv, LayerPlace place, KvCache& cache) {
  const TypeState& type = state(place.type);
  const kernels::KvKind kv_kind = cache.layout().kind;
  const std::int64_t head_dim = config_.head_dim;
  const std::int64_t group = config_.num_attention_heads / config_.num_key_value_heads;
  threads_.parallel_for(tokens_, kTokenGrain, [&](std::int64_t begin, std::int64_t end, int worker) {
    float* head = tiles_[worker].row(0);  // aligned, which a head in qkv need not be
    for (std::int64_t t = begin; t < end; ++t) {
      const float* from = qkv.row(t);
      auto rotate = [&](float* values) {
        kernels_.rope(values, type.cos.row(t), type.sin.row(t), type.rope.rotary_dims());
      };
      for (std::int64_t h = 0; h < config_.num_attention_heads; ++h, from += head_dim) {
        float* query = queries_.row(((h / group) * kPassTokens + t) * group + h % group);
        std::copy_n(from, head_dim, query);
        rotate(query);
      }
      const TokenPlace& token = token_places_[t];
      const std::vector<BlockId>& blocks =
          place.type == LayerType::full_attention ? token.sequence->full : token.sequence->sliding;
      BlockId block = blocks[token.position / kBlockPositions];
      auto slot = static_cast<int>(token.position % kBlockPositions);
      for (int h = 0; h < config_.num_key_value_heads; ++h, from += head_dim) {
        std::copy_n(from, head_dim, head);
        rotate(head);
        kernels_.store_key[static_cast<int>(kv_kind)](cache.keys(place.type, block, place.index, h), slot, head,
                                                      static_cast<int>(head_dim));
      }
      for (int h = 0; h < config_.num_key_value_heads; ++h, from += head_dim) {
        std::copy_n(from, head_dim, head);
        kernels_.store_value[static_cast<int>(kv_kind)](cache.values(place.type, block, place.index, h), slot, head,
                                                        static_cast<int>(head_dim));
      }
    }
  });
}

void Transformer::gated_attention(LayerPlace place, const KvCache& cache, ActivationForms forms, InputRows& out) {
  AttentionBuffers buffers{queries_.row(0), queries_.stride, kPassTokens, gates_.row(0),
                           gates_.stride,   out.row(0),      out.stride()};
  attention_.run(state(place.type).plan, cache, place.index, buffers);
  if (forms.empty()) return;
  threads_.parallel_for(tokens_, kTokenGrain, [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t t = begin; t < end; ++t) out.code(kernels_, forms, t);
  });
}

// logits = lm_head · rms_norm(x, norm), of the tokens that somebody wants them of.
void Transformer::write_logits(const Rows& x, InputRows& normed) {
  auto wanted = static_cast<std::int64_t>(wanted_.size());
  if (wanted == 0) return;
  threads_.parallel_for(wanted, kTokenGrain, [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t i = begin; i < end; ++i) {
      kernels_.rms_norm(x.row(wanted_[i].token), weights_.norm, config_.hidden_size,
                        static_cast<float>(config_.rms_norm_eps), normed.row(i));
      normed.code(kernels_, forms_for(weights_.lm_head), i);
    }
  });
  observe(LinearInput::head, 0, normed, wanted);
  const Linear& lm_head = weights_.lm_head;
  const InputRows& in = in_order(normed, lm_head, wanted, sorted_normed_[0]);
  const int token_tile = lm_head.token_tile(kernels_);
  for_each_tile(lm_head.matrix.panel_count(), wanted, token_tile, [&](const Tile& tile, int worker) {
    Rows& rows = tiles_[worker];  // rows of logits are neither padded nor aligned
    lm_head.dot(kernels_, tile.panel_begin, tile.panel_end, in, wanted, tile.token_begin, tile.token_end, rows.row(0),
                rows.stride);
    std::int64_t first = tile.panel_begin * kLanes;
    std::int64_t count = std::min(tile.panel_end * kLanes, config_.vocab_size) - first;
    for (std::int64_t i = tile.token_begin; i < tile.token_end; ++i) {
      std::copy_n(rows.row(i - tile.token_begin), count, wanted_[i].logits + first);
    }
  });
}

}  // namespace sparkx
