// What a checkpoint is (sparkx/inspect.hpp), from its headers.

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <optional>
#include <utility>

#include "convert/source.h"
#include "core/error.h"
#include "core/memory_info.h"
#include "core/printable.h"
#include "engine/chat.h"
#include "engine/model_options.h"
#include "engine/text_tokenizer.h"
#include "formats/checkpoint.h"
#include "model/cpu_model.h"
#include "sparkx/sparkx.hpp"

namespace sparkx {
namespace {

constexpr std::int64_t kUsualContexts[] = {4096, 32768, 131072};
constexpr std::size_t kShownRuns = 6;  // of layers of one type, where there is no pattern

// The numbers of general.file_type, as llama.cpp has them.
constexpr std::pair<std::int64_t, const char*> kFileTypes[] = {
    {0, "F32"},     {1, "F16"},     {2, "Q4_0"},    {3, "Q4_1"},    {7, "Q8_0"},    {8, "Q5_0"},    {9, "Q5_1"},
    {10, "Q2_K"},   {11, "Q3_K_S"}, {12, "Q3_K_M"}, {13, "Q3_K_L"}, {14, "Q4_K_S"}, {15, "Q4_K_M"}, {16, "Q5_K_S"},
    {17, "Q5_K_M"}, {18, "Q6_K"},   {25, "IQ4_NL"}, {30, "IQ4_XS"}, {32, "BF16"}};

std::int64_t elements_of(const TensorReport& tensor) {
  std::int64_t product = 1;
  for (const std::int64_t size : tensor.shape) product *= size;
  return product;
}

// What general.file_type says, where it is the type that most of the parameters have: not every writer cares for it.
std::string file_type_name(const GgufMetadata& metadata, const std::vector<TensorReport>& tensors) {
  const std::optional<std::int64_t> number = metadata.integer("general.file_type");
  const auto found = std::find_if(std::begin(kFileTypes), std::end(kFileTypes),
                                  [&](const auto& known) { return number == known.first; });
  if (found == std::end(kFileTypes)) return "";
  std::map<std::string, std::int64_t> elements;
  for (const TensorReport& tensor : tensors) elements[tensor.stored] += elements_of(tensor);
  const auto most = std::max_element(elements.begin(), elements.end(),
                                     [](const auto& a, const auto& b) { return a.second < b.second; });
  const std::string_view name = found->second;
  const std::string_view stored = most->first == "float32"    ? "F32"
                                  : most->first == "float16"  ? "F16"
                                  : most->first == "bfloat16" ? "BF16"
                                                              : std::string_view(most->first);
  return name.starts_with(stored) ? std::string(name) : "";
}

const char* short_name(LayerType type) {
  return type == LayerType::sliding_attention ? "sliding" : "full";
}

// "3 sliding + 1 full, 7 times": the shortest stretch of layers that makes all of them when it is repeated.
std::string layer_pattern(const std::vector<LayerType>& types) {
  std::size_t period = 1;
  const auto repeats = [&types](std::size_t of) {
    for (std::size_t i = of; i < types.size(); ++i) {
      if (types[i] != types[i - of]) return false;
    }
    return types.size() % of == 0;
  };
  while (!repeats(period)) ++period;
  std::vector<std::pair<LayerType, std::int64_t>> runs;
  for (std::size_t i = 0; i < period; ++i) {
    if (runs.empty() || runs.back().first != types[i]) runs.emplace_back(types[i], 0);
    ++runs.back().second;
  }
  std::string text;
  for (std::size_t i = 0; i < std::min(runs.size(), kShownRuns); ++i) {
    text += fmt::format("{}{} {}", i == 0 ? "" : " + ", runs[i].second, short_name(runs[i].first));
  }
  if (runs.size() > kShownRuns) text += " + …";
  const std::size_t times = types.size() / period;
  return times == 1 || period == 1 ? text : fmt::format("{}, {} times", text, times);
}

ArchitectureReport architecture_of(const ModelConfig& config) {
  ArchitectureReport report;
  report.layers = config.num_hidden_layers;
  report.full_layers = std::count(config.layer_types.begin(), config.layer_types.end(), LayerType::full_attention);
  report.sliding_layers = report.layers - report.full_layers;
  report.pattern = layer_pattern(config.layer_types);
  report.sliding_window = config.sliding_window;
  report.hidden_size = config.hidden_size;
  report.intermediate_size = config.intermediate_size;
  report.heads = config.num_attention_heads;
  report.kv_heads = config.num_key_value_heads;
  report.head_dim = config.head_dim;
  report.vocab_size = config.vocab_size;
  report.max_position_embeddings = config.max_position_embeddings;
  report.tied = config.tie_word_embeddings;
  report.attention_bias = config.attention_bias;
  report.mlp_bias = config.mlp_bias;
  for (const LayerType type : {LayerType::sliding_attention, LayerType::full_attention}) {
    const RopeParameters& rope = config.rope(type);
    if (rope.rotary_dims != 0) report.rotary.push_back({layer_type_name(type), rope.rope_theta, rope.rotary_dims});
  }
  return report;
}

// "model.layers.3.mlp.up_proj.weight" is of "up_proj".
std::string module_of(const std::string& tensor) {
  if (tensor.ends_with(".bias")) return "biases";
  if (tensor.ends_with("norm.weight")) return "norms";
  const std::string path = tensor.substr(0, tensor.rfind('.'));
  return path.substr(path.rfind('.') + 1);
}

std::vector<ModuleReport> modules_of(const std::vector<TensorReport>& tensors) {
  std::vector<ModuleReport> modules;
  for (const TensorReport& tensor : tensors) {
    const std::string name = module_of(tensor.name);
    auto module = std::find_if(modules.begin(), modules.end(), [&](const ModuleReport& m) { return m.name == name; });
    if (module == modules.end()) {
      modules.emplace_back();
      module = modules.end() - 1;
      module->name = name;
    }
    ++module->tensors;
    module->parameters += elements_of(tensor);
    module->bytes += tensor.bytes;
    auto stored = std::find_if(module->stored.begin(), module->stored.end(),
                               [&](const auto& kind) { return kind.first == tensor.stored; });
    if (stored == module->stored.end()) {
      module->stored.emplace_back(tensor.stored, 1);
    } else {
      ++stored->second;
    }
  }
  for (ModuleReport& module : modules) {
    std::stable_sort(module.stored.begin(), module.stored.end(),
                     [](const auto& a, const auto& b) { return a.second > b.second; });
  }
  // What there is little of comes last.
  std::stable_partition(modules.begin(), modules.end(),
                        [](const ModuleReport& m) { return m.name != "norms" && m.name != "biases"; });
  return modules;
}

std::vector<TensorReport> tensors_of(const Checkpoint& checkpoint) {
  std::vector<TensorReport> reports;
  for (const TensorInfo& tensor : checkpoint.tensors()) {
    const bool blocks = checkpoint.gguf_metadata() != nullptr && checkpoint.find_quantized(tensor.name) != nullptr;
    reports.push_back({tensor.name, tensor.shape, blocks ? tensor.stored_type : storage_name(checkpoint, tensor),
                       tensor.stored_bytes});
  }
  return reports;
}

void describe_tokenizer(const TextTokenizer::Impl& impl, const ModelConfig& config, CheckpointReport& report) {
  const Tokenizer& tokenizer = impl.tokenizer;
  const TokenizerDescription& description = tokenizer.description();
  TokenizerReport& found = report.tokenizer.emplace();
  found.vocab_size = tokenizer.vocab_size();
  found.merges = static_cast<std::int64_t>(description.merges.size());
  found.added_tokens = static_cast<std::int64_t>(description.added_tokens.size());
  const std::pair<const char*, std::optional<TokenId>> special[] = {
      {"bos", tokenizer.bos()}, {"eos", tokenizer.eos()}, {"pad", tokenizer.pad()}, {"unknown", tokenizer.unknown()}};
  for (const auto& [role, id] : special) {
    if (id) found.special.push_back({role, *id, without_controls(tokenizer.decode(std::span(&*id, 1)))});
  }
  for (const std::string& warning : description.warnings) report.warnings.push_back(warning);
  if (found.vocab_size > config.vocab_size) {
    report.warnings.push_back(
        fmt::format("the tokenizer has {} tokens, but the model knows {}: a text with one of the others cannot be read",
                    found.vocab_size, config.vocab_size));
  }
}

void describe_chat_template(const TextTokenizer::Impl& impl, CheckpointReport& report) {
  const ChatTemplate* chosen = nullptr;
  try {
    chosen = &impl.chat_format.choose(false);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::not_found) throw;
    report.warnings.push_back(
        "there is no chat template: give one with --chat-template, or prompts as they are (--raw)");
    return;
  }
  ChatTemplateReport& found = report.chat_template.emplace();
  found.where = chosen->where;
  found.bytes = chosen->source.size();
  found.tools = chosen->source.find("tools") != std::string::npos;
  found.thinking = chosen->source.find("enable_thinking") != std::string::npos;
  try {
    ChatRequest request;
    request.messages = messages_json({{"user", "?"}});
    render_request(request, impl.chat_format);
  } catch (const Error& error) {
    found.failure = error.what();
    report.warnings.push_back(fmt::format("the chat template fails on one message: {}", error.what()));
  }
}

void describe_memory(const Checkpoint& checkpoint, const LoadOptions& options, CheckpointReport& report) {
  const LoadPlan plan = plan_load(checkpoint, options);
  MemoryReport& memory = report.memory.emplace();
  memory.weights = plan.weights.kinds;
  memory.activations = plan.weights.activations;
  memory.kv = kv_kind_name(plan.kv.kind);
  memory.device = cpu_device_name(*plan.kernels, plan.threads);
  memory.weight_bytes = plan.need.weight_bytes;
  memory.buffer_bytes = plan.need.buffer_bytes;
  if (plan.need.available_bytes != std::numeric_limits<std::size_t>::max()) {
    memory.available_bytes = plan.need.available_bytes;
  }
  try {
    memory.context = choose_context(plan, options.context, checkpoint.config().max_position_embeddings);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::out_of_memory) throw;
    report.warnings.push_back(error.what());
  }
}

