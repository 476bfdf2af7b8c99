// Makes what stands before the bytes of the tensors in a GGUF file, version 3 (docs/model.md, GGUF): metadata and the
// table of tensors; and says where their bytes belong. What it makes, read_gguf() reads.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "formats/gguf.h"

namespace sparkx {

class GgufWriter {
 public:
  // Adds an entry of the type that `value` has: an integer of any width, float, double, bool, std::string, or a
  // std::vector of one of these. Entries keep their order. Throws Error{invalid_argument} for a key that is empty,
  // longer than the format allows, or there already.
  template <typename T>
  void add(std::string_view key, const T& value);

  // [rows, columns] as everywhere else. Throws Error{invalid_argument} for a name that is empty, longer than llama.cpp
  // takes (63 bytes), or there already, and for a shape that the type cannot hold.
  void add_tensor(std::string_view name, const GgufType& type, std::vector<std::int64_t> shape);

  // With everything that was added: what stands at the beginning of the file; the tensors in the order they were added
  // and where their bytes belong, with zeros between them; and how long the file is.
  std::string head() const;
  std::vector<GgufTensor> tensors() const;
  std::uint64_t file_bytes() const;

 private:
  void begin_entry(std::string_view key);
  std::uint64_t head_bytes() const;

  std::string entries_;
  std::uint64_t entry_count_ = 0;
  std::set<std::string, std::less<>> keys_;
  std::string table_;
  std::vector<GgufTensor> tensors_;  // offsets count from the end of the head
  std::set<std::string, std::less<>> names_;
};

}  // namespace sparkx
