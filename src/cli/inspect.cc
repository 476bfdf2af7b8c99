// sparkx inspect: what a checkpoint is, what it takes, and whether sparkx can run it.

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "commands.h"
#include "console.h"
#include "json_text.h"
#include "model_arguments.h"
#include "values.h"

namespace sparkx::cli {
namespace {

constexpr const char* kExamples = R"(Examples:
  sparkx inspect DIR                                  a folder, or a GGUF file, of a split one the first
  sparkx inspect FILE.gguf --tensors                  every tensor
  sparkx inspect DIR --quantize 4bit --ctx 4096,65536   what it would take, with caches of so many positions

Only headers are read. The exit status is 0 when sparkx can run the model, 3 when it cannot, and 1 when the files cannot
be read.)";

struct InspectArguments {
  ModelArguments model;
  std::vector<std::int64_t> contexts;
  bool tensors = false;
  bool json = false;
};

// ---- as JSON

std::string json_list(const std::vector<std::string>& items) {
  std::string out = "[";
  for (const std::string& item : items) out += (out.size() == 1 ? "" : ",") + item;
  return out + "]";
}

template <typename Items, typename Print>
std::string json_list(const Items& items, Print print) {
  std::vector<std::string> texts;
  for (const auto& item : items) texts.push_back(print(item));
  return json_list(texts);
}

template <typename T>
std::string json_optional(const std::optional<T>& value) {
  if (!value) return "null";
  if constexpr (std::is_floating_point_v<T>)
    return json_number(*value);
  else
    return fmt::format("{}", *value);
}

double bits_per_weight(std::uint64_t bytes, std::int64_t parameters) {
  return parameters == 0 ? NAN : static_cast<double>(bytes) * 8 / static_cast<double>(parameters);
}

std::string json_architecture(const ArchitectureReport& a) {
  return fmt::format(
      R"({{"layers":{},"sliding_layers":{},"full_layers":{},"pattern":{},"sliding_window":{},"hidden_size":{},)"
      R"("intermediate_size":{},"heads":{},"kv_heads":{},"head_dim":{},"vocab_size":{},"max_position_embeddings":{},)"
      R"("tied":{},"attention_bias":{},"mlp_bias":{},"rotary":{}}})",
      a.layers, a.sliding_layers, a.full_layers, json_string(a.pattern), a.sliding_window, a.hidden_size,
      a.intermediate_size, a.heads, a.kv_heads, a.head_dim, a.vocab_size, a.max_position_embeddings, a.tied,
      a.attention_bias, a.mlp_bias, json_list(a.rotary, [](const RotaryReport& r) {
        return fmt::format(R"({{"layers":{},"theta":{},"channels":{}}})", json_string(r.layers), json_number(r.theta),
                           r.channels);
      }));
}

std::string json_memory(const MemoryReport& m) {
  return fmt::format(R"({{"weights":{},"activations":{},"kv_dtype":{},"device":{},"weight_bytes":{},"buffer_bytes":{},)"
                     R"("available_bytes":{},"context":{}}})",
                     json_string(m.weights), json_string(m.activations), json_string(m.kv), json_string(m.device),
                     m.weight_bytes, m.buffer_bytes, json_optional(m.available_bytes), json_optional(m.context));
}

std::string json_tokenizer(const TokenizerReport& t) {
  return fmt::format(R"({{"vocab_size":{},"merges":{},"added_tokens":{},"special":{}}})", t.vocab_size, t.merges,
                     t.added_tokens, json_list(t.special, [](const SpecialToken& s) {
                       return fmt::format(R"({{"role":{},"id":{},"text":{}}})", json_string(s.role), s.id,
                                          json_string(s.text));
                     }));
}

std::string json_template(const ChatTemplateReport& t) {
  return fmt::format(R"({{"where":{},"bytes":{},"tools":{},"thinking":{},"failure":{}}})", json_string(t.where),
                     t.bytes, t.tools, t.thinking, t.failure.empty() ? "null" : json_string(t.failure));
}

std::string json_module(const ModuleReport& m) {
  return fmt::format(R"({{"name":{},"tensors":{},"parameters":{},"bytes":{},"bits_per_weight":{},"stored":{}}})",
                     json_string(m.name), m.tensors, m.parameters, m.bytes,
                     json_number(bits_per_weight(m.bytes, m.parameters)), json_list(m.stored, [](const auto& kind) {
                       return fmt::format(R"({{"type":{},"tensors":{}}})", json_string(kind.first), kind.second);
                     }));
}

std::string json_tensor(const TensorReport& t) {
  return fmt::format(R"({{"name":{},"shape":{},"stored":{},"bytes":{}}})", json_string(t.name),
                     json_list(t.shape, [](std::int64_t size) { return fmt::format("{}", size); }),
                     json_string(t.stored), t.bytes);
}

std::string json_document(const CheckpointReport& r, bool tensors) {
  std::string out = fmt::format(
      R"({{"name":{},"format":{},"file_type":{},"runs":{},"refusal":{},"parameters":{},"bits_per_weight":{},)"
      R"("tensor_bytes":{},"file_bytes":{},"files":{},"architecture":{},"modules":{},"memory":{},"kv":{},)"
      R"("tokenizer":{},"chat_template":{},)",
      json_string(r.name), json_string(r.format), r.file_type.empty() ? "null" : json_string(r.file_type),
      r.refusal.empty(), r.refusal.empty() ? "null" : json_string(r.refusal), r.parameters(),
      json_number(bits_per_weight(r.tensor_bytes(), r.parameters())), r.tensor_bytes(), r.file_bytes(),
      json_list(
          r.files,
          [](const FileReport& f) { return fmt::format(R"({{"name":{},"bytes":{}}})", json_string(f.name), f.bytes); }),
      r.architecture ? json_architecture(*r.architecture) : "null", json_list(r.modules, json_module),
      r.memory ? json_memory(*r.memory) : "null",
      json_list(r.kv,
                [](const KvReport& k) {
                  return fmt::format(R"({{"positions":{},"float32":{},"bfloat16":{},"int8":{}}})", k.positions,
                                     k.float32, k.bfloat16, k.int8);
                }),
      r.tokenizer ? json_tokenizer(*r.tokenizer) : "null", r.chat_template ? json_template(*r.chat_template) : "null");
  out += fmt::format(
      R"("sampling":{{"temperature":{},"top_p":{},"top_k":{},"min_p":{},"repetition_penalty":{}}},"warnings":{})",
      json_optional(r.temperature), json_optional(r.top_p), json_optional(r.top_k), json_optional(r.min_p),
      json_optional(r.repetition_penalty), json_list(r.warnings, json_string));
  if (tensors) out += fmt::format(R"(,"tensors":{})", json_list(r.tensors, json_tensor));
  return out + "}\n";
}

// ---- for a person

std::string size_text(std::uint64_t bytes) {
  const auto value = static_cast<double>(bytes);
  if (value < 1024) return fmt::format("{} B", bytes);
  if (value < 0x1p20) return fmt::format("{:.1f} KiB", value / 1024);
  if (value < 0x1p30) return fmt::format("{:.1f} MiB", value / 0x1p20);
  return fmt::format("{:.2f} GiB", value / 0x1p30);
}

std::string count_text(std::int64_t count) {
  const auto value = static_cast<double>(count);
  if (value < 1e4) return fmt::format("{}", count);
  if (value < 1e6) return fmt::format("{:.1f} K", value / 1e3);
  if (value < 1e9) return fmt::format("{:.1f} M", value / 1e6);
  return fmt::format("{:.2f} B", value / 1e9);
}

std::string bits_text(std::uint64_t bytes, std::int64_t parameters) {
  return parameters == 0 ? "-" : fmt::format("{:.2f}", bits_per_weight(bytes, parameters));
}

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::string text;
  for (const std::int64_t size : shape) text += fmt::format("{}{}", text.empty() ? "" : " x ", size);
  return text;
}

