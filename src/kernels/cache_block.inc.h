// Storing one position in a block of the KV cache (layout: kernels/kernels.h), rounded to the block's kind.
#pragma once

#include "kernels/kernels.h"
#include "kernels/simd/bits.h"

namespace sparkx::kernels {
namespace {

template <KvKind kind>
void store_key(std::byte* keys, int slot, const float* key, int head_dim) {
  const std::size_t panel = static_cast<std::size_t>(slot / kLanes) * kLanes * head_dim;  // in elements
  const int lane = slot % kLanes;
  for (int c = 0; c < head_dim; ++c) {
    if constexpr (kind == KvKind::float32) {
      reinterpret_cast<float*>(keys)[panel + c * kLanes + lane] = key[c];
    } else {
      reinterpret_cast<std::uint16_t*>(keys)[panel + (c / 2 * kLanes + lane) * 2 + c % 2] = round_to_bfloat16(key[c]);
    }
  }
}

template <KvKind kind>
void store_value(std::byte* values, int slot, const float* value, int head_dim) {
  const std::size_t row = static_cast<std::size_t>(slot) * head_dim;
  for (int c = 0; c < head_dim; ++c) {
    if constexpr (kind == KvKind::float32) {
      reinterpret_cast<float*>(values)[row + c] = value[c];
    } else {
      reinterpret_cast<std::uint16_t*>(values)[row + c] = round_to_bfloat16(value[c]);
    }
  }
}

}  // namespace
}  // namespace sparkx::kernels
