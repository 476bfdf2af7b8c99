#include "formats/gguf_blocks.h"

#include <cstring>
#include <vector>

#include "core/bfloat16.h"
#include "core/error.h"
#include "core/printable.h"

namespace sparkx {
namespace {

constexpr int kBlockColumns = 32;
constexpr int kHalfBlock = kBlockColumns / 2;

// A type of blocks of 32 columns: a float16 scale, perhaps a float16 minimum, then the codes.
struct BlockType {
  const char* name;
  CodeScheme scheme;
  int bits;
  int zero;
  std::size_t bytes;
};
constexpr BlockType kBlockTypes[] = {
    {"Q4_0", CodeScheme::offset, 4, 8, 18},
    {"Q4_1", CodeScheme::affine, 4, 0, 20},
    {"Q8_0", CodeScheme::offset, 8, 128, 34},  // signed codes; they are kept with 128 added
};

float load_float16(const std::byte* from) {
  std::uint16_t bits;
  std::memcpy(&bits, from, sizeof bits);
  return float16_to_float(bits);
}

void decode_block(const BlockType& type, const std::byte* block, std::uint8_t* codes, float* scale, float* bias) {
  *scale = load_float16(block);
  const std::byte* stored = block + 2;
  if (type.scheme == CodeScheme::affine) {
    *bias = load_float16(stored);
    stored += 2;
  }
  if (type.bits == 8) {
    for (int i = 0; i < kBlockColumns; ++i) codes[i] = std::to_integer<std::uint8_t>(stored[i]) ^ 0x80;
    return;
  }
  for (int i = 0; i < kHalfBlock; ++i) {  // the first half of the columns in the low halves
    const auto byte = std::to_integer<std::uint8_t>(stored[i]);
    codes[i] = byte & 15;
    codes[i + kHalfBlock] = byte >> 4;
  }
}

}  // namespace

std::optional<QuantizedMatrix> gguf_matrix(const std::string& path, std::int64_t rows, std::int64_t columns,
                                           StoredTensors& tensors) {
  const StoredTensor* found = tensors.find(path + ".weight");
  if (found == nullptr || found->dtype) return std::nullopt;
  const BlockType* type = nullptr;
  for (const BlockType& known : kBlockTypes) {
    if (found->type_name == known.name) type = &known;
  }
  if (type == nullptr) {
    throw_error(ErrorCode::unsupported, "{}: tensor {} is {}; sparkx supports F32, F16, BF16, Q8_0, Q4_0 and Q4_1",
                found->file->name(), printable(found->file_name), found->type_name);
  }
  expect_shape(*tensors.take(found->name), {rows, columns}, "rows, columns");
  QuantizedMatrix matrix;
  matrix.spec = {type->scheme, type->bits, kBlockColumns, Dtype::float16, type->zero};
  matrix.read = [file = found->file, offset = found->offset, type, columns](std::int64_t begin, std::int64_t end,
                                                                            const CodeBuffers& out) {
    const std::size_t blocks = static_cast<std::size_t>((end - begin) * (columns / kBlockColumns));
    std::vector<std::byte> stored(blocks * type->bytes);
    const std::uint64_t row_bytes = static_cast<std::uint64_t>(columns / kBlockColumns) * type->bytes;
    file->read(offset + static_cast<std::uint64_t>(begin) * row_bytes, stored);
    for (std::size_t i = 0; i < blocks; ++i) {
      decode_block(*type, stored.data() + i * type->bytes, out.codes + i * kBlockColumns, out.scales + i,
                   out.biases + i);
    }
  };
  return matrix;
}

}  // namespace sparkx
