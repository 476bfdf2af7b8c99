// Matrices that a checkpoint stores as codes: packed as they are, and whole models of every scheme keep the promises.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "core/bfloat16.h"
#include "core/error.h"
#include "core/float_codes.h"
#include "core/quantization.h"
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
      : spec(spec), columns(columns), storage(spec, rows, columns), weights(values.size()) {
    const CodeBuffers to = storage.buffers();
    const std::int64_t groups = spec.groups(columns), scales = spec.scales(columns);
    const std::int64_t scale_columns = spec.scheme == CodeScheme::two_level ? kSuperBlock
                                       : spec.group == kWholeRow            ? columns
                                                                            : spec.group;
    const int codes = 1 << spec.bits;
    // What codes stand for reaches so far.
    float reach = static_cast<float>(codes / 2);
    if (spec.values == CodeValues::e2m1) reach = 6;
    if (spec.values == CodeValues::iq4) reach = 127;
    if (spec.values == CodeValues::e4m3) reach = 448;
    const int largest_sub_scale = spec.bits == 2 ? 15 : spec.minima ? 63 : 31;
    for (std::int64_t row = 0; row < rows; ++row) {
      for (std::int64_t s = 0; s < scales; ++s) {
        const auto first = values.begin() + row * columns + s * scale_columns;
        const auto [low, high] =
            std::minmax_element(first, first + std::min(scale_columns, columns - s * scale_columns));
        float scale = std::max(std::abs(*low), std::abs(*high)) / reach + 1e-6f;
        if (spec.scheme == CodeScheme::two_level) scale /= static_cast<float>(largest_sub_scale);
        to.scales[row * scales + s] = rounded(scale);
        if (spec.scheme == CodeScheme::affine) to.biases[row * scales + s] = rounded(*low);
        if (spec.minima) to.biases[row * scales + s] = rounded(scale);
      }
      for (std::int64_t g = row * groups; g < (row + 1) * groups; ++g) {
        if (spec.scheme == CodeScheme::zero_point) to.zeros[g] = static_cast<std::uint8_t>(g % codes);
        if (spec.scheme != CodeScheme::two_level) continue;
        to.sub_scales[g] = static_cast<std::int8_t>((g * 7 + 3) % (largest_sub_scale + 1));
        if (!spec.minima && g % 3 == 0) to.sub_scales[g] = static_cast<std::int8_t>(-to.sub_scales[g] - 1);
        if (spec.minima) to.sub_minima[g] = static_cast<std::uint8_t>((g * 5 + 1) % (largest_sub_scale + 1));
      }
    }
    // Of all codes the nearest ones.
    std::vector<float> candidates(values.size());
    for (int code = 0; code < codes; ++code) {
      if (spec.values == CodeValues::e4m3 && (code & 127) == 127) continue;  // that is no number
      std::vector<std::uint8_t> all(values.size(), static_cast<std::uint8_t>(code));
      CodeBuffers with_code = to;
      with_code.codes = all.data();
      decode_rows(spec, rows, columns, with_code, candidates.data());
      for (std::size_t i = 0; i < values.size(); ++i) {
        if (code != 0 && std::abs(candidates[i] - values[i]) >= std::abs(weights[i] - values[i])) continue;
        weights[i] = candidates[i];
        to.codes[i] = static_cast<std::uint8_t>(code);
      }
    }
  }

  float rounded(float value) const {
    switch (spec.scale_dtype) {
      case Dtype::float16:
        return float16_to_float(float_to_float16(value));
      case Dtype::float8_e8m0:
        return std::exp2(std::ceil(std::log2(value)));
      case Dtype::float8_e4m3: {
        int code = 1;  // the first one that is not smaller
        while (code < 126 && e4m3_to_float(static_cast<std::uint8_t>(code)) < value) ++code;
        return e4m3_to_float(static_cast<std::uint8_t>(code));
      }
      default:
        return bfloat16_to_float(float_to_bfloat16(value));
    }
  }

  float weight(std::int64_t row, std::int64_t k) const { return weights[row * columns + k]; }

  QuantizedMatrix matrix() const {
    return {spec, [this](std::int64_t row_begin, std::int64_t row_end, const CodeBuffers& out) {
              const CodeBuffers from = storage.buffers();
              const auto copy = [&](auto* source, auto* target, std::int64_t of_row) {
                if (source != nullptr) std::copy(source + row_begin * of_row, source + row_end * of_row, target);
              };
              copy(from.codes, out.codes, columns);
              copy(from.scales, out.scales, spec.scales(columns));
              copy(from.biases, out.biases, spec.scales(columns));
              copy(from.zeros, out.zeros, spec.groups(columns));
              copy(from.sub_scales, out.sub_scales, spec.groups(columns));
              copy(from.sub_minima, out.sub_minima, spec.groups(columns));
            }};
  }

  QuantizationSpec spec;
  std::int64_t columns;
  mutable CodeStorage storage;
  std::vector<float> weights;
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

