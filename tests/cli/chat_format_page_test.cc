// docs/chat-format.md promises that its examples run as they stand: so they are run, in order, in one empty folder.
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "cli/sparkx_program.h"
#include "support/temp_dir.h"

namespace sparkx::testing {
namespace {

struct Example {
  std::string commands;
  std::string output;  // as the page shows it; empty: it shows none
};

// Every ```sh block, with the block without a language behind it.
std::vector<Example> examples_of(const std::string& page) {
  std::ifstream in(page);
  std::vector<Example> examples;
  std::string* block = nullptr;
  for (std::string line; std::getline(in, line);) {
    if (block != nullptr && line == "```") {
      block = nullptr;
    } else if (block != nullptr) {
      *block += line + "\n";
    } else if (line == "```sh") {
      block = &examples.emplace_back().commands;
    } else if (line == "```" && !examples.empty()) {
      block = &examples.back().output;
    }
  }
  return examples;
}

TEST(ChatFormatPage, ItsExamplesRunAndPrintWhatItShows) {
  const TempDir folder;
  const std::string prepare = "set -eu; cd '" + folder.path().string() + "'; PATH=" SPARKX_BINARY_DIR ":$PATH\n";
  const std::vector<Example> examples = examples_of(SPARKX_SOURCE_DIR "/docs/chat-format.md");
  ASSERT_GE(examples.size(), 6u);
  std::size_t shown = 0;
  for (const Example& example : examples) {
    const ProcessResult run = run_process({"/bin/sh", "-c", prepare + example.commands});
    EXPECT_EQ(run.status, 0) << example.commands << run.err;
    EXPECT_FALSE(run.out.empty()) << example.commands;
    if (example.output.empty()) continue;
    ++shown;
    // A prompt ends without a line break, a block of the page with one.
    EXPECT_EQ(run.out + (run.out.ends_with('\n') ? "" : "\n"), example.output) << example.commands;
  }
  EXPECT_GE(shown, 4u);
}

}  // namespace
}  // namespace sparkx::testing