void describe_cache(const ModelConfig& config, std::span<const std::int64_t> contexts, CheckpointReport& report) {
  std::vector<std::int64_t> wanted(contexts.begin(), contexts.end());
  if (wanted.empty()) {
    for (const std::int64_t positions : kUsualContexts) {
      if (positions < config.max_position_embeddings) wanted.push_back(positions);
    }
    wanted.push_back(config.max_position_embeddings);
  }
  for (const std::int64_t positions : wanted) {
    if (positions < 1 || positions > config.max_position_embeddings) {
      throw_error(ErrorCode::invalid_argument, "a context of {} positions: this model can have 1 to {}", positions,
                  config.max_position_embeddings);
    }
    const auto bytes = [&](kernels::KvKind kind) {
      return kv_sequence_bytes(kv_layout(config, kind), positions, kPassTokens);
    };
    report.kv.push_back(
        {positions, bytes(kernels::KvKind::float32), bytes(kernels::KvKind::bfloat16), bytes(kernels::KvKind::int8)});
  }
}

void describe(const Checkpoint& checkpoint, const LoadOptions& options, std::span<const std::int64_t> contexts,
              CheckpointReport& report) {
  report.warnings = checkpoint.warnings();
  report.tensors = tensors_of(checkpoint);
  if (const GgufMetadata* metadata = checkpoint.gguf_metadata()) {
    report.file_type = file_type_name(*metadata, report.tensors);
  }
  report.architecture = architecture_of(checkpoint.config());
  describe_memory(checkpoint, options, report);
  describe_cache(checkpoint.config(), contexts, report);
  const GenerationConfig& suggestion = checkpoint.generation_config();
  if (suggestion.do_sample == false) {
    report.temperature = 0;
  } else {
    report.temperature = suggestion.temperature;
    report.top_p = suggestion.top_p;
    report.top_k = suggestion.top_k;
    report.min_p = suggestion.min_p;
  }
  report.repetition_penalty = suggestion.repetition_penalty;
  if (const std::optional<TextTokenizer::Impl> tokenizer = TextTokenizer::Impl::read(checkpoint)) {
    describe_tokenizer(*tokenizer, checkpoint.config(), report);
    describe_chat_template(*tokenizer, report);
  } else {
    report.warnings.push_back("there is no tokenizer: only commands that take token ids can use it");
  }
}

}  // namespace

