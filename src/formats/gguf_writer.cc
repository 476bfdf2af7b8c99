#include "formats/gguf_writer.h"

#include <cstring>
#include <limits>
#include <type_traits>

#include "core/error.h"
#include "core/printable.h"

namespace sparkx {
namespace {

constexpr std::uint32_t kVersion = 3;
constexpr std::uint64_t kAlignment = 32;  // the default, which need not be in the metadata
constexpr std::size_t kMaxKeyBytes = 65535;
constexpr std::size_t kMaxNameBytes = 63;  // llama.cpp keeps 64 with the final zero
constexpr std::size_t kMaxDimensions = 4;
constexpr std::int64_t kMaxElements = std::int64_t{1} << 50;  // as read_gguf() takes

std::uint64_t align(std::uint64_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

template <typename T>
void put(std::string& out, T number) {
  static_assert(std::is_arithmetic_v<T>);
  char bytes[sizeof number];
  std::memcpy(bytes, &number, sizeof number);
  out.append(bytes, sizeof number);
}

void put_string(std::string& out, std::string_view text) {
  put<std::uint64_t>(out, text.size());
  out += text;
}

// The format's own number of a type of values.
template <typename T>
constexpr std::uint32_t value_type() {
  if constexpr (std::is_same_v<T, std::uint8_t>) return 0;
  if constexpr (std::is_same_v<T, std::int8_t>) return 1;
  if constexpr (std::is_same_v<T, std::uint16_t>) return 2;
  if constexpr (std::is_same_v<T, std::int16_t>) return 3;
  if constexpr (std::is_same_v<T, std::uint32_t>) return 4;
  if constexpr (std::is_same_v<T, std::int32_t>) return 5;
  if constexpr (std::is_same_v<T, float>) return 6;
  if constexpr (std::is_same_v<T, bool>) return 7;
  if constexpr (std::is_same_v<T, std::string>) return 8;
  if constexpr (std::is_same_v<T, std::uint64_t>) return 10;
  if constexpr (std::is_same_v<T, std::int64_t>) return 11;
  if constexpr (std::is_same_v<T, double>) return 12;
}
constexpr std::uint32_t kArrayType = 9;

template <typename T>
void put_value(std::string& out, const T& value) {
  if constexpr (std::is_same_v<T, std::string>) {
    put_string(out, value);
  } else if constexpr (std::is_same_v<T, bool>) {
    put<std::uint8_t>(out, value ? 1 : 0);
  } else {
    put(out, value);
  }
}

template <typename T>
void put_typed(std::string& out, const T& value) {
  put(out, value_type<T>());
  put_value(out, value);
}

template <typename T>
void put_typed(std::string& out, const std::vector<T>& values) {
  put(out, kArrayType);
  put(out, value_type<T>());
  put<std::uint64_t>(out, values.size());
  for (const T& value : values) put_value(out, value);
}

}  // namespace

void GgufWriter::begin_entry(std::string_view key) {
  if (key.empty() || key.size() > kMaxKeyBytes) {
    throw_error(ErrorCode::invalid_argument, "a metadata key of {} bytes; GGUF has 1 to {}", key.size(), kMaxKeyBytes);
  }
  if (!keys_.emplace(key).second) {
    throw_error(ErrorCode::invalid_argument, "the metadata key {} is there already", printable(key));
  }
  put_string(entries_, key);
  ++entry_count_;
}

template <typename T>
void GgufWriter::add(std::string_view key, const T& value) {
  begin_entry(key);
  put_typed(entries_, value);
}

template void GgufWriter::add(std::string_view key, const std::uint8_t& value);
template void GgufWriter::add(std::string_view key, const std::int8_t& value);
template void GgufWriter::add(std::string_view key, const std::uint16_t& value);
template void GgufWriter::add(std::string_view key, const std::int16_t& value);
template void GgufWriter::add(std::string_view key, const std::uint32_t& value);
template void GgufWriter::add(std::string_view key, const std::int32_t& value);
template void GgufWriter::add(std::string_view key, const std::uint64_t& value);
template void GgufWriter::add(std::string_view key, const std::int64_t& value);
template void GgufWriter::add(std::string_view key, const float& value);
template void GgufWriter::add(std::string_view key, const double& value);
template void GgufWriter::add(std::string_view key, const bool& value);
template void GgufWriter::add(std::string_view key, const std::string& value);
template void GgufWriter::add(std::string_view key, const std::vector<std::uint8_t>& value);
template void GgufWriter::add(std::string_view key, const std::vector<std::int8_t>& value);
template void GgufWriter::add(std::string_view key, const std::vector<std::uint16_t>& value);
template void GgufWriter::add(std::string_view key, const std::vector<std::int16_t>& value);
template void GgufWriter::add(std::string_view key, const std::vector<std::uint32_t>& value);
template void GgufWriter::add(std::string_view key, const std::vector<std::int32_t>& value);
template void GgufWriter::add(std::string_view key, const std::vector<std::uint64_t>& value);
template void GgufWriter::add(std::string_view key, const std::vector<std::int64_t>& value);
template void GgufWriter::add(std::string_view key, const std::vector<float>& value);
template void GgufWriter::add(std::string_view key, const std::vector<double>& value);
template void GgufWriter::add(std::string_view key, const std::vector<bool>& value);
template void GgufWriter::add(std::string_view key, const std::vector<std::string>& value);

void GgufWriter::add_tensor(std::string_view name, const GgufType& type, std::vector<std::int64_t> shape) {
  if (name.empty() || name.size() > kMaxNameBytes) {
    throw_error(ErrorCode::invalid_argument, "tensor {} has a name of {} bytes; GGUF files have 1 to {}",
                printable(name), name.size(), kMaxNameBytes);
  }
  if (!names_.emplace(name).second) {
    throw_error(ErrorCode::invalid_argument, "tensor {} is there already", printable(name));
  }
  if (shape.empty() || shape.size() > kMaxDimensions) {
    throw_error(ErrorCode::invalid_argument, "tensor {} has {} dimensions; GGUF has 1 to {}", printable(name),
                shape.size(), kMaxDimensions);
  }
  std::int64_t elements = 1;
  for (const std::int64_t size : shape) {
    if (size < 1 || size > kMaxElements / elements) {
      throw_error(ErrorCode::invalid_argument, "tensor {} has a dimension of {}", printable(name), size);
    }
    elements *= size;
  }
  if (shape.back() % type.block_size != 0) {
    throw_error(ErrorCode::invalid_argument,
                "tensor {} has rows of {} elements, no multiple of the {} in a block of {}", printable(name),
                shape.back(), type.block_size, type.name);
  }
  const std::uint64_t offset = tensors_.empty() ? 0 : align(tensors_.back().offset + tensors_.back().bytes);
  put_string(table_, name);
  put(table_, static_cast<std::uint32_t>(shape.size()));
  for (std::size_t i = shape.size(); i-- > 0;) put(table_, static_cast<std::uint64_t>(shape[i]));
  put(table_, type.number);
  put(table_, offset);
  const std::uint64_t bytes = static_cast<std::uint64_t>(elements / type.block_size) * type.block_bytes;
  tensors_.push_back({std::string(name), &type, std::move(shape), offset, bytes});
}

std::uint64_t GgufWriter::head_bytes() const {
  constexpr std::uint64_t kFixed = 4 + 4 + 8 + 8;  // magic, version, two counts
  return align(kFixed + entries_.size() + table_.size());
}

std::string GgufWriter::head() const {
  std::string bytes = "GGUF";
  put(bytes, kVersion);
  put<std::uint64_t>(bytes, tensors_.size());
  put(bytes, entry_count_);
  bytes += entries_;
  bytes += table_;
  bytes.resize(head_bytes());
  return bytes;
}

std::vector<GgufTensor> GgufWriter::tensors() const {
  std::vector<GgufTensor> tensors = tensors_;
  for (GgufTensor& tensor : tensors) tensor.offset += head_bytes();
  return tensors;
}

std::uint64_t GgufWriter::file_bytes() const {
  return head_bytes() + (tensors_.empty() ? 0 : align(tensors_.back().offset + tensors_.back().bytes));
}

}  // namespace sparkx
