#include "convert/gguf_recipe.h"

#include <algorithm>
#include <cctype>
#include <charconv>

#include "core/error.h"
#include "core/printable.h"

namespace sparkx {
namespace {

using Mixture = GgufRecipe::Mixture;

constexpr GgufRecipe kRecipes[] = {
    {"F32", 0, "F32"},
    {"F16", 1, "F16"},
    {"BF16", 32, "BF16"},
    {"Q8_0", 7, "Q8_0"},
    {"Q6_K", 18, "Q6_K"},
    {"Q5_K_M", 17, "Q5_K", Mixture::medium},
    {"Q5_K_S", 16, "Q5_K"},
    {"Q5_1", 9, "Q5_1"},
    {"Q5_0", 8, "Q5_0"},
    {"Q4_K_M", 15, "Q4_K", Mixture::medium},
    {"Q4_K_S", 14, "Q4_K", Mixture::small},
    {"Q4_1", 3, "Q4_1"},
    {"Q4_0", 2, "Q4_0"},
};
// As llama-quantize understands them, too, and what comes nearest to MLX's names.
constexpr std::pair<std::string_view, std::string_view> kAliases[] = {
    {"Q4_K", "Q4_K_M"}, {"Q5_K", "Q5_K_M"}, {"4BIT", "Q4_K_M"}, {"5BIT", "Q5_K_M"}, {"6BIT", "Q6_K"}, {"8BIT", "Q8_0"}};

// File types of what no recipe is named after.
constexpr std::pair<std::string_view, std::uint32_t> kOtherFileTypes[] = {
    {"Q4_K", 15}, {"Q5_K", 17}, {"Q2_K", 10}, {"Q3_K", 12}, {"IQ4_NL", 25}, {"IQ4_XS", 30},
};

const GgufType& type_of(std::string_view name) {
  return *find_gguf_type(name);
}

bool is_quantized(std::string_view type) {
  return type_of(type).block_size > 1;
}

// The layer of a module; -1 outside of them.
std::int64_t layer_of(std::string_view path) {
  constexpr std::string_view kLayers = "model.layers.";
  std::int64_t layer = -1;
  if (path.starts_with(kLayers)) std::from_chars(path.data() + kLayers.size(), path.data() + path.size(), layer);
  return layer;
}

// The first and the last eighth of the layers, and every third between.
bool matters_more(std::int64_t layer, std::int64_t layers) {
  return layer < layers / 8 || layer >= 7 * layers / 8 || (layer - layers / 8) % 3 == 2;
}

// What a recipe of blocks wants.
std::string_view wanted_type(const GgufRecipe& recipe, std::string_view path, std::int64_t columns,
                             const ModelConfig& config) {
  if (path == (config.tie_word_embeddings ? "model.embedding" : "lm_head")) {  // what makes the logits
    if (std::string_view(recipe.type) == "Q8_0" || columns % type_of(recipe.type).block_size != 0) return "Q8_0";
    return "Q6_K";
  }
  const std::int64_t layer = layer_of(path), layers = config.num_hidden_layers;
  const bool down = path.ends_with(".mlp.down_proj"), qkv = path.ends_with(".self_attn.q_k_v_proj");
  if (recipe.mixture == Mixture::medium && (down || qkv) && matters_more(layer, layers)) return "Q6_K";
  if (recipe.mixture == Mixture::small && ((down && layer < layers / 8) || (qkv && layer < 4))) return "Q5_K";
  return recipe.type;
}

}  // namespace

const GgufRecipe& find_gguf_recipe(std::string_view name) {
  std::string capitals(name);
  std::transform(capitals.begin(), capitals.end(), capitals.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  for (const auto& [alias, meant] : kAliases) {
    if (capitals == alias) capitals = meant;
  }
  std::string names;
  for (const GgufRecipe& recipe : kRecipes) {
    if (capitals == recipe.name) return recipe;
    names += fmt::format("{}{}", names.empty() ? "" : ", ", recipe.name);
  }
  throw_error(ErrorCode::invalid_argument, "{} is no quantization that GGUF files have here: {}", in_quotes(name),
              names);
}

const GgufType& gguf_recipe_type(const GgufRecipe& recipe, std::string_view path, std::int64_t columns,
                                 const ModelConfig& config, std::string* reason) {
  if (!is_quantized(recipe.type)) return type_of(recipe.type);
  return fitting_gguf_type(wanted_type(recipe, path, columns, config), columns, reason);
}

const GgufType& fitting_gguf_type(std::string_view type, std::int64_t columns, std::string* reason) {
  constexpr std::pair<std::string_view, std::string_view> kSmallerBlocks[] = {
      {"Q4_K", "Q5_0"}, {"Q5_K", "Q5_1"}, {"Q6_K", "Q8_0"}};
  const auto fits = [columns](std::string_view name) { return columns % type_of(name).block_size == 0; };
  std::string_view found = type;
  for (const auto& [large, small] : kSmallerBlocks) {
    if (found == large && !fits(found)) found = small;
  }
  if (!fits(found)) found = "F16";
  if (found != type) {
    *reason =
        fmt::format("rows of {} are no multiple of the {} in a block of {}", columns, type_of(type).block_size, type);
  }
  return type_of(found);
}

std::uint32_t gguf_file_type(const GgufType& type) {
  const std::string_view name = type.name;
  for (const GgufRecipe& recipe : kRecipes) {
    if (name == recipe.name) return recipe.file_type;
  }
  for (const auto& [other, number] : kOtherFileTypes) {
    if (name == other) return number;
  }
  throw_error(ErrorCode::unsupported, "no file is named after {}", name);
}

}  // namespace sparkx
