#include "core/file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <string>

#include "support/errors.h"
#include "support/temp_dir.h"

namespace sparkx {
namespace {

using testing::error_of;
using testing::read_file;
using testing::TempDir;

std::string read(const ByteSource& source, std::uint64_t offset, std::size_t size) {
  std::string out(size, '?');
  source.read(offset, std::as_writable_bytes(std::span(out)));
  return out;
}

TEST(ByteSource, ReadsAtAnyPositionFromFilesAndMemory) {
  const TempDir dir;
  const std::string content = "0123456789";
  std::vector<ByteSource> sources;
  sources.push_back(ByteSource::open(dir.write("digits", content)));
  sources.push_back(ByteSource::memory("digits", std::as_bytes(std::span(content))));
  for (const ByteSource& source : sources) {
    EXPECT_EQ(source.size(), 10u);
    EXPECT_EQ(read(source, 0, 10), "0123456789");
    EXPECT_EQ(read(source, 3, 4), "3456");
    EXPECT_EQ(read(source, 10, 0), "");
    EXPECT_EQ(source.read_all(10), content);
    EXPECT_EQ(error_of([&] { read(source, 7, 4); }),
              "corrupt: " + source.name() + ": 4 bytes wanted at byte 7, the file has 10");
    EXPECT_EQ(error_of([&] { read(source, 11, 0); }),
              "corrupt: " + source.name() + ": 0 bytes wanted at byte 11, the file has 10");
    EXPECT_EQ(error_of([&] { read(source, ~std::uint64_t{0}, 2); }),
              "corrupt: " + source.name() + ": 2 bytes wanted at byte 18446744073709551615, the file has 10");
    EXPECT_EQ(error_of([&] { source.read_all(9); }),
              "corrupt: " + source.name() + ": 10 bytes, more than the limit of 9");
  }
}

TEST(ByteSource, WhatIsNoFileIsRefused) {
  const TempDir dir;
  ASSERT_EQ(mkfifo((dir / "fifo").c_str(), 0600), 0);
  const std::string base = dir.path().string();
  EXPECT_EQ(error_of([&] { ByteSource::open(dir / "absent"); }),
            "not_found: " + base + "/absent: cannot be opened: No such file or directory");
  EXPECT_EQ(error_of([&] { ByteSource::open(dir.path()); }), "io: " + base + ": is a folder, not a file");
  EXPECT_EQ(error_of([&] { ByteSource::open(dir / "fifo"); }), "io: " + base + "/fifo: is a pipe, not a file");
  EXPECT_EQ(error_of([&] { ByteSource::open("/dev/zero"); }), "io: /dev/zero: is a device, not a file");
  dir.write("file", "x");
  EXPECT_EQ(error_of([&] { ByteSource::open(dir / "file/below"); }),
            "not_found: " + base + "/file/below: cannot be opened: Not a directory");
}

TEST(ByteSource, AFileThatShrinksIsAnErrorNotACrash) {
  const TempDir dir;
  const auto path = dir.write("file", std::string(100'000, 'x'));
  const ByteSource source = ByteSource::open(path);
  ASSERT_EQ(truncate(path.c_str(), 50'000), 0);
  EXPECT_EQ(read(source, 0, 50'000), std::string(50'000, 'x'));
  EXPECT_EQ(error_of([&] { read(source, 40'000, 20'000); }),
            "io: " + path.string() + ": has become shorter than 100000 bytes while it was read");
}

TEST(ByteSource, MovesKeepTheFileOpenOnce) {
  const TempDir dir;
  ByteSource a = ByteSource::open(dir.write("a", "aaa"));
  ByteSource b = std::move(a);
  ByteSource c = ByteSource::open(dir.write("c", "ccc"));
  c = std::move(b);
  EXPECT_EQ(read(c, 0, 3), "aaa");
}

TEST(AtomicFile, AppearsWholeOrNotAtAll) {
  const TempDir dir;
  const auto path = dir.write("out", "old");
  {
    AtomicFile file(path);
    file.write("half");
    EXPECT_EQ(read_file(path), "old");
  }
  EXPECT_EQ(read_file(path), "old");
  {
    AtomicFile file(path);
    file.write("new ");
    file.write("content");
    file.commit();
  }
  EXPECT_EQ(read_file(path), "new content");
  int files = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(dir.path())) ++files;
  EXPECT_EQ(files, 1) << "a temporary file was left";
}

TEST(AtomicFile, WritesTheFileBehindALink) {
  namespace fs = std::filesystem;
  const TempDir dir;
  const auto target = dir.write("folder/target", "old");
  fs::create_symlink("folder/target", dir / "middle");
  fs::create_symlink(dir / "middle", dir / "link");
  fs::create_symlink("folder/new", dir / "dangling");
  fs::create_symlink("loop", dir / "loop");
  const auto write = [](const fs::path& path) {
    AtomicFile file(path);
    file.write("new");
    file.commit();
  };
  write(dir / "link");
  EXPECT_EQ(read_file(target), "new");
  write(dir / "dangling");
  EXPECT_EQ(read_file(dir / "folder/new"), "new");
  for (const char* link : {"link", "middle", "dangling"}) EXPECT_TRUE(fs::is_symlink(dir / link)) << link;
  EXPECT_EQ(error_of([&] { write(dir / "loop"); }),
            "io: " + (dir / "loop").string() + ": cannot be written: Too many levels of symbolic links");
}

// /dev/stdout, when standard output is a file, leads to it through such a link.
TEST(AtomicFile, RefusesAFileThatHasNoNameAnyMore) {
  const TempDir dir;
  const auto path = dir.write("file", "");
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  ASSERT_GE(descriptor, 0);
  const std::string link = "/proc/self/fd/" + std::to_string(descriptor);
  if (!std::filesystem::exists(link)) GTEST_SKIP() << "there is no /proc";
  std::filesystem::remove(path);
  EXPECT_EQ(error_of([&] { AtomicFile{link}; }),
            "io: " + link + ": leads to a file without a name, which cannot be replaced");
  ::close(descriptor);
}

TEST(AtomicFile, ErrorsNameThePath) {
  const TempDir dir;
  const std::string base = dir.path().string();
  EXPECT_EQ(error_of([&] { AtomicFile(dir / "absent/out"); }),
            "io: " + base + "/absent/out: cannot be written: No such file or directory");
  EXPECT_EQ(error_of([&] { AtomicFile(dir.path()); }),
            "io: " + base + ": is a folder, it cannot be replaced by a file");
  EXPECT_EQ(error_of([&] { AtomicFile("/dev/null"); }), "io: /dev/null: is a device, it cannot be replaced by a file");
}

}  // namespace
}  // namespace sparkx
