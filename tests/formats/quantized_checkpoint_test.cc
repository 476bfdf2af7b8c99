// Quantized matrices in MLX's and compressed-tensors' form: their codes, and every way in which they can be wrong.
#include <gtest/gtest.h>

#include "core/bfloat16.h"
#include "formats/checkpoint.h"
#include "support/checkpoints.h"
#include "support/errors.h"
#include "support/safetensors_files.h"

namespace sparkx {
namespace {

using testing::error_of;
using testing::stored_tensor;
using testing::StoredTensors;
using testing::TestFiles;
using testing::with_member;

constexpr const char* kModule = "model.layers.0.mlp.down_proj";
constexpr std::int64_t kRows = 8, kColumns = 64;

// A small model whose down_proj has kRows x kColumns; all tensors dense.
std::string config_text() {
  std::string config = with_member(testing::kSmallConfig, "hidden_size", "8");
  return with_member(config, "intermediate_size", "64");
}

StoredTensors dense_tensors() {
  StoredTensors tensors;
  const auto add = [&](const std::string& name, std::vector<std::int64_t> shape) {
    std::int64_t count = 1;
    for (const std::int64_t size : shape) count *= size;
    tensors[name] = stored_tensor("F32", shape, std::vector<float>(static_cast<std::size_t>(count), 1.0f));
  };
  add("model.embedding.weight", {8, 8});
  for (const std::string layer : {"model.layers.0.", "model.layers.1."}) {
    add(layer + "input_layernorm.weight", {8});
    add(layer + "self_attn.q_k_v_proj.weight", {32, 8});
    add(layer + "self_attn.g_proj.weight", {4, 8});
    add(layer + "self_attn.out_proj.weight", {8, 16});
    add(layer + "post_attention_layernorm.weight", {8});
    add(layer + "mlp.gate_proj.weight", {64, 8});
    add(layer + "mlp.up_proj.weight", {64, 8});
    add(layer + "mlp.down_proj.weight", {8, 64});
  }
  add("model.norm.weight", {8});
  return tensors;
}

struct Files {
  std::string config = config_text();
  StoredTensors tensors = dense_tensors();

  // Keeps the bytes that the checkpoint reads.
  Checkpoint open() {
    const std::vector<std::byte> bytes = testing::safetensors_bytes(tensors);
    files_.contents["config.json"] = config;
    files_.contents["model.safetensors"] = std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    return Checkpoint::open("m", files_.memory());
  }

