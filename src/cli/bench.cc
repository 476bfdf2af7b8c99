// sparkx bench: how fast a model is on this machine.

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <string>
#include <vector>

#include "commands.h"
#include "console.h"
#include "json_text.h"
#include "model_arguments.h"
#include "values.h"

namespace sparkx::cli {
namespace {

constexpr const char* kExamples = R"(Examples:
  sparkx bench -m DIR --quantize 4bit                          a prompt of 512 tokens, then 64 tokens one by one
  sparkx bench --shape 1.7b --quantize 4bit --depth 0,4096     without a checkpoint: made-up weights in that size
  sparkx bench --shape 1.7b -p 0 -n 64 --batch 1,4,16 --json   no prompt; 1, 4 and 16 sequences at once

Each speed is the median of --repeat measurements. GB/s is what weights and cache have to be read for it, and the share
is that of the speed at which the same threads can read memory.)";

struct BenchArguments {
  ModelArguments model;
  std::string shape;
  BenchmarkOptions options;
  bool json = false;
};

// What was measured, on what.
struct Measured {
  std::string name;  // of the model
  ModelInfo model;
  double load_seconds;
  BenchmarkReport report;
};

const char* test_name(const BenchmarkResult& result) {
  return result.test == BenchmarkResult::Test::prompt ? "prompt" : "decode";
}

std::string json_document(const Measured& m) {
  const MachineInfo machine = machine_info();
  const BuildInfo build = build_info();
  std::string out = fmt::format(R"({{"version":{},"commit":{},"compiler":{},)", json_string(build.version),
                                json_string(build.commit), json_string(build.compiler));
  out += fmt::format(R"("machine":{{"cpu":{},"cores":{},"memory_bytes":{},"instruction_set":{}}},)",
                     json_string(machine.cpu), machine.cores, machine.memory_bytes, json_string(build.instruction_set));
  out += fmt::format(
      R"("model":{{"name":{},"weights":{},"weight_bytes":{},"activations":{},"kv_dtype":{},"device":{},"context":{}}},)",
      json_string(m.name), json_string(m.model.weights), m.model.weight_bytes, json_string(m.model.activations),
      json_string(m.model.kv), json_string(m.model.device), m.model.context);
  out += fmt::format(R"("load_seconds":{},"peak_memory_bytes":{},"read_gb_per_second":{},"results":[)",
                     json_number(m.load_seconds), m.report.peak_memory_bytes,
                     m.report.read_bandwidth > 0 ? json_number(m.report.read_bandwidth / 1e9) : "null");
  const char* separator = "";
  for (const BenchmarkResult& r : m.report.results) {
    out += fmt::format(R"({}{{"test":"{}","tokens":{},"depth":{},"batch":{},"tokens_per_second":{},"min":{},"max":{},)"
                       R"("gb_per_second":{},"bandwidth_share":{},"gmac_per_second":{}}})",
                       separator, test_name(r), r.tokens, r.depth, r.batch, json_number(r.tokens_per_second),
                       json_number(r.min), json_number(r.max), json_number(r.bytes_per_second / 1e9),
                       json_number(r.bandwidth_share), json_number(r.multiply_adds_per_second / 1e9));
    separator = ",";
  }
  return out + "]}\n";
}

std::string table(const Measured& m) {
  const MachineInfo machine = machine_info();
  std::string out =
      fmt::format("machine: {}, {} core{}, {:.1f} GiB\n", machine.cpu.empty() ? "unknown CPU" : machine.cpu,
                  machine.cores, machine.cores == 1 ? "" : "s", static_cast<double>(machine.memory_bytes) / 0x1p30);
  out += fmt::format("model:   {}, {:.1f} MiB of {} weights, {} activations, {} cache, {}\n", m.name,
                     static_cast<double>(m.model.weight_bytes) / 0x1p20, m.model.weights, m.model.activations,
                     m.model.kv, m.model.device);
  out += fmt::format("loading: {:.2f} s; peak memory {:.1f} MiB; ", m.load_seconds,
                     static_cast<double>(m.report.peak_memory_bytes) / 0x1p20);
  out += m.report.read_bandwidth > 0
             ? fmt::format("memory can be read at {:.1f} GB/s\n\n", m.report.read_bandwidth / 1e9)
             : "how fast memory can be read is unknown\n\n";
  out += fmt::format("{:<7}{:>7}{:>8}{:>7}{:>12}{:>12}{:>12}{:>9}{:>8}{:>9}\n", "test", "tokens", "depth", "batch",
                     "tokens/s", "min", "max", "GB/s", "share", "GMAC/s");
  for (const BenchmarkResult& r : m.report.results) {
    const std::string share =
        m.report.read_bandwidth > 0 ? fmt::format("{:.0f} %", r.bandwidth_share * 100) : std::string("-");
    out += fmt::format("{:<7}{:>7}{:>8}{:>7}{:>12.2f}{:>12.2f}{:>12.2f}{:>9.2f}{:>8}{:>9.1f}\n", test_name(r), r.tokens,
                       r.depth, r.batch, r.tokens_per_second, r.min, r.max, r.bytes_per_second / 1e9, share,
                       r.multiply_adds_per_second / 1e9);
  }
  return out;
}

int bench(BenchArguments a) {
  BenchmarkOptions& o = a.options;
  std::erase(o.prompt_tokens, 0);
  std::erase(o.decode_tokens, 0);
  if (o.prompt_tokens.empty() && o.decode_tokens.empty()) {
    throw UsageError{"there is nothing to measure: -p and -n are both 0"};
  }
  if (!a.shape.empty() && !a.model.model.empty())
    throw UsageError{"a model comes from -m or from --shape, not from both"};
  if (a.model.context && *a.model.context < longest_sequence(o)) {
    throw UsageError{fmt::format("--ctx {} is less than the {} positions of the longest sequence", *a.model.context,
                                 longest_sequence(o))};
  }
  ModelOptions options;
  options.tokenizer = false;
  options.context = longest_sequence(o);
  options.sequences = largest_batch(o);
  const auto begin = std::chrono::steady_clock::now();
  LanguageModel model = load_model(a.model, options, a.shape);
  Measured measured;
  measured.load_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  measured.name = !a.shape.empty()        ? a.shape + " with made-up weights"
                  : a.model.model.empty() ? "built-in"
                                          : a.model.model;
  measured.model = model.info();
  ProgressBar bar("measuring");
  o.progress = [&bar](std::int64_t done, std::int64_t total) {
    bar.update(static_cast<std::uint64_t>(done), static_cast<std::uint64_t>(total));
    return !interrupted();
  };
  measured.report = model.benchmark(o);
  bar.clear();
  write_output(a.json ? json_document(measured) : table(measured));
  return kDone;
}

}  // namespace

