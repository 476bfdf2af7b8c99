// Matrices that a checkpoint stores as codes: packed as they are, and whole models of every scheme keep the promises.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "core/bfloat16.h"
#include "core/error.h"
#include "kernels/kernels.h"
#include "model/load.h"
#include "support/model_runs.h"
#include "support/random_model.h"

namespace sparkx {
namespace {

using kernels::KvKind;
using testing::Logits;
using testing::run;
using testing::same_bits;

// The codes of a matrix, chosen to be near some floats; how near does not matter here.
struct StoredCodes {
  StoredCodes(const QuantizationSpec& spec, std::int64_t rows, std::int64_t columns, const std::vector<float>& values)
      : spec(spec), columns(columns), groups(spec.groups(columns)) {
    const int largest = (1 << spec.bits) - 1;
    const std::int64_t group = spec.group == kWholeRow ? columns : spec.group;
    codes.resize(rows * columns);
    for (std::int64_t row = 0; row < rows; ++row) {
      for (std::int64_t begin = 0; begin < columns; begin += group) {
        const auto first = values.begin() + row * columns + begin;
        const auto count = std::min(group, columns - begin);
        const auto [low, high] = std::minmax_element(first, first + count);
        const bool symmetric = spec.scheme == CodeScheme::offset || spec.scheme == CodeScheme::w8a8;
        const float range = symmetric ? 2 * std::max(std::abs(*low), std::abs(*high)) : *high - *low;
        const float scale = bfloat16_to_float(float_to_bfloat16(range / static_cast<float>(largest) + 1e-6f));
        const float bias = bfloat16_to_float(float_to_bfloat16(*low));
        const int zero =
            symmetric ? spec.zero : std::clamp(static_cast<int>(std::nearbyint(-*low / scale)), 0, largest);
        scales.push_back(scale);
        biases.push_back(bias);
        zeros.push_back(static_cast<std::uint8_t>(zero));
        for (std::int64_t k = 0; k < count; ++k) {
          const float shifted = spec.scheme == CodeScheme::affine ? (first[k] - bias) / scale
                                                                  : first[k] / scale + static_cast<float>(zero);
          codes[row * columns + begin + k] =
              static_cast<std::uint8_t>(std::clamp(std::nearbyint(shifted), 0.0f, static_cast<float>(largest)));
        }
      }
    }
  }

  float weight(std::int64_t row, std::int64_t k) const {
    const std::int64_t g = row * groups + (spec.group == kWholeRow ? 0 : k / spec.group);
    const int code = codes[row * columns + k];
    if (spec.scheme == CodeScheme::affine) return std::fma(scales[g], static_cast<float>(code), biases[g]);
    return scales[g] * static_cast<float>(code - (spec.scheme == CodeScheme::zero_point ? zeros[g] : spec.zero));
  }

  QuantizedMatrix matrix() const {
    return {spec, [this](std::int64_t row_begin, std::int64_t row_end, const CodeBuffers& out) {
              std::copy(&codes[row_begin * columns], codes.data() + row_end * columns, out.codes);
              std::copy(&scales[row_begin * groups], scales.data() + row_end * groups, out.scales);
              if (spec.scheme == CodeScheme::affine) {
                std::copy(&biases[row_begin * groups], biases.data() + row_end * groups, out.biases);
              }
              if (spec.scheme == CodeScheme::zero_point) {
                std::copy(&zeros[row_begin * groups], zeros.data() + row_end * groups, out.zeros);
              }
            }};
  }

  QuantizationSpec spec;
  std::int64_t columns, groups;
  std::vector<std::uint8_t> codes, zeros;
  std::vector<float> scales, biases;
};

// A random model of which every matrix but g_proj is stored as codes.
class CodedModel {
 public:
  CodedModel(const testing::ModelSpec& spec, const QuantizationSpec& codes)
      : random_(spec), checkpoint(random_.open()) {
    for (const TensorInfo& tensor : checkpoint.tensors()) {
      if (tensor.shape.size() != 2 || tensor.name.ends_with("g_proj.weight")) continue;
      const auto [at, added] = matrices.emplace(
          tensor.name, StoredCodes(codes, tensor.rows(), tensor.columns(), random_.values(tensor.name)));
      checkpoint.set_quantized(tensor.name, at->second.matrix());
    }
  }

 private:
  testing::RandomModel random_;