std::string fact(std::string_view name, const std::string& text) {
  return fmt::format("{:<11} {}\n", name, text);
}

std::string file_name(const std::string& path) {
  return std::filesystem::path(path).filename().string();
}

std::string files_text(const CheckpointReport& r) {
  if (r.files.size() == 1) return fmt::format("{}, {}", file_name(r.files[0].name), size_text(r.file_bytes()));
  return fmt::format("{} files, {} to {}, {}", r.files.size(), file_name(r.files.front().name),
                     file_name(r.files.back().name), size_text(r.file_bytes()));
}

std::string rotary_text(const ArchitectureReport& a) {
  std::string text;
  for (const RotaryReport& r : a.rotary) {
    text += fmt::format("{}{} layers turn {} of {} channels, theta {}", text.empty() ? "" : "; ",
                        r.layers.substr(0, r.layers.find('_')), r.channels, a.head_dim, r.theta);
  }
  return text;
}

std::string architecture_text(const ArchitectureReport& a) {
  std::string out =
      fact("layers", fmt::format("{}: {}{}", a.layers, a.pattern,
                                 a.sliding_window == 0 ? "" : fmt::format("; window {}", a.sliding_window)));
  out += fact("sizes", fmt::format("hidden {}, intermediate {}, {} head{} of {}, {} KV head{}", a.hidden_size,
                                   a.intermediate_size, a.heads, a.heads == 1 ? "" : "s", a.head_dim, a.kv_heads,
                                   a.kv_heads == 1 ? "" : "s"));
  out += fact("vocabulary",
              fmt::format("{}; the head is {}", a.vocab_size, a.tied ? "the embedding" : "a matrix of its own"));
  if (a.attention_bias || a.mlp_bias) {
    out += fact("biases", a.attention_bias && a.mlp_bias ? "attention, MLP" : a.attention_bias ? "attention" : "MLP");
  }
  out += fact("rotary", rotary_text(a));
  return out + fact("positions", fmt::format("{}", a.max_position_embeddings));
}

