#include <gtest/gtest.h>

#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include "cli/sparkx_program.h"
#include "core/version.h"
#include "support/temp_dir.h"
#include "support/text.h"

namespace sparkx::testing {
namespace {

TEST(CommandLine, VersionSaysWhatIsInTheBinary) {
  const ProcessResult r = sparkx({"--version"});
  EXPECT_EQ(r.status, 0);
  EXPECT_EQ(r.err, "");
  EXPECT_TRUE(r.out.starts_with(std::string("sparkx ") + version().version + " (commit ")) << r.out;
  EXPECT_TRUE(contains(r.out, version().compiler)) << r.out;
  EXPECT_TRUE(r.out.ends_with(")\n")) << r.out;
}

TEST(CommandLine, VersionSaysTheInstructionSetInUse) {
  const ProcessResult r = sparkx({"--version"}, {.environment = {{"SPARKX_ISA", "reference"}}});
  EXPECT_TRUE(r.out.ends_with(", reference)\n")) << r.out;
  const ProcessResult unknown = sparkx({"--version"}, {.environment = {{"SPARKX_ISA", "abacus"}}});
  EXPECT_EQ(unknown.status, 1);
  EXPECT_TRUE(unknown.err.starts_with("sparkx: error: ")) << unknown.err;
  EXPECT_TRUE(contains(unknown.err, "abacus")) << unknown.err;
}

TEST(CommandLine, HelpGoesToStandardOutputAndHasExamples) {
  for (const std::vector<std::string>& arguments : std::vector<std::vector<std::string>>{{"--help"},
                                                                                         {"generate", "--help"},
                                                                                         {"logits", "-h"},
                                                                                         {"tokenize", "--help"},
                                                                                         {"render", "--help"},
                                                                                         {"parse", "--help"},
                                                                                         {"bench", "--help"},
                                                                                         {"perplexity", "--help"},
                                                                                         {"inspect", "--help"},
                                                                                         {"compare", "--help"},
                                                                                         {"convert", "--help"},
                                                                                         {"pull", "--help"},
                                                                                         {"models", "--help"},
                                                                                         {"completion", "--help"}}) {
    const ProcessResult r = sparkx(arguments);
    EXPECT_EQ(r.status, 0);
    EXPECT_EQ(r.err, "");
    EXPECT_TRUE(contains(r.out, "Examples:")) << r.out;
  }
}

struct UsageCase {
  const char* name;
  std::vector<std::string> arguments;
  std::string says;
};

class Usage : public ::testing::TestWithParam<UsageCase> {};

TEST_P(Usage, ErrorsExitWithTwoAndSayWhatIsWrong) {
  const ProcessResult r = sparkx(GetParam().arguments);
  EXPECT_EQ(r.status, 2);
  EXPECT_EQ(r.out, "");
  EXPECT_TRUE(r.err.starts_with("sparkx: error: ")) << r.err;
  EXPECT_TRUE(contains(r.err, GetParam().says)) << r.err;
}

INSTANTIATE_TEST_SUITE_P(
    CommandLine, Usage,
    ::testing::Values(
        UsageCase{"NoCommand", {}, "there is no command"},
        UsageCase{"UnknownCommand", {"genrate"}, "unknown command \"genrate\"; did you mean generate?"},
        UsageCase{
            "UnknownOption", {"generate", "-p", "x", "--tmep", "1"}, "unknown option --tmep; did you mean --temp?"},
        UsageCase{"UnknownOptionWithValue", {"generate", "-p", "x", "--topp=1"}, "did you mean --top-p?"},
        UsageCase{"OptionAsAnotherProgramCallsIt",
                  {"generate", "-p", "x", "--ctx-size", "9"},
                  "unknown option --ctx-size; did you mean --ctx?"},
        UsageCase{"OptionAsAnotherProgramCallsItWhereThereIsNone",
                  {"logits", "--tokens", "1", "-o", "x", "--n-predict", "9"},
                  "unknown option --n-predict\n"},
        UsageCase{
            "PromptWithoutOption", {"generate", "hi"}, "unknown argument \"hi\"; the prompt is given with -p TEXT\n"},
        UsageCase{"PromptWithoutQuotes",
                  {"generate", "-p", "two", "words"},
                  "unknown argument \"words\"; a prompt of several words is one argument, in quotes\n"},
        UsageCase{"NothingAlike", {"generate", "-p", "x", "--quux"}, "unknown option --quux\n"},
        UsageCase{"MissingValue", {"generate", "-p"}, "--prompt needs a value\n"},
        UsageCase{
            "OptionTwice", {"generate", "-p", "x", "-n", "1", "-n", "2"}, "--max-tokens is given more than once\n"},
        UsageCase{"PromptTwice", {"generate", "-p", "x", "-f", "y"}, "-p or with -f"},
        UsageCase{"RawWithSystemPrompt", {"generate", "-p", "x", "--raw", "--system-prompt", "y"}, "--raw"},
        UsageCase{"RawWithKwargs", {"generate", "-p", "x", "--raw", "--kwargs", "{}"}, "--raw"},
        UsageCase{"RenderWithoutMessages", {"render"}, "--messages"},
        UsageCase{"LogprobsWithoutJson", {"generate", "-p", "x", "--logprobs", "2"}, "--json"},
        UsageCase{"EmptyStop", {"generate", "-p", "x", "--stop", ""}, "--stop: the text is empty\n"},
        UsageCase{"BiasWithoutId", {"generate", "-p", "x", "--logit-bias", "5"}, "ID=BIAS"},
        UsageCase{"UnknownDtype", {"generate", "-p", "x", "--dtype", "int3"}, "--dtype: \"int3\" is not one of auto, "},
        UsageCase{"UnknownQuantization", {"generate", "-p", "x", "--quantize", "7bit"}, "--quantize"},
        UsageCase{"UnknownGroup", {"generate", "-p", "x", "--quantize", "4bit", "--group-size", "48"}, "--group-size"},
        UsageCase{"GroupWithoutQuantization", {"generate", "-p", "x", "--group-size", "32"}, "--quantize"},
        UsageCase{"HeadWithoutQuantization", {"generate", "-p", "x", "--no-head-quantize"}, "--quantize"},
        UsageCase{"UnknownActivations", {"generate", "-p", "x", "--activations", "int4"}, "--activations"},
        UsageCase{"UnknownDevice", {"generate", "-p", "x", "--device", "gpu"}, "--device: \"gpu\" is not cpu\n"},
        UsageCase{"CpusThatAreNoList", {"generate", "-p", "x", "--cpu-affinity", "0,x"}, "--cpu-affinity"},
        UsageCase{"CpusBackwards", {"generate", "-p", "x", "--cpu-affinity", "3-1"}, "\"3-1\" is no list of CPUs"},
        UsageCase{"NegativeCpu", {"generate", "-p", "x", "--cpu-affinity", "-1"}, "--cpu-affinity"},
        UsageCase{"TooManyCpus", {"generate", "-p", "x", "--cpu-affinity", "0-1024"}, "--cpu-affinity"},
        UsageCase{"LogitsWithoutTokens", {"logits", "-o", "x"}, "--tokens"},
        UsageCase{"LogitsWithoutOutput", {"logits", "--tokens", "1"}, "--output"},
        UsageCase{"TwoTexts", {"tokenize", "two", "words"}, "in quotes"},
        UsageCase{"DecodePieces", {"tokenize", "--decode", "--pieces", "1"}, "--decode"},
        UsageCase{"UnknownShell", {"completion", "tcsh"}, "tcsh"}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(CommandLine, NumbersArePlainDecimalAndFinite) {
  struct Case {
    std::string option;
    std::string expected;
    std::vector<std::string> wrong;
  };
  const std::vector<std::string> no_whole = {"",      "x",
                                             "0x40",  "1e3",
                                             "1.0",   "+1",
                                             " 1",    "1 ",
                                             "1,0",   "9223372036854775808",
                                             "1_000", "0b1",
                                             "１",    "99999999999999999999"};
  const std::vector<std::string> no_number = {"", "x", "nan", "inf", "-inf", "1e39", "0x1p3", "1,5", " 1", "1f"};
  const std::vector<Case> cases = {
      {"--max-tokens", "a whole number of -1 or more", {"-2"}},
      {"--top-k", "a whole number of -1 or more", {"-2"}},
      {"--repetition-window", "a whole number of 0 or more", {"-1"}},
      {"--logprobs", "a whole number of 0 or more", {"-1"}},
      {"--ctx", "a whole number of 1 or more", {"0", "-1"}},
      {"--threads", "a whole number from 1 to 2147483647", {"0", "2147483648"}},
      {"--seed", "a whole number from 0 to 2^64 - 1", {"-1", "18446744073709551616"}},
      {"--temp", "a number of 0 or more", {"-1", "-0.1"}},
      {"--top-p", "a number from 0 to 1", {"2", "1.5", "-0.1"}},
      {"--min-p", "a number from 0 to 1", {"1.01"}},
      {"--repetition-penalty", "a number above 0", {"0", "-1"}},
      {"--presence-penalty", "a number", {}},
      {"--frequency-penalty", "a number", {}},
  };
  for (const Case& c : cases) {
    std::vector<std::string> wrong = c.wrong;
    const auto& more = c.expected.starts_with("a whole") ? no_whole : no_number;
    wrong.insert(wrong.end(), more.begin(), more.end());
    for (const std::string& value : wrong) {
      if (c.option == "--seed" && value == "9223372036854775808") continue;  // is one
      const ProcessResult r = sparkx({"generate", "-p", "x", "--json", c.option, value});
      EXPECT_EQ(r.status, 2) << c.option << " " << value;
      EXPECT_TRUE(r.err.starts_with("sparkx: error: " + c.option + ": \"" + value + "\" is not " + c.expected + "\n"))
          << r.err;
    }
  }
  for (const std::string value : {"0x10", "-1", "1,x"}) {
    const ProcessResult r = sparkx({"bench", "--batch", value});
    EXPECT_EQ(r.status, 2) << value;
    EXPECT_TRUE(contains(r.err, "--batch: \"" + value.substr(value.find(',') + 1) + "\" is not a whole number of 1 or"))
        << r.err;
  }
  for (const std::string value : {"0", "0x1", "-1"}) {
    const ProcessResult r = sparkx({"logits", "--tokens", "1", "-o", "x", "--chunk", value});
    EXPECT_EQ(r.status, 2) << value;
    EXPECT_TRUE(contains(r.err, "--chunk: \"" + value + "\" is not a whole number of 1 or more")) << r.err;
  }
  for (const std::string value : {"5", "5=", "x=1", "-1=1", "2147483648=1", "0x5=1", "5=nan", "5=inf", "5=1e39"}) {
    const ProcessResult r = sparkx({"generate", "-p", "x", "--logit-bias", value});
    EXPECT_EQ(r.status, 2) << value;
    EXPECT_TRUE(contains(r.err, "--logit-bias: \"" + value + "\" is not of the form ID=BIAS")) << r.err;
  }
}

struct FailureCase {
  const char* name;
  std::vector<std::string> arguments;
  std::string says;
};

class Failure : public ::testing::TestWithParam<FailureCase> {};

TEST_P(Failure, ExitsWithOneAndNamesWhatFailed) {
  const ProcessResult r = sparkx(GetParam().arguments);
  EXPECT_EQ(r.status, 1);
  EXPECT_EQ(r.out, "");
  EXPECT_TRUE(contains(r.err, "sparkx: error: ")) << r.err;
  EXPECT_TRUE(contains(r.err, GetParam().says)) << r.err;
}

INSTANTIATE_TEST_SUITE_P(
    CommandLine, Failure,
    ::testing::Values(
        FailureCase{"NoModel", {"generate", "-m", "/no/such/model", "-p", "x"}, "/no/such/model"},
        FailureCase{"NoPromptFile", {"generate", "-f", "/no/such/prompt"}, "/no/such/prompt: No such file"},
        FailureCase{"PromptFileIsAFolder", {"generate", "-f", "/"}, "cannot read /"},
        FailureCase{"PromptFileWithoutEnd", {"generate", "-f", "/dev/zero"}, "/dev/zero: more than 256 MiB"},
        FailureCase{"EmptyRawPrompt", {"generate", "--raw", "-p", ""}, "the prompt has no tokens"},
        FailureCase{"PromptLongerThanTheContext", {"generate", "--ctx", "4", "-p", "more than four tokens"}, "context"},
        FailureCase{"BiasOutsideTheVocabulary", {"generate", "-p", "x", "--logit-bias", "99999999=1"}, "99999999"},
        FailureCase{"NoSuchCpu", {"generate", "-p", "x", "--cpu-affinity", "0,65000"}, "CPU 65000"},
        FailureCase{"NoTokenFile", {"logits", "--tokens", "/no/such/tokens", "-o", "/dev/null"}, "/no/such/tokens"},
        FailureCase{"NoTokens", {"logits", "--tokens", "", "-o", "/dev/null"}, "no tokens"},
        FailureCase{
            "OutputInNoFolder", {"logits", "--tokens", "1", "-o", "/no/such/x"}, "/no/such/x: cannot be written"},
        FailureCase{"OutputWhereNothingMayBeWritten",
                    {"logits", "--tokens", "1", "-o", "/proc/x.safetensors"},
                    "/proc/x.safetensors: cannot be written"},
        FailureCase{"TokenOutsideTheVocabulary", {"logits", "--tokens", "99999999", "-o", "x.safetensors"}, "99999999"},
        FailureCase{"DecodeOutsideTheVocabulary", {"tokenize", "--decode", "99999999"}, "99999999"},
        FailureCase{"DecodeOfAWord", {"tokenize", "--decode", "1 x2 3"}, "\"x2\" is not a token id"}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(CommandLine, OutputThatCannotBeWrittenIsAnError) {
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP() << "there is no /dev/full";
  const ProcessResult r =
      run_process({"/bin/sh", "-c", "exec \"$0\" tokenize abc > /dev/full", SPARKX_BINARY_DIR "/sparkx"});
  EXPECT_EQ(r.status, 1);
  EXPECT_TRUE(contains(r.err, "standard output")) << r.err;
}

// The status alone, with the redirections of a shell.
int status_with(const std::string& command, const std::string& redirections) {
  return run_process({"/bin/sh", "-c", "exec \"$0\" " + command + " " + redirections, SPARKX_BINARY_DIR "/sparkx"})
      .status;
}

TEST(CommandLine, AStandardErrorThatTakesNothingChangesNothing) {
  for (const std::string closed : {"2>&-", "2>/dev/full"}) {
    if (closed == "2>/dev/full" && !std::filesystem::exists("/dev/full")) continue;
    const ProcessResult r =
        run_process({"/bin/sh", "-c", "exec \"$0\" tokenize abc " + closed, SPARKX_BINARY_DIR "/sparkx"});
    EXPECT_EQ(r.status, 0) << closed;
    EXPECT_EQ(r.out, sparkx({"tokenize", "abc"}).out) << closed;
    EXPECT_EQ(status_with("generate -p x -n 2 --verbose", closed), 0) << closed;
    EXPECT_EQ(status_with("generate --bad", closed), 2) << closed;
    EXPECT_EQ(status_with("generate -p x -m /no/such/model", closed), 1) << closed;
  }
  EXPECT_EQ(status_with("tokenize abc", ">&- 2>&-"), 1);
}

TEST(CommandLine, AClosedStandardErrorIsNotTheOutputFile) {
  const TempDir dir;
  const std::string open = dir.path() / "open.safetensors";
  const std::string closed = dir.path() / "closed.safetensors";
  ASSERT_EQ(sparkx({"logits", "--tokens", "1,2", "-o", open}).status, 0);
  EXPECT_EQ(status_with("logits --tokens 1,2 --verbose -o " + closed, "<&- >&- 2>&-"), 0);
  EXPECT_EQ(read_file(closed), read_file(open));
}

TEST(CommandLine, AFileThatMayNotGrowIsAnErrorAndLeavesNothing) {
  const TempDir dir;
  const ProcessResult r = run_process({"/bin/sh", "-c", "ulimit -f 1 && exec \"$0\" logits --tokens 1,2 -o \"$1\"",
                                       SPARKX_BINARY_DIR "/sparkx", dir / "out.safetensors"});
  EXPECT_EQ(r.status, 1);
  EXPECT_TRUE(contains(r.err, "out.safetensors: cannot be written: File too large")) << r.err;
  EXPECT_TRUE(std::filesystem::is_empty(dir.path()));
}

TEST(CommandLine, TooLittleMemoryIsSaidToBeThat) {
  // Under the sanitizers: GCC's macros, clang's features.
#if defined(__has_feature)
#define SPARKX_HAS_FEATURE(name) __has_feature(name)
#else
#define SPARKX_HAS_FEATURE(name) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || SPARKX_HAS_FEATURE(address_sanitizer)
  GTEST_SKIP() << "sanitizers need terabytes of address space";
#endif
  int refusals = 0;
  for (int kilobytes = 30000; kilobytes <= 80000; kilobytes += 5000) {
    const auto run = [&](const std::string& arguments) {
      return run_process({"/bin/sh", "-c", "ulimit -v " + std::to_string(kilobytes) + " && exec \"$0\" " + arguments,
                          SPARKX_BINARY_DIR "/sparkx"});
    };
    if (run("--version").status != 0) continue;  // not even its libraries fit
    const ProcessResult r = run("generate -p x -n 2 --threads 1");
    if (r.status == 0) continue;
    ++refusals;
    EXPECT_EQ(r.status, 1) << kilobytes << ": " << r.err;
    EXPECT_TRUE(contains(r.err, "out of memory")) << kilobytes << ": " << r.err;
  }
  EXPECT_GT(refusals, 0);
}

TEST(CommandLine, ColourOnlyOnATerminalAndNotWithNoColor) {
  if (!testing::has_terminals()) GTEST_SKIP() << "no pseudo-terminals here";
  const std::vector<std::string> arguments = {"tokenize", "--decode", "x"};
  EXPECT_FALSE(contains(sparkx(arguments).err, "\x1b["));
  EXPECT_TRUE(contains(sparkx(arguments, {.terminal_error = true}).err, "\x1b[31merror:\x1b[0m"));
  EXPECT_FALSE(contains(sparkx(arguments, {.terminal_error = true, .environment = {{"NO_COLOR", "1"}}}).err, "\x1b["));
  EXPECT_TRUE(contains(sparkx(arguments, {.terminal_error = true, .environment = {{"NO_COLOR", ""}}}).err, "\x1b["));
}

TEST(CommandLine, HelpIsFreeOfTheLibrarysClutterAndFitsAWindow) {
  for (const std::string command : {"generate", "logits", "tokenize", "render", "parse", "bench", "perplexity",
                                    "inspect", "compare", "convert", "completion"}) {
    const std::string help = sparkx({command, "--help"}).out;
    for (const char* clutter :
         {":FLOAT", " in [", ":POSITIVE", ":{", "{false}", "REQUIRED", "Needs:", "Excludes:", "...\n"}) {
      EXPECT_FALSE(contains(help, clutter)) << command << ": " << clutter << "\n" << help;
    }
    std::istringstream lines(help.substr(0, help.find("Examples:")));
    for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 104u) << line;  // bytes: an … is three
  }
  const std::string help = sparkx({"generate", "--help"}).out;
  EXPECT_TRUE(contains(help, "  -m, --model PATH|NAME ")) << help;
  EXPECT_TRUE(contains(help, "  --top-p X                     Keep the most probable")) << help;
  EXPECT_TRUE(contains(help, "float16; default auto)")) << help;
  EXPECT_TRUE(contains(help, "--temperature)")) << help;
}

TEST(Completion, BashKnowsCommandsOptionsFilesAndValues) {
  TempDir folder;
  const std::string script = (folder.path() / "sparkx.bash").string();
  std::filesystem::create_directory(folder.path() / "models");
  const ProcessResult r =
      run_process({"/bin/bash", "-c", "\"$0\" completion bash > \"$1\"", SPARKX_BINARY_DIR "/sparkx", script});
  ASSERT_EQ(r.status, 0) << r.err;
  const auto complete = [&](const std::string& words) {
    return run_process({"/bin/bash", "-c",
                        "source \"$0\"; COMP_WORDS=(" + words +
                            "); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); compopt() { :; }; _sparkx; "
                            "printf '%s\\n' \"${COMPREPLY[@]}\"",
                        script})
        .out;
  };
  EXPECT_EQ(complete("sparkx gen"), "generate\n");
  EXPECT_EQ(complete("sparkx generate --top"), "--top-p\n--top-k\n");
  EXPECT_EQ(complete("sparkx completion z"), "zsh\n");
  EXPECT_EQ(complete("sparkx models v"), "verify\n");
  EXPECT_EQ(complete("sparkx generate -f " + folder.path().string() + "/spar"), script + "\n");
  EXPECT_EQ(complete("sparkx generate -m " + folder.path().string() + "/mo"), folder.path().string() + "/models\n");
  EXPECT_EQ(complete("sparkx generate --dtype b"), "bfloat16\nbfloat16-fast\n");
  EXPECT_EQ(complete("sparkx generate --temp ''"), "\n");
  EXPECT_EQ(complete("sparkx perplexity " + folder.path().string() + "/spar"), script + "\n");
  EXPECT_EQ(complete("sparkx generate " + folder.path().string() + "/spar"), "\n");
}

TEST(Completion, ZshAndFishScriptsNameEveryOptionOfGenerate) {
  const std::string zsh = sparkx({"completion", "zsh"}).out;
  const std::string fish = sparkx({"completion", "fish"}).out;
  EXPECT_TRUE(zsh.starts_with("#compdef sparkx\n"));
  for (const std::string option : {"model",
                                   "prompt",
                                   "file",
                                   "max-tokens",
                                   "temp",
                                   "top-p",
                                   "top-k",
                                   "min-p",
                                   "seed",
                                   "repetition-penalty",
                                   "presence-penalty",
                                   "frequency-penalty",
                                   "logit-bias",
                                   "stop",
                                   "dtype",
                                   "kv-dtype",
                                   "device",
                                   "threads",
                                   "ctx",
                                   "raw",
                                   "ignore-chat-template",
                                   "system-prompt",
                                   "no-thinking",
                                   "hide-thinking",
                                   "logprobs",
                                   "json",
                                   "verbose"}) {
    EXPECT_TRUE(contains(zsh, "'*--" + option + "[")) << option;
    EXPECT_TRUE(contains(fish, " -l " + option + " ")) << option;
  }
}

}  // namespace
}  // namespace sparkx::testing
