// Quantized matrices in MLX's and compressed-tensors' form: their codes, and every way in which they can be wrong.
#include <gtest/gtest.h>

#include "core/bfloat16.h"
#include "formats/checkpoint.h"
#include "support/checkpoints.h"
#include "support/errors.h"
#include "support/quantized_files.h"
#include "support/safetensors_files.h"

namespace sparkx {
namespace {

using testing::compressed;
using testing::error_of;
using testing::expected_code;
using testing::kColumns;
using testing::kModule;
using testing::kRows;
using testing::mlx;
using testing::mlx_floats;
using testing::part;
using testing::stored_tensor;
using testing::StoredTensors;
using testing::with_member;
using Files = testing::QuantizedFiles;

struct Codes {
  std::vector<std::uint8_t> codes, zeros;
  std::vector<float> scales, biases;
};

Codes read(const Checkpoint& checkpoint, std::int64_t begin, std::int64_t end) {
  const QuantizedMatrix* matrix = checkpoint.find_quantized(part("weight"));
  if (matrix == nullptr) throw std::runtime_error("not quantized");
  const auto groups = static_cast<std::size_t>((end - begin) * matrix->spec.groups(kColumns));
  Codes codes{std::vector<std::uint8_t>(static_cast<std::size_t>((end - begin) * kColumns)),
              std::vector<std::uint8_t>(groups), std::vector<float>(groups), std::vector<float>(groups)};
  matrix->read(begin, end, {codes.codes.data(), codes.scales.data(), codes.biases.data(), codes.zeros.data()});
  return codes;
}

void expect_codes(const Codes& found, std::int64_t begin, std::int64_t end, int bits) {
  for (std::int64_t row = begin; row < end; ++row) {
    for (std::int64_t k = 0; k < kColumns; ++k) {
      ASSERT_EQ(found.codes[static_cast<std::size_t>((row - begin) * kColumns + k)], expected_code(row, k, bits))
          << row << ", " << k;
    }
  }
}

TEST(MlxQuantization, CodesScalesAndBiasesAreThoseOfTheFile) {
  for (const int bits : {2, 3, 4, 5, 6, 8}) {
    Files files = mlx(bits, 32);
    const Checkpoint checkpoint = files.open();
    const QuantizationSpec& spec = checkpoint.find_quantized(part("weight"))->spec;
    EXPECT_EQ(spec, (QuantizationSpec{CodeScheme::affine, bits, 32, Dtype::float32}));
    const Codes found = read(checkpoint, 3, 7);
    expect_codes(found, 3, 7, bits);
    EXPECT_EQ(found.scales[1], 7.5f);  // row 3, second group
    EXPECT_EQ(found.biases[1], -7.0f);
  }
}

struct FloatCase {
  const char* mode;
  QuantizationSpec spec;
  float scale;  // of code 109
};
const FloatCase kFloatCases[] = {
    {"mxfp4", {CodeScheme::offset, 4, 32, Dtype::float8_e8m0, 0, CodeValues::e2m1}, 0x1p-18f},
    {"mxfp8", {CodeScheme::offset, 8, 32, Dtype::float8_e8m0, 0, CodeValues::e4m3}, 0x1p-18f},
    {"nvfp4", {CodeScheme::offset, 4, 16, Dtype::float8_e4m3, 0, CodeValues::e2m1}, 104.0f},
};

TEST(MlxQuantization, CodesAndScalesThatAreFloats) {
  for (const FloatCase& c : kFloatCases) {
    Files files = mlx_floats(c.mode, c.spec.bits, c.spec.group);
    const Checkpoint checkpoint = files.open();
    EXPECT_EQ(checkpoint.find_quantized(part("weight"))->spec, c.spec) << c.mode;
    const std::int64_t groups = kColumns / c.spec.group;
    const std::int64_t row = 9 / groups;
    const Codes found = read(checkpoint, row, kRows);
    expect_codes(found, row, kRows, c.spec.bits);
    EXPECT_EQ(found.scales[static_cast<std::size_t>(9 % groups)], c.scale) << c.mode;
  }
}

TEST(MlxQuantization, ModesMustAgreeWithTheTensors) {
  const auto error = [](const char* entry) {
    Files files = mlx_floats("mxfp4", 4, 32);
    files.config = with_member(files.config, "quantization", std::string("{\"") + kModule + "\": " + entry + "}");
    return error_of([&] { files.open(); });
  };
  EXPECT_EQ(error(R"({"mode": "mxfp4"})"), "no error");
  EXPECT_EQ(error(R"({"mode": "mxfp4", "group_size": null, "bits": 4})"), "no error");
  EXPECT_NE(error(R"({"mode": "nvfp4"})").find("says 4-bit nvfp4"), std::string::npos);
  EXPECT_NE(error(R"({"mode": "nvfp4", "group_size": null})").find("in groups of 16 of"), std::string::npos);
  EXPECT_NE(error(R"({"bits": 4, "group_size": 32})").find("says 4-bit affine"), std::string::npos);
  // No mode has 6 bits, nor groups of 64.
  Files bits = mlx_floats("mxfp4", 6, 32);
  EXPECT_NE(error_of([&] { bits.open(); }).find("are no quantized matrix"), std::string::npos);
  Files group = mlx_floats("mxfp4", 4, 64);
  EXPECT_NE(error_of([&] { group.open(); }).find("are no quantized matrix"), std::string::npos);
  // Nor does affine have groups of 16.
  Files affine = mlx(4, 16);
  EXPECT_NE(error_of([&] { affine.open(); }).find("are no quantized matrix"), std::string::npos);
  Files with_biases = mlx_floats("mxfp4", 4, 32);
  with_biases.tensors[part("biases")] = stored_tensor("F32", {kRows, 2}, std::vector<float>(16));
  EXPECT_NE(error_of([&] { with_biases.open(); }).find("down_proj.biases is no part of the model"), std::string::npos);
}

TEST(MlxQuantization, PartsThatDoNotFitAreRefused) {
  const auto error = [](auto change) {
    Files files = mlx(4, 32);
    change(files.tensors);
    return error_of([&] { files.open(); });
  };
  EXPECT_NE(error([](StoredTensors& t) { t.erase(part("weight")); }).find("not_found: "), std::string::npos);
  EXPECT_NE(error([](StoredTensors& t) {
              t[part("weight")].shape = {4, 16};
            }).find("are no quantized matrix of 8 rows"),
            std::string::npos);
  EXPECT_NE(error([](StoredTensors& t) { t[part("weight")].dtype = "I32"; }).find("are no quantized matrix"),
            std::string::npos);
  EXPECT_NE(error([](StoredTensors& t) {
              t[part("scales")].shape = {2, 8};
            }).find("are no quantized matrix"),
            std::string::npos);
  EXPECT_NE(error([](StoredTensors& t) { t[part("biases")].shape = {16}; }).find("expected [8, 2]"), std::string::npos);
  EXPECT_NE(error([](StoredTensors& t) {
              t[part("scales")].dtype = "I32";
            }).find("scales is int32; expected float32, float16, bfloat16 or uint8"),
            std::string::npos);
  EXPECT_NE(error([](StoredTensors& t) {
              t.erase(part("scales"));
              t.erase(part("biases"));
            }).find("corrupt: "),
            std::string::npos);
  EXPECT_NE(error([](StoredTensors& t) { t.erase(part("biases")); }).find("of type float32, but no"),
            std::string::npos);
}

TEST(MlxQuantization, TheConfigMustAgreeWithTheTensors) {
  const auto error = [](const char* entry) {
    Files files = mlx(4, 32);
    files.config = with_member(files.config, "quantization",
                               std::string("{\"group_size\": 64, \"bits\": 8, \"") + kModule + "\": " + entry + "}");
    return error_of([&] { files.open(); });
  };
  // The default is no entry: the tensors say what they are.
  EXPECT_EQ(error(R"({"bits": 4, "group_size": 32, "mode": "affine"})"), "no error");
  EXPECT_EQ(error(R"({})"), "no error");
  EXPECT_NE(error(R"({"bits": 8, "group_size": 32})").find("says 8-bit affine in groups of 32"), std::string::npos);
  EXPECT_NE(error(R"({"bits": 4, "group_size": null})").find("says 4-bit affine in groups of 64"), std::string::npos);
  EXPECT_NE(error("false").find("is not quantized, but there is"), std::string::npos);
  EXPECT_NE(error("true").find("which sparkx does not know"), std::string::npos);
  EXPECT_NE(error(R"({"global_scale": 2})").find("global_scale is 2, which sparkx does not know"), std::string::npos);
  EXPECT_NE(error(R"({"bits": 7})").find("bits is 7"), std::string::npos);
  EXPECT_NE(error(R"({"mode": "q9"})").find("mode is"), std::string::npos);
  Files files;
  files.config = with_member(files.config, "quantization", std::string("{\"") + kModule + "\": {\"bits\": 4}}");
  EXPECT_NE(error_of([&] { files.open(); }).find("there is no tensor model.layers.0.mlp.down_proj.scales"),
            std::string::npos);
}

TEST(MlxQuantization, CodedActivationsNeedOneScaleARow) {
  Files files = mlx(8, 32);
  files.config = with_member(files.config, "quantization_config",
                             std::string("{\"bits\": 8, \"") + kModule +
                                 R"(": {"bits": 8, "group_size": 32, "input_activations": {"num_bits": 8, "type": "int",
                                   "strategy": "token", "symmetric": true, "dynamic": true}}})");
  std::vector<float> scales, biases;
  for (std::int64_t i = 0; i < kRows * 2; ++i) {
    scales.push_back(static_cast<float>(i / 2 + 1));
    biases.push_back(-128.0f * scales.back());
  }
  files.tensors[part("scales")] = stored_tensor("F32", {kRows, 2}, scales);
  files.tensors[part("biases")] = stored_tensor("F32", {kRows, 2}, biases);
  const Checkpoint good = files.open();
  EXPECT_EQ(good.find_quantized(part("weight"))->spec.scheme, CodeScheme::w8a8);
  const Codes found = read(good, 2, 4);
  expect_codes(found, 2, 4, 8);
  EXPECT_EQ(found.scales, (std::vector<float>{3, 4}));

