// Matrices whose codes have their columns in another order (docs/numerics.md rule 3): each projection reads its own.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "core/error.h"
#include "kernels/kernels.h"
#include "model/load.h"
#include "model/transformer.h"
#include "support/model_runs.h"
#include "support/random_model.h"

namespace sparkx {
namespace {

using testing::Logits;
using testing::run;
using testing::same_bits;

testing::ModelSpec model_spec() {
  testing::ModelSpec spec;
  spec.hidden_size = 96;
  spec.intermediate_size = 160;
  spec.head_dim = 16;
  spec.biases = true;
  return spec;
}

// One matrix as 4-bit codes in groups of 32 sorted columns, and the weights that they stand for, in order.
struct Reordered {
  Reordered(std::int64_t rows, std::int64_t columns, const std::vector<float>& values, unsigned seed)
      : columns(columns), order(static_cast<std::size_t>(columns)), weights(values.size()) {
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), std::mt19937(seed));
    for (std::int64_t row = 0; row < rows; ++row) {
      for (std::int64_t i = 0; i < columns; ++i) {
        const auto value = [&](std::int64_t at) { return values[row * columns + order[at]]; };
        if (i % 32 == 0) {
          float largest = 1e-6f;
          for (std::int64_t k = i; k < std::min(i + 32, columns); ++k) largest = std::max(largest, std::abs(value(k)));
          scales.push_back(largest / 7);
        }
        const float code = std::nearbyint(value(i) / scales.back());
        codes.push_back(static_cast<std::uint8_t>(code + 8));
        weights[row * columns + order[i]] = scales.back() * code;
      }
    }
  }

  QuantizedMatrix matrix() const {
    QuantizedMatrix matrix{{CodeScheme::offset, 4, 32, Dtype::float32, 8},
                           [this](std::int64_t begin, std::int64_t end, const CodeBuffers& out) {
                             const std::int64_t groups = (columns + 31) / 32;
                             std::copy(&codes[begin * columns], codes.data() + end * columns, out.codes);
                             std::copy(&scales[begin * groups], scales.data() + end * groups, out.scales);
                           }};
    matrix.column_order = order;
    return matrix;
  }

  std::int64_t columns;
  std::vector<std::int32_t> order;
  std::vector<std::uint8_t> codes;
  std::vector<float> scales;
  std::vector<float> weights;
};

// A model of which every projection and the head are so, but for one up_proj; beside it one of the weights as floats.
class ReorderedModel {
 public:
  ReorderedModel() : codes_(model_spec()), floats_(model_spec()), checkpoint(codes_.open()) {
    for (const TensorInfo& tensor : checkpoint.tensors()) {
      if (tensor.shape.size() != 2 || tensor.name == "model.embedding.weight" ||
          tensor.name == "model.layers.1.mlp.up_proj.weight") {
        continue;
      }
      const auto [at, added] =
          matrices_.try_emplace(tensor.name, tensor.rows(), tensor.columns(), codes_.values(tensor.name),
                                static_cast<unsigned>(matrices_.size()));
      checkpoint.set_quantized(tensor.name, at->second.matrix());
      floats_.set_values(tensor.name, at->second.weights);
    }
  }
  Checkpoint floats() { return floats_.open(); }

 private:
  testing::RandomModel codes_, floats_;
  std::map<std::string, Reordered> matrices_;

 public:
  Checkpoint checkpoint;
};

LoadOptions options(ActivationMode activations, int threads) {
  LoadOptions options;
  options.weights.activations = activations;
  options.kv_kind = kernels::KvKind::float32;
  options.threads = threads;
  options.context = 256;
  return options;
}

TEST(ReorderedColumns, MeetTheActivationsOfTheirOwnColumns) {
  ReorderedModel model;
  const std::int64_t vocab = model.checkpoint.config().vocab_size;
  const std::vector<TokenId> tokens = testing::random_tokens(90, vocab, 4);
  const Logits want = run(*load_model(model.floats(), options(ActivationMode::float32, 2)), tokens, 90);
  const auto error = [&](ActivationMode activations) {
    return testing::relative_rms(run(*load_model(model.checkpoint, options(activations, 2)), tokens, 90), want);
  };
  EXPECT_LT(error(ActivationMode::float32), 1e-5);
  EXPECT_LT(error(ActivationMode::int8), 0.05);
}

TEST(ReorderedColumns, GiveTheSameBitsHoweverTheWorkIsCut) {
  ReorderedModel model;
  const std::int64_t vocab = model.checkpoint.config().vocab_size;
  const std::vector<TokenId> tokens = testing::random_tokens(90, vocab, 5);
  for (const ActivationMode activations : {ActivationMode::int8, ActivationMode::float32}) {
    const Logits whole = run(*load_model(model.checkpoint, options(activations, 1)), tokens, 90);
    EXPECT_TRUE(same_bits(run(*load_model(model.checkpoint, options(activations, 3)), tokens, 7), whole, vocab));
  }
}

TEST(ReorderedColumns, TheirBuffersAreCounted) {
  ReorderedModel model;
  testing::RandomModel plain(model_spec());
  const PackedWeights with = plan_weights(model.checkpoint, {}), without = plan_weights(plain.open(), {});
  const ModelConfig& config = model.checkpoint.config();
  EXPECT_GT(Transformer::buffer_bytes(config, with, 1),
            Transformer::buffer_bytes(config, without, 1) + kPassTokens * sizeof(float) * (2 * 96 + 64 + 160));
}

TEST(ReorderedColumns, AnEmbeddingCannotHaveThem) {
  testing::RandomModel random(model_spec());
  Checkpoint checkpoint = random.open();
  const TensorInfo& tensor = checkpoint.tensor("model.embedding.weight");
  const Reordered stored(tensor.rows(), tensor.columns(), random.values(tensor.name), 1);
  checkpoint.set_quantized(tensor.name, stored.matrix());
  try {
    plan_weights(checkpoint, {});
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::unsupported);
    EXPECT_NE(std::string(error.what()).find("model.embedding"), std::string::npos);
  }
}

}  // namespace
}  // namespace sparkx
