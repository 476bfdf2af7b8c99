// The safetensors format: 8 bytes little-endian header length, the header (a JSON object: name -> {dtype, shape,
// data_offsets}, and "__metadata__" with strings), then the tensors' bytes, little-endian, row-major, without holes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/dtype.h"
#include "core/file.h"

namespace sparkx {

struct SafetensorsTensor {
  std::string name;
  Dtype dtype;
  std::vector<std::int64_t> shape;
  std::uint64_t offset = 0;  // of the first byte in the file
  std::uint64_t bytes = 0;
};

struct SafetensorsHeader {
  std::vector<SafetensorsTensor> tensors;  // in the order of their bytes
  std::vector<std::pair<std::string, std::string>> metadata;
};

// Reads and checks the header. Afterwards every tensor's bytes lie within the file, dtype and shape give their number,
// and the tensors cover the file from the header to its end, each byte once. Throws Error{corrupt} for a file that is
// not so, Error{unsupported} for an element type that sparkx does not know, Error{io}.
SafetensorsHeader read_safetensors_header(const ByteSource& file);

// What a file with these tensors begins with, before their bytes. Offsets and sizes are worked out here. Throws
// Error{invalid_argument}, with the name of the file, for a shape without a size or a repeated name.
std::string safetensors_head(std::string_view file, std::span<const SafetensorsTensor> tensors,
                             const std::vector<std::pair<std::string, std::string>>& metadata = {});

// Writes a file whose tensors are known beforehand and whose bytes come in pieces. The file appears at commit().
class SafetensorsWriter {
 public:
  // `tensors`: name, dtype and shape. Throws what safetensors_head throws, and Error{io}.
  SafetensorsWriter(const std::filesystem::path& path, std::span<const SafetensorsTensor> tensors,
                    const std::vector<std::pair<std::string, std::string>>& metadata = {});

  // The next bytes, tensor after tensor in the order given; a piece may end anywhere. Throws Error{invalid_argument}
  // for more bytes than the tensors have, Error{io}.
  void write(std::span<const std::byte> bytes);

  // Throws Error{invalid_argument} when bytes are missing, Error{io}.
  void commit();

 private:
  AtomicFile file_;
  std::uint64_t missing_ = 0;  // bytes still to come
};

}  // namespace sparkx
