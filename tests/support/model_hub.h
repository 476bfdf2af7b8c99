// A model hub inside the test, with the endpoints of Hugging Face and ModelScope that a fetch needs. Weights come from
// a second server, as from the hub's content delivery network: another host, to which no token may go.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "core/json.h"
#include "formats/hub/digest.h"
#include "support/http_server.h"

namespace sparkx::testing {

inline std::string hash_of(HashKind kind, std::string_view content) {
  Digest digest(kind, content.size());
  digest.update(std::as_bytes(std::span(content)));
  return digest.hex();
}

class ModelHub {
 public:
  using Files = std::map<std::string, std::string>;
  // May change what is answered to a request.
  using Change = std::function<void(const ServedRequest&, ServedReply&)>;

  static constexpr const char* kCommit = "0123456789abcdef0123456789abcdef01234567";

  explicit ModelHub(std::uint16_t port = 0)
      : cdn_([this](const ServedRequest& request) { return changed(request, cdn_reply(request), change_cdn); }),
        hub_([this](const ServedRequest& request) { return changed(request, hub_reply(request), change); }, port) {}

  std::string url() const { return hub_.url(); }
  const HttpServer& hub() const { return hub_; }
  const HttpServer& cdn() const { return cdn_; }

  // To be set before anything asks.
  std::map<std::string, Files> repos;  // "owner/name" → path → content
  std::string commit = kCommit;
  bool lists_hashes = true;  // as ?blobs=true has it; some mirrors do not
  bool files_from_cdn = true;
  std::string needs_token;                       // for everything but the CDN
  std::map<std::string, std::string> listed_as;  // another name in the listing
  Change change;
  Change change_cdn;

  static bool is_large(std::string_view path) { return path.ends_with(".safetensors") || path.ends_with(".gguf"); }

  static std::string tag_of(const std::string& path, const std::string& content) {
    return hash_of(is_large(path) ? HashKind::sha256 : HashKind::git_blob, content);
  }

 private:
  static ServedReply changed(const ServedRequest& request, ServedReply reply, const Change& change) {
    if (change) change(request, reply);
    return reply;
  }

  static ServedReply missing(const char* code) { return {404, {{"X-Error-Code", code}}, "not found"}; }

  static std::string decoded(std::string_view text) {
    std::string out;
    for (std::size_t i = 0; i < text.size(); ++i) {
      if (text[i] == '%' && i + 2 < text.size()) {
        out += static_cast<char>(std::stoi(std::string(text.substr(i + 1, 2)), nullptr, 16));
        i += 2;
      } else {
        out += text[i];
      }
    }
    return out;
  }

  // The value of a key in a query; empty without.
  static std::string query_value(std::string_view target, const std::string& key) {
    for (std::size_t at = target.find('?'); at != target.npos; at = target.find('&', at + 1)) {
      const std::string_view rest = target.substr(at + 1);
      if (rest.starts_with(key + "=")) {
        const std::string_view value = rest.substr(key.size() + 1);
        return decoded(value.substr(0, value.find('&')));
      }
    }
    return "";
  }

  static ServedReply content(const ServedRequest& request, const std::string& body) {
    const std::string range = request.header("range");
    constexpr std::string_view kUnit = "bytes=";
    if (!range.starts_with(kUnit)) return {200, {{"Accept-Ranges", "bytes"}}, body};
    const std::size_t from = std::stoull(range.substr(kUnit.size()));
    if (from >= body.size()) return {416, {{"Content-Range", "bytes */" + std::to_string(body.size())}}, ""};
    return {206,
            {{"Content-Range", "bytes " + std::to_string(from) + "-" + std::to_string(body.size() - 1) + "/" +
                                   std::to_string(body.size())}},
            body.substr(from)};
  }

  ServedReply cdn_reply(const ServedRequest& request) const {
    const std::string wanted = request.target.substr(request.target.rfind('/') + 1);
    for (const auto& [repo, files] : repos) {
      for (const auto& [path, body] : files) {
        if (tag_of(path, body) == wanted) return content(request, body);
      }
    }
    return missing("EntryNotFound");
  }