CheckpointReport inspect(const std::filesystem::path& model, const ModelOptions& options,
                         std::span<const std::int64_t> contexts) {
  const LoadOptions load = load_options(options);
  CheckpointReport report;
  CheckpointFacts facts;
  try {
    const Checkpoint checkpoint =
        model.empty() ? Checkpoint::open(kBuiltinName, builtin_files(), &facts) : Checkpoint::open(model, &facts);
    describe(checkpoint, load, contexts, report);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::unsupported) throw;
    report = {};
    report.refusal = error.what();
    for (const StoredTensor& tensor : facts.tensors) {
      report.tensors.push_back({printable(tensor.name), tensor.shape, tensor.type_name, tensor.bytes});
    }
  }
  report.name = model.empty() ? std::string(kBuiltinName) : model.string();
  report.format = facts.format;
  for (CheckpointFacts::File& file : facts.files) report.files.push_back({std::move(file.name), file.bytes});
  report.modules = modules_of(report.tensors);
  return report;
}

std::int64_t CheckpointReport::parameters() const {
  std::int64_t sum = 0;
  for (const ModuleReport& module : modules) sum += module.parameters;
  return sum;
}

std::uint64_t CheckpointReport::tensor_bytes() const {
  std::uint64_t sum = 0;
  for (const ModuleReport& module : modules) sum += module.bytes;
  return sum;
}

std::uint64_t CheckpointReport::file_bytes() const {
  std::uint64_t sum = 0;
  for (const FileReport& file : files) sum += file.bytes;
  return sum;
}

}  // namespace sparkx
