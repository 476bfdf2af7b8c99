// Small checkpoints made on the spot, for tests that break them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/file.h"
#include "core/json.h"

namespace sparkx::testing {

inline std::string little_endian_64(std::uint64_t value) {
  std::string bytes(8, '\0');
  for (int i = 0; i < 8; ++i) bytes[static_cast<std::size_t>(i)] = static_cast<char>(value >> (8 * i));
  return bytes;
}

// A safetensors file from the text of its header and its data.
inline std::string safetensors_file(std::string_view header, std::string_view data) {
  return little_endian_64(header.size()) + std::string(header) + std::string(data);
}

struct TestTensor {
  std::string name;
  std::vector<std::int64_t> shape;
  std::string dtype = "F32";  // as safetensors writes it, with its size below
  std::size_t element_size = 4;
};

// Every tensor's bytes count up from the number of its place in the file.
inline std::string safetensors_file(const std::vector<TestTensor>& tensors) {
  json::Object header;
  std::string data;
  for (const TestTensor& tensor : tensors) {
    std::size_t bytes = tensor.element_size;
    for (const std::int64_t dimension : tensor.shape) bytes *= static_cast<std::size_t>(dimension);
    const std::size_t begin = data.size();
    for (std::size_t i = 0; i < bytes; ++i) data += static_cast<char>(header.size() + i);
    header.emplace_back(tensor.name, json::Object{{"dtype", tensor.dtype},
                                                  {"shape", json::Array(tensor.shape.begin(), tensor.shape.end())},
                                                  {"data_offsets", json::Array{begin, data.size()}}});
  }
  return safetensors_file(json::print(header), data);
}

// hidden 6, intermediate 10, 2 layers, 4 query and 2 KV heads of 4 channels, vocabulary 8; tied, without biases.
inline constexpr std::string_view kSmallConfig = R"({
  "architectures": ["Spark2_5ForCausalLM"], "model_type": "spark2_5", "attention_bias": false, "mlp_bias": false,
  "bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 2, "gate_attn_act_mode": "sigmoid",
  "headwise_attn_output_gate": true, "hidden_act": "gelu", "max_position_embeddings": 1024, "rms_norm_eps": 1e-06,
  "tie_word_embeddings": true, "hidden_size": 6, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 4,
  "intermediate_size": 10, "vocab_size": 8, "sliding_window": 8, "num_hidden_layers": 2,
  "layer_types": ["sliding_attention", "full_attention"],
  "rope_parameters": {
    "full_attention": {"rope_theta": 5000000.0, "partial_rotary_factor": 0.5, "rope_type": "default"},
    "sliding_attention": {"rope_theta": 10000.0, "partial_rotary_factor": 1.0, "rope_type": "default"}}
})";

inline std::vector<TestTensor> small_tensors() {
  std::vector<TestTensor> tensors{{"model.embedding.weight", {8, 6}}};
  for (int layer = 0; layer < 2; ++layer) {
    const std::string prefix = "model.layers." + std::to_string(layer) + ".";
    tensors.push_back({prefix + "input_layernorm.weight", {6}});
    tensors.push_back({prefix + "self_attn.q_k_v_proj.weight", {32, 6}});
    tensors.push_back({prefix + "self_attn.g_proj.weight", {4, 6}});
    tensors.push_back({prefix + "self_attn.out_proj.weight", {6, 16}});
    tensors.push_back({prefix + "post_attention_layernorm.weight", {6}});
    tensors.push_back({prefix + "mlp.gate_proj.weight", {10, 6}});
    tensors.push_back({prefix + "mlp.up_proj.weight", {10, 6}});
    tensors.push_back({prefix + "mlp.down_proj.weight", {6, 10}});
  }
  tensors.push_back({"model.norm.weight", {6}});
  return tensors;
}

// A JSON object's text with one member replaced, added or (value absent) removed. `path` goes into objects: "a.b".
inline std::string with_member(std::string_view object, std::string_view path, std::optional<std::string_view> value) {
  json::Value root = json::parse(object, "test");
  json::Value* at = &root;
  for (std::size_t dot; (dot = path.find('.')) != path.npos; path.remove_prefix(dot + 1)) {
    for (json::Member& member : at->as_object()) {
      if (member.first == path.substr(0, dot)) {
        at = &member.second;
        break;
      }
    }
  }
  json::Object& members = at->as_object();
  std::erase_if(members, [&](const json::Member& member) { return member.first == path; });
  if (value) members.emplace_back(path, json::parse(*value, "test"));
  return json::print(root);
}

// Named contents, seen as files in memory. The object must outlive what reads them.
struct TestFiles {
  std::map<std::string, std::string> contents;

  std::vector<MemoryFile> memory() const {
    std::vector<MemoryFile> files;
    for (const auto& [name, content] : contents) files.push_back({name, std::as_bytes(std::span(content))});
    return files;
  }
};

inline TestFiles small_checkpoint() {
  return {{{"config.json", std::string(kSmallConfig)}, {"model.safetensors", safetensors_file(small_tensors())}}};
}

}  // namespace sparkx::testing
