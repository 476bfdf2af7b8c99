#include "formats/gguf_model.h"

#include <gtest/gtest.h>

#include <cmath>

#include "formats/checkpoint.h"
#include "support/errors.h"
#include "support/gguf_files.h"
#include "support/oracle.h"

namespace sparkx {
namespace {

using testing::error_of;
using testing::oracle_dir;
using testing::raw;
using testing::small_gguf;
using testing::TestGguf;

Checkpoint open(const TestGguf& file, std::string& bytes) {
  bytes = file.bytes();
  const std::vector<MemoryFile> files{{"m.gguf", std::as_bytes(std::span(bytes))}};
  return Checkpoint::open("", files);
}

template <typename Change>
std::string error_after(Change change) {
  TestGguf file = small_gguf();
  change(file);
  std::string bytes;
  return error_of([&] { open(file, bytes); });
}

TEST(GgufModel, IsACheckpointLikeAnyOther) {
  std::string bytes;
  const Checkpoint checkpoint = open(small_gguf(), bytes);
  const ModelConfig& config = checkpoint.config();
  EXPECT_EQ(config.hidden_size, 6);
  EXPECT_EQ(config.head_dim, 4);
  EXPECT_EQ(config.num_key_value_heads, 2);
  EXPECT_EQ(config.sliding_window, 8);
  EXPECT_EQ(config.vocab_size, 8);
  EXPECT_EQ(config.max_position_embeddings, 1024);
  EXPECT_EQ(static_cast<float>(config.rms_norm_eps), 1e-6f);
  EXPECT_TRUE(config.tie_word_embeddings);
  EXPECT_EQ(config.layer_types, (std::vector{LayerType::sliding_attention, LayerType::full_attention}));
  EXPECT_EQ(config.rope(LayerType::full_attention).rope_theta, 5000000.0);
  EXPECT_EQ(config.rope(LayerType::full_attention).rotary_dims, 2);
  EXPECT_EQ(config.rope(LayerType::sliding_attention).rotary_dims, 4);
  EXPECT_EQ(config.eos_token_ids, std::vector<TokenId>{1});
  EXPECT_EQ(checkpoint.tensors().size(), 18u);
  const TensorInfo& gate = checkpoint.tensor("model.layers.1.self_attn.g_proj.weight");
  EXPECT_EQ(gate.shape, (std::vector<std::int64_t>{4, 6}));
  std::vector<float> row(6);
  checkpoint.read(gate, 1, 2, std::as_writable_bytes(std::span(row)));
  EXPECT_EQ(row[0], 11 + 6);  // the file's 12th tensor, its second row
  EXPECT_EQ(checkpoint.text_file("tokenizer.json"), std::nullopt);
  EXPECT_TRUE(checkpoint.warnings().empty());
}

TEST(GgufModel, SuggestsHowToSample) {
  TestGguf file = small_gguf();
  file.set("general.sampling.top_k", 40u);
  file.set("general.sampling.top_p", 0.5f);
  file.set("general.sampling.min_p", 0.25f);
  file.set("general.sampling.temp", 0.75f);
  file.set("general.sampling.penalty_repeat", 1.5f);
  std::string bytes;
  const Checkpoint checkpoint = open(file, bytes);
  const GenerationConfig& suggested = checkpoint.generation_config();
  EXPECT_EQ(suggested.top_k, 40);
  EXPECT_EQ(suggested.top_p, 0.5);
  EXPECT_EQ(suggested.min_p, 0.25);
  EXPECT_EQ(suggested.temperature, 0.75);
  EXPECT_EQ(suggested.repetition_penalty, 1.5);
  EXPECT_EQ(suggested.eos_token_ids, std::nullopt);
  EXPECT_TRUE(error_after([](TestGguf& f) { f.set("general.sampling.top_p", 2.0f); }).starts_with("corrupt: m.gguf: "));
  EXPECT_EQ(error_after([](TestGguf& f) { f.set("general.sampling.temp", INFINITY); }),
            "corrupt: m.gguf: general.sampling.temp is inf");
}

TEST(GgufModel, SlidingLayersTakeTheFullLayersRopeWhereTheyHaveNone) {
  TestGguf file = small_gguf();
  file.drop("spark2_5.rope.freq_base_swa");
  file.drop("spark2_5.rope.dimension_count_swa");
  std::string bytes;
  const Checkpoint checkpoint = open(file, bytes);
  EXPECT_EQ(checkpoint.config().rope(LayerType::sliding_attention).rope_theta, 5000000.0);
  EXPECT_EQ(checkpoint.config().rope(LayerType::sliding_attention).rotary_dims, 2);
}

// The factor of a config is a fraction; its product with head_dim must give the number of the file.
TEST(GgufModel, EveryNumberOfRotaryDimsSurvives) {
  for (std::uint32_t head_dim : {98u, 100u, 256u}) {
    for (std::uint32_t dims = 2; dims <= head_dim; dims += 2) {
      TestGguf file = small_gguf();
      file.set("spark2_5.attention.key_length", head_dim);
      file.set("spark2_5.attention.value_length", head_dim);
      file.set("spark2_5.rope.dimension_count", dims);
      file.set("spark2_5.rope.dimension_count_swa", dims);
      const std::string bytes = file.bytes();
      const GgufHeader header = read_gguf(ByteSource::memory("m.gguf", std::as_bytes(std::span(bytes))));
      EXPECT_EQ(gguf_model_config(header.metadata, true, 8).rope(LayerType::full_attention).rotary_dims, dims);
    }
  }
}

TEST(GgufModel, AFileThatIsNoSparkModelIsRefused) {
  EXPECT_EQ(error_after([](TestGguf& f) { f.set("general.architecture", "llama"); }),
            "unsupported: m.gguf: general.architecture is \"llama\"; sparkx runs \"spark2_5\" only");
  for (const char* key :
       {"general.architecture", "spark2_5.embedding_length", "spark2_5.block_count", "spark2_5.feed_forward_length",
        "spark2_5.attention.head_count", "spark2_5.context_length", "spark2_5.attention.layer_norm_rms_epsilon"}) {
    EXPECT_EQ(error_after([&](TestGguf& f) { f.drop(key); }), std::string("corrupt: m.gguf: ") + key + " is missing");
    EXPECT_NE(error_after([&](TestGguf& f) { f.set(key, std::vector<bool>{}); }).find(key), std::string::npos);
  }
}

TEST(GgufModel, KeysThatWouldChangeTheResultAreRefused) {
  EXPECT_EQ(error_after([](TestGguf& f) { f.set("spark2_5.final_logit_softcapping", 30.0f); }),
            "unsupported: m.gguf: spark2_5.final_logit_softcapping is 30; sparkx supports 0");
  EXPECT_EQ(error_after([](TestGguf& f) { f.set("spark2_5.rope.scaling.type", "yarn"); }),
            "unsupported: m.gguf: spark2_5.rope.scaling.type is \"yarn\"; sparkx supports \"none\"");
  EXPECT_EQ(error_after([](TestGguf& f) { f.set("spark2_5.expert_count", 8u); }),
            "unsupported: m.gguf: spark2_5.expert_count is 8; sparkx supports 0");
  EXPECT_NE(error_after([](TestGguf& f) { f.set("spark2_5.attention.value_length", 8u); }).find("value_length is 8"),
            std::string::npos);
  EXPECT_NE(error_after([](TestGguf& f) { f.set("spark2_5.rope.dimension_count", 6u); }).find("dimension_count is 6"),
            std::string::npos);
  TestGguf file = small_gguf();
  file.set("spark2_5.expert_count", 0u);
  file.set("spark2_5.rope.scaling.type", "none");
  file.set("spark2_5.a_new_thing", 1u);
  std::string bytes;
  EXPECT_EQ(open(file, bytes).warnings(),
            std::vector<std::string>{"m.gguf: keys that sparkx does not know, and ignores: spark2_5.a_new_thing"});
}

TEST(GgufModel, TensorsMustBeThoseOfTheModel) {
  const auto tensor = [](TestGguf& f, std::string_view name) {
    return std::find_if(f.tensors.begin(), f.tensors.end(), [&](const auto& t) { return t.name == name; });
  };
  EXPECT_EQ(error_after([&](TestGguf& f) { f.tensors.erase(tensor(f, "blk.1.ffn_up.weight")); }),
            "not_found: m.gguf: tensor model.layers.1.mlp.up_proj.weight is missing");
  EXPECT_EQ(error_after([&](TestGguf& f) {
              tensor(f, "blk.1.ffn_up.weight")->dimensions = {10, 6};
            }),
            "corrupt: m.gguf: tensor blk.1.ffn_up.weight has shape [6, 10], expected [10, 6] (intermediate_size, "
            "hidden_size)");
  EXPECT_EQ(error_after([&](TestGguf& f) { tensor(f, "blk.1.ffn_up.weight")->name = "blk.01.ffn_up.weight"; }),
            "not_found: m.gguf: tensor model.layers.1.mlp.up_proj.weight is missing");
  EXPECT_EQ(error_after([&](TestGguf& f) { tensor(f, "blk.1.ffn_up.weight")->name = "blk.0.ffn_up.weight"; }),
            "corrupt: m.gguf: tensor blk.0.ffn_up.weight is there twice");
  EXPECT_EQ(error_after([](TestGguf& f) {
              f.tensors.push_back({"blk.0.attn_qkv.bias", 0, {32}, std::string(128, '\0')});
            }),
            "corrupt: m.gguf: tensor blk.0.attn_qkv.bias is no part of the model that the metadata describes");
  EXPECT_EQ(error_after([&](TestGguf& f) { tensor(f, "token_embd.weight")->type = 26; }),
            "unsupported: m.gguf: tensor token_embd.weight is int32; sparkx supports float32, bfloat16 and float16 "
            "weights only");
}

TEST(GgufModel, AnOutputMatrixUntiesTheHead) {
  TestGguf file = small_gguf();
  file.tensors.push_back({"output.weight", 30, {6, 8}, std::string(96, '\0')});
  std::string bytes;
  const Checkpoint checkpoint = open(file, bytes);
  EXPECT_FALSE(checkpoint.config().tie_word_embeddings);
  EXPECT_EQ(checkpoint.tensor("lm_head.weight").dtype, Dtype::bfloat16);
}

TEST(GgufModel, AMatrixOfOneRowMayBeAVector) {
  TestGguf file = small_gguf();
  file.set("spark2_5.attention.head_count", 1u);
  file.set("spark2_5.attention.head_count_kv", 1u);
  for (auto& tensor : file.tensors) {
    if (tensor.name.ends_with("attn_gate.weight")) tensor = {tensor.name, 0, {6}, std::string(24, '\0')};
    if (tensor.name.ends_with("attn_qkv.weight")) tensor = {tensor.name, 0, {6, 12}, std::string(288, '\0')};
    if (tensor.name.ends_with("attn_output.weight")) tensor = {tensor.name, 0, {4, 6}, std::string(96, '\0')};
  }
  std::string bytes;
  EXPECT_EQ(open(file, bytes).tensor("model.layers.0.self_attn.g_proj.weight").rows(), 1);
}

TestGguf with_tokenizer() {
  TestGguf file;
  file.set("tokenizer.ggml.model", "gpt2");
  file.set("tokenizer.ggml.pre", "spark2_5");
  file.set("tokenizer.ggml.tokens", std::vector<std::string>{"<s>", "<think>", "a", "Ġ", "Ġa", "[PAD5]"});
  file.set("tokenizer.ggml.token_type", std::vector<std::uint32_t>{3, 4, 1, 1, 1, 5});
  file.set("tokenizer.ggml.merges", std::vector<std::string>{"Ġ a"});
  file.set("tokenizer.ggml.bos_token_id", 0u);
  return file;
}

template <typename Change>
std::optional<TokenizerDescription> tokenizer_after(Change change) {
  TestGguf file = with_tokenizer();
  change(file);
  const std::string bytes = file.bytes();
  return gguf_tokenizer(read_gguf(ByteSource::memory("m.gguf", std::as_bytes(std::span(bytes)))).metadata);
}

TEST(GgufTokenizer, SaysWhatATokenizerJsonSays) {
  const TokenizerDescription d = *tokenizer_after([](TestGguf&) {});
  EXPECT_EQ(d.tokens, (std::vector<std::string>{"<s>", "<think>", "a", "Ġ", "Ġa", ""}));
  EXPECT_EQ(d.merges, (std::vector<std::pair<TokenId, TokenId>>{{3, 2}}));
  ASSERT_EQ(d.added_tokens.size(), 2u);
  EXPECT_TRUE(d.added_tokens[0].special);
  EXPECT_FALSE(d.added_tokens[1].special);
  EXPECT_EQ(d.pre_tokenizer.size(), 5u);
  EXPECT_EQ(d.bos, TokenId{0});
  EXPECT_EQ(d.eos, std::nullopt);
  EXPECT_EQ(tokenizer_after([](TestGguf& f) { f.drop("tokenizer.ggml.model"); }), std::nullopt);
}

TEST(GgufTokenizer, RefusesWhatContradictsItself) {
  const auto error = [](auto change) { return error_of([&] { tokenizer_after(change); }); };
  EXPECT_EQ(
      error([](TestGguf& f) { f.set("tokenizer.ggml.pre", "llama-bpe"); }),
      "unsupported: m.gguf: tokenizer.ggml.model is \"gpt2\" and tokenizer.ggml.pre \"llama-bpe\"; sparkx supports "
      "\"gpt2\" and \"spark2_5\"");
  EXPECT_EQ(error([](TestGguf& f) { f.set("tokenizer.ggml.token_type", std::vector<std::uint32_t>{3}); }),
            "corrupt: m.gguf: tokenizer.ggml.token_type has 1 entries, but there are 6 tokens");
  EXPECT_EQ(error([](TestGguf& f) { f.set("tokenizer.ggml.merges", std::vector<std::string>{"Ġ b"}); }),
            "corrupt: m.gguf: tokenizer.ggml.merges[0] names \"b\", which is no token");
  EXPECT_EQ(error([](TestGguf& f) { f.set("tokenizer.ggml.merges", std::vector<std::string>{"Ġa"}); }),
            "corrupt: m.gguf: tokenizer.ggml.merges[0] is \"\\u0120a\"; expected two tokens with a blank between");
  EXPECT_EQ(error([](TestGguf& f) { f.set("tokenizer.ggml.eos_token_id", 6u); }),
            "corrupt: m.gguf: tokenizer.ggml.eos_token_id is 6, but there are 6 tokens");
  EXPECT_EQ(error([](TestGguf& f) { f.drop("tokenizer.ggml.merges"); }),
            "corrupt: m.gguf: tokenizer.ggml.merges is missing");
}

TEST(GgufTokenizer, ChatTemplatesHaveNames) {
  TestGguf file = with_tokenizer();
  file.set("tokenizer.chat_template", "A");
  file.set("tokenizer.chat_template.tool_use", "B");
  const std::string bytes = file.bytes();
  const GgufHeader header = read_gguf(ByteSource::memory("m.gguf", std::as_bytes(std::span(bytes))));
  EXPECT_EQ(gguf_chat_templates(header.metadata),
            (std::vector<std::pair<std::string, std::string>>{{"default", "A"}, {"tool_use", "B"}}));
}

TEST(GgufModel, SplitFilesAreOneModel) {
  // Half of the tensors in each part.
  TestGguf parts[2] = {small_gguf(), TestGguf()};
  auto middle = parts[0].tensors.begin() + 9;
  parts[1].tensors.assign(middle, parts[0].tensors.end());
  parts[0].tensors.erase(middle, parts[0].tensors.end());
  const auto opened = [&parts](const std::string& second_name) {
    const std::string bytes[2] = {parts[0].bytes(), parts[1].bytes()};
    const std::vector<MemoryFile> files{{"m-00001-of-00002.gguf", std::as_bytes(std::span(bytes[0]))},
                                        {second_name, std::as_bytes(std::span(bytes[1]))}};
    return Checkpoint::open("", files).tensors().size();
  };
  for (std::uint32_t i = 0; i < 2; ++i) {
    parts[i].set("split.no", i);
    parts[i].set("split.count", 2u);
  }
  EXPECT_EQ(opened("m-00002-of-00002.gguf"), 18u);
  EXPECT_EQ(error_of([&] { opened("m-2.gguf"); }), "not_found: m-00002-of-00002.gguf: there is no such file");
  parts[1].set("split.no", 0u);
  EXPECT_EQ(error_of([&] { opened("m-00002-of-00002.gguf"); }),
            "corrupt: m-00002-of-00002.gguf: split.no is 0 and split.count 2; expected 1 and 2");
  parts[0].set("split.no", 1u);
  EXPECT_NE(error_of([&] { opened("m-00002-of-00002.gguf"); }).find("the name does not end in -00002-of-00002.gguf"),
            std::string::npos);
}

TEST(GgufModel, RealFilesOpenAsTheFoldersTheyWereMadeOf) {
  SPARKX_NEEDS_ORACLE();
  const Checkpoint gguf = Checkpoint::open(oracle_dir() / "gguf-BF16.gguf");
  const Checkpoint folder = Checkpoint::open(oracle_dir() / "quant-source-bf16");
  ASSERT_EQ(gguf.tensors().size(), folder.tensors().size());
  for (const TensorInfo& tensor : folder.tensors()) {
    const TensorInfo& other = gguf.tensor(tensor.name);
    EXPECT_EQ(other.shape, tensor.shape) << tensor.name;
    if (other.dtype != tensor.dtype) continue;  // norms are float32 in a GGUF file
    std::vector<std::byte> a(tensor.bytes()), b(tensor.bytes());
    folder.read(tensor, 0, tensor.rows(), a);
    gguf.read(other, 0, other.rows(), b);
    EXPECT_EQ(a, b) << tensor.name;
  }
  const ModelConfig &a = gguf.config(), &b = folder.config();
  EXPECT_EQ(a.layer_types, b.layer_types);
  EXPECT_EQ(a.head_dim, b.head_dim);
  EXPECT_EQ(a.sliding_window, b.sliding_window);
  for (const LayerType type : {LayerType::sliding_attention, LayerType::full_attention}) {
    EXPECT_EQ(a.rope(type).rope_theta, b.rope(type).rope_theta);
    EXPECT_EQ(a.rope(type).rotary_dims, b.rope(type).rotary_dims);
  }
  EXPECT_EQ(a.eos_token_ids, b.eos_token_ids);
  EXPECT_EQ(a.bos_token_id, b.bos_token_id);
}

}  // namespace
}  // namespace sparkx
