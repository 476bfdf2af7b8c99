// The plain types that the whole of sparkx shares with those who use it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "sparkx/error.hpp"

namespace sparkx {

using TokenId = std::int32_t;  // 0 is a real token; never test an id for truth

enum class LogitsWanted { none, last, all };  // of the tokens that a step appends to a sequence

// What a step did for one sequence. With an error other than `cancelled` the sequence is as long as before, and the
// other sequences of the step are unharmed.
struct StepOutput {
  std::optional<ErrorCode> error;
  std::string message;            // of the error
  std::span<const float> logits;  // [positions][vocab_size], valid until the next call on the model
};

// What a loaded model is and which modes are in force.
struct ModelInfo {
  std::int64_t vocab_size;
  std::int64_t max_position_embeddings;
  std::int64_t context;  // positions that a sequence may have
  std::size_t weight_bytes;
  std::size_t kv_bytes_reserved;
  std::string weights;      // "bfloat16", "4-bit (groups of 64), bfloat16"
  std::string activations;  // as they meet quantized weights: "int8"; "float32" also when no weights are quantized
  std::string kv;           // "bfloat16"
  std::string device;       // "cpu: avx2, 2 threads"
};

}  // namespace sparkx