  biases[5] += 1;
  files.tensors[part("biases")] = stored_tensor("F32", {kRows, 2}, biases);
  const Checkpoint bad = files.open();
  read(bad, 3, 4);
  EXPECT_NE(error_of([&] { read(bad, 2, 4); }).find("must repeat one scale"), std::string::npos);
}

TEST(CompressedTensors, PackedCodesAndZeroPoints) {
  for (const int bits : {1, 2, 3, 4, 5, 6, 7, 8}) {
    Files symmetric = compressed(bits, true, "group");
    const Checkpoint a = symmetric.open();
    EXPECT_EQ(a.find_quantized(part("weight"))->spec.scheme, CodeScheme::offset);
    EXPECT_EQ(a.find_quantized(part("weight"))->spec.zero, 1 << (bits - 1));
    // Codes of 1 and 7 bits are kept with 2 and 8.
    EXPECT_EQ(a.find_quantized(part("weight"))->spec.bits, bits == 1 ? 2 : bits == 7 ? 8 : bits);
    expect_codes(read(a, 0, kRows), 0, kRows, bits);

    Files asymmetric = compressed(bits, false, "group");
    const Checkpoint b = asymmetric.open();
    EXPECT_EQ(b.find_quantized(part("weight"))->spec.scheme, CodeScheme::zero_point);
    const Codes found = read(b, 3, 6);
    expect_codes(found, 3, 6, bits);
    for (std::int64_t row = 3; row < 6; ++row) {
      for (std::int64_t g = 0; g < 2; ++g) {
        EXPECT_EQ(found.zeros[static_cast<std::size_t>((row - 3) * 2 + g)], (3 * row + g + 1) % (1 << bits));
      }
    }
    EXPECT_EQ(found.scales[0], 6.5f);
  }
}

TEST(CompressedTensors, SignedCodesOfWholeRows) {
  Files files = compressed(8, true, "channel", false);
  const Checkpoint checkpoint = files.open();
  EXPECT_EQ(checkpoint.find_quantized(part("weight"))->spec.group, kWholeRow);
  const Codes found = read(checkpoint, 1, 4);
  expect_codes(found, 1, 4, 8);
  EXPECT_EQ(found.scales, (std::vector<float>{1.5f, 2.5f, 3.5f}));
}

TEST(CompressedTensors, OneScaleForTheWholeMatrix) {
  Files files = compressed(8, true, "tensor", false);
  files.tensors[part("weight_scale")] = stored_tensor("F32", {1}, std::vector<float>{0.25f});
  EXPECT_EQ(read(files.open(), 1, 3).scales, (std::vector<float>{0.25f, 0.25f}));
}

TEST(CompressedTensors, OneZeroPointForTheWholeMatrix) {
  for (const int bits : {3, 8}) {
    Files files = compressed(bits, false, "tensor");
    files.tensors[part("weight_scale")] = stored_tensor("F32", {1}, std::vector<float>{0.25f});
    files.tensors[part("weight_zero_point")] = stored_tensor("I8", {1}, std::vector<std::int8_t>{-3});
    const Codes found = read(files.open(), 1, 3);
    expect_codes(found, 1, 3, bits);
    EXPECT_EQ(found.zeros, std::vector<std::uint8_t>(2, static_cast<std::uint8_t>((1 << (bits - 1)) - 3)));
  }
  Files outside = compressed(3, false, "tensor");
  outside.tensors[part("weight_scale")] = stored_tensor("F32", {1}, std::vector<float>{0.25f});
  outside.tensors[part("weight_zero_point")] = stored_tensor("I8", {1}, std::vector<std::int8_t>{4});
  const Checkpoint checkpoint = outside.open();
  EXPECT_NE(error_of([&] { read(checkpoint, 1, 3); }).find("the zero point 4, which is no code of 3 bits"),
            std::string::npos);
}

// weight_g_idx puts column k into group k % 2.
Files reordered() {
  Files files = compressed(4, false, "group");
  std::vector<std::int32_t> groups;
  for (std::int32_t k = 0; k < kColumns; ++k) groups.push_back(k % 2);
  files.tensors[part("weight_g_idx")] = stored_tensor("I32", {kColumns}, groups);
  return files;
}

TEST(CompressedTensors, ReorderedColumnsAreSortedByGroup) {
  Files files = reordered();
  const Checkpoint checkpoint = files.open();
  const QuantizedMatrix& matrix = *checkpoint.find_quantized(part("weight"));
  ASSERT_EQ(matrix.column_order.size(), static_cast<std::size_t>(kColumns));
  const Codes found = read(checkpoint, 2, 4);
  for (std::int64_t i = 0; i < kColumns; ++i) {
    const std::int64_t column = i < 32 ? 2 * i : 2 * (i - 32) + 1;
    EXPECT_EQ(matrix.column_order[static_cast<std::size_t>(i)], column);
    EXPECT_EQ(found.codes[static_cast<std::size_t>(kColumns + i)], expected_code(3, column, 4));
  }
  // A column's scale and zero point are those of its own group.
  std::vector<float> row(static_cast<std::size_t>(kColumns));
  read_weights(matrix, kColumns, 3, 4, row.data());
  for (int k = 0; k < kColumns; ++k) {
    const int group = k % 2, zero = (3 * 3 + group + 1) % 16;
    EXPECT_EQ(row[static_cast<std::size_t>(k)],
              (static_cast<float>(3 * 2 + group) + 0.5f) * static_cast<float>(expected_code(3, k, 4) - zero))
        << k;
  }
}

TEST(CompressedTensors, ColumnsInOrderNeedNoOrder) {
  Files sorted = reordered(), unknown = reordered();
  std::vector<std::int32_t> groups(static_cast<std::size_t>(kColumns), -1);
  unknown.tensors[part("weight_g_idx")] = stored_tensor("I32", {kColumns}, groups);
  EXPECT_TRUE(unknown.open().find_quantized(part("weight"))->column_order.empty());
  for (std::size_t k = 0; k < groups.size(); ++k) groups[k] = k < 32 ? 0 : 1;
  sorted.tensors[part("weight_g_idx")] = stored_tensor("I32", {kColumns}, groups);
  EXPECT_TRUE(sorted.open().find_quantized(part("weight"))->column_order.empty());
}

TEST(CompressedTensors, EveryGroupHasItsNumberOfColumns) {
  const auto error = [](std::size_t column, std::int32_t group) {
    Files files = reordered();
    std::vector<std::int32_t> groups;
    for (std::int32_t k = 0; k < kColumns; ++k) groups.push_back(k % 2);
    groups[column] = group;
    files.tensors[part("weight_g_idx")] = stored_tensor("I32", {kColumns}, groups);
    return error_of([&] { files.open(); });
  };
  EXPECT_NE(error(4, 1).find("places 31 columns in group 0; expected 32"), std::string::npos);
  EXPECT_NE(error(4, 2).find("places column 4 in group 2; there are 2"), std::string::npos);
  EXPECT_NE(error(4, -1).find("places column 4 in group -1; there are 2"), std::string::npos);
  Files whole_rows = compressed(4, true, "channel");
  whole_rows.tensors[part("weight_g_idx")] =
      stored_tensor("I32", {kColumns}, std::vector<std::int32_t>(static_cast<std::size_t>(kColumns)));
  EXPECT_NE(error_of([&] { whole_rows.open(); }).find("has no groups of columns"), std::string::npos);
  Files short_one = reordered();
  short_one.tensors[part("weight_g_idx")] = stored_tensor("I32", {2}, std::vector<std::int32_t>(2));
  EXPECT_NE(error_of([&] { short_one.open(); }).find("weight_g_idx has shape [2], expected [64] (columns)"),
            std::string::npos);
}

TEST(CompressedTensors, TheOrderOfQuantizingDoesNotMatter) {
  for (const char* order : {"null", "\"weight\"", "\"group\"", "\"static\"", "\"dynamic\"", "false"}) {
    Files files = compressed(4, true, "group");
    files.config = with_member(files.config, "quantization_config.config_groups.group_0.weights.actorder", order);
    EXPECT_EQ(error_of([&] { files.open(); }), "no error") << order;
  }
}

TEST(CompressedTensors, PartsThatDoNotFitAreRefused) {
  const auto error = [](auto change) {
    Files files = compressed(4, false, "group");
    change(files.tensors);
    return error_of([&] { files.open(); });
  };
  for (const char* name : {"weight_packed", "weight_shape", "weight_scale", "weight_zero_point"}) {
    EXPECT_NE(error([&](StoredTensors& t) { t.erase(part(name)); }).find("there is no tensor " + part(name)),
              std::string::npos);
    EXPECT_NE(error([&](StoredTensors& t) { t[part(name)].shape.push_back(1); }).find(part(name)), std::string::npos);
  }
  EXPECT_NE(error([](StoredTensors& t) {
              t[part("weight_shape")] = stored_tensor("I64", {2}, std::vector<std::int64_t>{8, 63});
            }).find("weight_shape says [8, 63]"),
            std::string::npos);
  Files symmetric = compressed(4, true, "group");
  symmetric.tensors[part("weight_zero_point")] = stored_tensor("I32", {1, 2}, std::vector<std::int32_t>(2));
  EXPECT_NE(error_of([&] { symmetric.open(); }).find("is symmetric"), std::string::npos);
}

TEST(CompressedTensors, WhatItCannotRunIsRefusedByName) {
  const auto error = [](const char* path, const char* value) {
    Files files = compressed(4, true, "group");
    files.config = with_member(files.config, path, value);
    return error_of([&] { files.open(); });
  };
  const std::string group = "quantization_config.config_groups.group_0.";
  const std::pair<std::string, const char*> cases[] = {
      {"quantization_config.format", "\"float-quantized\""},
      {"quantization_config.kv_cache_scheme", "{\"num_bits\": 8}"},
      {"quantization_config.sparsity_config", "{\"format\": \"dense\"}"},
      {"quantization_config.a_new_thing", "1"},
      {"quantization_config.quant_method", "\"gptq\""},
      {group + "output_activations", "{\"num_bits\": 8}"},
      {group + "input_activations",
       R"({"num_bits": 8, "type": "int", "symmetric": true, "strategy": "token", "dynamic": true})"},
      {group + "weights.type", "\"float\""},
      {group + "weights.num_bits", "0"},
      {group + "weights.num_bits", "9"},
      {group + "weights.strategy", "\"block\""},
      {group + "weights.group_size", "48"},
      {group + "weights.actorder", "\"hessian\""},
      {group + "targets", "[\"re:(?<=a)b\"]"},
  };
  for (const auto& [path, value] : cases) {
    const std::string found = error(path.c_str(), value);
    EXPECT_EQ(found.find("unsupported: "), 0u) << path << ": " << found;
  }
}

// Which group a module belongs to, by whether its parts are looked for.
TEST(CompressedTensors, TargetsAreIgnoredExactPatternsAndClassesInThisOrder) {
  const auto quantized = [](const char* groups, const char* ignore) {
    Files files = compressed(4, true, "group");
    std::string config = with_member(files.config, "quantization_config.ignore", ignore);
    const std::string weights = R"("weights": {"num_bits": 4, "type": "int", "symmetric": true, "strategy": )";
    std::string text(groups);
    for (const auto& [mark, strategy] :
         {std::pair("$G", R"("group", "group_size": 32})"), std::pair("$C", "\"channel\"}")}) {
      for (std::size_t at; (at = text.find(mark)) != text.npos;) text.replace(at, 2, weights + strategy);
    }
    files.config = with_member(config, "quantization_config.config_groups", text);
    return error_of([&] { files.open(); });
  };
  const std::string fits = "no error";
  EXPECT_EQ(quantized(R"({"g": {"targets": ["model.layers.0.mlp.down_proj"], $G}})", "[]"), fits);
  EXPECT_EQ(quantized(R"({"g": {"targets": ["re:.*0.*down"], $G}})", "[]"), fits);  // from the start, not to the end
  EXPECT_EQ(quantized(R"({"a": {"targets": ["Linear"], $C}, "g": {"targets": ["re:.*0.mlp.down"], $G}})",
                      R"(["re:.*layers.1.*", "re:.*self_attn.*", "re:.*(gate|up)_proj"])"),
            fits);
  EXPECT_EQ(
      quantized(R"({"g": {"targets": ["re:.*down"], $C}, "h": {"targets": ["model.layers.0.mlp.down_proj"], $G}})",
                R"(["re:.*layers.1.*"])"),
      fits);
  EXPECT_EQ(quantized(R"({"g": {"targets": ["model.layers.0.mlp.down_proj"], $C},
                          "h": {"targets": ["model.layers.0.mlp.down_proj"], $G}})",
                      "[]"),
            fits);
  EXPECT_NE(quantized(R"({"g": {"targets": ["model.layers.0.mlp.down_proj"], $G}})", R"(["Linear"])"), fits);
  EXPECT_NE(quantized(R"({"g": {"targets": ["layers.0.mlp.down_proj", "re:layers.*"], $G}})", "[]"), fits);
}

