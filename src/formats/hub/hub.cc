// include/sparkx/hub.hpp: fetching and finding. The rest is in local_models.cc.
#include "sparkx/hub.hpp"

#include <sys/statvfs.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <system_error>

#include "core/error.h"
#include "core/file.h"
#include "core/printable.h"
#include "formats/hub/download.h"
#include "formats/hub/hub_cache.h"
#include "formats/hub/hub_environment.h"
#include "formats/hub/hub_listing.h"
#include "formats/hub/model_name.h"
#include "formats/hub/stores.h"

namespace sparkx {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxListingBytes = 32 << 20;
constexpr std::uint64_t kMaxUnhashedBytes = 16 << 20;  // of a file that comes without a hash: text, no weights
constexpr std::uint64_t kSpareBytes = 16 << 20;        // on the disk, for folders and links
constexpr const char* kHuggingFaceBranch = "main";
constexpr const char* kModelScopeBranch = "master";

ModelName parsed(const std::string& name) {
  const std::optional<ModelName> result = parse_model_name(name);
  if (!result) {
    throw_error(ErrorCode::invalid_argument, "{} is not the name of a model, such as owner/name or owner/name:Q4_K_M",
                in_quotes(name));
  }
  return *result;
}

std::uint64_t free_bytes(fs::path folder) {
  std::error_code error;
  while (!fs::exists(folder, error) && folder.has_parent_path() && folder != folder.parent_path()) {
    folder = folder.parent_path();
  }
  struct statvfs status {};
  if (::statvfs(folder.c_str(), &status) != 0) return UINT64_MAX;  // writing will tell
  return static_cast<std::uint64_t>(status.f_bavail) * status.f_frsize;
}

std::string host_of(const std::string& endpoint) {
  const std::string origin = url_origin(endpoint);
  return origin.substr(origin.find("//") + 2);
}

std::uint64_t size_on_disk(const fs::path& file) {
  std::error_code error;
  const std::uint64_t size = fs::file_size(file, error);
  return error ? 0 : size;
}

// What the two hubs have in common: list, select, compare with what is here, ask, fetch.
class Puller {
 public:
  Puller(ModelName name, const FetchOptions& options, std::string endpoint, std::string token)
      : name_(std::move(name)), options_(options), endpoint_(std::move(endpoint)) {
    while (endpoint_.ends_with('/')) endpoint_.pop_back();
    host_ = host_of(endpoint_);
    go_on_ = [this] { return !options_.progress || options_.progress({current_, done_, total_}); };
    policy_ = {options_.attempts, options_.retry_delay, go_on_, options_.note};
    client_ = std::make_unique<HttpClient>(HttpOptions{.token_origin = url_origin(endpoint_),
                                                       .token = std::move(token),
                                                       .connect_timeout = options_.connect_timeout,
                                                       .stall_timeout = options_.stall_timeout,
                                                       .go_on = go_on_});
  }
  virtual ~Puller() = default;

  fs::path pull() {
    list();
    selection_ = select_files(listing_.files, name_.variant, options_.file_patterns, what());
    for (HubFile& file : selection_.files) complete_entry(file);
    FetchPlan plan{to_string(name_), host_, revision(), {}, 0, 0};
    bool anything = false;
    for (const HubFile& file : selection_.files) {
      plan.files.push_back(file.path);
      plan.bytes += *file.size;
      if (is_here(file)) continue;
      anything = true;
      plan.to_fetch += *file.size - std::min(*file.size, size_on_disk(partial(file)));
    }
    if (anything && options_.confirm && !options_.confirm(plan)) throw_error(ErrorCode::cancelled, "cancelled");
    const std::uint64_t room = free_bytes(cache());
    if (anything && plan.to_fetch > room - std::min(room, kSpareBytes)) {
      throw_error(ErrorCode::io, "{}: {} bytes are to be fetched, and there is room for {}", cache().string(),
                  plan.to_fetch, room);
    }
    total_ = plan.bytes;
    for (const HubFile& file : selection_.files) {
      current_ = file.path;
      const std::uint64_t before = done_;
      fetch(file);
      done_ = before + *file.size;
    }
    finish();
    return selection_.main.empty() ? folder() : folder() / selection_.main;
  }

 protected:
  virtual void list() = 0;                         // fills listing_
  virtual void complete_entry(HubFile& file) = 0;  // size, and a hash if there can be one
  virtual std::string revision() const = 0;
  virtual fs::path cache() const = 0;
  virtual fs::path folder() const = 0;  // of the model's files
  virtual fs::path partial(const HubFile& file) const = 0;
  virtual bool is_here(const HubFile& file) = 0;
  virtual void fetch(const HubFile& file) = 0;
  virtual void finish() = 0;

