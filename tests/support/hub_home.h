// Environment variables of the hubs' libraries, all pointing into one folder, as they were again afterwards. A test
// must never find the models of whoever runs it, nor ask a real hub.
#pragma once

#include <stdlib.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "support/temp_dir.h"

namespace sparkx::testing {

class HubHome {
 public:
  explicit HubHome(const std::string& endpoint) {
    for (const auto& [name, value] : environment(endpoint)) set(name, value);
  }
  HubHome(const HubHome&) = delete;
  HubHome& operator=(const HubHome&) = delete;
  ~HubHome() {
    for (const auto& [name, value] : before_) {
      if (value) {
        ::setenv(name.c_str(), value->c_str(), 1);
      } else {
        ::unsetenv(name.c_str());
      }
    }
  }

  // For another process; an empty value counts as absent.
  std::vector<std::pair<std::string, std::string>> environment(const std::string& endpoint) const {
    std::vector<std::pair<std::string, std::string>> variables{{"HOME", folder_.path().string()},
                                                               {"HF_HOME", (folder_ / "hf").string()},
                                                               {"MODELSCOPE_CACHE", (folder_ / "ms").string()},
                                                               {"OLLAMA_MODELS", (folder_ / "ollama").string()},
                                                               {"HF_ENDPOINT", endpoint},
                                                               {"MODELSCOPE_ENDPOINT", endpoint},
                                                               {"no_proxy", "127.0.0.1"}};
    for (const char* name : {"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_TOKEN", "HUGGING_FACE_HUB_TOKEN",
                             "HF_TOKEN_PATH", "HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_HUB_DISABLE_IMPLICIT_TOKEN",
                             "http_proxy", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY", "NO_PROXY"}) {
      variables.emplace_back(name, "");
    }
    return variables;
  }

  void set(const std::string& name, const std::string& value) {
    const char* before = std::getenv(name.c_str());
    before_.try_emplace(name, before == nullptr ? std::nullopt : std::optional<std::string>(before));
    ::setenv(name.c_str(), value.c_str(), 1);
  }

  const TempDir& folder() const { return folder_; }
  std::filesystem::path hugging_face() const { return folder_ / "hf/hub"; }
  std::filesystem::path modelscope() const { return folder_ / "ms"; }

  // What is in a folder but its locks: paths, a link with what it leads to.
  static std::vector<std::string> files_in(const std::filesystem::path& folder) {
    std::vector<std::string> files;
    if (!std::filesystem::exists(folder)) return files;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
      const std::string path = entry.path().lexically_relative(folder).string();
      if (path.starts_with(".locks")) continue;
      if (entry.is_symlink()) {
        files.push_back(path + " -> " + std::filesystem::read_symlink(entry.path()).string());
      } else if (!entry.is_directory() || std::filesystem::is_empty(entry.path())) {
        files.push_back(path);
      }
    }
    std::sort(files.begin(), files.end());
    return files;
  }

 private:
  TempDir folder_;
  std::map<std::string, std::optional<std::string>> before_;
};

}  // namespace sparkx::testing
