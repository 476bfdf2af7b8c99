// Where things lie in one block of the KV cache: 64 positions of one layer and KV head (kernels/kernels.h).
#pragma once

#include "kernels/kernels.h"

namespace sparkx::kernels {
namespace {

constexpr int kBlockPanels = kBlockPositions / kLanes;

constexpr std::size_t element_bytes(KvKind kind) {
  return kind == KvKind::float32 ? 4 : kind == KvKind::bfloat16 ? 2 : 1;
}

constexpr int round_up_to(int n, int step) {
  return (n + step - 1) / step * step;
}

// int8: the groups of channels that share a scale, 64 each, the last one may be shorter.
constexpr int kv_groups(int head_dim) {
  return (head_dim + kKvGroup - 1) / kKvGroup;
}
// A whole group in a key panel: 16 scales, one for each key, then the codes.
constexpr std::size_t kKeyGroupBytes = kLanes * sizeof(float) + kLanes * kKvGroup;

constexpr std::size_t key_panel_bytes(KvKind kind, int head_dim) {
  if (kind != KvKind::int8) return kLanes * element_bytes(kind) * static_cast<std::size_t>(head_dim);
  return kv_groups(head_dim) * kLanes * sizeof(float) +
         kLanes * static_cast<std::size_t>(round_up_to(head_dim, kStretchColumns));
}

// One position of V. int8: up to a whole vector of channels.
constexpr std::size_t value_bytes(KvKind kind, int head_dim) {
  return element_bytes(kind) *
         static_cast<std::size_t>(kind == KvKind::int8 ? round_up_to(head_dim, kLanes) : head_dim);
}
// int8: the scales [group][position] stand behind all codes of the block.
constexpr std::size_t kValueScaleBytes = kBlockPositions * sizeof(float);  // of one group
constexpr std::size_t value_scales_offset(int head_dim) {
  return kBlockPositions * value_bytes(KvKind::int8, head_dim);
}

constexpr std::size_t block_bytes(KvKind kind, int head_dim) {
  const std::size_t keys = kBlockPanels * key_panel_bytes(kind, head_dim);
  const std::size_t values = kBlockPositions * value_bytes(kind, head_dim) +
                             (kind == KvKind::int8 ? kv_groups(head_dim) * kValueScaleBytes : 0);
  return keys > values ? keys : values;
}

}  // namespace
}  // namespace sparkx::kernels