TEST(QuantizedCheckpoint, AQuantizedHeadCountsInATiedModel) {
  Files files;
  files.config = with_member(files.config, "quantization", R"({"group_size": 32, "bits": 4})");
  files.config = with_member(files.config, "hidden_size", "64");
  for (auto& [name, tensor] : files.tensors) {
    for (std::int64_t& size : tensor.shape) {
      if (size == 8 && name != "model.embedding.weight") size = 64;
    }
  }
  files.tensors["model.embedding.weight"].shape = {8, 64};
  for (auto& [name, tensor] : files.tensors) {
    std::int64_t count = 1;
    for (const std::int64_t size : tensor.shape) count *= size;
    tensor.data.resize(static_cast<std::size_t>(count) * 4);
  }
  EXPECT_TRUE(files.open().config().tie_word_embeddings);
  files.tensors["lm_head.weight"] = stored_tensor("U32", {8, 8}, std::vector<std::uint32_t>(64));
  files.tensors["lm_head.scales"] = stored_tensor("F32", {8, 2}, std::vector<float>(16));
  files.tensors["lm_head.biases"] = stored_tensor("F32", {8, 2}, std::vector<float>(16));
  const Checkpoint checkpoint = files.open();
  EXPECT_FALSE(checkpoint.config().tie_word_embeddings);
  EXPECT_NE(checkpoint.find_quantized("lm_head.weight"), nullptr);
}

}  // namespace
}  // namespace sparkx