 public:
  Checkpoint checkpoint;
  std::map<std::string, StoredCodes> matrices;
};

// Columns that are no multiple of a group, rows no multiple of 16.
testing::ModelSpec odd_spec(bool tied) {
  testing::ModelSpec spec;
  spec.hidden_size = 88;
  spec.intermediate_size = 150;
  spec.head_dim = 20;
  spec.biases = true;
  spec.tied = tied;
  return spec;
}

struct Case {
  const char* name;
  QuantizationSpec spec;
};

const Case kCases[] = {
    {"zero_point_4_bits", {CodeScheme::zero_point, 4, 32, Dtype::bfloat16}},
    {"zero_point_8_bits", {CodeScheme::zero_point, 8, 128, Dtype::float32}},
    {"offset_4_bits", {CodeScheme::offset, 4, 64, Dtype::bfloat16, 8}},
    {"offset_8_bits_whole_rows", {CodeScheme::offset, 8, kWholeRow, Dtype::bfloat16, 128}},
    {"zero_point_4_bits_whole_rows", {CodeScheme::zero_point, 4, kWholeRow, Dtype::bfloat16}},
    {"affine_4_bits", {CodeScheme::affine, 4, 32, Dtype::bfloat16}},
    {"affine_8_bits_whole_rows", {CodeScheme::affine, 8, kWholeRow, Dtype::bfloat16}},
    {"affine_3_bits", {CodeScheme::affine, 3, 64, Dtype::bfloat16}},
    {"offset_5_bits", {CodeScheme::offset, 5, 32, Dtype::bfloat16, 16}},
    {"affine_6_bits", {CodeScheme::affine, 6, 32, Dtype::bfloat16}},
    {"w8a8", {CodeScheme::w8a8, 8, kWholeRow, Dtype::bfloat16, 128}},
};

class StoredCodesModel : public ::testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(, StoredCodesModel, ::testing::ValuesIn(kCases),
                         [](const auto& info) { return std::string(info.param.name); });

LoadOptions load_options(ActivationMode activations, int threads, const kernels::KernelTable& table) {
  LoadOptions options;
  options.weights.activations = activations;
  options.kv_kind = KvKind::float32;
  options.threads = threads;
  options.kernels = &table;
  options.context = 512;
  return options;
}

TEST_P(StoredCodesModel, HasTheSameBitsHoweverTheWorkIsCut) {
  for (const bool tied : {false, true}) {
    const CodedModel model(odd_spec(tied), GetParam().spec);
    const std::int64_t vocab = model.checkpoint.config().vocab_size;
    const std::vector<TokenId> tokens = testing::random_tokens(150, vocab, 9);
    for (const ActivationMode activations : {ActivationMode::int8, ActivationMode::float32}) {
      const auto logits = [&](const kernels::KernelTable& table, int threads, std::int64_t chunk) {
        return run(*load_model(model.checkpoint, load_options(activations, threads, table)), tokens, chunk);
      };
      const Logits whole = logits(kernels::kernel_table("reference"), 1, 150);
      for (const float logit : whole) ASSERT_TRUE(std::isfinite(logit));
      for (const kernels::KernelTable* table : kernels::kernel_tables()) {
        if (!kernels::runs_on_this_cpu(*table)) continue;
        EXPECT_TRUE(same_bits(logits(*table, 2, 150), whole, vocab)) << table->name;
        EXPECT_TRUE(same_bits(logits(*table, 1, 13), whole, vocab)) << table->name << ", chunks of 13";
      }
      EXPECT_TRUE(same_bits(logits(kernels::kernel_table(), 3, 1), whole, vocab)) << "token by token";
    }
  }
}

TEST_P(StoredCodesModel, IsNearTheSameWeightsStoredAsFloats) {
  const CodedModel model(odd_spec(false), GetParam().spec);
  testing::RandomModel floats(odd_spec(false));
  for (const auto& [name, stored] : model.matrices) {
    std::vector<float> values = floats.values(name);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const auto at = static_cast<std::int64_t>(i);
      values[i] = stored.weight(at / stored.columns, at % stored.columns);
    }
    floats.set_values(name, values);
  }
  const std::int64_t vocab = model.checkpoint.config().vocab_size;
  const std::vector<TokenId> tokens = testing::random_tokens(100, vocab, 4);
  const kernels::KernelTable& table = kernels::kernel_table();
  const Logits want = run(*load_model(floats.open(), load_options(ActivationMode::float32, 2, table)), tokens, 100);
  const auto error = [&](ActivationMode activations) {
    return testing::relative_rms(run(*load_model(model.checkpoint, load_options(activations, 2, table)), tokens, 100),
                                 want);
  };
  const double int8 = error(ActivationMode::int8), exact = error(ActivationMode::float32);
  EXPECT_GT(int8, 1e-4);
  EXPECT_LT(int8, 0.05);
  if (GetParam().spec.scheme == CodeScheme::w8a8) {
    EXPECT_EQ(exact, int8) << "activations are codes in either mode";
  } else {
    EXPECT_EQ(exact, 0.0) << "decoded weights are the floats";
  }
}

TEST(StoredCodes, PackedRowsAreTheStoredRows) {
  ThreadPool threads(3);
  for (const Case& c : kCases) {
    const CodedModel model(odd_spec(false), c.spec);
    const PackedWeights weights = pack_weights(model.checkpoint, {}, kernels::kernel_table(), threads);
    const auto check = [&](const Linear& linear, const std::string& name) {
      const StoredCodes& stored = model.matrices.at(name);
      std::vector<float> row(linear.matrix.columns);
      for (std::int64_t r = 0; r < linear.matrix.rows; ++r) {
        linear.decode_row(kernels::kernel_table(), r, row.data());
        for (std::int64_t k = 0; k < linear.matrix.columns; ++k) ASSERT_EQ(row[k], stored.weight(r, k)) << c.name;
      }
    };
    check(*weights.embedding, "model.embedding.weight");
    check(weights.lm_head, "lm_head.weight");
    check(weights.layers[2].down_proj, "model.layers.2.mlp.down_proj.weight");
  }
}

TEST(StoredCodes, InfoNamesThem) {
  const auto kinds = [](const QuantizationSpec& spec) {
    const CodedModel model(odd_spec(true), spec);
    return plan_weights(model.checkpoint, {}).kinds;
  };
  EXPECT_EQ(kinds({CodeScheme::zero_point, 4, 32, Dtype::bfloat16}), "4-bit (groups of 32), float32");
  EXPECT_EQ(kinds({CodeScheme::offset, 8, kWholeRow, Dtype::bfloat16, 128}), "8-bit (one scale a row), float32");
  EXPECT_EQ(kinds({CodeScheme::w8a8, 8, kWholeRow, Dtype::bfloat16, 128}), "W8A8, float32");
}

TEST(StoredCodes, AreNotQuantizedAgain) {
  const CodedModel model(odd_spec(true), {CodeScheme::offset, 8, 32, Dtype::bfloat16, 128});
  const PackedWeights plan = plan_weights(model.checkpoint, {.quantize = Quantization{4, 32}});
  EXPECT_EQ(plan.kinds, "8-bit (groups of 32), float32");
}

TEST(StoredCodes, SpecsThatNoFormatHasAreRefused) {
  testing::RandomModel random(odd_spec(true));
  Checkpoint checkpoint = random.open();
  const std::string name = "model.layers.0.mlp.up_proj.weight";
  const auto refused = [&](const QuantizationSpec& spec, const std::string& part) {
    try {
      checkpoint.set_quantized(name, {spec, nullptr});
      ADD_FAILURE() << "accepted: " << part;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::unsupported);
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
      EXPECT_NE(std::string(error.what()).find(name), std::string::npos) << error.what();
    }
    EXPECT_EQ(checkpoint.find_quantized(name), nullptr);
  };
  refused({CodeScheme::affine, 7, 32, Dtype::bfloat16}, "codes of 7 bits");
  refused({CodeScheme::w8a8, 4, kWholeRow, Dtype::bfloat16}, "codes of 4 bits");
  refused({CodeScheme::affine, 4, 48, Dtype::bfloat16}, "groups of 48");
  refused({CodeScheme::w8a8, 8, 32, Dtype::bfloat16, 128}, "groups of 32");
  refused({CodeScheme::offset, 4, 32, Dtype::bfloat16, 16}, "zero point 16");
  refused({CodeScheme::offset, 8, 32, Dtype::bfloat16, -1}, "zero point -1");
  refused({CodeScheme::affine, 4, 32, Dtype::int8}, "scales of type");
}

TEST(StoredCodes, TooManyColumnsForRule5AreRefused) {
  testing::ModelSpec spec;
  spec.layers = "f";
  spec.hidden_size = 4;
  spec.intermediate_size = kMaxTokenCodeColumns + 1;
  testing::RandomModel random(spec);
  Checkpoint checkpoint = random.open();
  const QuantizationSpec w8a8{CodeScheme::w8a8, 8, kWholeRow, Dtype::bfloat16, 128};
  EXPECT_THROW(checkpoint.set_quantized("model.layers.0.mlp.down_proj.weight", {w8a8, nullptr}), Error);
  EXPECT_NO_THROW(checkpoint.set_quantized("model.layers.0.mlp.up_proj.weight", {w8a8, nullptr}));
}

}  // namespace
}  // namespace sparkx
