// Looking at a checkpoint: what it is, what it takes, and whether sparkx can run it. Only headers are read, so a file
// of 9 GB takes as long as one of 9 MB.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sparkx/types.hpp"

namespace sparkx {

struct FileReport {
  std::string name;
  std::uint64_t bytes;
};

// One tensor of the model; of a refused checkpoint, of its files.
struct TensorReport {
  std::string name;  // "model.layers.0.mlp.down_proj.weight"
  std::vector<std::int64_t> shape;
  std::string stored;   // "bfloat16", "4-bit, groups of 64", "Q4_K"
  std::uint64_t bytes;  // in the files, with scales and all
};

// The matrices that do the same in every layer, the embedding, the head; all norms together, all biases together.
struct ModuleReport {
  std::string name;  // "q_k_v_proj", "norms"
  std::int64_t tensors = 0;
  std::int64_t parameters = 0;
  std::uint64_t bytes = 0;
  std::vector<std::pair<std::string, std::int64_t>> stored;  // how, and how many tensors; the most frequent first
};

struct RotaryReport {
  std::string layers;  // "sliding_attention", "full_attention"
  double theta;
  std::int64_t channels;  // of a head that turn
};

struct ArchitectureReport {
  std::int64_t layers = 0;
  std::int64_t sliding_layers = 0;
  std::int64_t full_layers = 0;
  std::string pattern;  // "3 sliding + 1 full, 7 times"
  std::int64_t sliding_window = 0;
  std::int64_t hidden_size = 0;
  std::int64_t intermediate_size = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t vocab_size = 0;
  std::int64_t max_position_embeddings = 0;
  bool tied = false;  // the head is the embedding
  bool attention_bias = false;
  bool mlp_bias = false;
  std::vector<RotaryReport> rotary;
};

struct SpecialToken {
  std::string role;  // "bos"
  TokenId id;
  std::string text;
};

struct TokenizerReport {
  std::int64_t vocab_size = 0;
  std::int64_t merges = 0;
  std::int64_t added_tokens = 0;
  std::vector<SpecialToken> special;
};

struct ChatTemplateReport {
  std::string where;  // "DIR/chat_template.jinja"
  std::uint64_t bytes = 0;
  bool tools = false;     // it speaks of tools
  bool thinking = false;  // … of enable_thinking
  std::string failure;    // what happened when a message was rendered; empty: all was well
};

// Of a sequence, by type of the cache.
struct KvReport {
  std::int64_t positions;
  std::uint64_t float32;
  std::uint64_t bfloat16;
  std::uint64_t int8;
};

// Loaded with the options given, on this machine now.
struct MemoryReport {
  std::string weights;      // "4-bit (groups of 64), bfloat16"
  std::string activations;  // as they meet quantized weights
  std::string kv;           // type of the cache
  std::string device;       // "cpu: avx512, 2 threads"
  std::uint64_t weight_bytes = 0;
  std::uint64_t buffer_bytes = 0;
  std::optional<std::uint64_t> available_bytes;
  std::optional<std::int64_t> context;  // that a sequence would get; absent when it does not fit
};

struct CheckpointReport {
  std::string name;
  std::string format;             // "safetensors", "MLX", "compressed-tensors", "GGUF"
  std::string file_type;          // of a GGUF file, as llama.cpp calls it: "Q4_K_M"; else empty
  std::string refusal;            // why sparkx cannot run it; empty: it can
  std::vector<FileReport> files;  // that hold tensors
  std::vector<TensorReport> tensors;
  std::vector<ModuleReport> modules;
  std::vector<std::string> warnings;  // ready to print

  // Absent when it is refused.
  std::optional<ArchitectureReport> architecture;
  std::optional<MemoryReport> memory;
  std::vector<KvReport> kv;

  std::optional<TokenizerReport> tokenizer;                             // absent when there is none
  std::optional<ChatTemplateReport> chat_template;                      // likewise
  std::optional<double> temperature, top_p, min_p, repetition_penalty;  // that the checkpoint suggests
  std::optional<std::int64_t> top_k;

  std::int64_t parameters() const;
  std::uint64_t tensor_bytes() const;
  std::uint64_t file_bytes() const;
};

}  // namespace sparkx
