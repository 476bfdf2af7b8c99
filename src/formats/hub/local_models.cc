// include/sparkx/hub.hpp: the models that are here, listed, removed, verified.
#include <algorithm>
#include <exception>
#include <map>
#include <set>
#include <system_error>

#include "core/error.h"
#include "core/printable.h"
#include "formats/checkpoint.h"
#include "formats/hub/hub_cache.h"
#include "formats/hub/hub_environment.h"
#include "formats/hub/hub_listing.h"
#include "formats/hub/stores.h"
#include "sparkx/hub.hpp"

namespace sparkx {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSafetensors = "safetensors";
constexpr const char* kGguf = "GGUF";

std::uint64_t total_size(std::span<const HubFile> files) {
  std::uint64_t bytes = 0;
  for (const HubFile& file : files) bytes += file.size.value_or(0);
  return bytes;
}

// Whether sparkx runs it, and if not the reason, by opening it: headers are read, no weights.
void judge(LocalModel& model) {
  try {
    Checkpoint::open(model.path);
    model.runnable = true;
  } catch (const std::exception& error) {
    model.reason = error.what();
    // The list says already where it is.
    for (const std::string& place : {model.path.string() + "/", model.path.string() + ": "}) {
      if (model.reason.starts_with(place)) model.reason.erase(0, place.size());
    }
  }
}

// The models in one folder of a hub, each under the name of the folder and what distinguishes it.
void add_folder(std::vector<LocalModel>& models, const ModelName& name, const char* source, const fs::path& folder) {
  const std::vector<HubFile> files = files_of_folder(folder);
  const std::vector<GgufFiles> ggufs = gguf_models(files);
  const auto is_safetensors = [](const HubFile& file) { return file.path.ends_with(".safetensors"); };
  const bool safetensors = std::any_of(files.begin(), files.end(), is_safetensors);
  LocalModel model{to_string(name), source, folder, "", total_size(files), false, ""};
  if (safetensors) {
    model.format = kSafetensors;
    for (const GgufFiles& gguf : ggufs) model.bytes -= total_size(gguf.parts);
    if (has_whole_safetensors_model(folder)) {
      judge(model);
    } else {
      model.reason = "files are missing";
    }
    models.push_back(model);
  } else if (ggufs.empty()) {
    model.reason = "neither safetensors nor GGUF files";
    models.push_back(model);
  }
  for (const GgufFiles& gguf : ggufs) {
    ModelName exact = name;
    exact.variant = variant_of(gguf, ggufs);
    LocalModel one{
        to_string(exact), source, folder / gguf.parts.front().path, kGguf, total_size(gguf.parts), false, ""};
    if (gguf.complete()) {
      judge(one);
    } else {
      one.reason = "parts are missing";
    }
    models.push_back(one);
  }
}

void add_ollama(std::vector<LocalModel>& models) {
  for (const StoredModel& stored : ollama_models()) {
    LocalModel model{to_string(stored.name), "ollama", stored.file, kGguf, 0, false, "its content is missing"};
    try {
      if (const auto blob = find_ollama_model(stored.name)) {
        model.path = *blob;
        model.reason.clear();
        std::error_code error;
        model.bytes = fs::file_size(*blob, error);
        judge(model);
      }
    } catch (const Error& error) {
      model.reason = error.what();
    }
    models.push_back(model);
  }
}

void add_lm_studio(std::vector<LocalModel>& models) {
  for (const StoredModel& stored : lm_studio_models()) {
    std::error_code error;
    const bool is_file = fs::is_regular_file(stored.file, error);
    LocalModel model{to_string(stored.name), "lmstudio", stored.file, is_file ? kGguf : kSafetensors, 0, false, ""};
    if (is_file) {
      for (const GgufFiles& gguf : gguf_models(files_of_folder(stored.file.parent_path()))) {
        if (gguf.parts.front().path == stored.file.filename()) model.bytes = total_size(gguf.parts);
      }
    } else {
      model.bytes = total_size(files_of_folder(stored.file));
    }
    judge(model);
    models.push_back(model);
  }
}

ModelName hugging_face_name(const std::string& text, const char* verb) {
  const std::optional<ModelName> name = parse_model_name(text);
  if (!name) throw_error(ErrorCode::invalid_argument, "{} is not the name of a model", in_quotes(text));
  if (name->source != ModelSource::hugging_face) {
    throw_error(ErrorCode::unsupported, "{}: belongs to another program; only models in Hugging Face's cache are {}",
                text, verb);
  }
  return *name;
}

[[noreturn]] void not_here(const std::string& text) {
  throw_error(ErrorCode::not_found, "{}: is not on this machine", text);
}

// The links of a snapshot that a name means: all, or those of one GGUF model.
std::vector<fs::path> files_of(const Snapshot& snapshot, const std::string& variant, const std::string& text) {
  std::vector<HubFile> files = files_of_folder(snapshot.folder);
  if (!variant.empty()) files = select_files(files, variant, {}, text).files;
  std::vector<fs::path> paths;
  for (const HubFile& file : files) paths.push_back(snapshot.folder / file.path);
  return paths;
}

// A folder's content and the folder, inner things first; links are not followed.
void add_tree(const fs::path& path, std::vector<fs::path>& paths) {
  std::error_code error;
  const fs::file_status status = fs::symlink_status(path, error);
  if (!fs::exists(status)) return;
  if (fs::is_directory(status)) {
    for (fs::directory_iterator at(path, error), end; !error && at != end; at.increment(error))
      add_tree(at->path(), paths);
  }
  paths.push_back(path);
}

std::uint64_t freed_by(std::span<const fs::path> paths) {
  std::uint64_t bytes = 0;
  for (const fs::path& path : paths) {
    std::error_code error;
    if (!fs::is_regular_file(fs::symlink_status(path, error))) continue;
    const std::uint64_t size = fs::file_size(path, error);
    if (!error) bytes += size;
  }
  return bytes;
}

// Some files of a snapshot, with the contents that no other file has.
std::vector<fs::path> paths_of_part(const RepoCache& repo, const Snapshot& snapshot, const std::string& variant,
                                    const std::string& text) {
  const std::vector<fs::path> files = files_of(snapshot, variant, text);
  const std::set<fs::path> going(files.begin(), files.end());
  std::set<std::string> kept, freed;
  bool all_of_snapshot = true;
  for (const Snapshot& other : repo.snapshots()) {
    for (const fs::path& file : files_of(other, "", text)) {
      const auto blob = repo.blob_of(file);
      if (going.contains(file)) {
        if (blob) freed.insert(*blob);
      } else {
        if (blob) kept.insert(*blob);
        if (other.folder == snapshot.folder) all_of_snapshot = false;
      }
    }
  }
  std::vector<fs::path> paths;
  if (all_of_snapshot) {
    for (const auto& [file, commit] : repo.refs()) {
      if (commit == snapshot.commit) paths.push_back(file);
    }
    add_tree(snapshot.folder, paths);
  } else {
    paths = files;
  }
  for (const std::string& blob : freed) {
    if (!kept.contains(blob)) paths.push_back(repo.blob(blob));
  }
  return paths;
}

}  // namespace

