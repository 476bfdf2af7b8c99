// What a conversion writes, as a format plans it: for each tensor of the model its parts in the output and how their
// rows are made, and the files with every byte's place. conversion.cc carries it out on all cores.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/dtype.h"
#include "formats/checkpoint.h"
#include "sparkx/convert.hpp"

namespace sparkx {

class Calibration;

// An array in the output. Its rows are those of the tensor it belongs to, and stand one after another.
struct OutputPart {
  std::string name;
  std::string type;  // "uint32", "Q4_K"
  std::vector<std::int64_t> shape;
  std::uint64_t row_bytes;
  std::optional<Dtype> dtype = {};  // where the elements are plain numbers
  std::size_t file = 0;             // where it goes: an index of Target::files …
  std::uint64_t offset = 0;         // … and the place of its first byte there
};

struct TensorPlan {
  const TensorInfo* tensor;
  std::string source;  // see ConvertedTensor
  std::string target;
  std::string reason;
  std::vector<OutputPart> parts;
  bool calibrated = false;  // Calibration::prepare is called for it before its rows are made

  // Makes the rows [row_begin, row_end) of all parts, each in the place that `out` has for it; rounding is to nearest,
  // whatever the caller's environment. Called from many threads at once. Returns the largest error of a coefficient (a
  // scale or bias), relative to it; 0 where none is rounded. Throws what Checkpoint::read throws, and Error{corrupt}
  // for values that cannot be converted; the runner adds the tensor's name.
  std::function<double(std::int64_t row_begin, std::int64_t row_end, std::span<std::byte* const> out)> encode;

  std::uint64_t bytes() const {
    std::uint64_t sum = 0;
    for (const OutputPart& part : parts) sum += part.row_bytes * static_cast<std::uint64_t>(tensor->rows());
    return sum;
  }
};

// A file with tensors: `head` stands at its beginning, parts at their places, zeros where nothing is.
struct TensorFile {
  std::string name;  // "model-00001-of-00002.safetensors"
  std::string head;
  std::uint64_t bytes;
};

struct TextFile {
  std::string name;  // may lead into a folder
  std::string text;
};

struct Target {
  std::vector<TensorPlan> tensors;
  std::vector<TensorFile> files;
  std::vector<TextFile> texts;     // empty where the output is one file, whose name is then that of the output
  bool single_file = false;        // the output is files[0], not a folder
  std::vector<std::string> notes;  // see ConversionPlan
  // Makes the texts that can only be written once every tensor's largest error is known; it gets the target itself and
  // the errors in the order of `tensors`. Null where there are none.
  std::function<std::vector<TextFile>(const Target& target, std::span<const double> errors)> report;
};

// What a format makes of a checkpoint, which must outlive it. Throw Error{invalid_argument} for options that make no
// sense and Error{unsupported} for what the format cannot hold. `calibration`, null for none, must outlive the target.
Target plan_mlx(const Checkpoint& checkpoint, const ConvertOptions& options, Calibration* calibration);
Target plan_hugging_face(const Checkpoint& checkpoint, const ConvertOptions& options);
Target plan_gguf(const Checkpoint& checkpoint, const ConvertOptions& options, Calibration* calibration);

}  // namespace sparkx