  std::string what() const { return fmt::format("{} on {}", to_string(name_), host_); }

  void download_to(const HubFile& file, const std::string& url, const fs::path& target) {
    const std::uint64_t before = done_;
    download(*client_,
             {fmt::format("{}: {}", to_string(name_), file.path), url, *file.size, file.hash, partial(file), target},
             policy_, [&](std::uint64_t have) { done_ = before + have; });
  }

  ModelName name_;
  const FetchOptions& options_;
  std::string endpoint_;
  std::string host_;
  RetryPolicy policy_;
  std::unique_ptr<HttpClient> client_;
  HubListing listing_;
  Selection selection_;
  std::function<bool()> go_on_;

 private:
  std::string current_;
  std::uint64_t done_ = 0;
  std::uint64_t total_ = 0;
};

class HuggingFacePuller : public Puller {
 public:
  HuggingFacePuller(const ModelName& name, const FetchOptions& options)
      : Puller(name, options, options.endpoint.empty() ? hugging_face_endpoint() : options.endpoint,
               hugging_face_token()),
        repo_(hugging_face_cache(), name.repo),
        branch_(name.revision.empty() ? kHuggingFaceBranch : name.revision) {}

 private:
  void list() override {
    const std::string url = fmt::format("{}/api/models/{}/revision/{}?blobs=true", endpoint_,
                                        url_encoded(name_.repo, true), url_encoded(branch_));
    listing_ = parse_hugging_face_listing(fetch_text(*client_, url, kMaxListingBytes, policy_, what()), host_);
  }

  std::string file_url(const HubFile& file) const {
    return fmt::format("{}/{}/resolve/{}/{}", endpoint_, url_encoded(name_.repo, true), listing_.commit,
                       url_encoded(file.path, true));
  }

  // Not every mirror lists sizes and hashes; the headers of a file have them.
  void complete_entry(HubFile& file) override {
    if (file.size && file.hash.kind != HashKind::none) return;
    HttpRequest request{.url = file_url(file), .head = true, .redirects = Redirects::same_origin};
    request.time_limit = std::chrono::seconds(60);
    const std::string what = fmt::format("{}: {}", to_string(name_), file.path);
    const HttpResponse response = perform_with_retries(*client_, request, policy_, what);
    if (const std::string* commit = response.header("x-repo-commit"); commit != nullptr && *commit != listing_.commit) {
      throw_error(ErrorCode::corrupt, "{}: the hub lists commit {} and gives files of {}", what, listing_.commit,
                  printable(*commit));
    }
    const std::string* tag = response.header("x-linked-etag");
    if (tag == nullptr) tag = response.header("etag");
    if (file.hash.kind == HashKind::none && tag != nullptr) {
      std::string_view hash = *tag;
      if (hash.starts_with("W/")) hash.remove_prefix(2);
      if (hash.size() >= 2 && hash.front() == '"' && hash.back() == '"') hash = hash.substr(1, hash.size() - 2);
      file.hash = hash_from_hex(hash);
    }
    if (!file.size) file.size = linked_size(response);
    if (file.hash.kind == HashKind::none) {
      throw_error(ErrorCode::corrupt, "{}: the hub gives no hash to check the file by", what);
    }
    if (!file.size) throw_error(ErrorCode::corrupt, "{}: the hub does not say how large the file is", what);
  }

  static std::optional<std::uint64_t> linked_size(const HttpResponse& response) {
    HttpResponse linked;
    if (const std::string* size = response.header("x-linked-size")) {
      linked.headers["content-length"] = *size;
      return linked.content_length();
    }
    if (response.status >= 300) return std::nullopt;
    return response.content_length();
  }

  std::string revision() const override { return listing_.commit; }
  fs::path cache() const override { return repo_.folder(); }
  fs::path folder() const override { return repo_.snapshot(listing_.commit); }
  fs::path partial(const HubFile& file) const override { return repo_.blob(file.hash.hex + ".incomplete"); }

  bool has_blob(const HubFile& file) const {
    std::error_code error;
    return fs::is_regular_file(repo_.blob(file.hash.hex), error) &&
           size_on_disk(repo_.blob(file.hash.hex)) == *file.size;
  }

  bool is_here(const HubFile& file) override { return has_blob(file); }

  void fetch(const HubFile& file) override {
    if (!has_blob(file)) {
      try {
        repo_.make_folders();
        const FileLock lock(repo_.lock_file(file.hash.hex), go_on_, options_.note);
        if (!has_blob(file)) download_to(file, file_url(file), repo_.blob(file.hash.hex));
      } catch (const Error&) {
        repo_.remove_empty_folders(listing_.commit);
        throw;
      }
    }
    repo_.link(listing_.commit, file.path, file.hash.hex);
  }

