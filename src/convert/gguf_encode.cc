#include "convert/gguf_encode.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string_view>

#include "convert/gguf_k_quants.h"
#include "core/bfloat16.h"

namespace sparkx {
namespace {

constexpr std::uint16_t kInfinity16 = 0x7C00;

bool is_finite16(std::uint16_t bits) {
  return (bits & kInfinity16) != kInfinity16;
}

template <typename T>
void put(std::byte* out, T value) {
  std::memcpy(out, &value, sizeof value);
}

// The weight of the largest magnitude, the first of them.
float peak(const float* weights) {
  float found = weights[0];
  for (int i = 1; i < kGgufBlockColumns; ++i) {
    if (std::fabs(weights[i]) > std::fabs(found)) found = weights[i];
  }
  return found;
}

// 1/scale; 0 for a scale that is nothing, also one so small that float16 has nothing for it.
float inverse_of(float scale) {
  const float inverse = 1 / scale;
  return scale == 0 || !std::isfinite(inverse) ? 0 : inverse;
}

// One block for 32 weights, by the formulas of gguf-py.
using BlockEncoder = bool (*)(const GgufType& type, const float* weights, std::byte* out);

bool encode_q8_0(const GgufType& type, const float* weights, std::byte* out) {
  const float scale = std::fabs(peak(weights)) / 127;
  const float inverse = inverse_of(scale);
  std::uint8_t codes[kGgufBlockColumns];
  for (int i = 0; i < kGgufBlockColumns; ++i) {
    codes[i] = static_cast<std::uint8_t>(std::round(weights[i] * inverse) + 128);  // ties away from zero
  }
  const std::uint16_t scale16 = float_to_float16(scale);
  pack_gguf_block(type, codes, scale16, 0, out);
  return is_finite16(scale16);
}

// 2^bits levels, the lowest for the largest weight.
template <int kBits>
bool encode_symmetric(const GgufType& type, const float* weights, std::byte* out) {
  constexpr int kZero = 1 << (kBits - 1);
  const float scale = peak(weights) / -kZero;
  const float inverse = inverse_of(scale);
  std::uint8_t codes[kGgufBlockColumns];
  for (int i = 0; i < kGgufBlockColumns; ++i) {
    const auto code = static_cast<int>(weights[i] * inverse + (static_cast<float>(kZero) + 0.5f));
    codes[i] = static_cast<std::uint8_t>(std::min(code, 2 * kZero - 1));
  }
  const std::uint16_t scale16 = float_to_float16(scale);
  pack_gguf_block(type, codes, scale16, 0, out);
  return is_finite16(scale16);
}

// 2^bits levels from the smallest weight to the largest.
template <int kBits>
bool encode_affine(const GgufType& type, const float* weights, std::byte* out) {
  constexpr int kMaxCode = (1 << kBits) - 1;
  const auto [low, high] = std::minmax_element(weights, weights + kGgufBlockColumns);
  const float scale = (*high - *low) / kMaxCode;
  const float inverse = inverse_of(scale);
  std::uint8_t codes[kGgufBlockColumns];
  for (int i = 0; i < kGgufBlockColumns; ++i) {
    const auto code = static_cast<int>((weights[i] - *low) * inverse + 0.5f);
    codes[i] = static_cast<std::uint8_t>(std::min(code, kMaxCode));
  }
  const std::uint16_t scale16 = float_to_float16(scale);
  const std::uint16_t minimum16 = float_to_float16(*low);
  pack_gguf_block(type, codes, scale16, minimum16, out);
  return is_finite16(scale16) && is_finite16(minimum16);
}

template <void (*kEncode)(const float*, std::byte*)>
bool encode_k(const GgufType&, const float* weights, std::byte* out) {
  const auto fits = [](float weight) { return std::fabs(weight) <= kMaxKWeight; };
  if (!std::all_of(weights, weights + kSuperBlock, fits)) return false;
  kEncode(weights, out);
  return true;
}

struct Encoder {
  std::string_view type;
  BlockEncoder encode;
};
constexpr Encoder kEncoders[] = {
    {"Q8_0", encode_q8_0},           {"Q4_0", encode_symmetric<4>},   {"Q4_1", encode_affine<4>},
    {"Q5_0", encode_symmetric<5>},   {"Q5_1", encode_affine<5>},      {"Q4_K", encode_k<encode_q4_k>},
    {"Q5_K", encode_k<encode_q5_k>}, {"Q6_K", encode_k<encode_q6_k>},
};

BlockEncoder find_encoder(std::string_view type) {
  for (const Encoder& encoder : kEncoders) {
    if (encoder.type == type) return encoder.encode;
  }
  return nullptr;
}

bool is_plain(std::string_view type) {
  return type == "F32" || type == "F16" || type == "BF16";
}

bool encode_plain(std::string_view type, std::span<const float> weights, std::byte* out) {
  bool fits = true;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    if (type == "F32") {
      put(out + 4 * i, weights[i]);
    } else if (type == "BF16") {
      const std::uint16_t bits = float_to_bfloat16(weights[i]);
      put(out + 2 * i, bits);
      fits &= std::isfinite(bfloat16_to_float(bits));
    } else {
      const std::uint16_t bits = float_to_float16(weights[i]);
      put(out + 2 * i, bits);
      fits &= is_finite16(bits);
    }
  }
  return fits;
}

}  // namespace

bool can_encode_gguf(const GgufType& type) {
  return is_plain(type.name) || find_encoder(type.name) != nullptr;
}

bool encode_gguf_row(const GgufType& type, std::span<const float> weights, std::byte* out) {
  if (!std::all_of(weights.begin(), weights.end(), [](float w) { return std::isfinite(w); })) return false;
  if (is_plain(type.name)) return encode_plain(type.name, weights, out);
  const BlockEncoder encode = find_encoder(type.name);
  bool fits = true;
  for (std::size_t i = 0; i < weights.size(); i += static_cast<std::size_t>(type.block_size)) {
    fits &= encode(type, weights.data() + i, out);
    out += type.block_bytes;
  }
  return fits;
}

void pack_gguf_block(const GgufType& type, const std::uint8_t* codes, std::uint16_t scale, std::uint16_t minimum,
                     std::byte* out) {
  constexpr int kHalf = kGgufBlockColumns / 2;
  const std::string_view name = type.name;
  put(out, scale);
  out += 2;
  if (name == "Q8_0") {
    for (int i = 0; i < kGgufBlockColumns; ++i) out[i] = static_cast<std::byte>(codes[i] ^ 0x80);
    return;
  }
  if (name == "Q4_1" || name == "Q5_1") {
    put(out, minimum);
    out += 2;
  }
  if (name == "Q5_0" || name == "Q5_1") {
    std::uint32_t high = 0;
    for (int i = 0; i < kGgufBlockColumns; ++i) high |= static_cast<std::uint32_t>(codes[i] >> 4) << i;
    put(out, high);
    out += 4;
  }
  for (int i = 0; i < kHalf; ++i) {  // the first half of the columns in the low halves
    out[i] = static_cast<std::byte>((codes[i] & 15) | (codes[i + kHalf] & 15) << 4);
  }
}

}  // namespace sparkx
