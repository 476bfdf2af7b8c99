// sparkx convert: a checkpoint in another format.

#include "sparkx/convert.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "commands.h"
#include "console.h"
#include "json_text.h"
#include "model_arguments.h"
#include "values.h"

namespace sparkx::cli {
namespace {

constexpr const char* kExamples = R"(Examples:
  sparkx convert -m DIR -o DIR-4bit -q                             4 bits, as mlx_lm.convert does it
  sparkx convert -m DIR -o DIR-mixed --recipe mixed_3_6            3 bits, and 6 where they matter most
  sparkx convert -m DIR -o OUT --quantize 4bit --predicate 'down_proj=6' --predicate 'lm_head|embedding=8'
  sparkx convert -m DIR -o DIR-3bit -q 3bit --calibrate text.txt   better at few bits
  sparkx convert -m DIR -o model.gguf --quantize Q4_K_M            one file, as llama.cpp reads it
  sparkx convert -m INT8-DIR -o OUT --dry-run                      check everything, show the plan, write nothing
  sparkx convert -m MLX-DIR -o OUT --format hf --dtype bfloat16    back to plain numbers)";

struct ConvertArguments {
  std::string model;
  FetchArguments fetch;
  std::string output;
  std::string format = "auto";
  std::string quantize = "none";
  bool bare_quantize = false;  // -q without a value
  std::optional<int> group_size;
  std::optional<int> bits;
  std::optional<std::string> mode;
  std::string dtype = "auto";
  std::string recipe;
  std::vector<std::string> predicates;
  std::string calibrate;
  bool w8a16 = false;
  std::string shard_size = "5GB";
  std::optional<int> threads;
  bool dry_run = false;
  bool force = false;
  bool json = false;
};

// "5GB": a number and a unit of 1024s, as shards are measured.
std::optional<std::uint64_t> parse_size(const std::string& text) {
  static const std::map<std::string, int> kUnits = {{"", 0},     {"B", 0},   {"K", 10},   {"KB", 10}, {"KiB", 10},
                                                    {"M", 20},   {"MB", 20}, {"MiB", 20}, {"G", 30},  {"GB", 30},
                                                    {"GiB", 30}, {"T", 40},  {"TB", 40},  {"TiB", 40}};
  const std::size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  const auto unit = kUnits.find(text.substr(digits));
  const std::optional<std::uint64_t> number = parse_unsigned(std::string_view(text).substr(0, digits));
  if (!number || *number == 0 || unit == kUnits.end()) return std::nullopt;
  if (*number > std::numeric_limits<std::uint64_t>::max() >> 1 >> unit->second) return std::nullopt;
  return *number << unit->second;
}

// "RE=BITS", split at the last "=".
QuantizationRule parse_rule(const std::string& text) {
  const std::size_t at = text.rfind('=');
  if (at == std::string::npos || at == 0 || at + 1 == text.size()) {
    throw UsageError{fmt::format("--predicate: \"{}\" is not of the form RE=BITS, such as down_proj=6", text)};
  }
  return {text.substr(0, at), text.substr(at + 1)};
}

// What --quantize, and mlx-lm's options beside it, come to.
std::string chosen_quantization(const ConvertArguments& a) {
  if (!a.bits && !a.mode) return a.bare_quantize ? "4bit" : a.quantize;
  if (!a.bare_quantize) throw UsageError{"--q-bits and --q-mode go with -q without a value"};
  const std::string mode = a.mode.value_or("affine");
  if (mode == "affine") return fmt::format("{}bit", a.bits.value_or(4));
  const int bits = mode == "mxfp8" ? 8 : 4;
  if (a.bits.value_or(bits) != bits) throw UsageError{fmt::format("{} has {} bits, not {}", mode, bits, *a.bits)};
  return mode;
}

std::string show_bytes(std::uint64_t bytes) {
  constexpr double kGiB = 1073741824.0;
  const auto value = static_cast<double>(bytes);
  return value >= kGiB ? fmt::format("{:.2f} GiB", value / kGiB) : fmt::format("{:.1f} MiB", value / 1048576.0);
}

// "model.layers.3.mlp.up_proj.weight" → "model.layers.*.mlp.up_proj.weight", so that layers make one line.
std::string without_layer(const std::string& name) {
  constexpr std::string_view kLayers = "model.layers.";
  if (!name.starts_with(kLayers)) return name;
  return std::string(kLayers) + '*' + name.substr(std::min(name.find('.', kLayers.size()), name.size()));
}

std::string show_plan(const ConversionPlan& plan) {
  struct Line {
    std::string name, change;
    int count;
    std::uint64_t bytes;
  };
  std::vector<Line> lines;
  for (const ConvertedTensor& tensor : plan.tensors) {
    const std::string name = without_layer(tensor.name);
    std::string change = tensor.source == tensor.target ? tensor.source : tensor.source + " -> " + tensor.target;
    if (!tensor.reason.empty()) change += " (" + tensor.reason + ")";
    const auto same = std::find_if(lines.begin(), lines.end(),
                                   [&](const Line& line) { return line.name == name && line.change == change; });
    if (same == lines.end()) {
      lines.push_back({name, change, 1, tensor.bytes});
    } else {
      ++same->count;
      same->bytes += tensor.bytes;
    }
  }
  std::string text;
  for (const Line& line : lines) {
    text += fmt::format("{:>4} {:<52} {:>11}  {}\n", line.count, line.name, show_bytes(line.bytes), line.change);
  }
  if (!plan.calibration.empty()) text += fmt::format("calibrated with {}\n", plan.calibration);
  text += fmt::format("{}: {} in {} files, {:.3f} bits per weight\n", plan.format, show_bytes(plan.output_bytes),
                      plan.files.size(), plan.bits_per_weight);
  return text;
}

std::string plan_json(const ConversionPlan& plan) {
  std::string tensors, files, notes;
  for (const ConvertedTensor& tensor : plan.tensors) {
    tensors += fmt::format(
        "{}{{\"name\": {}, \"source\": {}, \"target\": {}, \"reason\": {}, \"elements\": {}, \"bytes\": {}}}",
        tensors.empty() ? "" : ", ", json_string(tensor.name), json_string(tensor.source), json_string(tensor.target),
        tensor.reason.empty() ? "null" : json_string(tensor.reason), tensor.elements, tensor.bytes);
  }
  for (const std::string& file : plan.files) files += (files.empty() ? "" : ", ") + json_string(file);
  for (const std::string& note : plan.notes) notes += (notes.empty() ? "" : ", ") + json_string(note);
  return fmt::format(
      "{{\"format\": {}, \"output_bytes\": {}, \"bits_per_weight\": {:.6f}, \"calibration\": {}, \"files\": [{}], "
      "\"notes\": [{}], \"tensors\": [{}]}}\n",
      json_string(plan.format), plan.output_bytes, plan.bits_per_weight,
      plan.calibration.empty() ? "null" : json_string(plan.calibration), files, notes, tensors);
}

int convert(const ConvertArguments& a) {
  ConvertOptions options;
  options.format = a.format;
  options.quantize = chosen_quantization(a);
  options.group_size = a.group_size;
  options.recipe = a.recipe;
  for (const std::string& text : a.predicates) options.rules.push_back(parse_rule(text));
  options.calibrate = a.calibrate;
  options.dtype = a.dtype;
  options.keep_activation_codes = !a.w8a16;
  options.shard_bytes = parse_size(a.shard_size).value();
  options.replace = a.force;
  options.threads = a.threads;
  if (a.model.empty()) print_note("no model given (-m): converting the built-in demonstration model");
  Conversion conversion(model_path(a.model, a.fetch), a.output, options);
  for (const std::string& note : conversion.plan().notes) print_warning(note);
  ProgressBar bar(a.dry_run ? "checking" : "converting");
  const auto progress = [&bar](std::uint64_t done, std::uint64_t total) {
    bar.update(done, total);
    return !interrupted();
  };
  const std::string report = a.dry_run ? conversion.check(progress) : conversion.run(progress);
  bar.clear();
  write_output(a.json ? plan_json(conversion.plan())
                      : show_plan(conversion.plan()) + (report.empty() ? "" : "\n" + report));
  if (a.dry_run) print_note("nothing was written");
  return kDone;
}

}  // namespace