  // Only now: until everything is here, the revision is what it was.
  void finish() override { repo_.set_commit_of(branch_, listing_.commit); }

  RepoCache repo_;
  std::string branch_;
};

class ModelScopePuller : public Puller {
 public:
  ModelScopePuller(const ModelName& name, const FetchOptions& options)
      : Puller(name, options, options.endpoint.empty() ? modelscope_endpoint() : options.endpoint, ""),
        branch_(name.revision.empty() ? kModelScopeBranch : name.revision) {}

 private:
  std::string repo_url() const {
    return fmt::format("{}/api/v1/models/{}/repo", endpoint_, url_encoded(name_.repo, true));
  }

  void list() override {
    const std::string url = fmt::format("{}/files?Revision={}&Recursive=True", repo_url(), url_encoded(branch_));
    listing_ = parse_modelscope_listing(fetch_text(*client_, url, kMaxListingBytes, policy_, what()), host_);
  }

  void complete_entry(HubFile& file) override {
    if (file.size && (file.hash.kind != HashKind::none || *file.size <= kMaxUnhashedBytes)) return;
    throw_error(ErrorCode::corrupt, "{}: the hub gives no {} to check {} by", what(), file.size ? "hash" : "size",
                printable(file.path));
  }

  std::string revision() const override { return branch_; }
  fs::path cache() const override { return modelscope_cache(); }
  fs::path folder() const override { return modelscope_snapshot(name_.repo, branch_); }
  fs::path partial(const HubFile& file) const override { return folder() / (file.path + ".incomplete"); }

  // The revision is a branch, so a file of the right size may be an older one.
  bool is_here(const HubFile& file) override {
    if (here_.contains(file.path)) return true;
    const fs::path path = folder() / file.path;
    std::error_code error;
    if (!fs::is_regular_file(path, error) || size_on_disk(path) != *file.size) return false;
    if (file_problem(path, file.hash, go_on_).has_value()) return false;
    here_.insert(file.path);
    return true;
  }

  void fetch(const HubFile& file) override {
    if (here_.contains(file.path)) return;
    const fs::path target = folder() / file.path;
    std::error_code error;
    fs::create_directories(target.parent_path(), error);
    if (error) throw_error(ErrorCode::io, "{}: cannot be made: {}", target.parent_path().string(), error.message());
    const std::string url =
        fmt::format("{}?Revision={}&FilePath={}", repo_url(), url_encoded(branch_), url_encoded(file.path));
    const fs::path lock_path = target.string() + ".lock";
    const auto clean = [&] {
      fs::remove(lock_path, error);
      for (fs::path at = target.parent_path(); at != cache() && fs::remove(at, error); at = at.parent_path()) {
      }
    };
    try {
      const FileLock lock(lock_path, go_on_, options_.note);
      download_to(file, url, target);
    } catch (const Error&) {
      clean();
      throw;
    }
    clean();
  }

  void finish() override {}

  std::string branch_;
  std::set<std::string> here_;
};

}  // namespace

bool is_model_name(std::string_view name) {
  return parse_model_name(name).has_value();
}

std::optional<fs::path> find_model(const std::string& text) {
  const ModelName name = parsed(text);
  switch (name.source) {
    case ModelSource::hugging_face: {
      const RepoCache repo(hugging_face_cache(), name.repo);
      const auto commit = repo.commit_of(name.revision.empty() ? kHuggingFaceBranch : name.revision);
      if (!commit) return std::nullopt;
      return find_in_folder(repo.snapshot(*commit), name.variant, text);
    }
    case ModelSource::modelscope:
      for (const fs::path& folder : modelscope_folders(name.repo, name.revision)) {
        if (auto path = find_in_folder(folder, name.variant, text)) return path;
      }
      return std::nullopt;
    case ModelSource::ollama:
      return find_ollama_model(name);
    case ModelSource::lm_studio:
      return find_lm_studio_model(name);
  }
  return std::nullopt;
}

fs::path pull_model(const std::string& text, const FetchOptions& options) {
  const ModelName name = parsed(text);
  const bool has_hub = name.source == ModelSource::hugging_face || name.source == ModelSource::modelscope;
  if (!has_hub || options.offline || is_offline()) {
    if (auto path = find_model(text)) return *path;
    if (!has_hub) throw_error(ErrorCode::not_found, "{}: that program has no such model on this machine", text);
    throw_error(ErrorCode::unavailable, "{}: is not on this machine, and fetching is off (--offline, HF_HUB_OFFLINE)",
                text);
  }
  if (name.source == ModelSource::modelscope) return ModelScopePuller(name, options).pull();
  return HuggingFacePuller(name, options).pull();
}

}  // namespace sparkx
