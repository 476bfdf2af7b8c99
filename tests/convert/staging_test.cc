#include "convert/staging.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <set>

#include "support/errors.h"
#include "support/failing_calls.h"
#include "support/temp_dir.h"

namespace sparkx {
namespace {

namespace fs = std::filesystem;
using testing::error_of;
using testing::read_file;
using testing::TempDir;

std::set<std::string> names_in(const fs::path& folder) {
  std::set<std::string> names;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder)) {
    names.insert(fs::relative(entry.path(), folder).string());
  }
  return names;
}

// The error of checking an output, without the folder's own name.
std::string refusal(const TempDir& dir, const fs::path& output, bool folder, bool replace,
                    const std::vector<fs::path>& sources = {}, std::uint64_t bytes = 1) {
  std::string message = error_of([&] { check_output(output, folder, replace, sources, bytes); });
  const std::string root = dir.path().string() + "/";
  for (std::size_t at; (at = message.find(root)) != std::string::npos;) message.erase(at, root.size());
  return message;
}

TEST(CheckOutput, WhatExistsIsRefusedWithoutReplace) {
  const TempDir dir;
  dir.write("model/config.json", "{}");
  dir.write("file.gguf", "GGUF");
  EXPECT_EQ(refusal(dir, dir / "new", true, false), "no error");
  EXPECT_EQ(refusal(dir, dir / "model", true, false), "invalid_argument: model: exists already; --force replaces it");
  EXPECT_EQ(refusal(dir, dir / "model/", true, false), "invalid_argument: model: exists already; --force replaces it");
  EXPECT_EQ(refusal(dir, dir / "file.gguf", false, false),
            "invalid_argument: file.gguf: exists already; --force replaces it");
  EXPECT_EQ(refusal(dir, dir / "model", true, true), "no error");
  EXPECT_EQ(refusal(dir, dir / "file.gguf", false, true), "no error");
}

TEST(CheckOutput, OnlyAModelIsReplaced) {
  const TempDir dir;
  dir.write("thesis/chapter.tex", "years of work");
  dir.write("file", "");
  fs::create_directory(dir / "empty");
  fs::create_directory_symlink(dir / "nowhere", dir / "dangling");
  EXPECT_EQ(refusal(dir, dir / "thesis", true, true),
            "invalid_argument: thesis: is no folder of a model (there is no config.json), and is not replaced");
  EXPECT_EQ(refusal(dir, dir / "file", true, true),
            "invalid_argument: file: is no folder of a model (there is no config.json), and is not replaced");
  EXPECT_EQ(refusal(dir, dir / "thesis", false, true),
            "invalid_argument: thesis: is no file, and is not replaced by one");
  EXPECT_EQ(refusal(dir, dir / "empty", true, true), "no error");
  EXPECT_NE(refusal(dir, dir / "dangling", true, true), "no error");
  EXPECT_EQ(refusal(dir, "", true, true), "invalid_argument: the output has no name");
}

TEST(CheckOutput, TheSourceIsNeverReplaced) {
  const TempDir dir;
  const fs::path weights = dir.write("models/a/model.safetensors", "");
  dir.write("models/a/config.json", "{}");
  dir.write("models/config.json", "{}");
  fs::create_directory_symlink(dir / "models/a", dir / "link");
  const std::vector<fs::path> sources = {dir / "models/a", weights};
  for (const fs::path& output : {dir / "models/a", dir / "link", dir / "models", dir / "models/a/../a"}) {
    EXPECT_EQ(error_of([&] { check_output(output, true, true, sources, 1); }),
              "invalid_argument: " + output.string() + ": is what the model is read from");
  }
  EXPECT_EQ(refusal(dir, dir / "models/a/inside", true, false, sources),
            "invalid_argument: models/a/inside: lies inside the folder that the model is read from");
  EXPECT_EQ(refusal(dir, dir / "link/inside", true, false, sources),
            "invalid_argument: link/inside: lies inside the folder that the model is read from");
  EXPECT_EQ(refusal(dir, dir / "models/a/inside.gguf", false, false, sources), "no error");
  EXPECT_EQ(refusal(dir, weights, false, true, sources),
            "invalid_argument: models/a/model.safetensors: is what the model is read from");
  EXPECT_EQ(refusal(dir, dir / "models/b", true, false, sources), "no error");
}

TEST(CheckOutput, TooLittleRoomIsSaidBefore) {
  const TempDir dir;
  const std::string message = refusal(dir, dir / "new", true, false, {}, std::uint64_t{1} << 60);
  EXPECT_TRUE(message.starts_with("io: new: needs 1073741824.0 GiB, but only ")) << message;
  EXPECT_TRUE(message.ends_with(" are free there")) << message;
}

TEST(CheckOutput, APlaceThatCannotBeWrittenIsSaidBefore) {
  const TempDir dir;
  dir.write("file", "");
  EXPECT_TRUE(refusal(dir, dir / "file/below", true, false).starts_with("io: "));
  EXPECT_TRUE(refusal(dir, "/proc/sparkx/new", true, false).starts_with("io: /proc/sparkx/new: ") ||
              geteuid() == 0);  // root may do everything
}

