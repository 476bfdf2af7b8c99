#include "formats/hub/hub_listing.h"

#include <algorithm>
#include <set>

#include "core/error.h"
#include "core/json.h"
#include "core/printable.h"

namespace sparkx {
namespace {

constexpr std::size_t kMaxListingBytes = 32 << 20;
constexpr std::size_t kMaxFiles = 100'000;
constexpr std::size_t kMaxDepth = 16;
constexpr std::int64_t kMaxFileBytes = std::int64_t{1} << 50;

json::Value parse(std::string_view text, const std::string& what, const char* hint) {
  try {
    return json::parse(text, what, {.max_depth = kMaxDepth, .max_bytes = kMaxListingBytes});
  } catch (const Error& error) {
    throw_error(ErrorCode::corrupt, "{}{}", error.what(), hint);
  }
}

json::Value parse_answer(std::string_view text, const std::string& host) {
  return parse(text, host, ": this is not what a model hub answers (see --endpoint and the proxy settings)");
}

const std::string* text_member(const json::Value& object, std::string_view key) {
  const json::Value* value = object.find(key);
  return value != nullptr && value->is_string() ? &value->as_string() : nullptr;
}

std::optional<std::uint64_t> size_member(const json::Value& object, std::string_view key, const std::string& what) {
  const json::Value* value = object.find(key);
  if (value == nullptr || value->is_null()) return std::nullopt;
  std::int64_t size = -1;
  if (value->is_integer()) {
    try {
      size = value->as_int64();
    } catch (const Error&) {
      size = -1;  // more digits than there are bytes anywhere
    }
  }
  if (size < 0 || size > kMaxFileBytes) throw_error(ErrorCode::corrupt, "{}: gives a file no possible size", what);
  return static_cast<std::uint64_t>(size);
}

// Whether a model could need a file that is called so, were the name a safe one.
bool is_tempting(std::string_view path) {
  return path.ends_with(".safetensors") || path.ends_with(".gguf") || path.ends_with(".json") ||
         path.ends_with(".jinja");
}

// Nothing is wrong with it but a dot at the begin of a part, as in ".github/x.json": not a model's, and no harm.
bool is_hidden(std::string_view path) {
  std::string shown;
  for (std::size_t i = 0; i < path.size(); ++i) {
    if (path[i] == '.' && (i == 0 || path[i - 1] == '/')) shown += '_';
    shown += path[i];
  }
  return is_safe_path(shown);
}

class FileList {
 public:
  explicit FileList(const std::string& host) : host_(host) {}

  void add(HubFile file) {
    if (!is_safe_path(file.path)) {
      if (is_tempting(file.path) && !is_hidden(file.path)) {
        throw_error(ErrorCode::corrupt, "{}: lists a file called {}, a name that is not safe to write", host_,
                    in_quotes(file.path));
      }
      return;
    }
    if (files_.size() == kMaxFiles) throw_error(ErrorCode::corrupt, "{}: lists more than {} files", host_, kMaxFiles);
    if (!names_.insert(file.path).second) {
      throw_error(ErrorCode::corrupt, "{}: lists {} twice", host_, printable(file.path));
    }
    files_.push_back(std::move(file));
  }

  std::vector<HubFile> take() { return std::move(files_); }

 private:
  const std::string& host_;
  std::vector<HubFile> files_;
  std::set<std::string> names_;
};

}  // namespace

HubListing parse_hugging_face_listing(std::string_view text, const std::string& host) {
  const json::Value root = parse_answer(text, host);
  const std::string* commit = text_member(root, "sha");
  if (commit == nullptr || hash_from_hex(*commit).kind != HashKind::git_blob) {
    throw_error(ErrorCode::corrupt, "{}: does not say which commit it lists", host);
  }
  const json::Value* siblings = root.find("siblings");
  if (siblings == nullptr || !siblings->is_array()) throw_error(ErrorCode::corrupt, "{}: lists no files", host);
  FileList files(host);
  for (const json::Value& entry : siblings->as_array()) {
    const std::string* path = text_member(entry, "rfilename");
    if (path == nullptr) throw_error(ErrorCode::corrupt, "{}: lists a file without a name", host);
    HubFile file{*path, size_member(entry, "size", host), {}};
    // A file in large-file storage has the hash of its content there; its blobId is that of a pointer.
    if (const json::Value* lfs = entry.find("lfs"); lfs != nullptr && lfs->is_object()) {
      if (const std::string* sha256 = text_member(*lfs, "sha256")) file.hash = hash_from_hex(*sha256);
      if (file.hash.kind != HashKind::sha256) file.hash = {};
      if (const auto size = size_member(*lfs, "size", host)) file.size = size;
    } else if (const std::string* blob = text_member(entry, "blobId")) {
      file.hash = hash_from_hex(*blob);
    }
    files.add(std::move(file));
  }
  return {hash_from_hex(*commit).hex, files.take()};
}

HubListing parse_modelscope_listing(std::string_view text, const std::string& host) {
  const json::Value root = parse_answer(text, host);
  const json::Value* data = root.find("Data");
  const json::Value* entries = data == nullptr ? nullptr : data->find("Files");
  if (entries == nullptr || !entries->is_array()) {
    if (const std::string* message = text_member(root, "Message")) {
      throw_error(ErrorCode::not_found, "{} says: {}", host, in_quotes(*message, 300));
    }
    throw_error(ErrorCode::corrupt, "{}: lists no files", host);
  }
  FileList files(host);
  for (const json::Value& entry : entries->as_array()) {
    if (const std::string* type = text_member(entry, "Type"); type != nullptr && *type == "tree") continue;
    const std::string* path = text_member(entry, "Path");
    if (path == nullptr) throw_error(ErrorCode::corrupt, "{}: lists a file without a name", host);
    HubFile file{*path, size_member(entry, "Size", host), {}};
    if (const std::string* sha256 = text_member(entry, "Sha256")) file.hash = hash_from_hex(*sha256);
    if (file.hash.kind != HashKind::sha256) file.hash = {};
    files.add(std::move(file));
  }
  return {"", files.take()};
}

OllamaModel parse_ollama_manifest(std::string_view text, const std::string& file) {
  constexpr std::string_view kModel = "application/vnd.ollama.image.model";
  const json::Value root = parse(text, file, "");
  const json::Value* layers = root.find("layers");
  if (layers == nullptr || !layers->is_array()) throw_error(ErrorCode::corrupt, "{}: has no layers", file);
  for (const json::Value& layer : layers->as_array()) {
    const std::string* type = text_member(layer, "mediaType");
    if (type == nullptr || *type != kModel) continue;
    const std::string* digest = text_member(layer, "digest");
    constexpr std::string_view kPrefix = "sha256:";
    const ExpectedHash hash = digest != nullptr && digest->starts_with(kPrefix)
                                  ? hash_from_hex(std::string_view(*digest).substr(kPrefix.size()))
                                  : ExpectedHash{};
    const std::optional<std::uint64_t> size = size_member(layer, "size", file);
    if (hash.kind != HashKind::sha256 || !size) throw_error(ErrorCode::corrupt, "{}: names no model", file);
    return {hash.hex, *size};
  }
  throw_error(ErrorCode::unsupported, "{}: has no model of its own", file);
}

}  // namespace sparkx
