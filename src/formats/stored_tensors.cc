#include "formats/stored_tensors.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>

#include "core/bfloat16.h"
#include "core/error.h"
#include "core/printable.h"

namespace sparkx {

StoredTensors::StoredTensors(std::vector<StoredTensor> tensors, const std::string& checkpoint)
    : tensors_(std::move(tensors)), used_(tensors_.size()) {
  const auto by_name = [](const StoredTensor& a, const StoredTensor& b) { return a.name < b.name; };
  std::sort(tensors_.begin(), tensors_.end(), by_name);
  const auto twice = std::adjacent_find(tensors_.begin(), tensors_.end(),
                                        [](const StoredTensor& a, const StoredTensor& b) { return a.name == b.name; });
  if (twice == tensors_.end()) return;
  const std::string& other = (twice + 1)->file_name;
  throw_error(ErrorCode::corrupt, "{}: tensor {} is there twice{}", checkpoint, printable(twice->file_name),
              twice->file_name == other ? "" : fmt::format(": {} is another name of it", printable(other)));
}

const StoredTensor* StoredTensors::find(std::string_view name) const {
  const auto found = std::lower_bound(tensors_.begin(), tensors_.end(), name,
                                      [](const StoredTensor& t, std::string_view wanted) { return t.name < wanted; });
  return found != tensors_.end() && found->name == name ? &*found : nullptr;
}

const StoredTensor* StoredTensors::take(std::string_view name) {
  const StoredTensor* found = find(name);
  if (found == nullptr) return nullptr;
  const auto place = static_cast<std::size_t>(found - tensors_.data());
  if (!used_[place]) taken_bytes_ += found->bytes;
  used_[place] = true;
  return found;
}

std::string show_shape(std::span<const std::int64_t> shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

void expect_shape(const StoredTensor& tensor, std::vector<std::int64_t> shape, std::string_view meaning) {
  if (tensor.shape == shape) return;
  throw_error(ErrorCode::corrupt, "{}: tensor {} has shape {}, expected {} ({})", tensor.file->name(),
              printable(tensor.file_name), show_shape(tensor.shape), show_shape(shape), meaning);
}

void expect_tensor(const StoredTensor& tensor, Dtype dtype, std::vector<std::int64_t> shape, std::string_view meaning) {
  if (tensor.dtype != dtype) {
    throw_error(ErrorCode::corrupt, "{}: tensor {} is {}, expected {}", tensor.file->name(),
                printable(tensor.file_name), tensor.type_name, dtype_name(dtype));
  }
  expect_shape(tensor, std::move(shape), meaning);
}

void read_rows(const StoredTensor& tensor, std::int64_t row_begin, std::int64_t row_end, std::span<std::byte> out) {
  const std::uint64_t row_bytes = static_cast<std::uint64_t>(tensor.columns()) * dtype_size(*tensor.dtype);
  tensor.file->read(tensor.offset + static_cast<std::uint64_t>(row_begin) * row_bytes,
                    out.first(static_cast<std::size_t>(row_end - row_begin) * row_bytes));
}

void read_floats(const StoredTensor& tensor, std::int64_t row_begin, std::int64_t row_end, float* out) {
  const std::size_t count = static_cast<std::size_t>((row_end - row_begin) * tensor.columns());
  std::vector<std::byte> stored(count * dtype_size(*tensor.dtype));
  read_rows(tensor, row_begin, row_end, stored);
  if (*tensor.dtype == Dtype::float32) {
    std::memcpy(out, stored.data(), stored.size());
    return;
  }
  for (std::size_t i = 0; i < count; ++i) {
    std::uint16_t half;
    std::memcpy(&half, stored.data() + 2 * i, sizeof half);
    out[i] = *tensor.dtype == Dtype::bfloat16 ? bfloat16_to_float(half) : float16_to_float(half);
  }
}

}  // namespace sparkx
