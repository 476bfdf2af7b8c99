// Where hubs and their caches are, as the environment variables of their own libraries say.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace sparkx {

std::filesystem::path hugging_face_cache();  // HF_HUB_CACHE, HUGGINGFACE_HUB_CACHE, HF_HOME, XDG_CACHE_HOME, HOME
std::filesystem::path modelscope_cache();    // MODELSCOPE_CACHE, HOME
std::filesystem::path ollama_store();        // OLLAMA_MODELS, HOME
std::vector<std::filesystem::path> lm_studio_folders();

std::string hugging_face_endpoint();  // HF_ENDPOINT
std::string modelscope_endpoint();    // MODELSCOPE_ENDPOINT, MODELSCOPE_DOMAIN

// HF_TOKEN, or what the file of HF_TOKEN_PATH holds, by default "token" in HF_HOME; empty when there is none or
// HF_HUB_DISABLE_IMPLICIT_TOKEN keeps it from being used.
std::string hugging_face_token();

}  // namespace sparkx