void add_convert(CLI::App& app, Run& run) {
  CLI::App* command = app.add_subcommand("convert", "Convert a model to another format, or quantize it");
  command->footer(kExamples);
  const auto a = std::make_shared<ConvertArguments>();
  add_model_option(*command, a->model, a->fetch, "--hf-path");
  command
      ->add_option("-o,--output,--mlx-path", a->output,
                   "Folder to make, or with a name that ends in .gguf the file; refused when it exists")
      ->required()
      ->type_name("PATH");
  command->add_option("--format", a->format, "Format of the output; auto is mlx, and gguf for such a name")
      ->check(one_of({"auto", "mlx", "hf", "gguf"}))
      ->type_name("FORMAT")
      ->capture_default_str();
  CLI::Option* quantize = command->add_option(
      "-q,--quantize", a->quantize,
      "How to quantize: none as without it, 2bit to 6bit, 8bit, mxfp4, mxfp8, nvfp4, for GGUF Q8_0, Q4_K_M and so on; "
      "4bit without a value");
  quantize->expected(0, 1)->type_name("MODE");
  command
      ->add_option("--group-size,--q-group-size", a->group_size,
                   "Columns that share a scale in the modes from 2bit to 8bit; by default 64")
      ->check(one_of({"32", "64", "128"}))
      ->type_name("N");
  command->add_option("--q-bits", a->bits, "Bits of a bare -q, as mlx-lm has it")
      ->check(one_of({"2", "3", "4", "5", "6", "8"}))
      ->type_name("N");
  command->add_option("--q-mode", a->mode, "Mode of a bare -q, as mlx-lm has it")
      ->check(one_of({"affine", "mxfp4", "mxfp8", "nvfp4"}))
      ->type_name("MODE");
  command->add_option("--recipe,--quant-predicate", a->recipe, "A mixture of bits, as mlx-lm has it")
      ->check(one_of({"mixed_2_6", "mixed_3_4", "mixed_3_6", "mixed_4_6"}))
      ->type_name("NAME");
  command
      ->add_option("--predicate", a->predicates,
                   "Bits, another mode, or none for modules whose path a regular expression matches anywhere; may be "
                   "repeated, the last match counts")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->type_name("RE=BITS");
  command
      ->add_option("--calibrate", a->calibrate,
                   "Quantize by what the model reads on a text of the kind it is for (some 10000 tokens), or by an "
                   "importance matrix of llama.cpp: better at few bits")
      ->type_name("FILE");
  command->add_option("--dtype", a->dtype, "Type of what is not quantized; auto keeps config.json's, or the file's own")
      ->check(one_of({"auto", "float32", "bfloat16", "float16"}))
      ->type_name("TYPE")
      ->capture_default_str();
  command->add_flag("--w8a16", a->w8a16, "W8A8 weights keep their codes, but lose the codes of activations");
  command->add_option("--shard-size", a->shard_size, "Most bytes of tensors in a file, in units of 1024: 5GB is 5 GiB")
      ->check(CLI::Validator(
          [](std::string& text) {
            return parse_size(text) ? std::string() : fmt::format("\"{}\" is no size such as 500MB or 5GB", text);
          },
          ""))
      ->type_name("SIZE")
      ->capture_default_str();
  command->add_option("--threads", a->threads, "Number of threads; by default one for each physical core")
      ->transform(whole_number(1, std::numeric_limits<int>::max()))
      ->type_name("N");
  command->add_flag("--dry-run,--inspect", a->dry_run, "Check everything, print the plan, and write nothing");
  command->add_flag("--force", a->force, "Replace the output when there is one");
  command->add_flag("--json", a->json, "Print the plan as JSON");
  command->callback([&run, a, quantize] {
    a->bare_quantize = quantize->count() > 0 && quantize->results().front().empty();
    run = [a] { return convert(*a); };
  });
}

}  // namespace sparkx::cli
