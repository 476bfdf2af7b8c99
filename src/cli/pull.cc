// sparkx pull: fetches a model from a hub.

#include <fmt/core.h>

#include <string>
#include <vector>

#include "commands.h"
#include "console.h"
#include "fetch_arguments.h"
#include "values.h"

namespace sparkx::cli {
namespace {

constexpr const char* kExamples = R"text(Examples:
  sparkx pull XHToken/Spark-X2.5-1.7B                    everything the model needs, from Hugging Face
  sparkx pull owner/name-GGUF:Q4_K_M                     the GGUF file of this quantization
  sparkx pull owner/name@v1.1 --file '*.json'            some files of a branch, tag or commit
  sparkx pull XHToken/Spark-X2.5-1.7B --source modelscope
  sparkx generate -m "$(sparkx pull owner/name)" -p TEXT)text";

struct PullArguments {
  std::string repo;
  std::vector<std::string> files;
  std::string source = "hf";
  std::string endpoint;
  bool offline = false;
};

int pull(const PullArguments& a) {
  std::string name = a.repo;
  if (a.source == "modelscope" && !name.starts_with("modelscope:")) name = "modelscope:" + name;
  if (!is_model_name(name)) {
    throw UsageError{fmt::format("\"{}\" is not the name of a model, such as owner/name or owner/name:Q4_K_M", a.repo)};
  }
  ProgressBar bar("fetching");
  FetchOptions options = fetch_options(bar);
  options.file_patterns = a.files;
  options.endpoint = a.endpoint;
  options.offline = a.offline;
  options.confirm = [](const FetchPlan& plan) {
    print_note(fmt::format("fetching {} ({}) from {}", plan.name, size_text(plan.to_fetch), plan.host));
    return true;
  };
  const std::filesystem::path path = pull_model(name, options);
  bar.clear();
  write_output(path.string() + "\n");
  return kDone;
}

}  // namespace

void add_pull(CLI::App& app, Run& run) {
  CLI::App* command = app.add_subcommand("pull", "Fetch a model from Hugging Face or ModelScope");
  command->footer(kExamples);
  const auto a = std::make_shared<PullArguments>();
  command->add_option("repo", a->repo, "The model's name on the hub, with @REVISION and :QUANTIZATION as needed")
      ->required()
      ->type_name("REPO");
  command->add_option("--file", a->files, "Only files that a pattern with * and ? fits; may be given several times")
      ->check(not_empty())
      ->type_name("PATTERN");
  command->add_option("--source", a->source, "The hub: Hugging Face or ModelScope")
      ->check(one_of({"hf", "modelscope"}))
      ->type_name("HUB")
      ->capture_default_str();
  command->add_option("--endpoint", a->endpoint, "Address of a mirror; by default HF_ENDPOINT or MODELSCOPE_ENDPOINT")
      ->check(not_empty())
      ->type_name("URL");
  command->add_flag("--offline", a->offline, "Fetch nothing: only say where the model is on this machine");
  command->callback([&run, a] { run = [a] { return pull(*a); }; });
}

}  // namespace sparkx::cli
