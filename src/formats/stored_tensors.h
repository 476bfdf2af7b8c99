// The tensors of a checkpoint as its files have them, before they are matched with what the model needs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/dtype.h"
#include "core/file.h"

namespace sparkx {

struct StoredTensor {
  std::string name;            // that of docs/model.md, or of a part of a quantized matrix
  std::string file_name;       // in the file
  std::optional<Dtype> dtype;  // absent: blocks of codes
  std::string type_name;       // in the file's terms
  std::vector<std::int64_t> shape;
  std::shared_ptr<const ByteSource> file;
  std::uint64_t offset;     // of its first byte in that file
  std::uint64_t bytes = 0;  // in it

  std::int64_t rows() const { return shape[0]; }
  std::int64_t columns() const { return shape.size() == 2 ? shape[1] : 1; }
};

class StoredTensors {
 public:
  // `checkpoint` stands in messages. Throws Error{corrupt} for a name that is there twice.
  StoredTensors(std::vector<StoredTensor> tensors, const std::string& checkpoint);

  const StoredTensor* find(std::string_view name) const;
  // The same, and the tensor counts as used.
  const StoredTensor* take(std::string_view name);
  std::uint64_t taken_bytes() const { return taken_bytes_; }  // of all tensors that are used

  // The first tensor that nobody took and `ignored` does not hold for; null: all have a use.
  template <typename Ignored>
  const StoredTensor* find_unused(Ignored ignored) const {
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      if (!used_[i] && !ignored(tensors_[i].name)) return &tensors_[i];
    }
    return nullptr;
  }

 private:
  std::vector<StoredTensor> tensors_;  // ordered by name
  std::vector<bool> used_;
  std::uint64_t taken_bytes_ = 0;
};

// "[2, 3]"
std::string show_shape(std::span<const std::int64_t> shape);

// Throws Error{corrupt} naming file and tensor unless it has this dtype and shape; `meaning` says what the shape is.
void expect_tensor(const StoredTensor& tensor, Dtype dtype, std::vector<std::int64_t> shape, std::string_view meaning);
void expect_shape(const StoredTensor& tensor, std::vector<std::int64_t> shape, std::string_view meaning);

// Rows [row_begin, row_end) of a tensor with a dtype: as stored, and (of float32, float16 and bfloat16) as floats.
void read_rows(const StoredTensor& tensor, std::int64_t row_begin, std::int64_t row_end, std::span<std::byte> out);
void read_floats(const StoredTensor& tensor, std::int64_t row_begin, std::int64_t row_end, float* out);

}  // namespace sparkx
