// formats/safetensors: every tensor of a file that is accepted lies within it, and no two share a byte. The same bytes
// as the weights of a small checkpoint, whose every tensor can then be read.
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "expect.h"
#include "formats/checkpoint.h"
#include "formats/safetensors.h"

namespace {

using namespace sparkx;
using fuzz::require;
using fuzz::run;

constexpr std::initializer_list<ErrorCode> kRefusals = {ErrorCode::corrupt, ErrorCode::unsupported,
                                                        ErrorCode::not_found};

constexpr std::string_view kConfig = R"({"model_type": "spark2_5", "gate_attn_act_mode": "sigmoid",
  "headwise_attn_output_gate": true, "hidden_act": "gelu", "max_position_embeddings": 8, "rms_norm_eps": 1e-06,
  "hidden_size": 1, "num_attention_heads": 1, "num_key_value_heads": 1, "head_dim": 2, "intermediate_size": 1,
  "vocab_size": 2, "num_hidden_layers": 1, "layer_types": ["full_attention"],
  "rope_parameters": {"full_attention": {}}})";

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span<const std::byte> bytes = std::as_bytes(std::span(data, size));
  run(kRefusals, [&] {
    const SafetensorsHeader header = read_safetensors_header(ByteSource::memory("fuzz", bytes));
    std::uint64_t end = 0;
    for (const SafetensorsTensor& tensor : header.tensors) {
      require(tensor.offset >= end && tensor.bytes <= size && tensor.offset <= size - tensor.bytes);
      end = tensor.offset + tensor.bytes;
    }
    require(header.tensors.empty() || end == size);
  });
  run(kRefusals, [&] {
    const std::vector<MemoryFile> files{{"config.json", std::as_bytes(std::span(kConfig))},
                                        {"model.safetensors", bytes}};
    const Checkpoint checkpoint = Checkpoint::open("fuzz", files);
    for (const TensorInfo& tensor : checkpoint.tensors()) {
      std::vector<std::byte> out(tensor.bytes());
      checkpoint.read(tensor, 0, tensor.rows(), out);
    }
  });
  return 0;
}
