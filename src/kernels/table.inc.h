// One table of kernels, made of the layer that was included before this file and of the names the includer defines.
#pragma once

#include "kernels/attention.inc.h"
#include "kernels/cache_block.inc.h"
#include "kernels/coded_dot.inc.h"
#include "kernels/codes.inc.h"
#include "kernels/decode.inc.h"
#include "kernels/dot.inc.h"
#include "kernels/elementwise.inc.h"
#include "kernels/kernels.h"

namespace sparkx::kernels {
namespace {

constexpr KernelTable make_table(const char* name, const char* instruction_set, const char* caveat = "",
                                 decltype(KernelTable::dot_bfloat16) dot_bfloat16 = nullptr) {
  return {
      .name = name,
      .instruction_set = instruction_set,
      .caveat = caveat,
      .token_tile = kTokenTile,
      .code_token_tile = kCodeTokens,
      .dot = {dot<WeightKind::float32>, dot<WeightKind::bfloat16>, dot<WeightKind::float16>, dot<WeightKind::codes2>,
              dot<WeightKind::codes3>, dot<WeightKind::codes4>, dot<WeightKind::codes5>, dot<WeightKind::codes6>,
              dot<WeightKind::codes8>, dot<WeightKind::e2m1>, dot<WeightKind::iq4>, dot<WeightKind::e4m3>},
      .dot_codes = {nullptr, nullptr, nullptr, dot_codes<WeightKind::codes2>, dot_codes<WeightKind::codes3>,
                    dot_codes<WeightKind::codes4>, dot_codes<WeightKind::codes5>, dot_codes<WeightKind::codes6>,
                    dot_codes<WeightKind::codes8>, dot_codes<WeightKind::e2m1>, dot_codes<WeightKind::iq4>, nullptr},
      .dot_bfloat16 = dot_bfloat16,
      .code_activations = code_activations,
      .code_token = code_token,
      .quantize_affine = {quantize_affine<WeightKind::float32>, quantize_affine<WeightKind::bfloat16>,
                          quantize_affine<WeightKind::float16>},
      .decode_row = {decode_row<WeightKind::float32>, decode_row<WeightKind::bfloat16>, decode_row<WeightKind::float16>,
                     decode_row<WeightKind::codes2>, decode_row<WeightKind::codes3>, decode_row<WeightKind::codes4>,
                     decode_row<WeightKind::codes5>, decode_row<WeightKind::codes6>, decode_row<WeightKind::codes8>,
                     decode_row<WeightKind::e2m1>, decode_row<WeightKind::iq4>, decode_row<WeightKind::e4m3>},
      .rms_norm = rms_norm,
      .rope = rope,
      .gelu_mul = gelu_mul,
      .add = add,
      .store_key = {store_key<KvKind::float32>, store_key<KvKind::bfloat16>, store_key<KvKind::int8>},
      .store_value = {store_value<KvKind::float32>, store_value<KvKind::bfloat16>, store_value<KvKind::int8>},
      .attention_span = attention_span,
      .attention_merge = attention_merge,
      .attention_finish = attention_finish,
      .exp_sum = exp_sum,
  };
}

}  // namespace
}  // namespace sparkx::kernels
