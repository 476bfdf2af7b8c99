#include "formats/gguf_blocks.h"

#include <bit>
#include <cstring>
#include <vector>

#include "core/bfloat16.h"
#include "core/error.h"
#include "core/printable.h"

namespace sparkx {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr int kColumns = 32;  // of the smaller blocks
constexpr int kHalfColumns = kColumns / 2;

// A type of blocks: what each of them becomes, with room for one of them.
struct BlockType {
  const char* name;
  int columns;
  std::size_t bytes;
  QuantizationSpec spec;
  void (*decode)(const std::uint8_t* block, const CodeBuffers& out);
};

template <typename T>
T load(const std::uint8_t* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

float load_float16(const std::uint8_t* from) {
  return float16_to_float(load<std::uint16_t>(from));
}

// `count` columns from the low halves of as many bytes, as many more from the high halves.
void unpack_halves(const std::uint8_t* stored, int count, std::uint8_t* codes) {
  for (int i = 0; i < count; ++i) {
    codes[i] = stored[i] & 15;
    codes[i + count] = stored[i] >> 4;
  }
}

// Bit i of a word becomes the fifth bit of code i.
void add_fifth_bits(std::uint32_t bits, std::uint8_t* codes) {
  for (int i = 0; i < kColumns; ++i) codes[i] |= static_cast<std::uint8_t>((bits >> i & 1) << 4);
}

// A float16 scale, perhaps a float16 minimum, perhaps fifth bits, then the codes.
void decode_q4_0(const std::uint8_t* block, const CodeBuffers& out) {
  out.scales[0] = load_float16(block);
  unpack_halves(block + 2, kHalfColumns, out.codes);
}

void decode_q4_1(const std::uint8_t* block, const CodeBuffers& out) {
  out.scales[0] = load_float16(block);
  out.biases[0] = load_float16(block + 2);
  unpack_halves(block + 4, kHalfColumns, out.codes);
}

void decode_q5_0(const std::uint8_t* block, const CodeBuffers& out) {
  out.scales[0] = load_float16(block);
  unpack_halves(block + 6, kHalfColumns, out.codes);
  add_fifth_bits(load<std::uint32_t>(block + 2), out.codes);
}

void decode_q5_1(const std::uint8_t* block, const CodeBuffers& out) {
  out.scales[0] = load_float16(block);
  out.biases[0] = load_float16(block + 2);
  unpack_halves(block + 8, kHalfColumns, out.codes);
  add_fifth_bits(load<std::uint32_t>(block + 4), out.codes);
}

void decode_q8_0(const std::uint8_t* block, const CodeBuffers& out) {
  out.scales[0] = load_float16(block);
  for (int i = 0; i < kColumns; ++i) out.codes[i] = block[2 + i] ^ 0x80;  // signed to unsigned: plus 128
}

// The 2-bit codes of a super-block: byte l of 32 has columns l, l + 32, l + 64 and l + 96 of its half.
void unpack_quarters(const std::uint8_t* stored, std::uint8_t* codes) {
  for (int k = 0; k < kSuperBlock; ++k) {
    const int half = k / 128, quarter = k % 128 / 32, byte = half * 32 + k % 32;
    codes[k] = stored[byte] >> (2 * quarter) & 3;
  }
}

void decode_q2_k(const std::uint8_t* block, const CodeBuffers& out) {
  for (int g = 0; g < 16; ++g) {
    out.sub_scales[g] = static_cast<std::int8_t>(block[g] & 15);
    out.sub_minima[g] = block[g] >> 4;
  }
  unpack_quarters(block + 16, out.codes);
  out.scales[0] = load_float16(block + 80);
  out.biases[0] = load_float16(block + 82);
}

// 16 signed scales of 6 bits: low halves in the first 8 bytes, then pairs of bits.
void decode_q3_k(const std::uint8_t* block, const CodeBuffers& out) {
  unpack_quarters(block + 32, out.codes);
  for (int k = 0; k < kSuperBlock; ++k) {
    out.codes[k] |= static_cast<std::uint8_t>((block[k % 32] >> (k / 32) & 1) << 2);
  }
  const std::uint8_t* scales = block + 96;
  for (int g = 0; g < 16; ++g) {
    const int low = scales[g % 8] >> (g / 8 * 4) & 15, high = scales[8 + g % 4] >> (g / 4 * 2) & 3;
    out.sub_scales[g] = static_cast<std::int8_t>((low | high << 4) - 32);
  }
  out.scales[0] = load_float16(block + 108);
}

// 8 scales and 8 minima of 6 bits in 12 bytes: the first four of each in the low bits of a byte of their own, the
// others in the halves of the last four bytes and the two bits that are left in the first eight.
void decode_scales_and_minima(const std::uint8_t* stored, const CodeBuffers& out) {
  for (int g = 0; g < 4; ++g) {
    out.sub_scales[g] = static_cast<std::int8_t>(stored[g] & 63);
    out.sub_minima[g] = stored[g + 4] & 63;
    out.sub_scales[g + 4] = static_cast<std::int8_t>((stored[g + 8] & 15) | stored[g] >> 6 << 4);
    out.sub_minima[g + 4] = static_cast<std::uint8_t>(stored[g + 8] >> 4 | stored[g + 4] >> 6 << 4);
  }
}

void decode_q4_k(const std::uint8_t* block, const CodeBuffers& out) {
  out.scales[0] = load_float16(block);
  out.biases[0] = load_float16(block + 2);
  decode_scales_and_minima(block + 4, out);
  for (int i = 0; i < 4; ++i) unpack_halves(block + 16 + 32 * i, 32, out.codes + 64 * i);
}

void decode_q5_k(const std::uint8_t* block, const CodeBuffers& out) {
  out.scales[0] = load_float16(block);
  out.biases[0] = load_float16(block + 2);
  decode_scales_and_minima(block + 4, out);
  for (int i = 0; i < 4; ++i) unpack_halves(block + 48 + 32 * i, 32, out.codes + 64 * i);
  for (int k = 0; k < kSuperBlock; ++k) {
    out.codes[k] |= static_cast<std::uint8_t>((block[16 + k % 32] >> (k / 32) & 1) << 4);
  }
}

void decode_q6_k(const std::uint8_t* block, const CodeBuffers& out) {
  std::uint8_t high[kSuperBlock];
  unpack_quarters(block + 128, high);
  for (int half = 0; half < 2; ++half) unpack_halves(block + 64 * half, 64, out.codes + 128 * half);
  for (int k = 0; k < kSuperBlock; ++k) out.codes[k] |= static_cast<std::uint8_t>(high[k] << 4);
  for (int g = 0; g < 16; ++g) out.sub_scales[g] = load<std::int8_t>(block + 192 + g);
  out.scales[0] = load_float16(block + 208);
}

// 8 signed scales of 6 bits: pairs of bits in a word, then halves of bytes.
void decode_iq4_xs(const std::uint8_t* block, const CodeBuffers& out) {
  out.scales[0] = load_float16(block);
  const auto high = load<std::uint16_t>(block + 2);
  for (int g = 0; g < 8; ++g) {
    const int low = block[4 + g / 2] >> (g % 2 * 4) & 15;
    out.sub_scales[g] = static_cast<std::int8_t>((low | (high >> (2 * g) & 3) << 4) - 32);
    unpack_halves(block + 8 + 16 * g, kHalfColumns, out.codes + kColumns * g);
  }
}

constexpr auto kOffset = CodeScheme::offset, kAffine = CodeScheme::affine, kTwoLevel = CodeScheme::two_level;
constexpr auto kIntegers = CodeValues::integers, kIq4 = CodeValues::iq4;
constexpr BlockType kBlockTypes[] = {
    {"Q8_0", kColumns, 34, {kOffset, 8, 32, Dtype::float16, 128}, decode_q8_0},
    {"Q4_0", kColumns, 18, {kOffset, 4, 32, Dtype::float16, 8}, decode_q4_0},
    {"Q4_1", kColumns, 20, {kAffine, 4, 32, Dtype::float16}, decode_q4_1},
    {"Q5_0", kColumns, 22, {kOffset, 5, 32, Dtype::float16, 16}, decode_q5_0},
    {"Q5_1", kColumns, 24, {kAffine, 5, 32, Dtype::float16}, decode_q5_1},
    {"Q2_K", kSuperBlock, 84, {kTwoLevel, 2, 16, Dtype::float16, 0, kIntegers, true}, decode_q2_k},
    {"Q3_K", kSuperBlock, 110, {kTwoLevel, 3, 16, Dtype::float16, 4}, decode_q3_k},
    {"Q4_K", kSuperBlock, 144, {kTwoLevel, 4, 32, Dtype::float16, 0, kIntegers, true}, decode_q4_k},
    {"Q5_K", kSuperBlock, 176, {kTwoLevel, 5, 32, Dtype::float16, 0, kIntegers, true}, decode_q5_k},
    {"Q6_K", kSuperBlock, 210, {kTwoLevel, 6, 16, Dtype::float16, 32}, decode_q6_k},
    {"IQ4_NL", kColumns, 18, {kOffset, 4, 32, Dtype::float16, 0, kIq4}, decode_q4_0},  // laid out as Q4_0
    {"IQ4_XS", kSuperBlock, 136, {kTwoLevel, 4, 32, Dtype::float16, 0, kIq4}, decode_iq4_xs},
};

std::string supported_types() {
  std::string names = "F32, F16, BF16";
  for (const BlockType& type : kBlockTypes) names += fmt::format(", {}", type.name);
  return names;
}

// Where a block of a matrix goes in the buffers of several.
CodeBuffers at_block(const BlockType& type, const CodeBuffers& out, std::size_t block) {
  const std::size_t groups = static_cast<std::size_t>(type.columns / type.spec.group);
  CodeBuffers at = out;
  at.codes += block * static_cast<std::size_t>(type.columns);
  at.scales += block;
  if (type.spec.scheme == CodeScheme::affine || type.spec.minima) at.biases += block;
  if (type.spec.scheme == CodeScheme::two_level) at.sub_scales += block * groups;
  if (type.spec.minima) at.sub_minima += block * groups;
  return at;
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
    throw_error(ErrorCode::unsupported, "{}: tensor {} is {}; sparkx supports {}", found->file->name(),
                printable(found->file_name), found->type_name, supported_types());
  }
  expect_shape(*tensors.take(found->name), {rows, columns}, "rows, columns");
  QuantizedMatrix matrix;
  matrix.spec = type->spec;
  matrix.block_type = type->name;
  const std::size_t row_blocks = static_cast<std::size_t>(columns / type->columns);
  matrix.read_blocks = [file = found->file, offset = found->offset, row_bytes = row_blocks * type->bytes](
                           std::int64_t begin, std::int64_t end, std::byte* out) {
    file->read(offset + static_cast<std::uint64_t>(begin) * row_bytes,
               {out, static_cast<std::size_t>(end - begin) * row_bytes});
  };
  matrix.read = [read_blocks = matrix.read_blocks, type, row_blocks](std::int64_t begin, std::int64_t end,
                                                                     const CodeBuffers& out) {
    const std::size_t blocks = static_cast<std::size_t>(end - begin) * row_blocks;
    std::vector<std::byte> stored(blocks * type->bytes);
    read_blocks(begin, end, stored.data());
    for (std::size_t i = 0; i < blocks; ++i) {
      type->decode(reinterpret_cast<const std::uint8_t*>(stored.data()) + i * type->bytes, at_block(*type, out, i));
    }
  };
  return matrix;
}

}  // namespace sparkx
