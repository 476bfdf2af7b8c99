// Storing one position in a block of the KV cache (layout: kernels/kernels.h), rounded to the block's kind.
#pragma once

#include "kernels/cache_layout.inc.h"
#include "kernels/codes.inc.h"
#include "kernels/kernels.h"
#include "kernels/simd/bits.h"

namespace sparkx::kernels {
namespace {

// Rule 10 of docs/numerics.md: calls body(group, its channels, their codes, the scale) for each group of 64 channels.
// The codes are followed by zeros up to 64.
template <class Body>
inline void each_coded_group(const float* x, int head_dim, Body body) {
  for (int group = 0; group < kv_groups(head_dim); ++group) {
    const int begin = group * kKvGroup;
    const int count = head_dim - begin < kKvGroup ? head_dim - begin : kKvGroup;
    std::int8_t codes[kKvGroup];
    float scale, sum, scaled_sum, stretch_sums[kKvGroup / kStretchColumns],
        scaled_stretch_sums[kKvGroup / kStretchColumns];
    std::int16_t quarter_sums[kKvGroup / kLanes];
    code_activations(x + begin, count, kKvGroup,
                     {codes, &scale, &sum, &scaled_sum, stretch_sums, scaled_stretch_sums, quarter_sums});
    body(group, count, codes, scale);
  }
}

template <KvKind kind>
void store_key(std::byte* keys, int slot, const float* key, int head_dim) {
  std::byte* panel = keys + slot / kLanes * key_panel_bytes(kind, head_dim);
  const int lane = slot % kLanes;
  if constexpr (kind == KvKind::int8) {
    each_coded_group(key, head_dim, [&](int group, int count, const std::int8_t* codes, float scale) {
      std::byte* out = panel + group * kKeyGroupBytes;
      reinterpret_cast<float*>(out)[lane] = scale;
      out += kLanes * sizeof(float);
      for (int c = 0; c < round_up_to(count, kStretchColumns); ++c) {
        out[(c / 4 * kLanes + lane) * 4 + c % 4] = static_cast<std::byte>(codes[c] + kKeyCodeOffset);
      }
    });
    return;
  }
  for (int c = 0; c < head_dim; ++c) {
    if constexpr (kind == KvKind::float32) {
      reinterpret_cast<float*>(panel)[c * kLanes + lane] = key[c];
    } else {
      reinterpret_cast<std::uint16_t*>(panel)[(c / 2 * kLanes + lane) * 2 + c % 2] = round_to_bfloat16(key[c]);
    }
  }
}

template <KvKind kind>
void store_value(std::byte* values, int slot, const float* value, int head_dim) {
  std::byte* row = values + slot * value_bytes(kind, head_dim);
  if constexpr (kind == KvKind::int8) {
    auto* scales = reinterpret_cast<float*>(values + value_scales_offset(head_dim));
    each_coded_group(value, head_dim, [&](int group, int count, const std::int8_t* codes, float scale) {
      scales[group * kBlockPositions + slot] = scale;
      for (int c = 0; c < round_up_to(count, kLanes); ++c) row[group * kKvGroup + c] = static_cast<std::byte>(codes[c]);
    });
    return;
  }
  for (int c = 0; c < head_dim; ++c) {
    if constexpr (kind == KvKind::float32) {
      reinterpret_cast<float*>(row)[c] = value[c];
    } else {
      reinterpret_cast<std::uint16_t*>(row)[c] = round_to_bfloat16(value[c]);
    }
  }
}

}  // namespace
}  // namespace sparkx::kernels
