// MLX's format as mlx_lm.convert writes it (docs/model.md, MLX checkpoint format): which modules are quantized and how,
// what config.json says of them, and what a conversion from another quantized format reports.

#include <algorithm>
#include <charconv>
#include <optional>
#include <string>
#include <utility>

#include "convert/calibration.h"
#include "convert/folder.h"
#include "convert/mlx_codes.h"
#include "convert/quantize.h"
#include "convert/source.h"
#include "convert/target.h"
#include "core/error.h"
#include "core/regex.h"
#include "core/version.h"

namespace sparkx {
namespace {

constexpr int kIndent = 4;  // of mlx_lm's JSON files
constexpr std::string_view kWeight = ".weight";
constexpr std::string_view kGate = "self_attn.g_proj";

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

// mlx-lm's mixtures of bits: more for the values and down_proj of some layers, and for the head.
struct Recipe {
  std::string_view name;
  int low_bits;
  int high_bits;
};
constexpr Recipe kRecipes[] = {{"mixed_2_6", 2, 6}, {"mixed_3_4", 3, 4}, {"mixed_3_6", 3, 6}, {"mixed_4_6", 4, 6}};

int recipe_bits(const Recipe& recipe, const std::string& path, std::int64_t layers) {
  constexpr std::string_view kLayers = "model.layers.";
  std::int64_t index = 0;
  if (path.starts_with(kLayers)) std::from_chars(path.data() + kLayers.size(), path.data() + path.size(), index);
  const bool more = index < layers / 8 || index >= 7 * layers / 8 || (index - layers / 8) % 3 == 2;
  const bool high = contains(path, "lm_head") || (more && (contains(path, "v_proj") || contains(path, "down_proj")));
  return high ? recipe.high_bits : recipe.low_bits;
}

// How modules that are not quantized yet are to be.
class Choice {
 public:
  explicit Choice(const ConvertOptions& options) : base_(parse_mlx_mode(options.quantize, options.group_size)) {
    if (!options.recipe.empty()) {
      const auto found = std::find_if(std::begin(kRecipes), std::end(kRecipes),
                                      [&](const Recipe& known) { return known.name == options.recipe; });
      if (found == std::end(kRecipes)) {
        throw_error(ErrorCode::invalid_argument, "\"{}\" is no recipe: mixed_2_6, mixed_3_4, mixed_3_6, mixed_4_6",
                    options.recipe);
      }
      recipe_ = found;
      if (!base_) base_ = parse_mlx_mode("4bit", options.group_size);
      if (!base_->is_affine()) {
        throw_error(ErrorCode::invalid_argument, "the recipe {} goes with affine quantization only, not with {}",
                    options.recipe, options.quantize);
      }
      recipe_group_is_default_ = !options.group_size;
    }
    if (options.group_size && !base_ && options.rules.empty()) {
      throw_error(ErrorCode::invalid_argument, "groups of {}, but nothing is to be quantized", *options.group_size);
    }
    for (const QuantizationRule& rule : options.rules) {
      // A pattern may be found anywhere.
      const bool number = !rule.mode.empty() && rule.mode.find_first_not_of("0123456789") == std::string::npos;
      const std::string mode = number ? rule.mode + "bit" : rule.mode;
      const std::optional<int> group = mode.ends_with("bit") ? options.group_size : std::nullopt;
      rules_.push_back({Regex(rule.pattern, RegexSyntax::python), parse_mlx_mode(mode, group), 0});
    }
  }

