// The GGUF container, versions 2 and 3 (docs/model.md, GGUF): a header, metadata (typed values by key), a table of
// tensors, then the tensors' bytes, each at a multiple of the alignment. All little-endian.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "core/file.h"

namespace sparkx {

// How the elements of a tensor are stored, by the format's own numbers; a block is the least that can be read.
struct GgufType {
  std::uint32_t number;
  const char* name;         // "Q4_K"
  std::int64_t block_size;  // elements
  std::uint64_t block_bytes;
};

// The type of this name; null for one that the format does not have.
const GgufType* find_gguf_type(std::string_view name);

struct GgufTensor {
  std::string name;
  const GgufType* type;
  std::vector<std::int64_t> shape;  // [rows, columns] as everywhere else; the file has the fastest dimension first
  std::uint64_t offset;             // of the first byte in the file
  std::uint64_t bytes;
};

// Integers of all widths, both kinds of floats, and arrays of one type. An array of arrays is refused.
using GgufArray =
    std::variant<std::vector<bool>, std::vector<std::int64_t>, std::vector<double>, std::vector<std::string>>;
using GgufValue = std::variant<bool, std::int64_t, double, std::string, GgufArray>;

class GgufMetadata {
 public:
  GgufMetadata() = default;
  // `file` stands in messages.
  GgufMetadata(std::string file, std::vector<std::pair<std::string, GgufValue>> entries);

  const GgufValue* find(std::string_view key) const;

  // The value of a key, absent when there is no such key. Throws Error{corrupt}, naming file and key, for another type
  // than the one asked for; an integer serves as a number.
  std::optional<std::int64_t> integer(std::string_view key) const;
  std::optional<double> number(std::string_view key) const;
  const bool* boolean(std::string_view key) const;
  const std::string* text(std::string_view key) const;
  template <typename Element>
  const std::vector<Element>* array(std::string_view key) const;

  const std::vector<std::pair<std::string, GgufValue>>& entries() const { return entries_; }  // in the file's order
  const std::string& file() const { return file_; }

 private:
  [[noreturn]] void wrong_type(std::string_view key, const GgufValue& value, const char* expected) const;

  std::string file_;
  std::vector<std::pair<std::string, GgufValue>> entries_;
  std::vector<std::uint32_t> by_key_;  // indices into entries_, ordered by key
};

struct GgufHeader {
  GgufMetadata metadata;
  std::vector<GgufTensor> tensors;  // in the order of their bytes
};

// Reads and checks everything but the tensors' bytes. Afterwards every tensor lies within the file, as large as shape
// and type say, and no two share a byte. What it takes is bounded by the size of the file. Throws Error{corrupt} for a
// file that is not so, Error{unsupported} for another version, byte order or an unknown type of elements, Error{io}.
GgufHeader read_gguf(const ByteSource& file);

// Whether these are the first bytes of a GGUF file.
bool is_gguf(const ByteSource& file);

}  // namespace sparkx
