// What the folders that conversions make hold, and whether two models are the same.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "core/json.h"
#include "formats/checkpoint.h"
#include "model/load.h"
#include "sparkx/convert.hpp"
#include "support/model_runs.h"
#include "support/safetensors_files.h"
#include "support/temp_dir.h"

namespace sparkx::testing {

inline std::set<std::string> files_in(const std::filesystem::path& folder) {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) names.insert(entry.path().filename().string());
  return names;
}

// All tensors of a folder's safetensors files.
inline StoredTensors tensors_in(const std::filesystem::path& folder) {
  StoredTensors all;
  for (const std::string& name : files_in(folder)) {
    if (name.starts_with("model") && name.ends_with(".safetensors")) all.merge(read_safetensors(folder / name));
  }
  return all;
}

// Names, types, shapes and bytes.
inline void expect_same_tensors(const std::filesystem::path& found, const std::filesystem::path& wanted) {
  const StoredTensors a = tensors_in(found), b = tensors_in(wanted);
  for (const auto& [name, tensor] : b) {
    const auto same = a.find(name);
    ASSERT_TRUE(same != a.end()) << name << " is missing";
    EXPECT_EQ(same->second.dtype, tensor.dtype) << name;
    EXPECT_EQ(same->second.shape, tensor.shape) << name;
    EXPECT_TRUE(same->second.data == tensor.data) << name << " has other bytes";
  }
  EXPECT_EQ(a.size(), b.size());
}

inline json::Value json_in(const std::filesystem::path& file) {
  return json::parse(read_file(file), file.string());
}

inline void convert(const std::filesystem::path& source, const std::filesystem::path& output,
                    const ConvertOptions& options = {}) {
  Conversion(source, output, options).run();
}

// The logits of a model for tokens of its own vocabulary. With float32 activations they are the weights' own.
inline Logits logits_of(const std::filesystem::path& model, LoadOptions options = {}) {
  const Checkpoint checkpoint = Checkpoint::open(model);
  options.kv_kind = kernels::KvKind::float32;
  options.context = 64;
  const std::unique_ptr<Model> loaded = load_model(checkpoint, std::move(options));
  return run(*loaded, random_tokens(48, checkpoint.config().vocab_size, 3), 17);
}

inline Logits exact_logits_of(const std::filesystem::path& model) {
  LoadOptions options;
  options.weights.activations = ActivationMode::float32;
  return logits_of(model, std::move(options));
}

}  // namespace sparkx::testing
