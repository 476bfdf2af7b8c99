// GGUF files as the folders that they were made of, or could have been.
#include "convert/gguf_source.h"

#include <gtest/gtest.h>

#include "convert/folders.h"
#include "convert/source.h"
#include "formats/gguf_model.h"
#include "support/oracle.h"
#include "text/tokenizer_json.h"

namespace sparkx {
namespace {

namespace fs = std::filesystem;
using testing::convert;
using testing::exact_logits_of;
using testing::json_in;
using testing::oracle_dir;
using testing::read_file;
using testing::same_bits;
using testing::TempDir;

TEST(GgufTokenizer, IsReadBackAsTheSame) {
  SPARKX_NEEDS_ORACLE();
  const Checkpoint checkpoint = Checkpoint::open(oracle_dir() / "gguf-F32.gguf");
  const TokenizerDescription wanted = gguf_tokenizer(*checkpoint.gguf_metadata()).value();
  TokenizerDescription found = parse_tokenizer_json(tokenizer_json(wanted), "tokenizer.json");
  for (const TextFile& file : tokenizer_files_of(checkpoint)) {
    if (file.name == "tokenizer_config.json") apply_tokenizer_config(found, file.text, file.name);
  }
  ASSERT_FALSE(wanted.merges.empty());
  ASSERT_FALSE(wanted.added_tokens.empty());
  // Numbers without a token at the end of the vocabulary have no entry there.
  std::vector<std::string> tokens = wanted.tokens;
  while (!tokens.empty() && tokens.back().empty()) tokens.pop_back();
  EXPECT_EQ(found.tokens, tokens);
  EXPECT_EQ(found.merges, wanted.merges);
  EXPECT_EQ(found.added_tokens, wanted.added_tokens);
  EXPECT_EQ(found.pre_tokenizer, wanted.pre_tokenizer);
  EXPECT_EQ(found.normalizer, wanted.normalizer);
  EXPECT_EQ(found.bos, wanted.bos);
  EXPECT_EQ(found.eos, wanted.eos);
  EXPECT_EQ(found.pad, wanted.pad);
  EXPECT_EQ(found.unknown, wanted.unknown);
  EXPECT_EQ(found.ignore_merges, wanted.ignore_merges);
}

TEST(GgufConfig, SaysWhatTheSourceOfTheFileSaid) {
  SPARKX_NEEDS_ORACLE();
  const Checkpoint gguf = Checkpoint::open(oracle_dir() / "gguf-F32.gguf");
  const ModelConfig wanted = Checkpoint::open(oracle_dir() / "quant-source-bf16").config();
  const ModelConfig found = read_model_config(config_of(gguf.config()), "config.json");
  EXPECT_TRUE(found.unknown_keys.empty());
  EXPECT_EQ(found.hidden_size, wanted.hidden_size);
  EXPECT_EQ(found.intermediate_size, wanted.intermediate_size);
  EXPECT_EQ(found.num_attention_heads, wanted.num_attention_heads);
  EXPECT_EQ(found.num_key_value_heads, wanted.num_key_value_heads);
  EXPECT_EQ(found.head_dim, wanted.head_dim);
  EXPECT_EQ(found.vocab_size, wanted.vocab_size);
  EXPECT_EQ(found.max_position_embeddings, wanted.max_position_embeddings);
  EXPECT_EQ(found.sliding_window, wanted.sliding_window);
  EXPECT_EQ(found.layer_types, wanted.layer_types);
  EXPECT_EQ(found.tie_word_embeddings, wanted.tie_word_embeddings);
  EXPECT_EQ(found.bos_token_id, wanted.bos_token_id);
  EXPECT_EQ(found.eos_token_ids, wanted.eos_token_ids);
  EXPECT_EQ(found.pad_token_id, wanted.pad_token_id);
  EXPECT_EQ(static_cast<float>(found.rms_norm_eps), static_cast<float>(wanted.rms_norm_eps));
  for (const LayerType type : {LayerType::sliding_attention, LayerType::full_attention}) {
    EXPECT_EQ(found.rope(type).rotary_dims, wanted.rope(type).rotary_dims);
    EXPECT_EQ(found.rope(type).rope_theta, wanted.rope(type).rope_theta);
  }
}

class GgufSource : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Oracle, GgufSource,
                         ::testing::Values("F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q2_K",
                                           "Q3_K_M", "Q4_K_M", "Q5_K_M", "Q6_K", "IQ4_NL", "IQ4_XS", "untied-F32"),
                         testing::case_name);

TEST_P(GgufSource, AsNumbersHasTheSameWeights) {
  SPARKX_NEEDS_ORACLE();
  const TempDir dir;
  const fs::path path = oracle_dir() / ("gguf-" + std::string(GetParam()) + ".gguf");
  convert(path, dir / "out", {.format = "hf", .dtype = "float32"});
  const Checkpoint source = Checkpoint::open(path), output = Checkpoint::open(dir / "out");
  ASSERT_EQ(output.tensors().size(), source.tensors().size());
  for (const TensorInfo& tensor : source.tensors()) {
    const auto count = static_cast<std::size_t>(tensor.rows() * tensor.columns());
    std::vector<float> wanted(count), found(count);
    read_values(source, tensor, 0, tensor.rows(), wanted.data());
    read_values(output, output.tensor(tensor.name), 0, tensor.rows(), found.data());
    EXPECT_TRUE(same_bits(found, wanted, tensor.columns())) << tensor.name;
  }
  EXPECT_EQ(read_file(dir / "out/chat_template.jinja"),
            read_file(oracle_dir() / "quant-source-bf16/chat_template.jinja"));
}

TEST(GgufAsNumbers, HasTheSameLogits) {
  SPARKX_NEEDS_ORACLE();
  for (const char* type : {"F32", "Q4_0", "Q5_1", "untied-F32"}) {
    const TempDir dir;
    const fs::path source = oracle_dir() / ("gguf-" + std::string(type) + ".gguf");
    convert(source, dir / "out", {.format = "hf", .dtype = "float32"});
    EXPECT_TRUE(same_bits(exact_logits_of(dir / "out"), exact_logits_of(source), 512)) << type;
  }
}

TEST(GgufAsNumbers, KeepWhatTheSourceOfTheFileSaid) {
  const TempDir dir;
  convert("", dir / "folder", {.format = "hf"});
  convert(dir / "folder", dir / "file.gguf");
  convert(dir / "file.gguf", dir / "again", {.format = "hf"});
  const Checkpoint first = Checkpoint::open(dir / "folder"), last = Checkpoint::open(dir / "again");
  EXPECT_EQ(last.generation_config().temperature.has_value(), first.generation_config().temperature.has_value());
  EXPECT_EQ(last.generation_config().eos_token_ids, first.generation_config().eos_token_ids);
  EXPECT_EQ(last.text_file("chat_template.jinja"), first.text_file("chat_template.jinja"));
  const TokenizerDescription wanted = read_tokenizer(dir / "folder"), found = read_tokenizer(dir / "again");
  EXPECT_EQ(found.tokens, wanted.tokens);
  EXPECT_EQ(found.merges, wanted.merges);
  EXPECT_EQ(found.eos, wanted.eos);
  ASSERT_EQ(found.added_tokens.size(), wanted.added_tokens.size());
  for (std::size_t i = 0; i < wanted.added_tokens.size(); ++i) {
    // GGUF files mark role markers such as <|User|> as control tokens, which tokenizer.json does not.
    EXPECT_EQ(found.added_tokens[i].id, wanted.added_tokens[i].id);
    EXPECT_EQ(found.added_tokens[i].content, wanted.added_tokens[i].content);
  }
  EXPECT_TRUE(same_bits(exact_logits_of(dir / "again"), exact_logits_of(dir / "folder"), first.config().vocab_size));
}

TEST(GgufToMlx, CodesAreKeptWhereMlxCanHoldThem) {
  SPARKX_NEEDS_ORACLE();
  for (const char* type : {"Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1"}) {
    const TempDir dir;
    const fs::path source = oracle_dir() / ("gguf-" + std::string(type) + ".gguf");
    convert(source, dir / "out");
    EXPECT_TRUE(same_bits(exact_logits_of(dir / "out"), exact_logits_of(source), 512)) << type;
    const json::Value manifest = json_in(dir / "out/conversion_manifest.json");
    EXPECT_EQ(*manifest.find("source_format"), json::Value("gguf"));
    EXPECT_EQ(*manifest.find("modules")->find("model.embedding")->find("codes_kept"), json::Value(true)) << type;
  }
}

TEST(GgufToMlx, WhatMlxCannotHoldIsDecodedOrQuantizedAnewAndTheCommandSaysSo) {
  SPARKX_NEEDS_ORACLE();
  const TempDir dir;
  const fs::path source = oracle_dir() / "gguf-Q4_K_M.gguf";
  const auto reason = [&](const ConvertOptions& options) {
    const Conversion conversion(source, dir / "out", options);
    for (const ConvertedTensor& tensor : conversion.plan().tensors) {
      if (tensor.name == "model.layers.0.mlp.up_proj.weight") return tensor.target + ": " + tensor.reason;
    }
    return std::string();
  };
  EXPECT_EQ(reason({}), "float16: MLX cannot hold its codes: decoded");
  EXPECT_EQ(reason({.quantize = "4bit", .group_size = 32}),
            "4-bit, groups of 32: MLX cannot hold its codes: decoded, and quantized anew");
}

}  // namespace
}  // namespace sparkx