  struct Answer {
    std::optional<MlxMode> mode;
    std::string reason;
    bool of_its_own = false;  // said of this module alone
  };
  Answer operator()(const std::string& path, const TensorInfo& tensor, std::int64_t layers) {
    Answer answer{base_, "", recipe_ != nullptr};
    if (recipe_ != nullptr) {
      answer.mode->bits = recipe_bits(*recipe_, path, layers);
    } else if (base_ && path.ends_with(kGate)) {
      answer = {std::nullopt, "the gates of heads keep their precision"};
    }
    for (Rule& rule : rules_) {
      if (!RegexScanner(rule.pattern, path).next()) continue;
      ++rule.uses;
      answer = {rule.mode, rule.mode ? "" : "as asked for", rule.mode.has_value()};
    }
    if (answer.mode && tensor.columns() % answer.mode->group != 0) {
      answer = {std::nullopt,
                fmt::format("{} columns are no multiple of the group of {}", tensor.columns(), answer.mode->group)};
    }
    return answer;
  }

  const std::optional<MlxMode>& base() const { return base_; }
  bool is_any() const { return base_ || !rules_.empty(); }

  // As config.json has a module's mode: mlx-lm writes null for a recipe's group unless one was asked for.
  json::Value entry(const MlxMode& mode, bool of_its_own) const {
    const bool null_group = of_its_own && recipe_ != nullptr && recipe_group_is_default_ && mode.group == base_->group;
    return json::Object{
        {"group_size", null_group ? json::Value() : json::Value(mode.group)}, {"bits", mode.bits}, {"mode", mode.mode}};
  }

  void note_unused_rules(const ConvertOptions& options, std::vector<std::string>& notes) const {
    for (std::size_t i = 0; i < rules_.size(); ++i) {
      if (rules_[i].uses == 0) notes.push_back(fmt::format("no module matches {}", options.rules[i].pattern));
    }
  }

