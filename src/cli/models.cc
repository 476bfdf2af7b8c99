// sparkx models: what is on this machine.

#include <fmt/core.h>

#include <algorithm>
#include <string>
#include <vector>

#include "commands.h"
#include "console.h"
#include "fetch_arguments.h"
#include "json_text.h"
#include "values.h"

namespace sparkx::cli {
namespace {

constexpr const char* kExamples = R"(Examples:
  sparkx models list                        everything that -m can be given by name
  sparkx models rm owner/name:Q4_K_M        remove one GGUF file from Hugging Face's cache
  sparkx models rm owner/name --yes         remove all of a repository, without asking
  sparkx models verify                      compute the hashes of all files again)";

struct ModelsArguments {
  std::string action;
  std::vector<std::string> names;
  bool json = false;
  bool yes = false;
};

std::string json_line(const LocalModel& model) {
  return fmt::format(
      "{{\"name\": {}, \"source\": {}, \"path\": {}, \"format\": {}, \"bytes\": {}, \"runnable\": {}, \"reason\": {}}}",
      json_string(model.name), json_string(model.source), json_string(model.path.string()),
      model.format.empty() ? "null" : json_string(model.format), model.bytes, model.runnable,
      model.runnable ? "null" : json_string(model.reason));
}

int list(bool json) {
  const std::vector<LocalModel> models = list_models();
  std::string out;
  if (json) {
    for (const LocalModel& model : models) out += (out.empty() ? "" : ",\n ") + json_line(model);
    write_output("[" + out + "]\n");
    return kDone;
  }
  std::size_t width = 0;
  for (const LocalModel& model : models) width = std::max(width, model.name.size());
  for (const LocalModel& model : models) {
    out += fmt::format("{:{}}  {:>8}  {:11}  {}\n", model.name, width, size_text(model.bytes),
                       model.format.empty() ? "-" : model.format,
                       model.runnable ? "runs" : "does not run: " + model.reason);
  }
  if (models.empty()) print_note("there are no models here; sparkx pull fetches one");
  write_output(out);
  return kDone;
}

int remove(const ModelsArguments& a) {
  for (const std::string& name : a.names) {
    const RemovalPlan plan = plan_removal(name);
    if (!a.yes) {
      if (!input_is_terminal()) {
        throw UsageError{fmt::format("removing {} needs --yes where nobody can be asked", plan.name)};
      }
      if (!confirmed(fmt::format("remove {} ({})?", plan.name, size_text(plan.bytes)))) {
        print_note(fmt::format("{} stays", plan.name));
        continue;
      }
    }
    remove_model(plan);
    print_note(fmt::format("removed {} ({})", plan.name, size_text(plan.bytes)));
  }
  return kDone;
}

int verify(const std::vector<std::string>& names) {
  bool intact = true;
  ProgressBar bar("verifying");
  const auto result = [&](const Verification& one) {
    bar.clear();
    intact &= one.intact;
    write_output(one.intact ? fmt::format("ok      {}  {}\n", one.name, one.file.string())
                            : fmt::format("BROKEN  {}  {}: {}\n", one.name, one.file.string(), one.problem));
  };
  const auto progress = [&](std::uint64_t done, std::uint64_t total) {
    bar.update(done, total);
    return !interrupted();
  };
  if (names.empty()) verify_models("", result, progress);
  for (const std::string& name : names) verify_models(name, result, progress);
  return intact ? kDone : kFailed;
}

int models(const ModelsArguments& a) {
  if (a.json && a.action != "list") throw UsageError{"--json goes with models list"};
  if (a.yes && a.action != "rm") throw UsageError{"--yes goes with models rm"};
  if (a.action == "list") {
    if (!a.names.empty()) throw UsageError{"models list takes no names"};
    return list(a.json);
  }
  if (a.action == "verify") return verify(a.names);
  if (a.names.empty()) throw UsageError{"models rm needs the name of a model"};
  return remove(a);
}

}  // namespace

void add_models(CLI::App& app, Run& run) {
  CLI::App* command = app.add_subcommand("models", "List, remove and verify the models on this machine");
  command->footer(kExamples);
  const auto a = std::make_shared<ModelsArguments>();
  command->add_option("action", a->action, "What to do")
      ->required()
      ->check(one_of({"list", "rm", "verify"}))
      ->type_name("ACTION");
  command->add_option("names", a->names, "Models, as the list names them; verify takes all without")->type_name("NAME");
  command->add_flag("--json", a->json, "list: one JSON document");
  command->add_flag("-y,--yes", a->yes, "rm: do not ask");
  command->callback([&run, a] { run = [a] { return models(*a); }; });
}

}  // namespace sparkx::cli
