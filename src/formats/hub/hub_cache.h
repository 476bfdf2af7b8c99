// Models in folders of hubs: Hugging Face's cache, which Python uses too, and what is common to all.
//
//   models--OWNER--NAME/blobs/HASH              contents; HASH.incomplete is one that is still coming
//   models--OWNER--NAME/snapshots/COMMIT/PATH   relative links to them
//   models--OWNER--NAME/refs/REVISION           the commit that a branch or tag was at
//   .locks/models--OWNER--NAME/HASH.lock        held by whoever fetches that content
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "formats/hub/model_name.h"

namespace sparkx {

// The files of a folder, links followed, by their paths in it. Hidden ones and names that are not safe are left out. An
// unreadable or absent folder has none.
std::vector<HubFile> files_of_folder(const std::filesystem::path& folder);

// Whether every safetensors file is there that config.json and the index promise.
bool has_whole_safetensors_model(const std::filesystem::path& folder);

// What select_files finds in a folder, if all of it is there: the folder or a GGUF file.
std::optional<std::filesystem::path> find_in_folder(const std::filesystem::path& folder, const std::string& variant,
                                                    const std::string& what);

// A lock on a file that is there for nothing else, in the way of Python's filelock. It ends with the process.
class FileLock {
 public:
  // Waits, asking `go_on` (false: Error{cancelled}) and saying once through `note` that it does. Throws Error{io}.
  FileLock(const std::filesystem::path& file, const std::function<bool()>& go_on,
           const std::function<void(const std::string&)>& note);
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;
  ~FileLock();

 private:
  int descriptor_ = -1;
};

struct Snapshot {
  std::string commit;
  std::string revision;  // a branch or tag that is at this commit, "main" before others; else the commit
  std::filesystem::path folder;
};

// One repository in Hugging Face's cache.
class RepoCache {
 public:
  RepoCache(std::filesystem::path root, std::string repo);  // repo: "owner/name", or a name alone

  // Every repository of a model in a cache, by name.
  static std::vector<RepoCache> all(const std::filesystem::path& root);

  const std::string& repo() const { return repo_; }
  const std::filesystem::path& folder() const { return folder_; }
  std::filesystem::path locks() const;
  std::filesystem::path lock_file(const std::string& hash) const { return locks() / (hash + ".lock"); }
  std::filesystem::path blob(const std::string& hash) const { return folder_ / "blobs" / hash; }
  std::filesystem::path snapshot(const std::string& commit) const { return folder_ / "snapshots" / commit; }

  // Of a branch, a tag, or a commit itself; whether it is here as well is another question.
  std::optional<std::string> commit_of(const std::string& revision) const;
  void set_commit_of(const std::string& revision, const std::string& commit) const;  // throws Error{io}

  std::vector<Snapshot> snapshots() const;

  // The name of the blob that a file of a snapshot is a link to; absent when it is none.
  std::optional<std::string> blob_of(const std::filesystem::path& file) const;

  // Puts a file that is in blobs/ into a snapshot. Throws Error{io}.
  void link(const std::string& commit, const std::string& path, const std::string& hash) const;

  void make_folders() const;  // throws Error{io}
  // Those that a fetch made and left nothing in.
  void remove_empty_folders(const std::string& commit) const;

  // Files in refs/ with the commit each holds.
  std::vector<std::pair<std::filesystem::path, std::string>> refs() const;

 private:
  std::filesystem::path root_;
  std::string repo_;
  std::filesystem::path folder_;
};

}  // namespace sparkx
