// Quantized matrices as the compressed-tensors library stores them (docs/model.md, compressed-tensors checkpoint
// format): which modules are quantized and how is said by groups of config.json, whose targets are paths, patterns and
// class names.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/json.h"
#include "core/quantization.h"
#include "core/regex.h"
#include "formats/stored_tensors.h"

namespace sparkx {

class CompressedTensors {
 public:
  // `config` is the object quantization_config, `file` the name of config.json for messages. Throws Error{corrupt} for
  // members that make no sense and Error{unsupported}, by name, for what sparkx cannot run.
  CompressedTensors(const json::Value& config, const std::string& file);

  // As MlxQuantization::matrix. `class_name` is what a target can call the module: "Linear" or "Embedding".
  std::optional<QuantizedMatrix> matrix(const std::string& path, std::string_view class_name, std::int64_t rows,
                                        std::int64_t columns, StoredTensors& tensors) const;

 private:
  enum class Packing { pack_quantized, int_quantized };
  struct Group {
    std::string name;
    Packing packing;
    int bits;
    bool symmetric;
    bool per_tensor;         // one scale for the whole matrix
    std::int64_t group;      // columns that share a scale, or kWholeRow
    bool coded_activations;  // W8A8
  };
  struct Target {
    std::string text;
    std::optional<Regex> pattern;  // of "re:…"
    std::size_t group;             // unused where the module is to be ignored
  };

  Group read_group(const std::string& name, const json::Value& value, const std::string& format) const;
  Target read_target(const json::Value& value, const std::string& where, std::size_t group) const;
  const Group* group_of(const std::string& path, std::string_view class_name) const;

  std::string file_;
  std::vector<Group> groups_;
  std::vector<Target> targets_;  // patterns in order of their text
  std::vector<Target> ignored_;
};

}  // namespace sparkx
