// formats/gguf: every tensor of a file that is accepted lies within it, and no two share a byte. The same bytes as a
// model, whose every tensor can then be read, as a tokenizer with its templates, and as blocks of each type, whose
// codes fit their bits.
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "core/error.h"
#include "core/quantization.h"
#include "expect.h"
#include "formats/checkpoint.h"
#include "formats/gguf.h"
#include "formats/gguf_blocks.h"
#include "formats/gguf_model.h"

namespace {

using namespace sparkx;
using fuzz::require;
using fuzz::run;

constexpr std::initializer_list<ErrorCode> kRefusals = {ErrorCode::corrupt, ErrorCode::unsupported,
                                                        ErrorCode::not_found, ErrorCode::invalid_argument};

void check_blocks(const std::vector<MemoryFile>& files) {
  struct Type {
    const char* name;
    std::int64_t columns;
    std::size_t bytes;
  };
  constexpr Type kTypes[] = {{"Q8_0", 32, 34},   {"Q4_0", 32, 18},   {"Q4_1", 32, 20},   {"Q5_0", 32, 22},
                             {"Q5_1", 32, 24},   {"Q2_K", 256, 84},  {"Q3_K", 256, 110}, {"Q4_K", 256, 144},
                             {"Q5_K", 256, 176}, {"Q6_K", 256, 210}, {"IQ4_NL", 32, 18}, {"IQ4_XS", 256, 136}};
  const auto file = std::make_shared<const ByteSource>(ByteSource::memory("fuzz", files[0].bytes));
  for (const Type& type : kTypes) {
    const std::int64_t columns = static_cast<std::int64_t>(files[0].bytes.size() / type.bytes) * type.columns;
    if (columns == 0) continue;
    StoredTensors tensors({{"m.weight", "m.weight", std::nullopt, type.name, {1, columns}, file, 0}}, "fuzz");
    const std::optional<QuantizedMatrix> matrix = gguf_matrix("m", 1, columns, tensors);
    require(matrix.has_value());
    CodeStorage storage(matrix->spec, 1, columns);
    const CodeBuffers codes = storage.buffers();
    matrix->read(0, 1, codes);
    for (std::int64_t k = 0; k < columns; ++k) require(codes.codes[k] < 1 << matrix->spec.bits);
    std::vector<float> weights(static_cast<std::size_t>(columns));
    decode_rows(matrix->spec, 1, columns, codes, weights.data());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span<const std::byte> bytes = std::as_bytes(std::span(data, size));
  run(kRefusals, [&] {
    const GgufHeader header = read_gguf(ByteSource::memory("fuzz", bytes));
    std::uint64_t end = 0;
    for (const GgufTensor& tensor : header.tensors) {
      require(tensor.offset >= end && tensor.bytes <= size && tensor.offset <= size - tensor.bytes);
      end = tensor.offset + tensor.bytes;
    }
    run(kRefusals, [&] {
      if (const auto tokenizer = gguf_tokenizer(header.metadata)) {
        for (const auto& [left, right] : tokenizer->merges) {
          require(static_cast<std::size_t>(left) < tokenizer->tokens.size());
          require(static_cast<std::size_t>(right) < tokenizer->tokens.size());
        }
      }
    });
    gguf_chat_templates(header.metadata);
  });
  const std::vector<MemoryFile> files{{"m.gguf", bytes}};
  check_blocks(files);
  run(kRefusals, [&] {
    const Checkpoint checkpoint = Checkpoint::open("fuzz", files);
    for (const TensorInfo& tensor : checkpoint.tensors()) {
      if (const QuantizedMatrix* matrix = checkpoint.find_quantized(tensor.name)) {
        std::vector<float> weights(static_cast<std::size_t>(tensor.rows() * tensor.columns()));
        read_weights(*matrix, tensor.columns(), 0, tensor.rows(), weights.data());
        continue;
      }
      std::vector<std::byte> out(tensor.bytes());
      checkpoint.read(tensor, 0, tensor.rows(), out);
    }
  });
  return 0;
}
