// Quantizing while loading: what MLX makes of the same checkpoint, module by module, and how near the logits come.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstdio>
#include <string>
#include <vector>

#include "core/bfloat16.h"
#include "core/error.h"
#include "kernels/kernels.h"
#include "model/load.h"
#include "support/model_runs.h"
#include "support/oracle.h"
#include "support/random_model.h"
#include "support/safetensors_files.h"

namespace sparkx {
namespace {

using kernels::KvKind;
using kernels::WeightKind;
using testing::Logits;
using testing::run;
using testing::same_bits;

LoadOptions quantized(int bits, int group, ActivationMode activations = ActivationMode::int8) {
  LoadOptions options;
  options.weights = {.quantize = Quantization{bits, group}, .activations = activations};
  return options;
}

// Sizes that are multiples of 32 but not of 64 or 16 rows.
testing::ModelSpec odd_spec() {
  testing::ModelSpec spec;
  spec.hidden_size = 96;
  spec.intermediate_size = 160;
  spec.head_dim = 24;
  spec.biases = true;
  return spec;
}

struct OracleCase {
  const char* name;  // made from quant-source-bf16 by mlx_lm.convert
  int bits;
  int group;
  double int8_bound;  // relative root mean square: 1.3 times llama.cpp's 2.9e-2 with up to 6 bits, 1.1 times with 8
};

// Code i of a little-endian stream of bits.
int code_of_stream(std::span<const std::uint8_t> stream, int bits, std::int64_t i) {
  int code = 0;
  for (int b = 0; b < bits; ++b) {
    const std::int64_t at = i * bits + b;
    code |= (stream[at / 8] >> at % 8 & 1) << b;
  }
  return code;
}

class OracleQuantized : public ::testing::TestWithParam<OracleCase> {
 protected:
  void check(ActivationMode activations, double bound) {
    auto golden = testing::read_safetensors(testing::oracle_dir() / GetParam().name / "golden.safetensors");
    LoadOptions options = quantized(GetParam().bits, GetParam().group, activations);
    options.kv_kind = KvKind::float32;
    auto model = load_model(Checkpoint::open(testing::oracle_dir() / "quant-source-bf16"), options);
    auto tokens = golden.at("tokens").as<TokenId>();
    double error = testing::relative_rms(run(*model, tokens, 512), golden.at("logits").as<float>());
    std::printf("%-14s %s activations   relative rms %.2e   (%s)\n", GetParam().name, model->info().activations.c_str(),
                error, model->info().weights.c_str());
    EXPECT_LE(error, bound);
  }
};

INSTANTIATE_TEST_SUITE_P(, OracleQuantized,
                         ::testing::Values(OracleCase{"mlx-4bit-g32", 4, 32, 1.3 * 2.9e-2},
                                           OracleCase{"mlx-4bit-g64", 4, 64, 1.3 * 2.9e-2},
                                           OracleCase{"mlx-4bit-g128", 4, 128, 1.3 * 2.9e-2},
                                           OracleCase{"mlx-2bit-g32", 2, 32, 1.3 * 2.9e-2},
                                           OracleCase{"mlx-3bit-g64", 3, 64, 1.3 * 2.9e-2},
                                           OracleCase{"mlx-5bit-g64", 5, 64, 1.3 * 2.9e-2},
                                           OracleCase{"mlx-6bit-g128", 6, 128, 1.3 * 2.9e-2},
                                           OracleCase{"mlx-8bit-g64", 8, 64, 1.1 * 2.9e-2}),
                         testing::case_name);

TEST_P(OracleQuantized, LogitsAgreeWithFloat32Activations) {
  SPARKX_NEEDS_ORACLE();
  check(ActivationMode::float32, 1e-5);
}

TEST_P(OracleQuantized, LogitsAreNearWithInt8Activations) {
  SPARKX_NEEDS_ORACLE();
  check(ActivationMode::int8, GetParam().int8_bound);
}

TEST_P(OracleQuantized, EveryModuleHasTheCodesScalesAndBiasesOfMlx) {
  SPARKX_NEEDS_ORACLE();
  const auto [name, bits, group, bound] = GetParam();
  auto source = testing::read_safetensors(testing::oracle_dir() / "quant-source-bf16" / "model.safetensors");
  auto mlx = testing::read_safetensors(testing::oracle_dir() / name / "model.safetensors");
  int modules = 0;
  for (const auto& [path, tensor] : source) {
    if (tensor.shape.size() != 2) continue;
    std::string module = path.substr(0, path.size() - std::string("weight").size());
    if (!mlx.contains(module + "scales")) {
      EXPECT_TRUE(path.ends_with("g_proj.weight")) << path;
      continue;
    }
    ++modules;
    const std::int64_t rows = tensor.shape[0], columns = tensor.shape[1], groups = columns / group;
    auto packed = mlx.at(path).as<std::uint8_t>();
    auto scales = mlx.at(module + "scales").as<std::uint16_t>();
    auto biases = mlx.at(module + "biases").as<std::uint16_t>();
    for (std::int64_t row = 0; row < rows; ++row) {
      std::vector<std::uint8_t> codes(columns);
      std::vector<float> s(groups), b(groups);
      kernels::kernel_table().quantize_affine[static_cast<int>(WeightKind::bfloat16)](
          tensor.data.data() + row * columns * 2, columns, bits, group, codes.data(), s.data(), b.data());
      for (std::int64_t k = 0; k < columns; ++k) {
        std::int64_t i = row * columns + k;
        ASSERT_EQ(codes[k], code_of_stream(packed, bits, i)) << path << " " << row << ", " << k;
      }
      for (std::int64_t g = 0; g < groups; ++g) {
        ASSERT_EQ(float_to_bfloat16(s[g]), scales[row * groups + g]) << path;
        ASSERT_EQ(float_to_bfloat16(b[g]), biases[row * groups + g]) << path;
      }
    }
  }
  EXPECT_EQ(modules, 2 * 5 + 1);
}

// What the loader packs is what the kernel quantizes, on its way through threads, buffers and panels.
struct OracleFloatCase {
  const char* name;  // made from quant-source-bf16 by mlx_lm.convert
  FloatMode mode;
  double int8_bound;
};

class OracleQuantizedFloats : public ::testing::TestWithParam<OracleFloatCase> {};
INSTANTIATE_TEST_SUITE_P(, OracleQuantizedFloats,
                         ::testing::Values(OracleFloatCase{"mlx-mxfp4", FloatMode::mxfp4, 1.3 * 2.9e-2},
                                           OracleFloatCase{"mlx-mxfp8", FloatMode::mxfp8, 1e-5},
                                           OracleFloatCase{"mlx-nvfp4", FloatMode::nvfp4, 1.3 * 2.9e-2}),
                         [](const auto& info) { return std::string(float_mode_name(info.param.mode)); });

// The checkpoint that MLX quantized has the same weights, and so the same logits.
TEST_P(OracleQuantizedFloats, IsTheCheckpointThatMlxMade) {
  SPARKX_NEEDS_ORACLE();
  const QuantizationSpec spec = float_mode_spec(GetParam().mode);
  for (const ActivationMode activations : {ActivationMode::float32, ActivationMode::int8}) {
    LoadOptions options;
    options.weights.activations = activations;
    options.kv_kind = KvKind::float32;
    const std::filesystem::path made = testing::oracle_dir() / GetParam().name;
    const auto golden = testing::read_safetensors(made / "golden.safetensors");
    const auto tokens = golden.at("tokens").as<TokenId>();
    auto stored = load_model(Checkpoint::open(made), options);
    const Logits want = run(*stored, tokens, 512);
    options.weights.quantize = Quantization{spec.bits, spec.group, true, GetParam().mode};
    auto model = load_model(Checkpoint::open(testing::oracle_dir() / "quant-source-bf16"), options);
    EXPECT_EQ(model->info().weights, stored->info().weights);
    const Logits found = run(*model, tokens, 512);
    EXPECT_TRUE(same_bits(found, want, model->info().vocab_size));
    const double error = testing::relative_rms(found, golden.at("logits").as<float>());
    EXPECT_LE(error, activations == ActivationMode::int8 ? GetParam().int8_bound : 1e-5);
  }
}

TEST(Quantized, WeightsAreRoundedToTheTypeBeforeTheirScalesAre) {
  // Rounded to float16 first, the small ones are denormal, and so are their scales.
  testing::RandomModel random(odd_spec());
  const std::string path = "model.layers.1.mlp.up_proj";
  std::vector<float> values = random.values(path + ".weight");
  for (float& value : values) value *= 1e-5f;
  random.set_values(path + ".weight", values);
  ThreadPool threads(2);
  WeightOptions options{.dtype = WeightKind::float16, .quantize = Quantization{8, 32, true, FloatMode::mxfp8}};
  const PackedWeights weights = pack_weights(random.open(), options, kernels::kernel_table(), threads);
  const Linear& linear = weights.layers[1].up_proj;
  const std::int64_t columns = linear.matrix.columns;
  std::vector<float> row(columns), decoded(columns), want(columns), scales(columns / 32);
  std::vector<std::uint8_t> codes(columns);
  for (std::int64_t r = 0; r < linear.matrix.rows; ++r) {
    for (std::int64_t k = 0; k < columns; ++k) row[k] = float16_to_float(float_to_float16(values[r * columns + k]));
    quantize_floats(FloatMode::mxfp8, Dtype::float16, row.data(), columns, codes.data(), scales.data());
    decode_rows(float_mode_spec(FloatMode::mxfp8), 1, columns, {codes.data(), scales.data(), nullptr, nullptr},
                want.data());
    linear.decode_row(kernels::kernel_table(), r, decoded.data());
    for (std::int64_t k = 0; k < columns; ++k) ASSERT_EQ(decoded[k], want[k]) << r << ", " << k;
  }
}

TEST(Quantized, PackedRowsAreTheQuantizedRows) {
  testing::RandomModel random(odd_spec());
  Checkpoint checkpoint = random.open();
  const kernels::KernelTable& kernels = kernels::kernel_table();
  ThreadPool threads(3);
  for (int bits : {2, 3, 4, 5, 6, 8}) {
    PackedWeights weights = pack_weights(checkpoint, quantized(bits, 32).weights, kernels, threads);
    auto check = [&](const Linear& linear, const std::string& path) {
      auto values = random.values(path + ".weight");
      const std::int64_t columns = linear.matrix.columns;
      std::vector<std::uint8_t> codes(columns);
      std::vector<float> scales(columns / 32), biases(columns / 32), row(columns);
      for (std::int64_t r = 0; r < linear.matrix.rows; ++r) {
        kernels.quantize_affine[0](std::as_bytes(std::span(values)).data() + r * columns * 4, columns, bits, 32,
                                   codes.data(), scales.data(), biases.data());
        linear.decode_row(kernels, r, row.data());
        for (std::int64_t k = 0; k < columns; ++k) {
          ASSERT_EQ(row[k], std::fma(scales[k / 32], static_cast<float>(codes[k]), biases[k / 32])) << path << " " << r;
        }
      }
    };
    check(*weights.embedding, "model.embedding");
    check(weights.lm_head, "lm_head");
    check(weights.layers[1].q_k_v_proj, "model.layers.1.self_attn.q_k_v_proj");
    check(weights.layers[2].down_proj, "model.layers.2.mlp.down_proj");
  }
}

TEST(Quantized, ModulesThatStayAsTheyAre) {
  testing::ModelSpec spec = odd_spec();
  for (bool tied : {false, true}) {
    for (bool head : {false, true}) {
      spec.tied = tied;
      testing::RandomModel random(spec);
      PackedWeights plan = plan_weights(random.open(), {.quantize = Quantization{4, 32, head}});
      const LayerWeights& layer = plan.layers[0];
      for (const Linear* linear :
           {&layer.q_k_v_proj, &layer.out_proj, &layer.gate_proj, &layer.up_proj, &layer.down_proj}) {
        EXPECT_EQ(linear->matrix.format, (kernels::WeightFormat{WeightKind::codes4, 32, WeightKind::float32}));
        EXPECT_EQ(linear->form, kernels::ActivationForm::groups_64);
      }
      EXPECT_EQ(layer.g_proj.matrix.format.kind, WeightKind::float32);
      EXPECT_EQ(layer.g_proj.form, kernels::ActivationForm::values);
      EXPECT_EQ(plan.lm_head.matrix.format.kind, head ? WeightKind::codes4 : WeightKind::float32);
      EXPECT_EQ(plan.embedding.has_value(), !tied);
      if (!tied) {
        EXPECT_EQ(plan.embedding->matrix.format.kind, WeightKind::codes4);
      }
    }
  }
  // 160 columns are no multiple of 64, and neither are 96.
  testing::RandomModel random(spec);
  PackedWeights plan = plan_weights(random.open(), {.quantize = Quantization{8, 64}});
  EXPECT_EQ(plan.layers[0].down_proj.matrix.format.kind, WeightKind::float32);
  EXPECT_EQ(plan.layers[0].q_k_v_proj.matrix.format.kind, WeightKind::float32);
  EXPECT_EQ(plan.kinds, "float32");
  EXPECT_EQ(plan.activations, "float32");
}

TEST(Quantized, InfoNamesTheModes) {
  testing::RandomModel random(odd_spec());
  Checkpoint checkpoint = random.open();
  LoadOptions options = quantized(4, 32);
  auto model = load_model(checkpoint, options);
  EXPECT_EQ(model->info().weights, "4-bit (groups of 32), float32");
  EXPECT_EQ(model->info().activations, "int8");
  EXPECT_EQ(model->info().kv, "bfloat16");
  options = quantized(8, 32, ActivationMode::float32);
  options.weights.dtype = WeightKind::bfloat16;
  model = load_model(checkpoint, options);
  EXPECT_EQ(model->info().weights, "8-bit (groups of 32), bfloat16");
  EXPECT_EQ(model->info().activations, "float32");
  EXPECT_EQ(model->info().kv, "float32");
  options.weights.quantize = std::nullopt;
  options.weights.activations = ActivationMode::int8;
  EXPECT_EQ(load_model(checkpoint, options)->info().activations, "float32") << "nothing is quantized";
}

TEST(Quantized, ADtypeRoundsBeforeQuantizing) {
  testing::ModelSpec spec = odd_spec();
  testing::RandomModel random(spec), rounded(spec);
  for (auto& [name, tensor] : rounded.tensors) {
    if (tensor.shape.size() != 2) continue;
    std::vector<std::uint16_t> bits;
    for (float value : tensor.as<float>()) bits.push_back(float_to_bfloat16(value));
    tensor = testing::stored_tensor("BF16", tensor.shape, bits);
  }
  std::vector<TokenId> tokens = testing::random_tokens(30, spec.vocab_size, 1);
  LoadOptions options = quantized(4, 32);
  auto stored = load_model(rounded.open(), options);
  options.weights.dtype = WeightKind::bfloat16;
  auto converted = load_model(random.open(), options);
  EXPECT_TRUE(same_bits(run(*converted, tokens, 30), run(*stored, tokens, 30), spec.vocab_size));
  EXPECT_EQ(converted->info().weight_bytes, stored->info().weight_bytes);
}

TEST(Quantized, TakesTheMemoryOfItsBits) {
  testing::ModelSpec spec;
  spec.hidden_size = 256;
  spec.intermediate_size = 512;
  spec.head_dim = 64;
  spec.vocab_size = 512;
  testing::RandomModel random(spec);
  Checkpoint checkpoint = random.open();
  auto bits = [&](int code_bits, int group) {
    WeightOptions options{.dtype = WeightKind::bfloat16, .quantize = Quantization{code_bits, group}};
    return 8.0 * static_cast<double>(plan_weights(checkpoint, options).bytes) /
           (static_cast<double>(checkpoint.weight_bytes()) / 4);
  };
  EXPECT_NEAR(bits(4, 64), 4.5, 0.15);    // norms and g_proj are dense
  EXPECT_NEAR(bits(4, 32), 5.0, 0.15);    // norms and g_proj are dense
  EXPECT_NEAR(bits(8, 128), 8.25, 0.15);  // norms and g_proj are dense
}

TEST(Quantized, ActivationModesAreNearEachOtherButNotTheSame) {
  testing::ModelSpec spec = odd_spec();
  testing::RandomModel random(spec);
  Checkpoint checkpoint = random.open();
  std::vector<TokenId> tokens = testing::random_tokens(60, spec.vocab_size, 1);
  for (int bits : {4, 8}) {
    LoadOptions options = quantized(bits, 32, ActivationMode::float32);
    const Logits exact = run(*load_model(checkpoint, options), tokens, 60);
    options.weights.activations = ActivationMode::int8;
    options.kv_kind = KvKind::float32;
    double error = testing::relative_rms(run(*load_model(checkpoint, options), tokens, 60), exact);
    EXPECT_GT(error, 1e-4);
    EXPECT_LT(error, 0.1);
  }
}

TEST(Quantized, NamesAreParsed) {
  EXPECT_FALSE(parse_quantization("none", 5, true));
  auto parsed = parse_quantization("8bit", 128, false);
  EXPECT_EQ(parsed->bits, 8);
  EXPECT_EQ(parsed->group, 128);
  EXPECT_FALSE(parsed->head);
  for (int bits : {2, 3, 4, 5, 6}) EXPECT_EQ(parse_quantization(std::to_string(bits) + "bit", 64, true)->bits, bits);
  EXPECT_THROW(parse_quantization("7bit", 64, true), Error);
  EXPECT_THROW(parse_quantization("4bit", 48, true), Error);
  EXPECT_EQ(parse_quantization("4bit", std::nullopt, true)->group, 64);
  EXPECT_EQ(parse_quantization("nvfp4", std::nullopt, true)->group, 16);
  EXPECT_EQ(parse_quantization("mxfp8", 32, true)->floats, FloatMode::mxfp8);
  EXPECT_THROW(parse_quantization("mxfp4", 64, true), Error);
  EXPECT_EQ(parse_activation_mode("int8"), ActivationMode::int8);
  EXPECT_EQ(parse_activation_mode("float32"), ActivationMode::float32);
  EXPECT_THROW(parse_activation_mode("bfloat16"), Error);
}

}  // namespace
}  // namespace sparkx
