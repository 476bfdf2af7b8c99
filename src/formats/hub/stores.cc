#include "formats/hub/stores.h"

#include <algorithm>
#include <map>
#include <set>
#include <system_error>

#include "core/error.h"
#include "core/file.h"
#include "formats/hub/hub_cache.h"
#include "formats/hub/hub_environment.h"
#include "formats/hub/hub_listing.h"

namespace sparkx {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMaxManifestBytes = 4 << 20;
constexpr std::size_t kReadBytes = 4 << 20;
constexpr const char* kOllamaHost = "registry.ollama.ai";
constexpr const char* kOllamaNamespace = "library";

std::vector<std::string> split(std::string_view path) {
  std::vector<std::string> parts;
  for (;;) {
    const std::size_t slash = path.find('/');
    parts.emplace_back(path.substr(0, slash));
    if (slash == path.npos) return parts;
    path.remove_prefix(slash + 1);
  }
}

std::vector<fs::path> folders_of(const fs::path& folder) {
  std::vector<fs::path> folders;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    std::error_code ignored;
    if (at->is_directory(ignored) && is_safe_path(at->path().filename().string())) folders.push_back(at->path());
  }
  std::sort(folders.begin(), folders.end());
  return folders;
}

// The older library writes dots in names in another way.
std::string replaced(std::string text, std::string_view from, std::string_view to) {
  for (std::size_t at = 0; (at = text.find(from, at)) != text.npos; at += to.size()) text.replace(at, from.size(), to);
  return text;
}

fs::path manifest_of(const ModelName& name) {
  std::vector<std::string> parts = split(name.repo);
  if (parts.size() == 1) parts.insert(parts.begin(), kOllamaNamespace);
  if (parts.size() == 2) parts.insert(parts.begin(), kOllamaHost);
  fs::path file = ollama_store() / "manifests";
  for (const std::string& part : parts) file /= part;
  return file / name.revision;
}

}  // namespace

fs::path modelscope_snapshot(const std::string& repo, const std::string& revision) {
  return modelscope_cache() / "models" / replaced(repo, "/", "--") / "snapshots" / revision;
}

std::vector<fs::path> modelscope_folders(const std::string& repo, const std::string& revision) {
  std::vector<fs::path> folders{modelscope_snapshot(repo, revision.empty() ? "master" : revision)};
  if (!revision.empty()) return folders;
  const fs::path owner = fs::path(repo).parent_path();
  const std::string name = fs::path(repo).filename().string();
  for (const std::string& spelled : {replaced(name, ".", "___"), name}) {
    for (const char* parent : {"models", "hub/models", "hub", ""}) {
      folders.push_back(modelscope_cache() / parent / owner / spelled);
    }
  }
  return folders;
}

std::vector<StoredModel> modelscope_models() {
  std::vector<StoredModel> models;
  std::set<std::string> names;
  const auto add = [&](const std::string& repo, const std::string& revision, const fs::path& folder) {
    const auto name = parse_model_name("modelscope:" + repo + (revision.empty() ? "" : "@" + revision));
    if (name && names.insert(to_string(*name)).second) models.push_back({*name, folder});
  };
  for (const fs::path& repo : folders_of(modelscope_cache() / "models")) {
    const std::string folder = repo.filename().string();
    const std::size_t dashes = folder.find("--");
    if (dashes == folder.npos) continue;
    const std::string name = folder.substr(0, dashes) + "/" + folder.substr(dashes + 2);
    for (const fs::path& snapshot : folders_of(repo / "snapshots")) {
      const std::string revision = snapshot.filename().string();
      add(name, revision == "master" ? "" : revision, snapshot);
    }
  }
  for (const char* parent : {"models", "hub/models", "hub", ""}) {
    for (const fs::path& owner : folders_of(modelscope_cache() / parent)) {
      const std::string owner_name = owner.filename().string();
      if (owner_name == "models" || owner_name == "hub" || owner_name == "datasets") continue;
      for (const fs::path& folder : folders_of(owner)) {
        const bool has_model = fs::exists(folder / "config.json") || !gguf_models(files_of_folder(folder)).empty();
        if (!has_model || folder.filename() == "snapshots") continue;
        add(owner_name + "/" + replaced(folder.filename().string(), "___", "."), "", folder);
      }
    }
  }
  return models;
}

