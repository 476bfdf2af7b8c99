// Weights of two checkpoints, compared tensor by tensor.
#include "sparkx/compare.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include "core/bfloat16.h"
#include "support/checkpoints.h"
#include "support/errors.h"
#include "support/oracle.h"
#include "support/safetensors_files.h"
#include "support/temp_dir.h"

namespace sparkx {
namespace {

using testing::error_of;
using testing::TempDir;

const std::filesystem::path kModel = std::filesystem::path(SPARKX_SOURCE_DIR) / "tests/data/model/untied-biased-f32";
const std::filesystem::path kTied = std::filesystem::path(SPARKX_SOURCE_DIR) / "tests/data/model/tied-bf16";

const TensorDifference& find(const CheckpointDifference& difference, const std::string& name) {
  const auto found = std::find_if(difference.tensors.begin(), difference.tensors.end(),
                                  [&](const TensorDifference& tensor) { return tensor.name == name; });
  EXPECT_NE(found, difference.tensors.end()) << name;
  return *found;
}

void write(const TempDir& folder, const std::filesystem::path& model, const testing::StoredTensors& tensors,
           const std::string& config = "") {
  folder.write("config.json", config.empty() ? testing::read_file(model / "config.json") : config);
  const std::vector<std::byte> bytes = testing::safetensors_bytes(tensors);
  folder.write("model.safetensors", {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

TEST(CompareCheckpoints, OneWithItselfDoesNotDiffer) {
  const CheckpointDifference difference = compare_checkpoints(kModel, kModel);
  EXPECT_EQ(difference.tensors.size(), testing::read_safetensors(kModel / "model.safetensors").size());
  EXPECT_EQ(difference.relative_rms, 0);
  EXPECT_EQ(difference.largest, 0);
  EXPECT_TRUE(difference.configuration.empty());
  EXPECT_EQ(difference.tensors[0].reference_type, "float32");
}

TEST(CompareCheckpoints, SaysWhatWasChangedInWhichTensor) {
  const std::string name = "model.layers.1.mlp.up_proj.weight";
  testing::StoredTensors tensors = testing::read_safetensors(kModel / "model.safetensors");
  std::vector<float> values = tensors.at(name).as<float>();
  double squares = 0;
  for (const float value : values) squares += static_cast<double>(value) * value;
  const std::size_t last = values.size() - 1;
  const float before[] = {values[3], values[last]};
  values[3] += 0.25f;
  values[last] -= 0.5f;
  const double errors[] = {static_cast<double>(values[3]) - before[0], static_cast<double>(values[last]) - before[1]};
  tensors.at(name) = testing::stored_tensor("F32", tensors.at(name).shape, values);
  TempDir folder;
  write(folder, kModel, tensors);
  const CheckpointDifference difference = compare_checkpoints(kModel, folder.path());
  for (const TensorDifference& tensor : difference.tensors) {
    EXPECT_EQ(tensor.relative_rms != 0, tensor.name == name) << tensor.name;
  }
  const TensorDifference& changed = find(difference, name);
  EXPECT_NEAR(changed.relative_rms, std::sqrt((errors[0] * errors[0] + errors[1] * errors[1]) / squares), 1e-12);
  EXPECT_EQ(changed.largest, std::abs(errors[1]));
  EXPECT_EQ(difference.largest, changed.largest);
  EXPECT_GT(difference.relative_rms, 0);
  EXPECT_LT(difference.relative_rms, changed.relative_rms);
}

TEST(CompareCheckpoints, ATensorOfZerosIsInfinitelyFarFromAnother) {
  const std::string name = "model.layers.0.mlp.up_proj.bias";
  testing::StoredTensors tensors = testing::read_safetensors(kModel / "model.safetensors");
  tensors.at(name) =
      testing::stored_tensor("F32", tensors.at(name).shape, std::vector<float>(tensors.at(name).as<float>().size()));
  TempDir folder;
  write(folder, kModel, tensors);
  EXPECT_EQ(find(compare_checkpoints(folder.path(), kModel), name).relative_rms,
            std::numeric_limits<double>::infinity());
  EXPECT_EQ(find(compare_checkpoints(kModel, folder.path()), name).relative_rms, 1);
}

TEST(CompareCheckpoints, DoesNotDependOnThreads) {
  SPARKX_NEEDS_ORACLE();
  CompareOptions one, three;
  one.threads = 1;
  three.threads = 3;
  const auto a =
      compare_checkpoints(testing::oracle_dir() / "quant-source-bf16", testing::oracle_dir() / "mlx-4bit-g64", one);
  const auto b =
      compare_checkpoints(testing::oracle_dir() / "quant-source-bf16", testing::oracle_dir() / "mlx-4bit-g64", three);
  EXPECT_EQ(a.relative_rms, b.relative_rms);
  ASSERT_EQ(a.tensors.size(), b.tensors.size());
  for (std::size_t i = 0; i < a.tensors.size(); ++i) EXPECT_EQ(a.tensors[i].relative_rms, b.tensors[i].relative_rms);
}

// Between any formats: what is stored with more bits is nearer to the source.
TEST(CompareCheckpoints, MoreBitsAreNearer) {
  SPARKX_NEEDS_ORACLE();
  const auto distance = [](const char* name) {
    return compare_checkpoints(testing::oracle_dir() / "quant-source-bf16", testing::oracle_dir() / name).relative_rms;
  };
  EXPECT_EQ(distance("gguf-F32.gguf"), 0);
  EXPECT_EQ(distance("gguf-BF16.gguf"), 0);
  const double q8 = distance("gguf-Q8_0.gguf"), q4 = distance("gguf-Q4_0.gguf");
  EXPECT_GT(q8, 0.001);
  EXPECT_LT(q8, 0.01);
  EXPECT_GT(q4, 0.05);
  EXPECT_LT(q4, 0.15);
  const double m8 = distance("mlx-8bit-g64"), m4 = distance("mlx-4bit-g64");
  EXPECT_GT(m8, 0.001);
  EXPECT_LT(m8, 0.01);
  EXPECT_GT(m4, 0.05);
  EXPECT_LT(m4, 0.15);
}

TEST(CompareCheckpoints, ATiedHeadIsTheEmbedding) {
  testing::StoredTensors tensors = testing::read_safetensors(kTied / "model.safetensors");
  tensors["lm_head.weight"] = tensors.at("model.embedding.weight");
  TempDir folder;
  write(folder, kTied, tensors,
        testing::with_member(testing::read_file(kTied / "config.json"), "tie_word_embeddings", "false"));
  for (const CheckpointDifference& difference :
       {compare_checkpoints(kTied, folder.path()), compare_checkpoints(folder.path(), kTied)}) {
    EXPECT_EQ(find(difference, "lm_head.weight").relative_rms, 0);
    EXPECT_EQ(difference.relative_rms, 0);
  }
}

TEST(CompareCheckpoints, ConfigurationsAreComparedToo) {
  TempDir folder;
  std::string config = testing::with_member(testing::read_file(kTied / "config.json"), "rms_norm_eps", "1e-05");
  config = testing::with_member(config, "rope_parameters.full_attention.rope_theta", "10000.0");
  write(folder, kTied, testing::read_safetensors(kTied / "model.safetensors"), config);
  EXPECT_EQ(compare_checkpoints(kTied, folder.path()).configuration,
            (std::vector<std::string>{"rms_norm_eps: 1e-06 and 1e-05",
                                      "rope_parameters.full_attention.rope_theta: 5000000.0 and 10000.0"}));
}

TEST(CompareCheckpoints, OtherShapesAreRefusedByName) {
  EXPECT_EQ(error_of([] { compare_checkpoints(kModel, kTied); }),
            "invalid_argument: the models have different shapes: num_hidden_layers is 2 in the one and 3 in the other");
  EXPECT_TRUE(error_of([] { compare_checkpoints(kModel, ""); }).starts_with("invalid_argument: the models have diff"));
}

TEST(CompareCheckpoints, ProgressReachesTheEndAndCancels) {
  CompareOptions options;
  options.threads = 1;
  std::uint64_t done = 0, total = 0;
  options.progress = [&](std::uint64_t d, std::uint64_t t) {
    EXPECT_GE(d, done);
    done = d;
    total = t;
    return true;
  };
  compare_checkpoints(kModel, kModel, options);
  EXPECT_GT(total, 0u);
  EXPECT_EQ(done, total);
  options.progress = [](std::uint64_t, std::uint64_t) { return false; };
  EXPECT_EQ(error_of([&] { compare_checkpoints(kModel, kModel, options); }), "cancelled: cancelled");
}

}  // namespace
}  // namespace sparkx
