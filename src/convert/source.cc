#include "convert/source.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "core/bfloat16.h"
#include "core/error.h"
#include "core/quantization.h"

namespace sparkx {
namespace {

template <typename T>
T load(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

}  // namespace

void read_values(const Checkpoint& checkpoint, const TensorInfo& tensor, std::int64_t row_begin, std::int64_t row_end,
                 float* out) {
  if (const QuantizedMatrix* matrix = checkpoint.find_quantized(tensor.name)) {
    read_weights(*matrix, tensor.columns(), row_begin, row_end, out);
    return;
  }
  const auto count = static_cast<std::size_t>((row_end - row_begin) * tensor.columns());
  std::vector<std::byte> stored(count * dtype_size(tensor.dtype));
  checkpoint.read(tensor, row_begin, row_end, stored);
  load_values(tensor.dtype, stored.data(), count, out);
}

void read_elements(const Checkpoint& checkpoint, const TensorInfo& tensor, std::int64_t row_begin, std::int64_t row_end,
                   Dtype to, std::byte* out) {
  const auto count = static_cast<std::size_t>((row_end - row_begin) * tensor.columns());
  if (tensor.dtype == to && checkpoint.find_quantized(tensor.name) == nullptr) {
    checkpoint.read(tensor, row_begin, row_end, {out, count * dtype_size(to)});
    return;
  }
  std::vector<float> values(count);
  read_values(checkpoint, tensor, row_begin, row_end, values.data());
  store_values(to, values.data(), count, out);
}

std::string scheme_name(const QuantizationSpec& spec) {
  if (spec.scheme == CodeScheme::w8a8) return "W8A8";
  const std::string group = spec.group == kWholeRow ? "one scale a row" : fmt::format("groups of {}", spec.group);
  const char* values = spec.values == CodeValues::e2m1   ? " E2M1"
                       : spec.values == CodeValues::e4m3 ? " E4M3"
                       : spec.values == CodeValues::iq4  ? " IQ4"
                                                         : "";
  const char* zeros = spec.scheme == CodeScheme::zero_point ? ", zero points" : "";
  const char* levels = spec.scheme == CodeScheme::two_level ? ", two levels of scales" : "";
  return fmt::format("{}-bit{}, {}{}{}", spec.bits, values, group, zeros, levels);
}

std::string storage_name(const Checkpoint& checkpoint, const TensorInfo& tensor) {
  const QuantizedMatrix* matrix = checkpoint.find_quantized(tensor.name);
  return matrix != nullptr ? scheme_name(matrix->spec) : dtype_name(tensor.dtype);
}

void load_values(Dtype from, const std::byte* elements, std::size_t count, float* values) {
  switch (from) {
    case Dtype::bfloat16:
      for (std::size_t i = 0; i < count; ++i) values[i] = bfloat16_to_float(load<std::uint16_t>(elements + 2 * i));
      return;
    case Dtype::float16:
      for (std::size_t i = 0; i < count; ++i) values[i] = float16_to_float(load<std::uint16_t>(elements + 2 * i));
      return;
    default:  // Checkpoint admits no other
      std::memcpy(values, elements, count * sizeof(float));
  }
}

void store_values(Dtype to, const float* values, std::size_t count, std::byte* out) {
  if (to == Dtype::float32) {
    std::memcpy(out, values, count * sizeof(float));
    return;
  }
  const bool half = to == Dtype::float16;
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint16_t bits = half ? float_to_float16(values[i]) : float_to_bfloat16(values[i]);
    if (half && (bits & 0x7FFF) == 0x7C00 && std::isfinite(values[i])) {
      throw_error(ErrorCode::corrupt, "the value {} is too large for float16; bfloat16 and float32 hold it", values[i]);
    }
    std::memcpy(out + 2 * i, &bits, sizeof bits);
  }
}

}  // namespace sparkx
