// The weights of a model as the forward pass reads them: every matrix in panels (kernels/kernels.h), norms and biases
// as float32, all in one allocation on huge pages. Packing reads the checkpoint through small buffers on all threads;
// no second copy of the weights ever exists.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/aligned_buffer.h"
#include "core/dtype.h"
#include "core/float_codes.h"
#include "core/progress.h"
#include "core/thread_pool.h"
#include "formats/checkpoint.h"
#include "kernels/kernels.h"
#include "model/rows.h"

namespace sparkx {

// How quantized weights meet activations: as integers (docs/numerics.md, rules 2 and 3), or decoded to floats (rule 4).
enum class ActivationMode { int8, float32 };

// Quantizing while loading, as MLX does (docs/model.md, MLX checkpoint format): all matrices but g_proj whose columns
// are a multiple of the group.
struct Quantization {
  int bits;                              // 2 to 6, or 8
  int group;                             // 32, 64 or 128
  bool head = true;                      // the head too, which is the embedding of a tied model
  std::optional<FloatMode> floats = {};  // codes that are floats, with the bits and the group of the mode
};

struct WeightOptions {
  std::optional<kernels::WeightKind> dtype = {};  // a dense kind, before quantizing; absent: as in the file
  // bfloat16 matrices meet activations that are rounded to bfloat16, in the CPU's own order of sums.
  bool fast_bfloat16 = false;
  std::optional<Quantization> quantize = {};
  ActivationMode activations = ActivationMode::int8;
};

// y = W · x + bias. Does the sums of its weight kind; nobody above looks at the kind.
struct Linear {
  kernels::PanelMatrix matrix;
  kernels::ActivationForm form;  // of the activations that it reads
  // Of reordered columns (docs/numerics.md rule 3): its input's column i is column_order[i] of what the model has.
  // Null: they are in order.
  const std::int32_t* column_order = nullptr;

  // See KernelTable::dot, dot_codes and decode_row. `x` has `tokens` rows.
  void dot(const kernels::KernelTable& kernels, std::int64_t panel_begin, std::int64_t panel_end, const InputRows& x,
           std::int64_t tokens, std::int64_t token_begin, std::int64_t token_end, float* out,
           std::int64_t out_stride) const {
    auto kind = static_cast<int>(matrix.format.kind);
    if (form == kernels::ActivationForm::bfloat16) {
      kernels.dot_bfloat16(matrix, panel_begin, panel_end, x.rounded(tokens), token_begin, token_end, out, out_stride);
    } else if (form == kernels::ActivationForm::values) {
      kernels.dot[kind](matrix, panel_begin, panel_end, x.values(tokens), token_begin, token_end, out, out_stride);
    } else {
      kernels.dot_codes[kind](matrix, panel_begin, panel_end, x.codes(form, tokens), token_begin, token_end, out,
                              out_stride);
    }
  }
  void decode_row(const kernels::KernelTable& kernels, std::int64_t row, float* out) const {
    kernels.decode_row[static_cast<int>(matrix.format.kind)](matrix, row, out);
  }
  int token_tile(const kernels::KernelTable& kernels) const {
    bool coded = form != kernels::ActivationForm::values && form != kernels::ActivationForm::bfloat16;
    return coded ? kernels.code_token_tile : kernels.token_tile;
  }
};

// The forms of activations that these projections read as they are, without a copy in another order.
template <typename... Linears>
ActivationForms forms_for(const Linears&... linears) {
  return (ActivationForms() | ... |
          (linears.column_order == nullptr ? ActivationForms::of(linears.form) : ActivationForms()));
}

struct LayerWeights {
  const float* input_layernorm;  // [hidden_size], as all norms padded with zeros to a multiple of 16
  Linear q_k_v_proj;
  Linear g_proj;
  Linear out_proj;
  const float* post_attention_layernorm;
  Linear gate_proj;
  Linear up_proj;
  Linear down_proj;
};

struct PackedWeights {
  std::optional<Linear> embedding;  // none when tied: rows then come from the head
  std::vector<LayerWeights> layers;
  const float* norm;
  Linear lm_head;

  std::size_t bytes;
  std::string kinds;        // "bfloat16", or several: "4-bit (groups of 64), bfloat16"
  std::string activations;  // that meet quantized weights: "int8"; "float32" also when there are none
  std::vector<std::vector<std::int32_t>> column_orders;  // that Linears point to
  AlignedBuffer<std::byte> storage;
};

// Packs the checkpoint. Throws what Checkpoint::read throws, Error{cancelled}, and Error{out_of_memory}.
PackedWeights pack_weights(const Checkpoint& checkpoint, const WeightOptions& options,
                           const kernels::KernelTable& kernels, ThreadPool& threads, ProgressCallback progress = {});

// What pack_weights will give, but without storage: formats and sizes, and null for all data.
PackedWeights plan_weights(const Checkpoint& checkpoint, const WeightOptions& options);

}  // namespace sparkx