 private:
  struct Rule {
    Regex pattern;
    std::optional<MlxMode> mode;
    int uses;
  };
  std::optional<MlxMode> base_;
  const Recipe* recipe_ = nullptr;
  bool recipe_group_is_default_ = false;
  std::vector<Rule> rules_;
};

// The module of a matrix, as the report and config.json name it.
struct Module {
  std::string path;
  MlxMode mode;
  bool kept;               // its codes were there
  bool of_its_own;         // config.json has an entry for it
  bool coded_activations;  // W8A8
};

bool is_mlx(const json::Value& quantization) {
  return quantization.is_object() && quantization.find("quant_method") == nullptr;
}

// What config.json of an MLX checkpoint says of quantization; null for others.
const json::Value* mlx_quantization(const json::Value& config) {
  for (const char* key : {"quantization", "quantization_config"}) {
    const json::Value* found = config.find(key);
    if (found != nullptr && is_mlx(*found)) return found;
  }
  return nullptr;
}

// How the source is quantized, for the report.
std::string source_format(const Checkpoint& checkpoint, const json::Value& config) {
  if (checkpoint.gguf_metadata() != nullptr) return "gguf";
  return mlx_quantization(config) != nullptr ? "mlx" : "compressed-tensors";
}

// The object `quantization`, and with what it says of activations `quantization_config`.
void describe_quantization(json::Value& config, const std::vector<Module>& modules, const Choice& choice) {
  const json::Value* found = mlx_quantization(config);
  const bool was_mlx = found != nullptr;
  json::Value quantization;
  if (was_mlx) {
    quantization = *found;
    remove_member(quantization, "quantize_activations");
    for (auto& [name, value] : quantization.as_object()) {
      if (name == "model.embed_tokens") name = "model.embedding";  // as its tensors are called now
      if (value.is_object()) remove_member(value, "input_activations");
    }
  } else if (choice.base() || !modules.empty()) {
    const MlxMode& top = choice.base() ? *choice.base() : modules.front().mode;
    quantization = choice.entry(top, false);
  } else {
    remove_member(config, "quantization_config");
    return;
  }
  bool coded = false;
  for (const Module& module : modules) {
    if (module.kept ? !was_mlx : module.of_its_own || was_mlx) {
      set_member(quantization, module.path, choice.entry(module.mode, module.of_its_own));
    }
    coded |= module.coded_activations;
  }
  set_member(config, "quantization", quantization);
  if (coded) set_member(quantization, "quantize_activations", false);
  for (const Module& module : modules) {
    if (!module.coded_activations) continue;
    json::Value entry = choice.entry(module.mode, false);
    set_member(
        entry, "input_activations",
        json::Object{{"num_bits", 8}, {"type", "int"}, {"strategy", "token"}, {"symmetric", true}, {"dynamic", true}});
    set_member(quantization, module.path, std::move(entry));
  }
  set_member(config, "quantization_config", std::move(quantization));
}

// mlx_lm takes the end-of-text ids from generation_config.json, and leaves out what is not about a language model.
void adapt_config(const Checkpoint& checkpoint, json::Value& config, Target& target) {
  if (const std::optional<std::string> text = checkpoint.text_file("generation_config.json")) {
    const json::Value generation = json::parse(*text, checkpoint.display_name("generation_config.json"));
    const json::Value* end = generation.find("eos_token_id");
    const bool given =
        end != nullptr && !end->is_null() && !(*end == json::Value(0)) && !(*end == json::Value(json::Array{}));
    if (given) set_member(config, "eos_token_id", *end);
  }
  remove_member(config, "_name_or_path");
  remove_member(config, "vision_config");
  const json::Value* tied = config.find("tie_word_embeddings");
  const bool was_tied = tied == nullptr || (tied->is_bool() && tied->as_bool());
  if (was_tied && !checkpoint.config().tie_word_embeddings) {
    set_member(config, "tie_word_embeddings", false);
    target.notes.push_back("config.json of the output says tie_word_embeddings false: the quantized head is its own");
  }
}

// A report on codes that came from another format.
std::vector<TextFile> report(const std::string& from, const std::vector<std::pair<std::size_t, Module>>& modules,
                             const std::vector<TensorPlan>& tensors, const std::vector<std::string>& notes,
                             std::span<const double> errors) {
  json::Object entries;
  std::string text = fmt::format("Converted from {} to MLX by sparkx {}.\n\n", from, version().version);
  double largest = 0;
  for (const auto& [index, module] : modules) {
    const TensorPlan& plan = tensors[index];
    json::Object entry{{"source", plan.source},
                       {"target", plan.target},
                       {"codes_kept", module.kept},
                       {"input_activations", module.coded_activations ? json::Value("int8 per token") : json::Value()},
                       {"largest_coefficient_rounding_error", errors[index]}};
    entries.emplace_back(module.path, std::move(entry));
    largest = std::max(largest, errors[index]);
    text += fmt::format("{}: {} -> {}{}{}, coefficients rounded by at most {:.3g}\n", module.path, plan.source,
                        plan.target, module.kept ? ", codes kept" : ", quantized anew",
                        module.coded_activations ? ", int8 activations per token" : "", errors[index]);
  }
  text += fmt::format("\nThe largest relative error of a scale or bias is {:.3g}.\n", largest);
  json::Array lines;
  for (const std::string& note : notes) {
    lines.emplace_back(note);
    text += note + ".\n";
  }
  const json::Value manifest(json::Object{{"converter", fmt::format("sparkx {}", version().version)},
                                          {"source_format", from},
                                          {"target_format", "mlx"},
                                          {"largest_coefficient_rounding_error", largest},
                                          {"modules", std::move(entries)},
                                          {"notes", std::move(lines)}});
  return {{"conversion_manifest.json", json::print(manifest, {.indent = 2}) + "\n"},
          {"CONVERSION_NOTES.txt", std::move(text)}};
}

TensorPlan plan_quantizing(const Checkpoint& checkpoint, const TensorInfo& tensor, const MlxMode& mode, Dtype type,
                           Calibration* calibration, std::string& reason) {
  if (calibration == nullptr) return quantized_plan(checkpoint, tensor, mode, type);
  if (!mode.is_affine()) {
    throw_error(ErrorCode::unsupported,
                "calibration goes with 2bit to 6bit and 8bit, and with the types of GGUF files, not with {}",
                mode.name());
  }
  const bool known = calibration->want(tensor);
  if (!reason.empty()) reason += "; ";
  reason += known ? "calibrated" : "not calibrated";
  return known ? calibrated_plan(checkpoint, tensor, mode, type, *calibration)
               : quantized_plan(checkpoint, tensor, mode, type);
}

}  // namespace

Target plan_mlx(const Checkpoint& checkpoint, const ConvertOptions& options, Calibration* calibration) {
  Choice choice(options);
  json::Value config = source_config(checkpoint);
  const bool from_mlx = mlx_quantization(config) != nullptr;
  const std::optional<Dtype> dtype = parse_output_dtype(options.dtype, config);
  Target target;
  adapt_config(checkpoint, config, target);

  std::vector<Module> modules;
  std::vector<std::pair<std::size_t, Module>> reported;
  bool any_dense = false, any_quantized = false;
  for (const TensorInfo* tensor : in_parameter_order(checkpoint)) {
    const Dtype type = dtype.value_or(tensor->dtype);
    if (tensor->shape.size() != 2) {
      target.tensors.push_back(dense_plan(checkpoint, *tensor, type));
      continue;
    }
    const std::string path = tensor->name.substr(0, tensor->name.size() - kWeight.size());
    const QuantizedMatrix* matrix = checkpoint.find_quantized(tensor->name);
    const std::optional<MlxMode> held = matrix != nullptr ? mlx_mode_of(*matrix, tensor->columns()) : std::nullopt;
    if (held) {
      // What another format says of the model's type is no reason to round its coefficients.
      const Dtype coefficients = from_mlx || options.dtype != "auto" ? type : tensor->dtype;
      target.tensors.push_back(kept_codes_plan(checkpoint, *tensor, *held, coefficients));
      const bool coded = matrix->spec.scheme == CodeScheme::w8a8;
      modules.push_back({path, *held, true, false, coded && options.keep_activation_codes});
      if (coded && !options.keep_activation_codes) target.tensors.back().reason = "activations become floats";
      if (choice.is_any()) target.tensors.back().reason = "quantized already: codes are kept";
      if (!from_mlx) reported.emplace_back(target.tensors.size() - 1, modules.back());
      continue;
    }
    any_dense = true;
    Choice::Answer answer = choice(path, *tensor, checkpoint.config().num_hidden_layers);
    if (matrix != nullptr) {
      answer.reason =
          answer.mode ? "MLX cannot hold its codes: decoded, and quantized anew" : "MLX cannot hold its codes: decoded";
    }
    if (answer.mode) {
      any_quantized = true;
      target.tensors.push_back(plan_quantizing(checkpoint, *tensor, *answer.mode, type, calibration, answer.reason));
      modules.push_back({path, *answer.mode, false, answer.of_its_own, false});
      if (matrix != nullptr) reported.emplace_back(target.tensors.size() - 1, modules.back());
    } else {
      target.tensors.push_back(dense_plan(checkpoint, *tensor, type));
    }
    target.tensors.back().reason = std::move(answer.reason);
  }
  if (choice.is_any() && !any_quantized && !any_dense) {
    throw_error(
        ErrorCode::invalid_argument,
        "every matrix is quantized already; to quantize anew, convert to Hugging Face's format first (--format hf)");
  }
  choice.note_unused_rules(options, target.notes);
  describe_quantization(config, modules, choice);
  std::sort(config.as_object().begin(), config.as_object().end(),
            [](const json::Member& a, const json::Member& b) { return a.first < b.first; });
  place_in_shards(target, options.shard_bytes, "mlx");
  target.texts.push_back(config_file(config, kIndent));
  target.texts.push_back(shard_index(target, kIndent));
  add_tokenizer_files(checkpoint, target);
  if (!reported.empty()) {
    target.report = [from = source_format(checkpoint, source_config(checkpoint)), reported = std::move(reported)](
                        const Target& done, std::span<const double> errors) {
      return report(from, reported, done.tensors, done.notes, errors);
    };
  }
  return target;
}

}  // namespace sparkx
