// What the linear modules of a model read, for whoever wants to know, such as calibration (docs/architecture.md). A
// model that nobody observes pays one look at a null pointer a stage; observing changes no bits.
#pragma once

#include <compare>
#include <cstdint>

#include "kernels/kernels.h"

namespace sparkx {

// The inputs of the linear modules (docs/model.md, Architecture). Modules of one input stand together.
enum class LinearInput {
  attention,  // [hidden_size], of q_k_v_proj and g_proj
  heads,      // [num_attention_heads * head_dim], of out_proj
  mlp,        // [hidden_size], of gate_proj and up_proj
  hidden,     // [intermediate_size], of down_proj
  head,       // [hidden_size], of lm_head: of the tokens whose logits are wanted
};

struct LinearInputPlace {
  LinearInput input;
  std::int64_t layer;  // 0 for LinearInput::head

  auto operator<=>(const LinearInputPlace&) const = default;
};

class InputObserver {
 public:
  virtual ~InputObserver() = default;

  // The rows of one pass, in the order of its tokens; columns are in the order of the model. Called by the thread that
  // steps the model, between two stages; must not throw. What `rows` points to changes afterwards.
  virtual void observe(LinearInputPlace place, const kernels::Activations& rows) = 0;
};

}  // namespace sparkx
