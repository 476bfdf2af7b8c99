#include "formats/model_config.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "support/checkpoints.h"
#include "support/errors.h"
#include "support/oracle.h"
#include "support/temp_dir.h"

namespace sparkx {
namespace {

using testing::error_of;
using testing::kSmallConfig;
using testing::with_member;

ModelConfig parse(std::string_view text) {
  return read_model_config(parse_config(text, "config.json"), "config.json");
}

TEST(ModelConfig, EveryFieldIsRead) {
  const ModelConfig config = parse(kSmallConfig);
  EXPECT_EQ(config.hidden_size, 6);
  EXPECT_EQ(config.intermediate_size, 10);
  EXPECT_EQ(config.num_hidden_layers, 2);
  EXPECT_EQ(config.num_attention_heads, 4);
  EXPECT_EQ(config.num_key_value_heads, 2);
  EXPECT_EQ(config.head_dim, 4);
  EXPECT_EQ(config.vocab_size, 8);
  EXPECT_EQ(config.max_position_embeddings, 1024);
  EXPECT_EQ(config.sliding_window, 8);
  EXPECT_EQ(config.rms_norm_eps, 1e-6);
  EXPECT_TRUE(config.tie_word_embeddings);
  EXPECT_FALSE(config.attention_bias);
  EXPECT_FALSE(config.mlp_bias);
  EXPECT_EQ(config.layer_types, (std::vector{LayerType::sliding_attention, LayerType::full_attention}));
  EXPECT_EQ(config.rope(LayerType::sliding_attention).rope_theta, 10000.0);
  EXPECT_EQ(config.rope(LayerType::sliding_attention).rotary_dims, 4);
  EXPECT_EQ(config.rope(LayerType::full_attention).rope_theta, 5000000.0);
  EXPECT_EQ(config.rope(LayerType::full_attention).rotary_dims, 2);
  EXPECT_EQ(config.bos_token_id, 0);
  EXPECT_EQ(config.pad_token_id, 2);
  EXPECT_EQ(config.eos_token_ids, std::vector<TokenId>{1});
  EXPECT_TRUE(config.unknown_keys.empty());
  EXPECT_EQ(config.q_k_v_rows(), 32);
}

struct Case {
  const char* path;
  const char* value;  // null: removed
  const char* expected;
};

void PrintTo(const Case& c, std::ostream* out) {
  *out << c.path << " = " << (c.value ? c.value : "(absent)");
}

class ModelConfigRefusal : public ::testing::TestWithParam<Case> {};

TEST_P(ModelConfigRefusal, SaysFieldFoundAndSupported) {
  const auto& [path, value, expected] = GetParam();
  const std::string text =
      with_member(kSmallConfig, path, value ? std::optional<std::string_view>(value) : std::nullopt);
  EXPECT_EQ(error_of([&] { parse(text); }), expected);
}

INSTANTIATE_TEST_SUITE_P(
    Fields, ModelConfigRefusal,
    ::testing::Values(
        Case{"model_type", "\"llama\"",
             "unsupported: config.json: model_type is \"llama\"; sparkx supports \"spark2_5\" only"},
        Case{"model_type", nullptr, "corrupt: config.json: model_type is missing; expected \"spark2_5\""},
        Case{"hidden_act", "\"silu\"",
             "unsupported: config.json: hidden_act is \"silu\"; sparkx supports \"gelu\" (exact) only"},
        Case{"hidden_act", "\"gelu_pytorch_tanh\"",
             "unsupported: config.json: hidden_act is \"gelu_pytorch_tanh\"; sparkx supports \"gelu\" (exact) only"},
        Case{"hidden_act", nullptr, "corrupt: config.json: hidden_act is missing; expected \"gelu\" (exact)"},
        Case{"gate_attn_act_mode", "\"tanh\"",
             "unsupported: config.json: gate_attn_act_mode is \"tanh\"; sparkx supports \"sigmoid\" only"},
        Case{"headwise_attn_output_gate", "false",
             "unsupported: config.json: headwise_attn_output_gate is false; sparkx supports true only"},
        Case{"headwise_attn_output_gate", nullptr,
             "corrupt: config.json: headwise_attn_output_gate is missing; expected true"},
        Case{"hidden_size", nullptr,
             "corrupt: config.json: hidden_size is missing; expected an integer from 1 to 1048576"},
        Case{"hidden_size", "null",
             "corrupt: config.json: hidden_size is missing; expected an integer from 1 to 1048576"},
        Case{"hidden_size", "0", "corrupt: config.json: hidden_size is 0; expected an integer from 1 to 1048576"},
        Case{"hidden_size", "-6", "corrupt: config.json: hidden_size is -6; expected an integer from 1 to 1048576"},
        Case{"hidden_size", "6.0", "corrupt: config.json: hidden_size is 6.0; expected an integer from 1 to 1048576"},
        Case{"hidden_size", "\"6\"",
             "corrupt: config.json: hidden_size is \"6\"; expected an integer from 1 to 1048576"},
        Case{"hidden_size", "true", "corrupt: config.json: hidden_size is true; expected an integer from 1 to 1048576"},
        Case{"hidden_size", "123456789012345678901234567890",
             "corrupt: config.json: hidden_size is 123456789012345678901234567890; expected an integer from 1 to "
             "1048576"},
        Case{"intermediate_size", "1048577",
             "corrupt: config.json: intermediate_size is 1048577; expected an integer from 1 to 1048576"},
        Case{"num_hidden_layers", "4097",
             "corrupt: config.json: num_hidden_layers is 4097; expected an integer from 1 to 4096"},
        Case{"num_hidden_layers", "3",
             "corrupt: config.json: layer_types has 2 entries; expected 3 (num_hidden_layers)"},
        Case{"num_key_value_heads", "3",
             "corrupt: config.json: num_attention_heads is 4; expected a multiple of 3 (num_key_value_heads)"},
        Case{"num_key_value_heads", "8",
             "corrupt: config.json: num_attention_heads is 4; expected a multiple of 8 (num_key_value_heads)"},
        Case{"head_dim", "5", "unsupported: config.json: head_dim is 5; sparkx supports even numbers only"},
        Case{"head_dim", "4098", "corrupt: config.json: head_dim is 4098; expected an integer from 1 to 4096"},
        Case{"vocab_size", "16777217",
             "corrupt: config.json: vocab_size is 16777217; expected an integer from 1 to 16777216"},
        Case{"max_position_embeddings", "2147483648",
             "corrupt: config.json: max_position_embeddings is 2147483648; expected an integer from 1 to 2147483647"},
        Case{"sliding_window", nullptr,
             "corrupt: config.json: sliding_window is missing; expected an integer from 1 to 2147483647"},
        Case{"sliding_window", "0",
             "corrupt: config.json: sliding_window is 0; expected an integer from 1 to 2147483647"},
        Case{"rms_norm_eps", nullptr,
             "corrupt: config.json: rms_norm_eps is missing; expected a number above 0, below 1"},
        Case{"rms_norm_eps", "0", "corrupt: config.json: rms_norm_eps is 0; expected a number above 0, below 1"},
        Case{"rms_norm_eps", "1e999",
             "corrupt: config.json: rms_norm_eps is 1e999; expected a number above 0, below 1"},
        Case{"rms_norm_eps", "\"1e-6\"",
             "corrupt: config.json: rms_norm_eps is \"1e-6\"; expected a number above 0, below 1"},
        Case{"tie_word_embeddings", "1", "corrupt: config.json: tie_word_embeddings is 1; expected true or false"},
        Case{"attention_bias", "\"no\"", "corrupt: config.json: attention_bias is \"no\"; expected true or false"},
        Case{"mlp_bias", "0", "corrupt: config.json: mlp_bias is 0; expected true or false"},
        Case{"layer_types", "[\"sliding_attention\", \"chunked_attention\"]",
             "unsupported: config.json: layer_types[1] is \"chunked_attention\"; sparkx supports \"sliding_attention\" "
             "and "
             "\"full_attention\" only"},
        Case{"layer_types", "[\"full_attention\", 1]",
             "unsupported: config.json: layer_types[1] is 1; sparkx supports \"sliding_attention\" and "
             "\"full_attention\" only"},
        Case{"layer_types", "\"full_attention\"",
             "corrupt: config.json: layer_types is \"full_attention\"; expected a list with one entry for each layer"},
        Case{"layer_types", "[]", "corrupt: config.json: layer_types has 0 entries; expected 2 (num_hidden_layers)"},
        Case{"eos_token_id", "\"1\"",
             "corrupt: config.json: eos_token_id is \"1\"; expected an integer from 0 to 16777215"},
        Case{"eos_token_id", "[1, null]",
             "corrupt: config.json: eos_token_id is null; expected an integer from 0 to 16777215"}));

INSTANTIATE_TEST_SUITE_P(
    Rope, ModelConfigRefusal,
    ::testing::Values(
        Case{"rope_parameters", nullptr,
             "corrupt: config.json: rope_parameters is missing; expected an object with an entry for each layer type"},
        Case{"rope_parameters", "{\"rope_theta\": 10000.0}",
             "corrupt: config.json: rope_parameters.sliding_attention is missing; expected the rotary parameters of "
             "this layer "
             "type, which the model has"},
        Case{"rope_parameters.full_attention", nullptr,
             "corrupt: config.json: rope_parameters.full_attention is missing; expected the rotary parameters of this "
             "layer "
             "type, which the model has"},
        Case{"rope_parameters.full_attention", "3",
             "corrupt: config.json: rope_parameters.full_attention is 3; expected an object"},
        Case{"rope_parameters.full_attention.rope_type", "\"yarn\"",
             "unsupported: config.json: rope_parameters.full_attention.rope_type is \"yarn\"; sparkx supports "
             "\"default\" only"},
        Case{"rope_parameters.full_attention.rope_theta", "0",
             "corrupt: config.json: rope_parameters.full_attention.rope_theta is 0; expected a number above 0"},
        Case{"rope_parameters.full_attention.rope_theta", "\"10000\"",
             "corrupt: config.json: rope_parameters.full_attention.rope_theta is \"10000\"; expected a number above 0"},
        Case{"rope_parameters.sliding_attention.partial_rotary_factor", "1.5",
             "corrupt: config.json: rope_parameters.sliding_attention.partial_rotary_factor is 1.5; expected a number "
             "above 0, "
             "at most 1"},
        Case{"rope_parameters.sliding_attention.partial_rotary_factor", "0.75",
             "unsupported: config.json: rope_parameters.sliding_attention.partial_rotary_factor is 0.75, which makes 3 "
             "of 4 "
             "(head_dim) channels rotate; sparkx supports an even number above 0 only"},
        Case{"rope_parameters.sliding_attention.partial_rotary_factor", "0.2",
             "unsupported: config.json: rope_parameters.sliding_attention.partial_rotary_factor is 0.2, which makes 0 "
             "of 4 "
             "(head_dim) channels rotate; sparkx supports an even number above 0 only"}));

INSTANTIATE_TEST_SUITE_P(
    OptionsOfOtherModels, ModelConfigRefusal,
    ::testing::Values(
        Case{"use_q_gate", "true", "unsupported: config.json: use_q_gate is true; sparkx supports false only"},
        Case{"use_qk_norm", "true", "unsupported: config.json: use_qk_norm is true; sparkx supports false only"},
        Case{"attention_sinks", "4", "unsupported: config.json: attention_sinks is 4; sparkx supports false only"},
        Case{"attn_logit_softcapping", "50.0",
             "unsupported: config.json: attn_logit_softcapping is 50.0; sparkx supports null only"},
        Case{"final_logit_softcapping", "0",
             "unsupported: config.json: final_logit_softcapping is 0; sparkx supports null only"},
        Case{"rope_scaling", "{\"type\": \"linear\", \"factor\": 2.0}",
             "unsupported: config.json: rope_scaling is {\"type\": \"linear\", \"factor\": 2.0}; sparkx supports null "
             "only"},
        Case{"rope_type", "\"linear\"",
             "unsupported: config.json: rope_type is \"linear\"; sparkx supports \"default\" only"},
        Case{"scale_query_by", "0.5", "unsupported: config.json: scale_query_by is 0.5; sparkx supports 1.0 only"},
        Case{"query_pre_attn_scalar", "256",
             "unsupported: config.json: query_pre_attn_scalar is 256; sparkx supports 4 (head_dim) only"},
        Case{"embedding_multiplier", "12",
             "unsupported: config.json: embedding_multiplier is 12; sparkx supports 1.0 only"},
        Case{"residual_multiplier", "0.2",
             "unsupported: config.json: residual_multiplier is 0.2; sparkx supports 1.0 only"},
        Case{"logits_scaling", "8.0", "unsupported: config.json: logits_scaling is 8.0; sparkx supports 1.0 only"},
        Case{"num_experts", "8", "unsupported: config.json: num_experts is 8; sparkx supports 0 only"},
        Case{"num_local_experts", "8", "unsupported: config.json: num_local_experts is 8; sparkx supports 0 only"},
        Case{"num_nextn_predict_layers", "1",
             "unsupported: config.json: num_nextn_predict_layers is 1; sparkx supports 0 only"}));

class ModelConfigAcceptance : public ::testing::TestWithParam<Case> {};

// Neutral and inert values change nothing and are no unknown keys.
TEST_P(ModelConfigAcceptance, NeutralValuesPass) {
  const auto& [path, value, unused] = GetParam();
  const std::string text =
      with_member(kSmallConfig, path, value ? std::optional<std::string_view>(value) : std::nullopt);
  EXPECT_EQ(error_of([&] { EXPECT_EQ(parse(text).unknown_keys, std::vector<std::string>()); }), "no error");
}

INSTANTIATE_TEST_SUITE_P(
    Neutral, ModelConfigAcceptance,
    ::testing::Values(
        Case{"use_q_gate", "false", ""}, Case{"use_qk_norm", "null", ""}, Case{"attention_sinks", "false", ""},
        Case{"attn_logit_softcapping", "null", ""}, Case{"final_logit_softcapping", "null", ""},
        Case{"rope_scaling", "null", ""}, Case{"rope_type", "\"default\"", ""}, Case{"scale_query_by", "1.0", ""},
        Case{"query_pre_attn_scalar", "4", ""}, Case{"query_pre_attn_scalar", "4.0", ""},
        Case{"embedding_multiplier", "1.0", ""}, Case{"residual_multiplier", "1", ""},
        Case{"logits_scaling", "1.0", ""}, Case{"num_experts", "0", ""}, Case{"num_local_experts", "null", ""},
        Case{"num_nextn_predict_layers", "0", ""}, Case{"quantization", "null", ""},
        Case{"quantization_config", "null", ""}, Case{"torch_dtype", "\"bfloat16\"", ""},
        Case{"dtype", "\"bfloat16\"", ""}, Case{"auto_map", "{}", ""}, Case{"transformers_version", "\"5.0\"", ""},
        Case{"use_cache", "false", ""}, Case{"initializer_range", "0.02", ""}, Case{"attention_dropout", "0.1", ""},
        Case{"hidden_dropout", "0.1", ""}, Case{"unk_token_id", "5", ""}, Case{"eos_token_id", "[1, 2]", ""},
        Case{"eos_token_id", nullptr, ""}, Case{"pad_token_id", "-1", ""},
        Case{"rope_parameters.full_attention.rope_type", "null", ""}, Case{"hidden_size", "1048576", ""}));

TEST(ModelConfig, AbsentKeysTakeTheirDefaults) {
  std::string text(kSmallConfig);
  for (const char* key :
       {"layer_types", "tie_word_embeddings", "attention_bias", "mlp_bias", "bos_token_id", "eos_token_id",
        "pad_token_id", "rope_parameters.full_attention.rope_theta",
        "rope_parameters.full_attention.partial_rotary_factor", "rope_parameters.full_attention.rope_type"}) {
    text = with_member(text, key, std::nullopt);
  }
  const ModelConfig config = parse(with_member(text, "num_hidden_layers", "9"));
  const auto S = LayerType::sliding_attention;
  const auto F = LayerType::full_attention;
  EXPECT_EQ(config.layer_types, (std::vector{S, S, S, F, S, S, S, F, S}));
  EXPECT_TRUE(config.tie_word_embeddings);
  EXPECT_FALSE(config.attention_bias);
  EXPECT_FALSE(config.mlp_bias);
  EXPECT_FALSE(config.bos_token_id);
  EXPECT_TRUE(config.eos_token_ids.empty());
  EXPECT_EQ(config.rope(F).rope_theta, 10000.0);
  EXPECT_EQ(config.rope(F).rotary_dims, 4);
}

TEST(ModelConfig, ALayerTypeThatNoLayerHasNeedsNoParameters) {
  std::string text = with_member(kSmallConfig, "layer_types", "[\"full_attention\", \"full_attention\"]");
  text = with_member(text, "rope_parameters.sliding_attention", std::nullopt);
  const ModelConfig config = parse(with_member(text, "sliding_window", "null"));
  EXPECT_EQ(config.sliding_window, 0);
  EXPECT_EQ(config.rope(LayerType::sliding_attention).rotary_dims, 0);
}

TEST(ModelConfig, UnknownKeysAreListed) {
  std::string text = with_member(kSmallConfig, "surprise", "1");
  text = with_member(text, "rope_parameters.full_attention.factor", "2.0");
  text = with_member(text, "rope_parameters.original", "4");
  EXPECT_EQ(parse(text).unknown_keys, (std::vector<std::string>{"surprise", "rope_parameters.full_attention.factor",
                                                                "rope_parameters.original"}));
}

// hidden_size is not heads * head_dim in the 4B model (2560 and 4096).
TEST(ModelConfig, ThePublishedSizesPass) {
  std::string text(kSmallConfig);
  for (const auto& [key, value] : std::vector<std::pair<const char*, const char*>>{
           {"hidden_size", "2560"},
           {"intermediate_size", "10240"},
           {"num_attention_heads", "16"},
           {"num_key_value_heads", "4"},
           {"head_dim", "256"},
           {"vocab_size", "131072"},
           {"max_position_embeddings", "1048576"},
           {"rope_parameters.full_attention.partial_rotary_factor", "0.25"}}) {
    text = with_member(text, key, value);
  }
  const ModelConfig config = parse(text);
  EXPECT_EQ(config.rope(LayerType::full_attention).rotary_dims, 64);
  EXPECT_EQ(config.rope(LayerType::sliding_attention).rotary_dims, 256);
  EXPECT_EQ(config.attention_width(), 4096);
}

TEST(ModelConfig, WhatIsNoJsonObjectIsRefused) {
  EXPECT_EQ(error_of([] { parse("[1]"); }), "corrupt: config.json: expected a JSON object, found array");
  EXPECT_EQ(error_of([] { parse("{\"a\": }"); }), "corrupt: config.json:1:7: expected a value");
  EXPECT_EQ(error_of([] { parse("{\"head_dim\": 1, \"head_dim\": 2}"); }),
            "corrupt: config.json:1:17: duplicate key \"head_dim\"");
}

TEST(ModelConfig, LongValuesAreCutInMessages) {
  const std::string error =
      error_of([] { parse(with_member(kSmallConfig, "hidden_act", "\"" + std::string(10'000, 'x') + "\"")); });
  EXPECT_LT(error.size(), 250u);
}

TEST(ModelConfig, OracleConfigsAreRead) {
  SPARKX_NEEDS_ORACLE();
  int configs = 0;
  for (const auto& entry : std::filesystem::directory_iterator(testing::oracle_dir())) {
    const std::filesystem::path path = entry.path() / "config.json";
    if (!std::filesystem::exists(path)) continue;
    EXPECT_EQ(error_of([&] { parse(testing::read_file(path)); }), "no error") << path;
    ++configs;
  }
  EXPECT_GE(configs, 26);
}

GenerationConfig parse_generation(std::string_view text) {
  return parse_generation_config(text, "generation_config.json");
}

TEST(GenerationConfig, ValuesAreReadAndAbsentOnesStayAbsent) {
  const GenerationConfig config = parse_generation(
      R"({"do_sample": true, "temperature": 1.0, "top_p": 0.95, "top_k": -1, "min_p": 0.05, "repetition_penalty": 1.1,
          "max_new_tokens": 100, "bos_token_id": 0, "pad_token_id": 2, "eos_token_id": [1, 7], "transformers_version": "5"})");
  EXPECT_EQ(config.do_sample, true);
  EXPECT_EQ(config.temperature, 1.0);
  EXPECT_EQ(config.top_p, 0.95);
  EXPECT_EQ(config.top_k, -1);
  EXPECT_EQ(config.min_p, 0.05);
  EXPECT_EQ(config.repetition_penalty, 1.1);
  EXPECT_EQ(config.max_new_tokens, 100);
  EXPECT_EQ(config.bos_token_id, 0);
  EXPECT_EQ(config.pad_token_id, 2);
  EXPECT_EQ(config.eos_token_ids, (std::vector<TokenId>{1, 7}));
  const GenerationConfig empty = parse_generation(R"({"temperature": null})");
  EXPECT_FALSE(empty.do_sample || empty.temperature || empty.top_p || empty.top_k || empty.min_p ||
               empty.repetition_penalty || empty.max_new_tokens || empty.bos_token_id || empty.pad_token_id ||
               empty.eos_token_ids);
  EXPECT_EQ(parse_generation(R"({"eos_token_id": 1})").eos_token_ids, std::vector<TokenId>{1});
}

TEST(GenerationConfig, WrongTypesAndRangesAreRefused) {
  const std::vector<std::pair<const char*, const char*>> cases = {
      {R"({"do_sample": 1})", "do_sample is 1; expected true or false"},
      {R"({"temperature": "1"})", "temperature is \"1\"; expected a number from 0"},
      {R"({"temperature": -0.5})", "temperature is -0.5; expected a number from 0"},
      {R"({"temperature": 1e400})", "temperature is 1e400; expected a number from 0"},
      {R"({"top_p": 1.5})", "top_p is 1.5; expected a number from 0 to 1"},
      {R"({"top_k": 1.5})", "top_k is 1.5; expected an integer from -1 to 2147483647"},
      {R"({"top_k": -2})", "top_k is -2; expected an integer from -1 to 2147483647"},
      {R"({"min_p": true})", "min_p is true; expected a number from 0 to 1"},
      {R"({"repetition_penalty": 0})", "repetition_penalty is 0; expected a number above 0"},
      {R"({"max_new_tokens": 0})", "max_new_tokens is 0; expected an integer from 1 to 2147483647"},
      {R"({"eos_token_id": [[1]]})", "eos_token_id is [1]; expected an integer from 0 to 16777215"},
      {R"({"bos_token_id": "<s>"})", "bos_token_id is \"<s>\"; expected an integer from -1 to 16777215"},
  };
  for (const auto& [text, expected] : cases) {
    EXPECT_EQ(error_of([text = text] { parse_generation(text); }),
              std::string("corrupt: generation_config.json: ") + expected);
  }
}

}  // namespace
}  // namespace sparkx
