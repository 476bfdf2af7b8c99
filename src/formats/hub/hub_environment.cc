#include "formats/hub/hub_environment.h"

#include <pwd.h>
#include <unistd.h>

#include <cstdlib>
#include <optional>
#include <string_view>

#include "core/error.h"
#include "core/file.h"
#include "sparkx/hub.hpp"

namespace sparkx {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMaxTokenBytes = 4096;

// An empty variable counts as absent.
std::optional<std::string> variable(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr || *value == '\0') return std::nullopt;
  return value;
}

fs::path home() {
  if (const auto folder = variable("HOME")) return *folder;
  const passwd* user = ::getpwuid(::getuid());
  return user != nullptr && user->pw_dir != nullptr ? user->pw_dir : "/";
}

std::optional<fs::path> folder_variable(const char* name) {
  const std::optional<std::string> value = variable(name);
  if (!value) return std::nullopt;
  if (*value == "~") return home();
  if (value->starts_with("~/")) return home() / value->substr(2);
  return *value;
}

fs::path hugging_face_home() {
  if (const auto folder = folder_variable("HF_HOME")) return *folder;
  return folder_variable("XDG_CACHE_HOME").value_or(home() / ".cache") / "huggingface";
}

bool is_true(const char* name) {
  std::string value = variable(name).value_or("");
  for (char& c : value) {
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  }
  return value == "1" || value == "ON" || value == "YES" || value == "TRUE";
}

std::string without_blanks(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r\n";
  const std::size_t begin = text.find_first_not_of(kBlanks);
  if (begin == text.npos) return "";
  return std::string(text.substr(begin, text.find_last_not_of(kBlanks) - begin + 1));
}

std::string without_last_slashes(std::string text) {
  while (text.ends_with('/')) text.pop_back();
  return text;
}

}  // namespace

fs::path hugging_face_cache() {
  for (const char* name : {"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"}) {
    if (const auto folder = folder_variable(name)) return *folder;
  }
  return hugging_face_home() / "hub";
}

fs::path modelscope_cache() {
  return folder_variable("MODELSCOPE_CACHE").value_or(home() / ".cache" / "modelscope");
}

fs::path ollama_store() {
  return folder_variable("OLLAMA_MODELS").value_or(home() / ".ollama" / "models");
}

std::vector<fs::path> lm_studio_folders() {
  return {home() / ".lmstudio" / "models", home() / ".cache" / "lm-studio" / "models"};
}

std::string hugging_face_endpoint() {
  return without_last_slashes(variable("HF_ENDPOINT").value_or("https://huggingface.co"));
}

std::string modelscope_endpoint() {
  std::optional<std::string> endpoint = variable("MODELSCOPE_ENDPOINT");
  if (!endpoint) endpoint = variable("MODELSCOPE_DOMAIN");
  const std::string domain = without_last_slashes(endpoint.value_or("www.modelscope.cn"));
  return domain.find("://") == domain.npos ? "https://" + domain : domain;
}

std::string hugging_face_token() {
  if (is_true("HF_HUB_DISABLE_IMPLICIT_TOKEN")) return "";
  for (const char* name : {"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"}) {
    if (std::string token = without_blanks(variable(name).value_or("")); !token.empty()) return token;
  }
  const fs::path file = folder_variable("HF_TOKEN_PATH").value_or(hugging_face_home() / "token");
  try {
    return without_blanks(ByteSource::open(file).read_all(kMaxTokenBytes));
  } catch (const Error& error) {
    if (error.code() == ErrorCode::not_found) return "";
    throw;
  }
}

bool is_offline() {
  return is_true(variable("HF_HUB_OFFLINE") ? "HF_HUB_OFFLINE" : "TRANSFORMERS_OFFLINE");
}

}  // namespace sparkx