std::vector<LocalModel> list_models() {
  std::vector<LocalModel> models;
  for (const RepoCache& repo : RepoCache::all(hugging_face_cache())) {
    for (const Snapshot& snapshot : repo.snapshots()) {
      const std::string revision = snapshot.revision == "main" ? "" : snapshot.revision;
      add_folder(models, {ModelSource::hugging_face, repo.repo(), revision, ""}, "huggingface", snapshot.folder);
    }
  }
  for (const StoredModel& stored : modelscope_models()) add_folder(models, stored.name, "modelscope", stored.file);
  add_lm_studio(models);
  add_ollama(models);
  return models;
}

RemovalPlan plan_removal(const std::string& text) {
  const ModelName name = hugging_face_name(text, "removed");
  const RepoCache repo(hugging_face_cache(), name.repo);
  RemovalPlan plan{to_string(name), {}, 0};
  if (name.revision.empty() && name.variant.empty()) {
    add_tree(repo.folder(), plan.paths);
    if (plan.paths.empty()) not_here(text);
    plan.bytes = freed_by(plan.paths);
    add_tree(repo.locks(), plan.paths);
    return plan;
  }
  const auto commit = repo.commit_of(name.revision.empty() ? "main" : name.revision);
  const std::vector<Snapshot> snapshots = repo.snapshots();
  const auto snapshot = std::find_if(snapshots.begin(), snapshots.end(),
                                     [&](const Snapshot& s) { return commit && s.commit == *commit; });
  if (snapshot == snapshots.end()) not_here(text);
  plan.paths = paths_of_part(repo, *snapshot, name.variant, text);
  plan.bytes = freed_by(plan.paths);
  return plan;
}