 private:
  TestFiles files_;
};

std::string part(const char* name) {
  return std::string(kModule) + "." + name;
}

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

// Code k of row r.
int expected_code(std::int64_t row, std::int64_t k, int bits) {
  return static_cast<int>((row * 7 + k * 3) % (1 << bits));
}

// The codes as a little-endian bit stream in 32-bit words, row by row.
template <typename Word>
std::vector<Word> packed_codes(int bits) {
  const std::int64_t words = kColumns * bits / 32;
  std::vector<Word> packed(static_cast<std::size_t>(kRows * words));
  for (std::int64_t row = 0; row < kRows; ++row) {
    for (std::int64_t k = 0; k < kColumns; ++k) {
      auto& word = packed[static_cast<std::size_t>(row * words + k * bits / 32)];
      word = static_cast<Word>(static_cast<std::uint32_t>(word) |
                               static_cast<std::uint32_t>(expected_code(row, k, bits)) << (k * bits % 32));
    }
  }
  return packed;
}

void expect_codes(const Codes& found, std::int64_t begin, std::int64_t end, int bits) {
  for (std::int64_t row = begin; row < end; ++row) {
    for (std::int64_t k = 0; k < kColumns; ++k) {
      ASSERT_EQ(found.codes[static_cast<std::size_t>((row - begin) * kColumns + k)], expected_code(row, k, bits))
          << row << ", " << k;
    }
  }
}

Files mlx(int bits, std::int64_t group) {
  Files files;
  files.config = with_member(files.config, "quantization",
                             "{\"group_size\": " + std::to_string(group) + ", \"bits\": " + std::to_string(bits) + "}");
  const std::int64_t groups = kColumns / group;
  files.tensors[part("weight")] =
      stored_tensor("U32", {kRows, kColumns * bits / 32}, packed_codes<std::uint32_t>(bits));
  std::vector<float> scales, biases;
  for (std::int64_t i = 0; i < kRows * groups; ++i) {
    scales.push_back(static_cast<float>(i) + 0.5f);
    biases.push_back(-static_cast<float>(i));
  }
  files.tensors[part("scales")] = stored_tensor("F32", {kRows, groups}, scales);
  files.tensors[part("biases")] = stored_tensor("F32", {kRows, groups}, biases);
  return files;
}

TEST(MlxQuantization, CodesScalesAndBiasesAreThoseOfTheFile) {
  for (const int bits : {4, 8}) {
    Files files = mlx(bits, 32);
    const Checkpoint checkpoint = files.open();
    const QuantizationSpec& spec = checkpoint.find_quantized(part("weight"))->spec;
    EXPECT_EQ(spec.scheme, CodeScheme::affine);
    EXPECT_EQ(spec.bits, bits);
    EXPECT_EQ(spec.group, 32);
    const Codes found = read(checkpoint, 3, 7);
    expect_codes(found, 3, 7, bits);
    EXPECT_EQ(found.scales[1], 7.5f);  // row 3, second group
    EXPECT_EQ(found.biases[1], -7.0f);
  }
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
  EXPECT_NE(error([](StoredTensors& t) { t[part("scales")].dtype = "I32"; }).find("expected float32"),
            std::string::npos);
  EXPECT_NE(error([](StoredTensors& t) {
              t.erase(part("scales"));
              t.erase(part("biases"));
            }).find("corrupt: "),
            std::string::npos);
  EXPECT_NE(
      error([](StoredTensors& t) { t.erase(part("biases")); }).find("4-bit mxfp4 in groups of 32; sparkx supports"),
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

Files compressed(int bits, bool symmetric, const char* strategy, bool packed = true) {
  Files files;
  const bool grouped = std::string(strategy) == "group";
  files.config = with_member(
      files.config, "quantization_config",
      std::string(R"({"quant_method": "compressed-tensors", "format": ")") + (packed ? "pack" : "int") +
          R"(-quantized", "ignore": ["lm_head"], "config_groups": {"group_0": {"targets": ["re:.*layers.0.mlp.down_proj$"],
           "weights": {"num_bits": )" +
          std::to_string(bits) + R"(, "type": "int", "symmetric": )" + (symmetric ? "true" : "false") +
          R"(, "strategy": ")" + strategy + R"(", "group_size": )" + (grouped ? "32" : "null") + "}}}}");
  const std::int64_t groups = grouped ? 2 : 1;
  files.tensors.erase(part("weight"));
  if (packed) {
    files.tensors[part("weight_packed")] =
        stored_tensor("I32", {kRows, kColumns * bits / 32}, packed_codes<std::int32_t>(bits));
    files.tensors[part("weight_shape")] = stored_tensor("I64", {2}, std::vector<std::int64_t>{kRows, kColumns});
  } else {
    std::vector<std::int8_t> codes;
    for (std::int64_t i = 0; i < kRows * kColumns; ++i) {
      codes.push_back(static_cast<std::int8_t>(expected_code(i / kColumns, i % kColumns, 8) - 128));
    }
    files.tensors[part("weight")] = stored_tensor("I8", {kRows, kColumns}, codes);
  }
  std::vector<float> scales(static_cast<std::size_t>(kRows * groups));
  for (std::size_t i = 0; i < scales.size(); ++i) scales[i] = static_cast<float>(i) + 0.5f;
  files.tensors[part("weight_scale")] = stored_tensor("F32", {kRows, groups}, scales);
  if (!symmetric) {
    // Zero point of row r, group g: 3 r + g + 1, packed down the rows.
    std::vector<std::int32_t> zeros(static_cast<std::size_t>(kRows * bits / 32 * groups));
    for (std::int64_t row = 0; row < kRows; ++row) {
      for (std::int64_t g = 0; g < groups; ++g) {
        auto& word = zeros[static_cast<std::size_t>(row * bits / 32 * groups + g)];
        word =
            static_cast<std::int32_t>(static_cast<std::uint32_t>(word) |
                                      static_cast<std::uint32_t>((3 * row + g + 1) % (1 << bits)) << (row * bits % 32));
      }
    }
    files.tensors[part("weight_zero_point")] = stored_tensor("I32", {kRows * bits / 32, groups}, zeros);
  }
  return files;
}

TEST(CompressedTensors, PackedCodesAndZeroPoints) {
  for (const int bits : {4, 8}) {
    Files symmetric = compressed(bits, true, "group");
    const Checkpoint a = symmetric.open();
    EXPECT_EQ(a.find_quantized(part("weight"))->spec.scheme, CodeScheme::offset);
    EXPECT_EQ(a.find_quantized(part("weight"))->spec.zero, 1 << (bits - 1));
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
  EXPECT_NE(error([](StoredTensors& t) {
              t[part("weight_g_idx")] = stored_tensor("I32", {kColumns}, std::vector<std::int32_t>(kColumns));
            }).find("reordered columns"),
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
      {group + "weights.num_bits", "3"},
      {group + "weights.strategy", "\"block\""},
      {group + "weights.group_size", "48"},
      {group + "weights.actorder", "\"group\""},
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
