// Quantized matrices as MLX stores them (docs/model.md, MLX checkpoint format): <path>.weight as packed codes,
// <path>.scales, <path>.biases, and what config.json says about them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "core/json.h"
#include "core/quantization.h"
#include "formats/stored_tensors.h"

namespace sparkx {

class MlxQuantization {
 public:
  // `config` is the object in config.json, `file` its name for messages. Throws Error{corrupt} and Error{unsupported}
  // for members that make no sense or that sparkx does not know.
  MlxQuantization(const json::Value& config, const std::string& file);

  // The matrix of a module ("model.layers.0.mlp.up_proj") of this size, whose parts are then taken; absent when it is
  // stored dense. Throws Error{corrupt} for parts that do not fit each other or the config, Error{unsupported} for a
  // kind of quantization that sparkx cannot run.
  std::optional<QuantizedMatrix> matrix(const std::string& path, std::int64_t rows, std::int64_t columns,
                                        StoredTensors& tensors) const;

 private:
  // What the config says of one module.
  struct Entry {
    bool dense = false;  // "false": not quantized
    std::optional<std::int64_t> bits;
    std::optional<std::int64_t> group;
    std::string mode = "affine";
    bool coded_activations = false;  // W8A8
  };
  Entry read_entry(const std::string& path, const json::Value& value) const;

  std::string file_;
  std::map<std::string, Entry, std::less<>> entries_;
};

}  // namespace sparkx