fs::path ollama_blob(const std::string& sha256) {
  return ollama_store() / "blobs" / ("sha256-" + sha256);
}

std::optional<fs::path> find_ollama_model(const ModelName& name) {
  const fs::path manifest = manifest_of(name);
  std::error_code error;
  if (!fs::is_regular_file(manifest, error)) return std::nullopt;
  const ByteSource file = ByteSource::open(manifest);
  const fs::path blob = ollama_blob(parse_ollama_manifest(file.read_all(kMaxManifestBytes), file.name()).sha256);
  if (!fs::is_regular_file(blob, error)) return std::nullopt;
  return blob;
}

std::vector<StoredModel> ollama_models() {
  std::vector<StoredModel> models;
  const fs::path root = ollama_store() / "manifests";
  for (const HubFile& file : files_of_folder(root)) {
    std::vector<std::string> parts = split(file.path);
    if (parts.size() < 2) continue;
    const std::string tag = parts.back();
    parts.pop_back();
    if (parts.size() > 1 && parts[0] == kOllamaHost) parts.erase(parts.begin());
    if (parts.size() > 1 && parts[0] == kOllamaNamespace) parts.erase(parts.begin());
    std::string text = "ollama:";
    for (std::size_t i = 0; i < parts.size(); ++i) text += (i == 0 ? "" : "/") + parts[i];
    const auto name = parse_model_name(text + ":" + tag);
    if (name && manifest_of(*name) == root / file.path) models.push_back({*name, root / file.path});
  }
  return models;
}

std::optional<fs::path> find_lm_studio_model(const ModelName& name) {
  for (const fs::path& root : lm_studio_folders()) {
    const fs::path path = root / name.repo;
    std::error_code error;
    if (fs::is_regular_file(path, error)) return path;
    if (!fs::is_directory(path, error)) continue;
    if (auto found = find_in_folder(path, "", to_string(name))) return found;
  }
  return std::nullopt;
}

std::vector<StoredModel> lm_studio_models() {
  std::vector<StoredModel> models;
  const auto add = [&](const fs::path& root, const std::string& path) {
    models.push_back({{ModelSource::lm_studio, path, "", ""}, root / path});
  };
  for (const fs::path& root : lm_studio_folders()) {
    const std::vector<HubFile> files = files_of_folder(root);
    for (const GgufFiles& model : gguf_models(files)) add(root, model.parts.front().path);
    for (const HubFile& file : files) {
      const fs::path path = file.path;
      if (path.filename() != "config.json" || path.parent_path().empty()) continue;
      const std::string folder = path.parent_path().generic_string() + "/";
      const bool has_weights = std::any_of(files.begin(), files.end(), [&](const HubFile& other) {
        return other.path.starts_with(folder) && other.path.ends_with(".safetensors");
      });
      if (has_weights) add(root, path.parent_path().generic_string());
    }
  }
  std::sort(models.begin(), models.end(),
            [](const StoredModel& a, const StoredModel& b) { return a.name.repo < b.name.repo; });
  return models;
}

std::optional<std::string> file_problem(const fs::path& path, const ExpectedHash& hash,
                                        const std::function<bool()>& go_on,
                                        const std::function<void(std::uint64_t)>& read) {
  if (hash.kind == HashKind::none) return std::nullopt;
  try {
    const ByteSource file = ByteSource::open(path);
    Digest digest(hash.kind, file.size());
    std::vector<std::byte> buffer(kReadBytes);
    for (std::uint64_t at = 0; at < file.size(); at += buffer.size()) {
      if (go_on && !go_on()) throw_error(ErrorCode::cancelled, "cancelled");
      const auto piece = std::span(buffer).first(std::min<std::uint64_t>(buffer.size(), file.size() - at));
      file.read(at, piece);
      digest.update(piece);
      if (read) read(piece.size());
    }
    const std::string found = digest.hex();
    if (found == hash.hex) return std::nullopt;
    return fmt::format("its hash is {}, not {}", found, hash.hex);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::cancelled || error.code() == ErrorCode::unsupported) throw;
    return error.what();
  }
}

}  // namespace sparkx
