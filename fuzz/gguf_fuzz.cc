// formats/gguf: every tensor of a file that is accepted lies within it, and no two share a byte. The same bytes as a
// model, whose every tensor can then be read, and as a tokenizer with its templates.
#include <cstdint>
#include <cstdlib>
#include <span>
#include <vector>

#include "core/error.h"
#include "expect.h"
#include "formats/checkpoint.h"
#include "formats/gguf.h"
#include "formats/gguf_model.h"

namespace {

using namespace sparkx;
using fuzz::require;
using fuzz::run;

constexpr std::initializer_list<ErrorCode> kRefusals = {ErrorCode::corrupt, ErrorCode::unsupported,
                                                        ErrorCode::not_found, ErrorCode::invalid_argument};

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
  run(kRefusals, [&] {
    const std::vector<MemoryFile> files{{"m.gguf", bytes}};
    const Checkpoint checkpoint = Checkpoint::open("fuzz", files);
    for (const TensorInfo& tensor : checkpoint.tensors()) {
      std::vector<std::byte> out(tensor.bytes());
      checkpoint.read(tensor, 0, tensor.rows(), out);
    }
  });
  return 0;
}
