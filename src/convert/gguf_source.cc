#include "convert/gguf_source.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <limits>
#include <optional>
#include <utility>

#include "core/error.h"
#include "formats/gguf_model.h"

namespace sparkx {
namespace {

constexpr int kIndent = 2;

// The factor that gives so many dims again: int(head_dim * factor).
double partial_rotary_factor(std::int64_t rotary_dims, std::int64_t head_dim) {
  const auto dims = static_cast<double>(rotary_dims), width = static_cast<double>(head_dim);
  const double factor = dims / width;
  return width * factor >= dims ? factor : std::nextafter(factor, 2.0);
}

json::Value one_or_list(const std::vector<TokenId>& ids) {
  if (ids.size() == 1) return ids.front();
  return json::Array(ids.begin(), ids.end());
}

json::Value token_text(const TokenizerDescription& tokenizer, const std::optional<TokenId>& id) {
  return id ? json::Value(tokenizer.tokens.at(static_cast<std::size_t>(*id))) : json::Value();
}

json::Value step_json(const PreTokenizerStep& step) {
  switch (step.kind) {
    case PreTokenizerStep::Kind::split: {
      using Keep = PreTokenizerStep::Keep;
      const char* behavior = step.keep == Keep::all ? "Isolated" : "Removed";
      return json::Object{{"type", "Split"},
                          {"pattern", json::Object{{"Regex", step.pattern}}},
                          {"behavior", behavior},
                          {"invert", step.keep == Keep::matches}};
    }
    case PreTokenizerStep::Kind::digits:
      return json::Object{{"type", "Digits"}, {"individual_digits", step.individual_digits}};
    default:
      return json::Object{{"type", "ByteLevel"},
                          {"add_prefix_space", step.prefix_space},
                          {"trim_offsets", true},
                          {"use_regex", step.with_pattern}};
  }
}

json::Value added_token_json(const AddedTokenDescription& token) {
  return json::Object{{"id", token.id},          {"content", token.content}, {"single_word", token.single_word},
                      {"lstrip", token.lstrip},  {"rstrip", token.rstrip},   {"normalized", token.normalized},
                      {"special", token.special}};
}

// A name that a template's file can have.
bool is_plain(const std::string& name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), [](unsigned char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
  });
}

}  // namespace

json::Value config_of(const ModelConfig& config) {
  json::Array layer_types;
  json::Object rope_parameters;
  for (const LayerType type : config.layer_types) layer_types.emplace_back(layer_type_name(type));
  for (const LayerType type : {LayerType::full_attention, LayerType::sliding_attention}) {
    const RopeParameters& rope = config.rope(type);
    if (rope.rotary_dims == 0) continue;
    rope_parameters.emplace_back(
        layer_type_name(type),
        json::Object{{"rope_theta", rope.rope_theta},
                     {"partial_rotary_factor", partial_rotary_factor(rope.rotary_dims, config.head_dim)},
                     {"rope_type", "default"}});
  }
  json::Object object{{"architectures", json::Array{"Spark2_5ForCausalLM"}},
                      {"model_type", "spark2_5"},
                      {"attention_bias", config.attention_bias},
                      {"mlp_bias", config.mlp_bias},
                      {"gate_attn_act_mode", "sigmoid"},
                      {"headwise_attn_output_gate", true},
                      {"hidden_act", "gelu"},
                      {"hidden_size", config.hidden_size},
                      {"intermediate_size", config.intermediate_size},
                      {"num_hidden_layers", config.num_hidden_layers},
                      {"num_attention_heads", config.num_attention_heads},
                      {"num_key_value_heads", config.num_key_value_heads},
                      {"head_dim", config.head_dim},
                      {"vocab_size", config.vocab_size},
                      {"max_position_embeddings", config.max_position_embeddings},
                      {"layer_types", std::move(layer_types)},
                      {"rope_parameters", std::move(rope_parameters)},
                      {"rms_norm_eps", config.rms_norm_eps},
                      {"tie_word_embeddings", config.tie_word_embeddings}};
  if (config.sliding_window > 0) object.emplace_back("sliding_window", config.sliding_window);
  if (config.bos_token_id) object.emplace_back("bos_token_id", *config.bos_token_id);
  if (!config.eos_token_ids.empty()) object.emplace_back("eos_token_id", one_or_list(config.eos_token_ids));
  if (config.pad_token_id) object.emplace_back("pad_token_id", *config.pad_token_id);
  return object;
}