void add_bench(CLI::App& app, Run& run) {
  CLI::App* command = app.add_subcommand("bench", "Measure how fast a model is on this machine");
  command->footer(kExamples);
  const auto a = std::make_shared<BenchArguments>();
  const auto add_list = [&](const std::string& name, std::vector<std::int64_t>& list, std::int64_t least,
                            const std::string& description) {
    command->add_option(name, list, description)
        ->delimiter(',')
        ->transform(whole_number(least))
        ->type_name("LIST")
        ->capture_default_str();
  };
  command->add_option("--shape", a->shape, "Made-up weights in the size of a published model, instead of -m")
      ->check(one_of({"1.7b", "4b"}))
      ->type_name("SHAPE");
  add_list("-p,--prompt", a->options.prompt_tokens, 0, "Tokens of the prompts, with commas between; 0: none");
  add_list("-n,--decode", a->options.decode_tokens, 0, "Tokens to generate one by one; 0: none");
  add_list("--depth", a->options.depths, 0, "Positions in the cache beforehand, made up");
  add_list("--batch", a->options.batches, 1, "Sequences at once");
  command->add_option("--repeat", a->options.repeat, "Measurements of each, after a short warm-up")
      ->transform(whole_number(1, std::numeric_limits<int>::max()))
      ->type_name("N")
      ->capture_default_str();
  command->add_flag("--json", a->json, "Print one JSON document");
  add_model_arguments(*command, a->model);
  command->get_option("--ctx")->description("Positions of the context; by default as many as the longest sequence has");
  command->callback([&run, a] { run = [a] { return bench(*a); }; });
}

}  // namespace sparkx::cli
