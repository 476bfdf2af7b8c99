// Where ModelScope's library, LM Studio and Ollama keep models, and whether a file has its hash.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "formats/hub/digest.h"
#include "formats/hub/model_name.h"

namespace sparkx {

// models/OWNER--NAME/snapshots/REVISION in ModelScope's cache.
std::filesystem::path modelscope_snapshot(const std::string& repo, const std::string& revision);

// Folders where a repository may be, newest layout first; those of older libraries know no revisions.
std::vector<std::filesystem::path> modelscope_folders(const std::string& repo, const std::string& revision);

// Absent when there is no such model, or its content is not there. Throws what parse_ollama_manifest does.
std::optional<std::filesystem::path> find_ollama_model(const ModelName& name);
std::filesystem::path ollama_blob(const std::string& sha256);

// A folder with a model, or a GGUF file.
std::optional<std::filesystem::path> find_lm_studio_model(const ModelName& name);

// A model that is listed under another name than the one its hub would take.
struct StoredModel {
  ModelName name;
  std::filesystem::path file;  // for Ollama the manifest, else the folder or GGUF file
};
std::vector<StoredModel> ollama_models();
std::vector<StoredModel> lm_studio_models();
std::vector<StoredModel> modelscope_models();  // a folder each, whatever is in it

// What is wrong with a file, absent when it has the hash (or none is expected). `go_on` false: Error{cancelled}.
std::optional<std::string> file_problem(const std::filesystem::path& file, const ExpectedHash& hash,
                                        const std::function<bool()>& go_on,
                                        const std::function<void(std::uint64_t bytes)>& read = {});

}  // namespace sparkx
