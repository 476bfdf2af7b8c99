// GGUF files made on the spot, for tests that break them.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sparkx::testing {

// The value types of the format, as its own numbers.
enum class GgufValueType : std::uint32_t { uint32 = 4, float32 = 6, boolean = 7, string = 8, array = 9, uint64 = 10 };

struct TestGgufTensor {
  std::string name;
  std::uint32_t type;                     // 0 F32, 1 F16, 8 Q8_0, 30 BF16
  std::vector<std::uint64_t> dimensions;  // the fastest first, as in the file
  std::string bytes;
};

template <typename T>
std::string raw(T value) {
  std::string bytes(sizeof value, '\0');
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}

inline std::string gguf_string(std::string_view text) {
  return raw<std::uint64_t>(text.size()) + std::string(text);
}

// Entries keep their order; a test can replace, drop or damage any of them.
struct TestGguf {
  std::uint32_t version = 3;
  std::vector<std::pair<std::string, std::string>> entries;  // key, type and value as bytes
  std::vector<TestGgufTensor> tensors;
  std::vector<std::uint64_t> offsets;  // of the tensors, where they are not what they should be

  void set_raw(std::string key, std::string value) {
    for (auto& entry : entries) {
      if (entry.first != key) continue;
      entry.second = std::move(value);
      return;
    }
    entries.emplace_back(std::move(key), std::move(value));
  }
  void set(std::string key, std::uint32_t value) { set_raw(std::move(key), type(GgufValueType::uint32) + raw(value)); }
  void set(std::string key, float value) { set_raw(std::move(key), type(GgufValueType::float32) + raw(value)); }
  void set(std::string key, const std::string& text) {
    set_raw(std::move(key), type(GgufValueType::string) + gguf_string(text));
  }
  void set(std::string key, const std::vector<std::string>& texts) {
    std::string value = array(GgufValueType::string, texts.size());
    for (const std::string& text : texts) value += gguf_string(text);
    set_raw(std::move(key), std::move(value));
  }
  void set(std::string key, const std::vector<std::uint32_t>& numbers) {
    std::string value = array(GgufValueType::uint32, numbers.size());
    for (const std::uint32_t number : numbers) value += raw(number);
    set_raw(std::move(key), std::move(value));
  }
  void set(std::string key, const std::vector<bool>& flags) {
    std::string value = array(GgufValueType::boolean, flags.size());
    for (const bool flag : flags) value += flag ? '\1' : '\0';
    set_raw(std::move(key), std::move(value));
  }
  void drop(std::string_view key) {
    std::erase_if(entries, [&](const auto& entry) { return entry.first == key; });
  }

  std::string bytes() const {
    std::string out = "GGUF" + raw(version) + raw<std::uint64_t>(tensors.size()) + raw<std::uint64_t>(entries.size());
    for (const auto& [key, value] : entries) out += gguf_string(key) + value;
    std::uint64_t offset = 0;
    std::string data;
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      const TestGgufTensor& tensor = tensors[i];
      out += gguf_string(tensor.name) + raw(static_cast<std::uint32_t>(tensor.dimensions.size()));
      for (const std::uint64_t dimension : tensor.dimensions) out += raw(dimension);
      out += raw(tensor.type) + raw(i < offsets.size() ? offsets[i] : offset);
      data += tensor.bytes;
      if (i + 1 < tensors.size()) data.append((32 - data.size() % 32) % 32, '\0');
      offset = data.size();
    }
    if (!tensors.empty()) out.append((32 - out.size() % 32) % 32, '\0');
    return out + data;
  }

  static std::string type(GgufValueType type) { return raw(static_cast<std::uint32_t>(type)); }
  static std::string array(GgufValueType of, std::uint64_t count) {
    return type(GgufValueType::array) + type(of) + raw(count);
  }
};

// The shape of small_checkpoint() (support/checkpoints.h), every matrix and vector in float32, counting up.
inline TestGguf small_gguf() {
  TestGguf file;
  file.set("general.architecture", "spark2_5");
  file.set("spark2_5.context_length", 1024u);
  file.set("spark2_5.embedding_length", 6u);
  file.set("spark2_5.block_count", 2u);
  file.set("spark2_5.feed_forward_length", 10u);
  file.set("spark2_5.attention.head_count", 4u);
  file.set("spark2_5.attention.head_count_kv", 2u);
  file.set("spark2_5.attention.key_length", 4u);
  file.set("spark2_5.attention.value_length", 4u);
  file.set("spark2_5.attention.layer_norm_rms_epsilon", 1e-6f);
  file.set("spark2_5.attention.sliding_window", 8u);
  file.set("spark2_5.attention.sliding_window_pattern", std::vector<bool>{true, false});
  file.set("spark2_5.rope.freq_base", 5000000.0f);
  file.set("spark2_5.rope.freq_base_swa", 10000.0f);
  file.set("spark2_5.rope.dimension_count", 2u);
  file.set("spark2_5.rope.dimension_count_swa", 4u);
  file.set("spark2_5.vocab_size", 8u);
  file.set("tokenizer.ggml.bos_token_id", 0u);
  file.set("tokenizer.ggml.eos_token_id", 1u);
  const auto add = [&file](std::string name, std::vector<std::uint64_t> dimensions) {
    std::uint64_t count = 1;
    for (const std::uint64_t dimension : dimensions) count *= dimension;
    std::string bytes;
    for (std::uint64_t i = 0; i < count; ++i) bytes += raw(static_cast<float>(file.tensors.size() + i));
    file.tensors.push_back({std::move(name), 0, std::move(dimensions), std::move(bytes)});
  };
  add("token_embd.weight", {6, 8});
  for (const std::string layer : {"blk.0.", "blk.1."}) {
    add(layer + "attn_norm.weight", {6});
    add(layer + "attn_qkv.weight", {6, 32});
    add(layer + "attn_gate.weight", {6, 4});
    add(layer + "attn_output.weight", {16, 6});
    add(layer + "ffn_norm.weight", {6});
    add(layer + "ffn_gate.weight", {6, 10});
    add(layer + "ffn_up.weight", {6, 10});
    add(layer + "ffn_down.weight", {10, 6});
  }
  add("output_norm.weight", {6});
  return file;
}

}  // namespace sparkx::testing
