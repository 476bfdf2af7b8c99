// Small random checkpoints in memory, for tests that need a shape rather than golden numbers.
#pragma once

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "core/file.h"
#include "core/json.h"
#include "formats/checkpoint.h"
#include "support/safetensors_files.h"

namespace sparkx::testing {

struct ModelSpec {
  std::int64_t hidden_size = 36;  // no multiple of 16: there is padding to go wrong
  std::int64_t intermediate_size = 44;
  std::int64_t heads = 4;
  std::int64_t kv_heads = 2;
  std::int64_t head_dim = 12;
  std::int64_t vocab_size = 61;
  std::int64_t window = 40;
  std::string layers = "sfs";  // s: sliding, f: full
  bool biases = false;
  bool tied = false;
  std::int64_t max_position_embeddings = 1048576;
  double sliding_factor = 1.0;
  double full_factor = 0.5;
  unsigned seed = 1;
};

// Owns the files of a checkpoint; `tensors` may be changed before open().
class RandomModel {
 public:
  explicit RandomModel(const ModelSpec& spec) : spec_(spec), random_(spec.seed) {
    const std::int64_t hidden = spec.hidden_size, inner = spec.intermediate_size, d = spec.head_dim;
    matrix("model.embedding.weight", spec.vocab_size, hidden, 0.5 * std::sqrt(static_cast<double>(hidden)));
    norm("model.norm.weight");
    if (!spec.tied) matrix("lm_head.weight", spec.vocab_size, hidden, 2.0);
    for (std::size_t i = 0; i < spec.layers.size(); ++i) {
      std::string layer = "model.layers." + std::to_string(i) + ".";
      norm(layer + "input_layernorm.weight");
      norm(layer + "post_attention_layernorm.weight");
      linear(layer + "self_attn.q_k_v_proj", (spec.heads + 2 * spec.kv_heads) * d, hidden, 1.6);
      linear(layer + "self_attn.g_proj", spec.heads, hidden, 2.0);
      linear(layer + "self_attn.out_proj", hidden, spec.heads * d, 1.2);
      linear(layer + "mlp.gate_proj", inner, hidden, 1.6);
      linear(layer + "mlp.up_proj", inner, hidden, 1.0);
      linear(layer + "mlp.down_proj", hidden, inner, 1.0);
    }
  }

  Checkpoint open() {
    weights_ = safetensors_bytes(tensors);
    config_ = json::print(config());
    files_ = {{"config.json", std::as_bytes(std::span(config_))}, {"model.safetensors", weights_}};
    return Checkpoint::open("random", files_);
  }

  // The same as a folder.
  void write(const std::filesystem::path& folder) const {
    std::filesystem::create_directories(folder);
    std::ofstream(folder / "config.json") << json::print(config());
    const std::vector<std::byte> bytes = safetensors_bytes(tensors);
    std::ofstream(folder / "model.safetensors", std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  }

  // A copy of one tensor's values, and putting them back.
  std::vector<float> values(const std::string& name) const { return tensors.at(name).as<float>(); }
  void set_values(const std::string& name, const std::vector<float>& values) {
    tensors.at(name) = stored_tensor("F32", tensors.at(name).shape, values);
  }

  StoredTensors tensors;  // all F32 at first

 private:
  json::Value config() const {
    json::Array layer_types;
    for (char c : spec_.layers) layer_types.emplace_back(c == 's' ? "sliding_attention" : "full_attention");
    auto rope = [](double theta, double factor) {
      return json::Object{{"rope_theta", theta}, {"partial_rotary_factor", factor}, {"rope_type", "default"}};
    };
    return json::Object{
        {"model_type", "spark2_5"},
        {"hidden_act", "gelu"},
        {"gate_attn_act_mode", "sigmoid"},
        {"headwise_attn_output_gate", true},
        {"attention_bias", spec_.biases},
        {"mlp_bias", spec_.biases},
        {"hidden_size", spec_.hidden_size},
        {"intermediate_size", spec_.intermediate_size},
        {"num_attention_heads", spec_.heads},
        {"num_key_value_heads", spec_.kv_heads},
        {"head_dim", spec_.head_dim},
        {"vocab_size", spec_.vocab_size},
        {"max_position_embeddings", spec_.max_position_embeddings},
        {"sliding_window", spec_.window},
        {"rms_norm_eps", 1e-6},
        {"tie_word_embeddings", spec_.tied},
        {"num_hidden_layers", spec_.layers.size()},
        {"layer_types", layer_types},
        {"rope_parameters", json::Object{{"sliding_attention", rope(10000.0, spec_.sliding_factor)},
                                         {"full_attention", rope(5000000.0, spec_.full_factor)}}},
    };
  }

  void matrix(const std::string& name, std::int64_t rows, std::int64_t columns, double scale) {
    std::normal_distribution<float> normal(0.0f, static_cast<float>(scale / std::sqrt(static_cast<double>(columns))));
    std::vector<float> values(rows * columns);
    for (float& value : values) value = normal(random_);
    tensors[name] = stored_tensor("F32", {rows, columns}, values);
  }

  void vector(const std::string& name, std::int64_t size, float low, float high) {
    std::uniform_real_distribution<float> uniform(low, high);
    std::vector<float> values(size);
    for (float& value : values) value = uniform(random_);
    tensors[name] = stored_tensor("F32", {size}, values);
  }

  void norm(const std::string& name) { vector(name, spec_.hidden_size, 0.5f, 1.5f); }

  void linear(const std::string& path, std::int64_t rows, std::int64_t columns, double scale) {
    matrix(path + ".weight", rows, columns, scale);
    if (spec_.biases) vector(path + ".bias", rows, -0.5f, 0.5f);
  }

  ModelSpec spec_;
  std::mt19937 random_;
  std::string config_;
  std::vector<std::byte> weights_;
  std::vector<MemoryFile> files_;
};

}  // namespace sparkx::testing