std::string tokenizer_text(const TokenizerReport& t) {
  std::string text = fmt::format("{} tokens, {} merges, {} added", t.vocab_size, t.merges, t.added_tokens);
  for (const SpecialToken& s : t.special) text += fmt::format("; {} {} {}", s.role, s.id, s.text);
  return text;
}

std::string template_text(const ChatTemplateReport& t) {
  return fmt::format("{}, {}{}{}{}", file_name(t.where), size_text(t.bytes), t.tools ? ", tools" : "",
                     t.thinking ? ", thinking" : "", t.failure.empty() ? "" : ", fails");
}

std::string sampling_text(const CheckpointReport& r) {
  std::string text;
  const auto add = [&text](const char* name, const auto& value) {
    if (value) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name, *value);
  };
  add("temperature", r.temperature);
  add("top_p", r.top_p);
  if (r.top_k > 0) add("top_k", r.top_k);  // else it is off
  add("min_p", r.min_p);
  add("repetition penalty", r.repetition_penalty);
  return text;
}

std::string stored_text(const ModuleReport& m) {
  if (m.stored.size() == 1) return m.stored[0].first;
  std::string text;
  for (const auto& [type, tensors] : m.stored) {
    text += fmt::format("{}{} in {}", text.empty() ? "" : "; ", tensors, type);
  }
  return text;
}

std::string modules_text(const CheckpointReport& r) {
  std::size_t longest = 11;
  for (const ModuleReport& m : r.modules) longest = std::max(longest, m.name.size());
  const auto row = [&](const std::string& name, std::int64_t tensors, std::int64_t parameters, std::uint64_t bytes,
                       const std::string& stored) {
    return fmt::format("{:<{}} {:>7} {:>12} {:>12} {:>6}  {}\n", name, longest, tensors, count_text(parameters),
                       size_text(bytes), bits_text(bytes, parameters), stored);
  };
  std::string out = fmt::format("\n{:<{}} {:>7} {:>12} {:>12} {:>6}  {}\n", "weights", longest, "tensors", "parameters",
                                "size", "bits", "stored as");
  for (const ModuleReport& m : r.modules) out += row(m.name, m.tensors, m.parameters, m.bytes, stored_text(m));
  return out + row("total", static_cast<std::int64_t>(r.tensors.size()), r.parameters(), r.tensor_bytes(), "");
}