std::string tokenizer_json(const TokenizerDescription& tokenizer) {
  json::Array added, steps, merges;
  for (const AddedTokenDescription& token : tokenizer.added_tokens) added.push_back(added_token_json(token));
  for (const PreTokenizerStep& step : tokenizer.pre_tokenizer) steps.push_back(step_json(step));
  for (const auto& [left, right] : tokenizer.merges) {
    merges.push_back(json::Array{tokenizer.tokens.at(static_cast<std::size_t>(left)),
                                 tokenizer.tokens.at(static_cast<std::size_t>(right))});
  }
  json::Object vocabulary;
  for (std::size_t id = 0; id < tokenizer.tokens.size(); ++id) {
    if (!tokenizer.tokens[id].empty()) vocabulary.emplace_back(tokenizer.tokens[id], id);
  }
  const auto byte_level = [](bool trim) {
    return json::Object{{"type", "ByteLevel"}, {"add_prefix_space", true}, {"trim_offsets", trim}, {"use_regex", true}};
  };
  const json::Value root(
      json::Object{{"version", "1.0"},
                   {"truncation", nullptr},
                   {"padding", nullptr},
                   {"added_tokens", std::move(added)},
                   {"normalizer", nullptr},
                   {"pre_tokenizer", json::Object{{"type", "Sequence"}, {"pretokenizers", std::move(steps)}}},
                   {"post_processor", byte_level(false)},
                   {"decoder", byte_level(true)},
                   {"model", json::Object{{"type", "BPE"},
                                          {"dropout", nullptr},
                                          {"unk_token", token_text(tokenizer, tokenizer.unknown)},
                                          {"continuing_subword_prefix", nullptr},
                                          {"end_of_word_suffix", nullptr},
                                          {"fuse_unk", tokenizer.fuse_unknown},
                                          {"byte_fallback", false},
                                          {"ignore_merges", tokenizer.ignore_merges},
                                          {"vocab", std::move(vocabulary)},
                                          {"merges", std::move(merges)}}}});
  return json::print(root, {.indent = kIndent}) + "\n";
}

std::vector<TextFile> tokenizer_files_of(const Checkpoint& checkpoint) {
  const GgufMetadata& metadata = *checkpoint.gguf_metadata();
  const ModelConfig& config = checkpoint.config();
  std::vector<TextFile> files;
  if (const std::optional<TokenizerDescription> tokenizer = gguf_tokenizer(metadata)) {
    files.push_back({"tokenizer.json", tokenizer_json(*tokenizer)});
    const json::Value settings(json::Object{{"tokenizer_class", "PreTrainedTokenizerFast"},
                                            {"bos_token", token_text(*tokenizer, tokenizer->bos)},
                                            {"eos_token", token_text(*tokenizer, tokenizer->eos)},
                                            {"pad_token", token_text(*tokenizer, tokenizer->pad)},
                                            {"unk_token", token_text(*tokenizer, tokenizer->unknown)},
                                            {"add_bos_token", false},
                                            {"clean_up_tokenization_spaces", false},
                                            {"model_max_length", config.max_position_embeddings}});
    files.push_back({"tokenizer_config.json", json::print(settings, {.indent = kIndent}) + "\n"});
  }
  for (const auto& [name, text] : gguf_chat_templates(metadata)) {
    if (name == "default") {
      files.push_back({"chat_template.jinja", text});
    } else if (is_plain(name)) {
      files.push_back({"additional_chat_templates/" + name + ".jinja", text});
    }
  }
  json::Object generation;
  if (config.bos_token_id) generation.emplace_back("bos_token_id", *config.bos_token_id);
  if (!config.eos_token_ids.empty()) generation.emplace_back("eos_token_id", one_or_list(config.eos_token_ids));
  if (config.pad_token_id) generation.emplace_back("pad_token_id", *config.pad_token_id);
  const GenerationConfig& suggested = checkpoint.generation_config();
  if (suggested.temperature) {  // 0 is how GGUF says "greedy", which transformers refuses as a temperature
    generation.emplace_back("do_sample", *suggested.temperature > 0);
    if (*suggested.temperature > 0) generation.emplace_back("temperature", *suggested.temperature);
  }
  if (suggested.top_p) generation.emplace_back("top_p", *suggested.top_p);
  if (suggested.top_k) generation.emplace_back("top_k", *suggested.top_k);
  if (suggested.min_p) generation.emplace_back("min_p", *suggested.min_p);
  if (suggested.repetition_penalty) generation.emplace_back("repetition_penalty", *suggested.repetition_penalty);
  if (!generation.empty()) {
    files.push_back({"generation_config.json", json::print(json::Value(generation), {.indent = kIndent}) + "\n"});
  }
  return files;
}

}  // namespace sparkx