// Columns that are whole super-blocks. One layer: the reference multiplies slowly.
testing::ModelSpec even_spec(bool tied) {
  testing::ModelSpec spec;
  spec.hidden_size = 256;
  spec.intermediate_size = 256;
  spec.head_dim = 64;
  spec.layers = "f";
  spec.tied = tied;
  return spec;
}

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
    {"mxfp4", {CodeScheme::offset, 4, 32, Dtype::float8_e8m0, 0, CodeValues::e2m1}},
    {"nvfp4", {CodeScheme::offset, 4, 16, Dtype::float8_e4m3, 0, CodeValues::e2m1}},
    {"mxfp8", {CodeScheme::offset, 8, 32, Dtype::float8_e8m0, 0, CodeValues::e4m3}},
    {"IQ4_NL", {CodeScheme::offset, 4, 32, Dtype::float16, 0, CodeValues::iq4}},
    {"IQ4_XS", {CodeScheme::two_level, 4, 32, Dtype::float16, 0, CodeValues::iq4}},
    {"Q2_K", {CodeScheme::two_level, 2, 16, Dtype::float16, 0, CodeValues::integers, true}},
    {"Q3_K", {CodeScheme::two_level, 3, 16, Dtype::float16, 4}},
    {"Q4_K", {CodeScheme::two_level, 4, 32, Dtype::float16, 0, CodeValues::integers, true}},
    {"Q5_K", {CodeScheme::two_level, 5, 32, Dtype::float16, 0, CodeValues::integers, true}},
    {"Q6_K", {CodeScheme::two_level, 6, 16, Dtype::float16, 32}},
};

testing::ModelSpec spec_for(const QuantizationSpec& codes, bool tied) {
  return codes.scheme == CodeScheme::two_level ? even_spec(tied) : odd_spec(tied);
}

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
    const CodedModel model(spec_for(GetParam().spec, tied), GetParam().spec);
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
  const CodedModel model(spec_for(GetParam().spec, false), GetParam().spec);
  testing::RandomModel floats(spec_for(GetParam().spec, false));
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
  if (GetParam().spec.values == CodeValues::e4m3) {
    EXPECT_EQ(int8, 0.0) << "floats of 8 bits are decoded in either mode";
    return;
  }
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
    const CodedModel model(spec_for(c.spec, false), c.spec);
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
    const std::string last = std::to_string(weights.layers.size() - 1);
    check(weights.layers.back().down_proj, "model.layers." + last + ".mlp.down_proj.weight");
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
  EXPECT_EQ(kinds({CodeScheme::offset, 4, 16, Dtype::float8_e4m3, 0, CodeValues::e2m1}),
            "E2M1 (groups of 16), float32");
}

// What the kernels do not know must not reach them.
TEST(StoredCodes, AnE4m3ThatIsNoNumberIsRefused) {
  for (const QuantizationSpec& spec :
       {QuantizationSpec{CodeScheme::offset, 8, 32, Dtype::float8_e8m0, 0, CodeValues::e4m3},
        QuantizationSpec{CodeScheme::offset, 4, 16, Dtype::float8_e4m3, 0, CodeValues::e2m1}}) {
    CodedModel model(odd_spec(true), spec);
    const std::string name = "model.layers.1.self_attn.out_proj.weight";
    QuantizedMatrix matrix = model.matrices.at(name).matrix();
    const auto read = matrix.read;
    matrix.read = [read, spec](std::int64_t begin, std::int64_t end, const CodeBuffers& out) {
      read(begin, end, out);
      if (begin != 16) return;
      if (spec.values == CodeValues::e4m3) {
        out.codes[5] = 0xff;
      } else {
        out.scales[3] = std::nanf("");
      }
    };
    model.checkpoint.set_quantized(name, matrix);
    ThreadPool threads(2);
    try {
      pack_weights(model.checkpoint, {}, kernels::kernel_table(), threads);
      ADD_FAILURE() << "accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::corrupt);
      EXPECT_NE(std::string(error.what()).find(name), std::string::npos) << error.what();
    }
  }
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