void remove_model(const RemovalPlan& plan) {
  for (const fs::path& path : plan.paths) {
    std::error_code error;
    fs::remove(path, error);
    // A folder into which another program has put something since stays.
    if (error && error != std::errc::directory_not_empty) {
      throw_error(ErrorCode::io, "{}: cannot be removed: {}", path.string(), error.message());
    }
  }
}

void verify_models(const std::string& text, const std::function<void(const Verification&)>& result,
                   const std::function<bool(std::uint64_t, std::uint64_t)>& progress) {
  struct Item {
    Verification about;
    fs::path content;
    ExpectedHash hash;
  };
  std::vector<Item> items;
  std::optional<ModelName> name;
  if (!text.empty() && !(name = parse_model_name(text))) {
    throw_error(ErrorCode::invalid_argument, "{} is not the name of a model", in_quotes(text));
  }
  for (const RepoCache& repo : RepoCache::all(hugging_face_cache())) {
    if (name && (name->source != ModelSource::hugging_face || name->repo != repo.repo())) continue;
    const bool all = !name || (name->revision.empty() && name->variant.empty());
    const auto commit = all ? std::nullopt : repo.commit_of(name->revision.empty() ? "main" : name->revision);
    std::set<std::string> seen;
    for (const Snapshot& snapshot : repo.snapshots()) {
      if (!all && snapshot.commit != commit) continue;
      for (const fs::path& file : files_of(snapshot, name ? name->variant : "", text)) {
        const auto blob = repo.blob_of(file);
        if (!blob || hash_from_hex(*blob).kind == HashKind::none || !seen.insert(*blob).second) continue;
        items.push_back({{repo.repo(), file, false, ""}, repo.blob(*blob), hash_from_hex(*blob)});
      }
    }
  }
  for (const StoredModel& stored : ollama_models()) {
    if (name && (name->source != ModelSource::ollama || to_string(*name) != to_string(stored.name))) continue;
    try {
      const auto blob = find_ollama_model(stored.name);
      if (!blob) continue;
      const std::string digits = blob->filename().string().substr(std::string_view("sha256-").size());
      items.push_back({{to_string(stored.name), *blob, false, ""}, *blob, hash_from_hex(digits)});
    } catch (const Error& error) {
      result({to_string(stored.name), stored.file, false, error.what()});
    }
  }
  if (name && items.empty()) {
    throw_error(ErrorCode::not_found, "{}: there are no files with known hashes on this machine", text);
  }
  std::uint64_t done = 0, total = 0;
  for (const Item& item : items) {
    std::error_code error;
    const std::uint64_t size = fs::file_size(item.content, error);
    if (!error) total += size;
  }
  const auto go_on = [&] { return !progress || progress(done, total); };
  for (Item& item : items) {
    const auto problem = file_problem(item.content, item.hash, go_on, [&](std::uint64_t bytes) { done += bytes; });
    item.about.intact = !problem;
    item.about.problem = problem.value_or("");
    result(item.about);
  }
}

}  // namespace sparkx
