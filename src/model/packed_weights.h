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
#include "core/progress.h"
#include "core/thread_pool.h"
#include "formats/checkpoint.h"
#include "kernels/kernels.h"

namespace sparkx {

// y = W · x + bias. Does the sums of its weight kind; nobody above looks at the kind.
struct Linear {
  kernels::PanelMatrix matrix;

  // See KernelTable::dot and decode_row.
  void dot(const kernels::KernelTable& kernels, std::int64_t panel_begin, std::int64_t panel_end,
           const kernels::Activations& x, std::int64_t token_begin, std::int64_t token_end, float* out,
           std::int64_t out_stride) const {
    kernels.dot[static_cast<int>(matrix.kind)](matrix, panel_begin, panel_end, x, token_begin, token_end, out,
                                               out_stride);
  }
  void decode_row(const kernels::KernelTable& kernels, std::int64_t row, float* out) const {
    kernels.decode_row[static_cast<int>(matrix.kind)](matrix, row, out);
  }
};

// An embedding that is no head: rows are only looked up, so they stay as they are in the file.
struct RowMatrix {
  kernels::WeightKind kind;
  std::int64_t columns;
  const std::byte* rows;  // [row][column]

  void decode_row(std::int64_t row, float* out) const;
};

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
  std::optional<RowMatrix> embedding;  // none when tied: rows then come from the head's panels
  std::vector<LayerWeights> layers;
  const float* norm;
  Linear lm_head;

  std::size_t bytes;
  std::string kinds;  // "bfloat16", or several: "bfloat16, float32"
  AlignedBuffer<std::byte> storage;
};

// Packs the checkpoint. Without `dtype` every matrix keeps the type it has in the file. Throws what Checkpoint::read
// throws, Error{cancelled}, and Error{out_of_memory}.
PackedWeights pack_weights(const Checkpoint& checkpoint, std::optional<kernels::WeightKind> dtype, ThreadPool& threads,
                           ProgressCallback progress = {});

// The bytes that pack_weights will take.
std::size_t packed_weight_bytes(const Checkpoint& checkpoint, std::optional<kernels::WeightKind> dtype);

}  // namespace sparkx
