// Models from the hubs, and those that this machine has already: fetching, finding, listing, removing, verifying.
//
//   std::filesystem::path model = sparkx::pull_model("XHToken/Spark-X2.5-1.7B");
//
// A model's name is
//   OWNER/NAME[@REVISION][:QUANTIZATION]              on Hugging Face, in the cache shared with Python (also "hf:…")
//   modelscope:OWNER/NAME[@REVISION][:QUANTIZATION]   on ModelScope, in the cache shared with its library
//   ollama:NAME[:TAG], lmstudio:FOLDER/…              what those programs keep on this machine
// QUANTIZATION chooses among GGUF files as "Q4_K_M" or by a whole file name, whatever the case. Environment variables
// are those of the hubs' own libraries (docs/fetching.md).
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sparkx/error.hpp"

namespace sparkx {

// What a fetch would take from a hub.
struct FetchPlan {
  std::string name;      // the model's, in full: "owner/name@main:Q4_K_M"
  std::string host;      // "huggingface.co"
  std::string revision;  // of the files: a commit, or what ModelScope was asked for
  std::vector<std::string> files;
  std::uint64_t bytes;     // of all files
  std::uint64_t to_fetch;  // of those bytes, the ones that are not here yet
};

struct FetchProgress {
  std::string_view file;  // the one that is coming
  std::uint64_t done;     // of the plan's bytes, whatever was here before included
  std::uint64_t total;
};

struct FetchOptions {
  std::vector<std::string> file_patterns;  // such as "*Q4_K_M*": fetch these instead of a whole model
  std::string endpoint;                    // "https://huggingface.co"; empty: as the environment says
  bool offline = false;                    // as HF_HUB_OFFLINE has it: use nothing but what is here

  std::function<bool(const FetchPlan&)> confirm;       // called when there is something to fetch; false cancels
  std::function<bool(const FetchProgress&)> progress;  // also while nothing comes in; false cancels
  std::function<void(const std::string&)> note;        // that something has to be waited for or tried again

  std::chrono::milliseconds connect_timeout{15'000};
  std::chrono::milliseconds stall_timeout{30'000};  // of a connection on which nothing comes in
  std::chrono::milliseconds retry_delay{1'000};     // before the second try; doubles, with jitter
  int attempts = 5;                                 // that fail one after another without getting further
};

// HF_HUB_OFFLINE or TRANSFORMERS_OFFLINE is 1, on, yes or true.
bool is_offline();

// Whether a text has the form of a model's name.
bool is_model_name(std::string_view name);

// The model's folder or GGUF file on this machine, absent unless all of it is here. Asks no hub. Throws
// Error{invalid_argument} for what is no name, or names several files.
std::optional<std::filesystem::path> find_model(const std::string& name);

// Makes sure that this machine has the model as the hub has it now, and gives its folder or GGUF file; with file
// patterns, the only file or the folder of all. What an earlier call had to leave is continued; no file gets its name
// before size and hash are right. A token is taken from HF_TOKEN or the file that `hf auth login` writes.
//
// Throws Error{invalid_argument} for what is no name, or names several files; Error{not_found} for a repository,
// revision or file that is not there, or not for this user; Error{unavailable} when offline; Error{network};
// Error{corrupt} when the hub's answer contradicts itself, of which then nothing stays; Error{io}, also when the disk
// has too little room; Error{cancelled}.
std::filesystem::path pull_model(const std::string& name, const FetchOptions& options = {});

struct LocalModel {
  std::string name;            // what find_model takes
  std::string source;          // "huggingface", "modelscope", "lmstudio", "ollama"
  std::filesystem::path path;  // folder or GGUF file
  std::string format;          // "safetensors", "GGUF"; empty when it is neither
  std::uint64_t bytes;         // of its files
  bool runnable;               // by sparkx
  std::string reason;          // if not: why
};

// The models that Hugging Face's and ModelScope's libraries, LM Studio and Ollama keep where they usually do, in this
// order, each by name.
std::vector<LocalModel> list_models();

// What remove_model would take away.
struct RemovalPlan {
  std::string name;
  std::vector<std::filesystem::path> paths;  // files, links and folders, those inside before those around
  std::uint64_t bytes;                       // that become free
};

// A model, a revision or (OWNER/NAME alone) all of a repository in the cache of Hugging Face; files that another
// revision shares stay. Throws Error{not_found}, and Error{unsupported} for the models of other programs.
RemovalPlan plan_removal(const std::string& name);
void remove_model(const RemovalPlan& plan);  // throws Error{io}

struct Verification {
  std::string name;            // of the repository
  std::filesystem::path file;  // with the name that the hub gave it
  bool intact;                 // has the hash by which it is kept
  std::string problem;         // if not
};

// Computes the hashes of files in the caches of Hugging Face and Ollama, of one repository or (empty) of all, and gives
// each result at once. ModelScope and LM Studio keep no hashes. `progress` is told bytes; false cancels. Throws
// Error{not_found} for a name without such files, Error{cancelled}.
void verify_models(const std::string& name, const std::function<void(const Verification&)>& result,
                   const std::function<bool(std::uint64_t done, std::uint64_t total)>& progress = {});

}  // namespace sparkx
