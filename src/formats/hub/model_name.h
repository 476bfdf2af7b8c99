// The names of models (include/sparkx/hub.hpp), and of the files that hubs list: which are safe to use as paths, which
// a model needs, which of several GGUF files is meant.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "formats/hub/digest.h"

namespace sparkx {

enum class ModelSource { hugging_face, modelscope, ollama, lm_studio };

struct ModelName {
  ModelSource source = ModelSource::hugging_face;
  std::string repo;  // "owner/name" of a hub; "library/qwen3" or "host/…" of Ollama; a path inside LM Studio's folder
  std::string revision;  // of a hub, may be empty; a tag of Ollama
  std::string variant;   // "Q4_K_M", or a file's name or path; empty when none is given
};

// Absent for what is no model's name.
std::optional<ModelName> parse_model_name(std::string_view text);
std::string to_string(const ModelName& name);

// A path that stays inside a folder, whoever wrote it: relative, without "..", empty or hidden parts, backslashes,
// colons, control characters and the names of Windows' devices; UTF-8 of bounded length.
bool is_safe_path(std::string_view path);

// A file as a hub lists it.
struct HubFile {
  std::string path;
  std::optional<std::uint64_t> size;
  ExpectedHash hash;
};

// What to take of a repository's files.
struct Selection {
  std::vector<HubFile> files;
  std::string main;  // the file to be run, a GGUF file's first part; empty: the folder
};

// With patterns (* and ? as in a shell, for the path or its last part): every file that matches and is of a kind that a
// model needs. With a variant: the GGUF file of that quantization, name or path, with all of its parts. Otherwise the
// safetensors files at the top with what belongs to them, or else the only GGUF file. `what` names the repository in
// messages. Throws Error{not_found}, and Error{invalid_argument} when several are meant, both with a list of what there
// is.
Selection select_files(std::span<const HubFile> files, const std::string& variant,
                       std::span<const std::string> patterns, const std::string& what);

// The GGUF models among files: each with its parts in order.
struct GgufFiles {
  std::string stem;  // the path without number of the part and ".gguf"
  std::vector<HubFile> parts;
  std::size_t parts_wanted = 1;
  bool complete() const { return parts.size() == parts_wanted; }
};
std::vector<GgufFiles> gguf_models(std::span<const HubFile> files);

// By which select_files finds one of them: its quantization where that is enough, else the name of its first file, else
// the path.
std::string variant_of(const GgufFiles& model, std::span<const GgufFiles> all);

}  // namespace sparkx
