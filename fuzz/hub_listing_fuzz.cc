// formats/hub: what hubs answer and Ollama's manifests. Every path of a listing that is accepted stays inside its
// folder, whatever is then selected of it, and the name that a list
// would give a GGUF model finds all of its parts, unless other folders have it too.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "expect.h"
#include "formats/hub/hub_listing.h"
#include "formats/hub/model_name.h"

namespace {

using namespace sparkx;
using fuzz::require;
using fuzz::run;

constexpr std::initializer_list<ErrorCode> kRefusals = {ErrorCode::corrupt, ErrorCode::unsupported,
                                                        ErrorCode::not_found, ErrorCode::invalid_argument};

bool stays_inside(std::string_view path) {
  if (path.empty() || path.front() == '/' || path.find('\\') != path.npos || path.find('\0') != path.npos) return false;
  return path != ".." && !path.starts_with("../") && path.find("/../") == path.npos && !path.ends_with("/..");
}

void use(const HubListing& listing) {
  for (const HubFile& file : listing.files) require(stays_inside(file.path));
  const std::vector<std::string> everything{"*"};
  run(kRefusals, [&] { select_files(listing.files, "", {}, "fuzz"); });
  run(kRefusals, [&] {
    for (const HubFile& file : select_files(listing.files, "", everything, "fuzz").files) {
      require(!file.path.ends_with(".py") && !file.path.ends_with(".bin") && !file.path.ends_with(".pt"));
    }
  });
  const std::vector<GgufFiles> models = gguf_models(listing.files);
  for (const GgufFiles& model : models) {
    const std::string variant = variant_of(model, models);
    if (!model.complete()) continue;
    run(kRefusals, [&] {
      const Selection found = select_files(listing.files, variant, {}, "fuzz");
      require(found.files.size() == model.parts.size());
    });
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  run(kRefusals, [&] { use(parse_hugging_face_listing(text, "fuzz")); });
  run(kRefusals, [&] { use(parse_modelscope_listing(text, "fuzz")); });
  run(kRefusals, [&] { require(parse_ollama_manifest(text, "fuzz").sha256.size() == 64); });
  if (const auto name = parse_model_name(text)) {
    require(name->repo.empty() || stays_inside(name->repo));
    require(name->revision.empty() || stays_inside(name->revision));
    require(parse_model_name(to_string(*name)).has_value());
  }
  return 0;
}
