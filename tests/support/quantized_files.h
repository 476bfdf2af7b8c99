// Small checkpoints with one matrix quantized as MLX or compressed-tensors store it, for tests that break them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "formats/checkpoint.h"
#include "support/checkpoints.h"
#include "support/safetensors_files.h"

namespace sparkx::testing {

inline constexpr const char* kModule = "model.layers.0.mlp.down_proj";
inline constexpr std::int64_t kRows = 8, kColumns = 64;

// A small model whose down_proj has kRows x kColumns; all tensors dense.
inline std::string config_text() {
  std::string config = with_member(kSmallConfig, "hidden_size", "8");
  return with_member(config, "intermediate_size", "64");
}

inline StoredTensors dense_tensors() {
  StoredTensors tensors;
  const auto add = [&](const std::string& name, std::vector<std::int64_t> shape) {
    std::int64_t count = 1;
    for (const std::int64_t size : shape) count *= size;
    tensors[name] = stored_tensor("F32", shape, std::vector<float>(static_cast<std::size_t>(count), 1.0f));
  };
  add("model.embedding.weight", {8, 8});
  for (const std::string layer : {"model.layers.0.", "model.layers.1."}) {
    add(layer + "input_layernorm.weight", {8});
    add(layer + "self_attn.q_k_v_proj.weight", {32, 8});
    add(layer + "self_attn.g_proj.weight", {4, 8});
    add(layer + "self_attn.out_proj.weight", {8, 16});
    add(layer + "post_attention_layernorm.weight", {8});
    add(layer + "mlp.gate_proj.weight", {64, 8});
    add(layer + "mlp.up_proj.weight", {64, 8});
    add(layer + "mlp.down_proj.weight", {8, 64});
  }
  add("model.norm.weight", {8});
  return tensors;
}

struct QuantizedFiles {
  std::string config = config_text();
  StoredTensors tensors = dense_tensors();

  // Keeps the bytes that the checkpoint reads.
  Checkpoint open() {
    const std::vector<std::byte> bytes = safetensors_bytes(tensors);
    files_.contents["config.json"] = config;
    files_.contents["model.safetensors"] = std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    return Checkpoint::open("m", files_.memory());
  }