TEST(Staging, NothingIsAtThePlaceBeforeCommit) {
  const TempDir dir;
  {
    Staging staging(check_output(dir / "deep/er/out", true, false, {}, 1));
    const std::size_t file = staging.create("model.safetensors", 8);
    staging.write(file, 4, std::as_bytes(std::span("wxyz", 4)));
    staging.write(file, 0, std::as_bytes(std::span("stuv", 4)));
    staging.add("config.json", "{}");
    staging.add("folder/text", "text");
    EXPECT_FALSE(fs::exists(dir / "deep/er/out"));
    for (const std::string& name : names_in(dir.path())) {
      EXPECT_EQ(name.find("config.json") != std::string::npos, name.ends_with("config.json.part")) << name;
      EXPECT_EQ(name.find("model") != std::string::npos, name.ends_with("model.safetensors.part")) << name;
    }
    staging.commit();
  }
  EXPECT_EQ(names_in(dir / "deep/er"), (std::set<std::string>{"out", "out/model.safetensors", "out/config.json",
                                                              "out/folder", "out/folder/text"}));
  EXPECT_EQ(read_file(dir / "deep/er/out/model.safetensors"), "stuvwxyz");
}

TEST(Staging, WithoutCommitNothingIsLeft) {
  const TempDir dir;
  dir.write("out/config.json", "old");
  {
    Staging staging(check_output(dir / "out", true, true, {}, 1));
    staging.add("config.json", "new");
  }
  EXPECT_EQ(names_in(dir.path()), (std::set<std::string>{"out", "out/config.json"}));
  EXPECT_EQ(read_file(dir / "out/config.json"), "old");
}

TEST(Staging, AFolderIsReplacedAsAWhole) {
  const TempDir dir;
  dir.write("out/config.json", "old");
  dir.write("out/tokenizer.json", "old");
  Staging staging(check_output(dir / "out", true, true, {}, 1));
  staging.add("config.json", "new");
  staging.commit();
  EXPECT_EQ(names_in(dir.path()), (std::set<std::string>{"out", "out/config.json"}));
  EXPECT_EQ(read_file(dir / "out/config.json"), "new");
}

#ifdef __linux__
TEST(Staging, AFolderIsReplacedWhereNamesCannotBeExchangedAtOnce) {
  const TempDir dir;
  dir.write("out/config.json", "old");
  dir.write("out/tokenizer.json", "old");
  constexpr int kFlags = 4;  // of renameat2; 0 are those of rename
  for (const std::uint32_t error : {EINVAL, ENOSYS, EOPNOTSUPP}) {
    const bool filtered = testing::with_failing_call({SYS_renameat2, kFlags, 1, error}, [&] {
      for (const char* name : {"out", "other"}) {
        Staging staging(check_output(dir / name, true, true, {}, 1));
        staging.add("config.json", "new");
        EXPECT_EQ(error_of([&] { staging.commit(); }), "no error") << error;
      }
    });
    if (!filtered) GTEST_SKIP() << "this system has no seccomp filters";
    EXPECT_EQ(names_in(dir.path()), (std::set<std::string>{"out", "out/config.json", "other", "other/config.json"}));
    EXPECT_EQ(read_file(dir / "out/config.json"), "new");
    fs::remove_all(dir / "other");
  }
}
#endif

TEST(Staging, OneFileComesWithoutAFolder) {
  const TempDir dir;
  for (const char* text : {"first", "second"}) {
    Staging staging(check_output(dir / "out.gguf", false, true, {}, 1));
    staging.write(staging.create("out.gguf", std::string_view(text).size()), 0,
                  std::as_bytes(std::span(text, std::string_view(text).size())));
    staging.commit();
    EXPECT_EQ(names_in(dir.path()), (std::set<std::string>{"out.gguf"}));
    EXPECT_EQ(read_file(dir / "out.gguf"), text);
  }
}

TEST(Staging, WhatAppearedMeanwhileIsNotReplaced) {
  const TempDir dir;
  Staging staging(check_output(dir / "out", true, false, {}, 1));
  staging.add("config.json", "ours");
  dir.write("out/config.json", "theirs");
  EXPECT_TRUE(error_of([&] { staging.commit(); }).starts_with("io: "));
  EXPECT_EQ(read_file(dir / "out/config.json"), "theirs");
}

TEST(Staging, LeftOversOfTheKilledGoAndOthersStay) {
  const TempDir dir;
  dir.write("out.part-1-0/model.safetensors.part", "left over");
  dir.write("out.part-2-0/model.safetensors.part", "being written");
  dir.write("out.part-x/mine", "something else");
  dir.write("other.part-1-0/model.safetensors.part", "of another output");
  const int held = open((dir / "out.part-2-0").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  ASSERT_EQ(flock(held, LOCK_EX | LOCK_NB), 0);
  {
    Staging staging(check_output(dir / "out", true, false, {}, 1));
    EXPECT_FALSE(fs::exists(dir / "out.part-1-0"));
  }
  close(held);
  for (const char* name : {"out.part-2-0", "out.part-x", "other.part-1-0"}) EXPECT_TRUE(fs::exists(dir / name)) << name;
}

TEST(Staging, ALimitOnTheSizeOfFilesIsAnErrorBeforeTheWork) {
  const TempDir dir;
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{1 << 20, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  std::string message;
  {
    Staging staging(check_output(dir / "out", true, false, {}, 1));
    message = error_of([&] { staging.create("model.safetensors", 2 << 20); });
  }
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_TRUE(message.starts_with("io: ")) << message;
  EXPECT_NE(message.find("cannot be written: File too large"), std::string::npos) << message;
  EXPECT_EQ(names_in(dir.path()), std::set<std::string>());
}

}  // namespace
}  // namespace sparkx
