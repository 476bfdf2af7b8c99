// The output while it is made: in a folder beside its place, under names that nobody takes for a model's, and moved to
// its place when all of it is on the disk. Killed at any moment, it leaves nothing that looks whole, and the next
// conversion to the same place clears that away.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sparkx {

// Where an output goes, with links followed.
struct OutputPlace {
  std::filesystem::path path;
  bool folder;   // else a file
  bool replace;  // what is there
};

// Throws Error{invalid_argument} when there is something at `output` that must not be replaced: anything without
// `replace`, with it whatever is neither empty nor a model of the same kind, and what holds one of the `sources` (files
// or folders) or lies in it;
// Error{io} where nothing can be written or fewer than `bytes` are free.
OutputPlace check_output(const std::filesystem::path& output, bool folder, bool replace,
                         std::span<const std::filesystem::path> sources, std::uint64_t bytes);

class Staging {
 public:
  // Makes the folder, and those it stands in. Throws Error{io}, as all of these do.
  explicit Staging(OutputPlace place);
  ~Staging();  // without commit(): removes everything
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  // A new file of that size, whose room on the disk is taken at once where the system can do that. Returns its number.
  std::size_t create(std::string_view name, std::uint64_t bytes);
  // From any number of threads.
  void write(std::size_t file, std::uint64_t offset, std::span<const std::byte> bytes) const;
  void add(std::string_view name, std::string_view text);

  // Makes everything durable and moves it to its place.
  void commit();

 private:
  struct File {
    std::filesystem::path path;  // its name in the end
    int descriptor;
  };
  void make_folder();
  void make_durable();
  void move_into_place();
  void remove_all() noexcept;

  OutputPlace place_;
  std::filesystem::path folder_;  // empty once there is none
  int lock_ = -1;                 // held while we live: a folder that nobody holds is a left-over
  std::vector<File> files_;
};

}  // namespace sparkx