std::string memory_text(const MemoryReport& m) {
  std::string out = fmt::format("\nloaded here ({})\n", m.device);
  out += fact("weights", fmt::format("{}: {}; {} activations", size_text(m.weight_bytes), m.weights, m.activations));
  out += fact("buffers", size_text(m.buffer_bytes));
  if (m.available_bytes) out += fact("free", size_text(*m.available_bytes));
  return out + fact("context", m.context ? fmt::format("{} positions, {} cache", *m.context, m.kv) : "does not fit");
}

std::string cache_text(const std::vector<KvReport>& kv) {
  std::string out = fmt::format("\n{:<11} {:>12} {:>12} {:>12}\n", "KV cache", "bfloat16", "int8", "float32");
  for (const KvReport& k : kv) {
    out += fmt::format("{:<11} {:>12} {:>12} {:>12}\n", k.positions, size_text(k.bfloat16), size_text(k.int8),
                       size_text(k.float32));
  }
  return out;
}

std::string tensors_text(const std::vector<TensorReport>& tensors) {
  std::size_t name = 0, shape = 0;
  for (const TensorReport& t : tensors) {
    name = std::max(name, t.name.size());
    shape = std::max(shape, shape_text(t.shape).size());
  }
  std::string out = "\n";
  for (const TensorReport& t : tensors) {
    out += fmt::format("{:<{}}  {:<{}}  {:>10}  {}\n", t.name, name, shape_text(t.shape), shape, size_text(t.bytes),
                       t.stored);
  }
  return out;
}

std::string page(const CheckpointReport& r, bool tensors) {
  std::string out = fact("model", r.name);
  out += fact("runs", r.refusal.empty() ? "yes" : "no: " + r.refusal);
  if (!r.format.empty()) out += fact("format", r.file_type.empty() ? r.format : r.format + ", " + r.file_type);
  if (!r.files.empty()) out += fact("files", files_text(r));
  if (r.refusal.empty()) {
    out += fact("parameters", fmt::format("{}, {} bits each", count_text(r.parameters()),
                                          bits_text(r.tensor_bytes(), r.parameters())));
  }
  if (r.architecture) out += architecture_text(*r.architecture);
  if (r.tokenizer) out += fact("tokenizer", tokenizer_text(*r.tokenizer));
  if (r.chat_template) out += fact("template", template_text(*r.chat_template));
  if (const std::string sampling = sampling_text(r); !sampling.empty()) out += fact("sampling", sampling);
  if (!r.modules.empty()) out += modules_text(r);
  if (r.memory) out += memory_text(*r.memory);
  if (!r.kv.empty()) out += cache_text(r.kv);
  if (tensors && !r.tensors.empty()) out += tensors_text(r.tensors);
  return out;
}

int inspect(const InspectArguments& a) {
  const CheckpointReport report =
      sparkx::inspect(model_path(a.model.model, a.model.fetch), model_options(a.model), a.contexts);
  write_output(a.json ? json_document(report, a.tensors) : page(report, a.tensors));
  if (!a.json) {
    for (const std::string& warning : report.warnings) print_warning(warning);
  }
  return report.refusal.empty() ? kDone : kUnsupported;
}

}  // namespace

void add_inspect(CLI::App& app, Run& run) {
  CLI::App* command = app.add_subcommand("inspect", "Show what a checkpoint is, what it takes, and whether it runs");
  command->footer(kExamples);
  const auto a = std::make_shared<InspectArguments>();
  command
      ->add_option("model,-m,--model", a->model.model,
                   "Folder, GGUF file or name of the model; without it the built-in model is shown")
      ->type_name("PATH|NAME");
  add_fetch_arguments(*command, a->model.fetch);
  command->add_flag("--tensors", a->tensors, "List every tensor");
  command->add_option("--ctx", a->contexts, "Positions for which to show the cache's size, with commas between")
      ->delimiter(',')
      ->transform(whole_number(1))
      ->type_name("LIST");
  command->add_flag("--json", a->json, "Print one JSON document");
  add_precision_arguments(*command, a->model);
  add_threads_argument(*command, a->model.threads);
  command->callback([&run, a] { run = [a] { return inspect(*a); }; });
}

}  // namespace sparkx::cli
