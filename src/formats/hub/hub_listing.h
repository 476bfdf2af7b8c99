// What hubs answer when asked for the files of a repository: JSON, hostile as any file.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "formats/hub/model_name.h"

namespace sparkx {

struct HubListing {
  std::string commit;  // 40 hexadecimal digits; empty on ModelScope
  std::vector<HubFile> files;
};

// Of GET /api/models/OWNER/NAME/revision/REVISION?blobs=true. Files that no program should write under their name are
// left out; one that a model would need under such a name is an error. `host` stands in messages. Throws
// Error{corrupt}.
HubListing parse_hugging_face_listing(std::string_view json, const std::string& host);

// Of GET /api/v1/models/OWNER/NAME/repo/files?Revision=REVISION&Recursive=True. Throws Error{corrupt}, and
// Error{not_found} with the hub's own words when it says no.
HubListing parse_modelscope_listing(std::string_view json, const std::string& host);

// A manifest of Ollama's store: the blob that holds the model, as "sha256:" and its digits, and the size. Throws
// Error{corrupt}, and Error{unsupported} for one without a model in it.
struct OllamaModel {
  std::string sha256;
  std::uint64_t size;
};
OllamaModel parse_ollama_manifest(std::string_view json, const std::string& file);

}  // namespace sparkx