 private:
  TestFiles files_;
};

inline std::string part(const char* name) {
  return std::string(kModule) + "." + name;
}

// Code k of row r.
inline int expected_code(std::int64_t row, std::int64_t k, int bits) {
  return static_cast<int>((row * 7 + k * 3) % (1 << bits));
}

// Bit by bit, from `bit` on.
template <typename Word>
void set_bits(std::vector<Word>& words, std::int64_t bit, int code) {
  for (; code != 0; code >>= 1, ++bit) {
    auto& word = words[static_cast<std::size_t>(bit / 32)];
    if (code & 1) word = static_cast<Word>(static_cast<std::uint32_t>(word) | 1u << (bit % 32));
  }
}

// The codes as a little-endian bit stream in 32-bit words, row by row.
template <typename Word>
std::vector<Word> packed_codes(int bits) {
  const std::int64_t words = kColumns * bits / 32;
  std::vector<Word> packed(static_cast<std::size_t>(kRows * words));
  for (std::int64_t row = 0; row < kRows; ++row) {
    for (std::int64_t k = 0; k < kColumns; ++k) {
      set_bits(packed, row * words * 32 + k * bits, expected_code(row, k, bits));
    }
  }
  return packed;
}

inline QuantizedFiles mlx(int bits, std::int64_t group) {
  QuantizedFiles files;
  files.config = with_member(files.config, "quantization",
                             "{\"group_size\": " + std::to_string(group) + ", \"bits\": " + std::to_string(bits) + "}");
  const std::int64_t groups = kColumns / group;
  files.tensors[part("weight")] =
      stored_tensor("U32", {kRows, kColumns * bits / 32}, packed_codes<std::uint32_t>(bits));
  std::vector<float> scales, biases;
  for (std::int64_t i = 0; i < kRows * groups; ++i) {
    scales.push_back(static_cast<float>(i) + 0.5f);
    biases.push_back(-static_cast<float>(i));
  }
  files.tensors[part("scales")] = stored_tensor("F32", {kRows, groups}, scales);
  files.tensors[part("biases")] = stored_tensor("F32", {kRows, groups}, biases);
  return files;
}

inline QuantizedFiles mlx_floats(const char* mode, int bits, std::int64_t group) {
  QuantizedFiles files = mlx(bits, group);
  files.config = with_member(files.config, "quantization",
                             std::string("{\"bits\": ") + std::to_string(bits) +
                                 ", \"group_size\": " + std::to_string(group) + ", \"mode\": \"" + mode + "\"}");
  std::vector<std::uint8_t> scales;
  for (std::int64_t i = 0; i < kRows * kColumns / group; ++i) scales.push_back(static_cast<std::uint8_t>(100 + i));
  files.tensors[part("scales")] = stored_tensor("U8", {kRows, kColumns / group}, scales);
  files.tensors.erase(part("biases"));
  return files;
}

inline QuantizedFiles compressed(int bits, bool symmetric, const char* strategy, bool packed = true) {
  QuantizedFiles files;
  const bool grouped = std::string(strategy) == "group";
  files.config = with_member(
      files.config, "quantization_config",
      std::string(R"({"quant_method": "compressed-tensors", "format": ")") + (packed ? "pack" : "int") +
          R"(-quantized", "ignore": ["lm_head"], "config_groups": {"group_0": {"targets": ["re:.*layers.0.mlp.down_proj$"],
           "weights": {"num_bits": )" +
          std::to_string(bits) + R"(, "type": "int", "symmetric": )" + (symmetric ? "true" : "false") +
          R"(, "strategy": ")" + strategy + R"(", "group_size": )" + (grouped ? "32" : "null") + "}}}}");
  const std::int64_t groups = grouped ? 2 : 1;
  files.tensors.erase(part("weight"));
  if (packed) {
    files.tensors[part("weight_packed")] =
        stored_tensor("I32", {kRows, kColumns * bits / 32}, packed_codes<std::int32_t>(bits));
    files.tensors[part("weight_shape")] = stored_tensor("I64", {2}, std::vector<std::int64_t>{kRows, kColumns});
  } else {
    std::vector<std::int8_t> codes;
    for (std::int64_t i = 0; i < kRows * kColumns; ++i) {
      codes.push_back(static_cast<std::int8_t>(expected_code(i / kColumns, i % kColumns, 8) - 128));
    }
    files.tensors[part("weight")] = stored_tensor("I8", {kRows, kColumns}, codes);
  }
  std::vector<float> scales(static_cast<std::size_t>(kRows * groups));
  for (std::size_t i = 0; i < scales.size(); ++i) scales[i] = static_cast<float>(i) + 0.5f;
  files.tensors[part("weight_scale")] = stored_tensor("F32", {kRows, groups}, scales);
  if (!symmetric) {
    // Zero point of row r, group g: 3 r + g + 1, packed down the rows.
    std::vector<std::int32_t> zeros(static_cast<std::size_t>((kRows * bits + 31) / 32 * groups));
    for (std::int64_t row = 0; row < kRows; ++row) {
      for (std::int64_t g = 0; g < groups; ++g) {
        for (std::int64_t bit = 0; bit < bits; ++bit) {
          const std::int64_t at = row * bits + bit;
          auto& word = zeros[static_cast<std::size_t>(at / 32 * groups + g)];
          const auto code = static_cast<std::uint32_t>((3 * row + g + 1) % (1 << bits));
          word = static_cast<std::int32_t>(static_cast<std::uint32_t>(word) | (code >> bit & 1) << (at % 32));
        }
      }
    }
    files.tensors[part("weight_zero_point")] = stored_tensor("I32", {(kRows * bits + 31) / 32, groups}, zeros);
  }
  return files;
}

}  // namespace sparkx::testing