  ServedReply hub_reply(const ServedRequest& request) const {
    if (!needs_token.empty() && request.header("authorization") != "Bearer " + needs_token) {
      return {401, {{"X-Error-Code", "RepoNotFound"}}, "not for you"};
    }
    std::string path = request.target.substr(0, request.target.find('?'));
    if (path.starts_with("http://")) path = path.substr(path.find('/', 7));  // as to a proxy
    for (const auto& [repo, files] : repos) {
      const auto after = [&](const std::string& prefix) {
        return path.starts_with(prefix) ? std::optional(path.substr(prefix.size())) : std::nullopt;
      };
      if (const auto rest = after("/api/models/" + repo + "/revision/")) return listing(repo, files, *rest);
      if (after("/api/models/" + repo + "/tree/")) return tree(files);
      if (const auto rest = after("/" + repo + "/resolve/")) {
        const std::size_t slash = rest->find('/');
        return file(request, files, decoded(rest->substr(slash + 1)));
      }
      if (path == "/api/v1/models/" + repo + "/repo/files") return modelscope_listing(files);
      if (path == "/api/v1/models/" + repo + "/repo") {
        const auto found = files.find(query_value(request.target, "FilePath"));
        return found == files.end() ? missing("EntryNotFound") : content(request, found->second);
      }
    }
    return missing("RepoNotFound");
  }

  static ServedReply json_reply(const json::Value& value) {
    return {200, {{"Content-Type", "application/json"}}, json::print(value)};
  }

  std::string listed(const std::string& path) const {
    const auto found = listed_as.find(path);
    return found == listed_as.end() ? path : found->second;
  }

  ServedReply listing(const std::string& repo, const Files& files, const std::string& revision) const {
    if (revision != "main" && revision != commit) return missing("RevisionNotFound");
    json::Array siblings;
    for (const auto& [path, body] : files) {
      json::Object entry{{"rfilename", listed(path)}};
      if (lists_hashes) {
        entry.emplace_back("size", body.size());
        entry.emplace_back("blobId", hash_of(HashKind::git_blob, is_large(path) ? "pointer to " + path : body));
        if (is_large(path)) {
          entry.emplace_back("lfs",
                             json::Object{{"sha256", tag_of(path, body)}, {"size", body.size()}, {"pointerSize", 134}});
        }
      }
      siblings.emplace_back(std::move(entry));
    }
    return json_reply(json::Object{{"id", repo},
                                   {"modelId", repo},
                                   {"sha", commit},
                                   {"private", false},
                                   {"downloads", 0},
                                   {"likes", 0},
                                   {"tags", json::Array{}},
                                   {"siblings", siblings}});
  }

  static ServedReply tree(const Files& files) {
    json::Array entries;
    for (const auto& [path, body] : files) {
      json::Object entry{
          {"type", "file"}, {"path", path}, {"size", body.size()}, {"oid", hash_of(HashKind::git_blob, body)}};
      if (is_large(path)) {
        entry.emplace_back("lfs",
                           json::Object{{"oid", tag_of(path, body)}, {"size", body.size()}, {"pointerSize", 134}});
      }
      entries.emplace_back(std::move(entry));
    }
    return json_reply(entries);
  }

  ServedReply file(const ServedRequest& request, const Files& files, const std::string& path) const {
    const auto found = files.find(path);
    if (found == files.end()) return missing("EntryNotFound");
    const std::string tag = tag_of(path, found->second);
    ServedReply reply;
    if (is_large(path) && files_from_cdn) {
      reply = {302, {{"Location", cdn_.url() + "/blobs/" + tag}}, "Found"};
      reply.headers.emplace_back("X-Linked-Etag", '"' + tag + '"');
      reply.headers.emplace_back("X-Linked-Size", std::to_string(found->second.size()));
    } else {
      reply = content(request, found->second);
      reply.headers.emplace_back("ETag", '"' + tag + '"');
    }
    reply.headers.emplace_back("X-Repo-Commit", commit);
    return reply;
  }

  static ServedReply modelscope_listing(const Files& files) {
    json::Array entries{json::Object{{"Type", "tree"}, {"Path", "assets"}, {"Name", "assets"}, {"Size", 0}}};
    for (const auto& [path, body] : files) {
      entries.emplace_back(json::Object{{"Type", "blob"},
                                        {"Path", path},
                                        {"Name", path.substr(path.rfind('/') + 1)},
                                        {"Size", body.size()},
                                        {"Sha256", hash_of(HashKind::sha256, body)}});
    }
    return json_reply(json::Object{{"Code", 200}, {"Success", true}, {"Data", json::Object{{"Files", entries}}}});
  }

  HttpServer cdn_;
  HttpServer hub_;
};

}  // namespace sparkx::testing
