// Comparing two checkpoints of one shape, whatever formats they are in: how far the weights of the one are from those
// of the other. Predictions are compared by LanguageModel::compare_logits (sparkx/evaluation.hpp).
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace sparkx {

struct TensorDifference {
  std::string name;  // "model.layers.0.mlp.down_proj.weight"
  std::vector<std::int64_t> shape;
  std::string reference_type;  // how it is stored: "bfloat16"
  std::string other_type;
  double relative_rms = 0;  // root of Σ (other - reference)² / Σ reference²; infinite where the reference is zero
  double largest = 0;       // |other - reference|
};

struct CheckpointDifference {
  std::vector<TensorDifference> tensors;  // in the order of the model
  double relative_rms = 0;                // over all of them
  double largest = 0;
  // What the configurations say differently beside it: "rms_norm_eps: 1e-06 and 1e-05".
  std::vector<std::string> configuration;
};

struct CompareOptions {
  std::optional<int> threads;  // absent: one for each physical core
  // Told how many of how many bytes are read, of both; false cancels.
  std::function<bool(std::uint64_t done, std::uint64_t total)> progress = {};
};

// Of two checkpoints as LanguageModel::load takes them; an empty path is the built-in model. A tied head is compared as
// what it is, the embedding. Some rows are in memory at a time, sums are in double and do not depend on threads. Throws
// what LanguageModel::load throws, Error{invalid_argument} naming what differs when the shapes do, Error{cancelled}.
CheckpointDifference compare_checkpoints(const std::filesystem::path& reference, const std::filesystem::path& other,
                                         const CompareOptions& options = {});

}  // namespace sparkx
