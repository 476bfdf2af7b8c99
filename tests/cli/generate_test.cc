// sparkx generate, as a program, on the built-in model.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "cli/sparkx_program.h"
#include "core/json.h"
#include "support/temp_dir.h"
#include "support/text.h"

namespace sparkx::testing {
namespace {

using Arguments = std::vector<std::string>;

const std::string kQuestion = "53乘以42的结果是多少？";

// Never ends by itself: the end marker is out of reach, and the context is thousands of tokens long.
const Arguments kEndless = {"generate", "-p", kQuestion, "--logit-bias", "1=-10000"};

Arguments operator+(Arguments a, const Arguments& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

ProcessResult generate(const Arguments& arguments, const ProcessOptions& options = {}) {
  return sparkx(Arguments{"generate"} + arguments, options);
}

ProcessResult ask(const Arguments& arguments = {}) {
  return generate(Arguments{"-p", kQuestion, "-n", "60"} + arguments);
}

std::vector<json::Value> json_lines(const std::string& text) {
  std::vector<json::Value> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(json::parse(line, "standard output"));
  return lines;
}

TEST(Generate, AnswersWithTheBuiltinModelAndSaysSoOnce) {
  const ProcessResult r = ask();
  EXPECT_EQ(r.status, 0);
  EXPECT_GT(r.out.size(), 1u);
  EXPECT_TRUE(r.out.ends_with('\n'));
  EXPECT_EQ(r.err, "sparkx: no model given (-m): using the built-in demonstration model\n");
}

TEST(Generate, TakesAModelFolder) {
  const ProcessResult r = ask({"-m", SPARKX_SOURCE_DIR "/models/mini"});
  EXPECT_EQ(r.err, "");
  EXPECT_EQ(r.out, ask().out);
}

TEST(Generate, GreedyTextIsTheSameOnAnyNumberOfThreads) {
  const std::string expected = ask({"--temp", "0", "--threads", "1"}).out;
  EXPECT_EQ(ask({"--temp", "0", "--threads", "2"}).out, expected);
  EXPECT_EQ(ask({"--temp", "0", "--threads", "2"}).out, expected);
}

TEST(Generate, ThePromptMayComeFromAFileOrAPipe) {
  const std::string expected = ask().out;
  TempDir folder;
  const std::string file = folder.write("prompt.txt", kQuestion + "\n").string();
  EXPECT_EQ(generate({"-f", file, "-n", "60"}).out, expected);
  EXPECT_EQ(generate({"-n", "60"}, {.input = kQuestion}).out, expected);
  EXPECT_EQ(generate({"-n", "60"}, {.input = kQuestion + "\n"}).out, expected);
  EXPECT_EQ(generate({"-n", "60"}, {.input = kQuestion + "\r\n"}).out, expected);
}

TEST(Generate, ARawPromptIsTakenToTheByteAndMarkersCount) {
  const auto prompt_tokens = [](const Arguments& arguments, const std::string& input) {
    const auto lines = json_lines(generate(arguments + Arguments{"--json", "-n", "0"}, {.input = input}).out);
    return lines.back().find("prompt_tokens")->as_int64();
  };
  EXPECT_EQ(prompt_tokens({"--raw"}, "<think>"), 1);
  EXPECT_EQ(prompt_tokens({"--ignore-chat-template"}, "<think>\n"), 2);
  // In a message the same marker is text: seven characters in more than one token.
  EXPECT_GT(prompt_tokens({}, "<think>"), prompt_tokens({}, "") + 1);
}

TEST(Generate, TheSystemMessageAndThinkingChangeThePrompt) {
  const auto prompt_tokens = [](const Arguments& arguments) {
    const auto lines = json_lines(generate(Arguments{"-p", "x", "--json", "-n", "0"} + arguments).out);
    return lines.back().find("prompt_tokens")->as_int64();
  };
  EXPECT_GT(prompt_tokens({"--system-prompt", "Be brief."}), prompt_tokens({}));
  const auto first = [](const Arguments& arguments) {
    return json_lines(generate(Arguments{"-p", kQuestion, "--json", "-n", "1", "--logprobs", "0"} + arguments).out)[0];
  };
  EXPECT_NE(first({}).find("logprob")->as_double(), first({"--no-thinking"}).find("logprob")->as_double());
}

TEST(Generate, JsonIsOneObjectATokenAndASummary) {
  const ProcessResult r = ask({"--json", "--logprobs", "3", "--seed", "9"});
  EXPECT_EQ(r.status, 0);
  const std::vector<json::Value> lines = json_lines(r.out);
  ASSERT_GE(lines.size(), 2u);
  std::string text;
  for (std::size_t i = 0; i + 1 < lines.size(); ++i) {
    const json::Value& line = lines[i];
    EXPECT_EQ(line.as_object().size(), 5u);
    EXPECT_EQ(line.find("index")->as_int64(), static_cast<std::int64_t>(i));
    text += line.find("text")->as_string();
    EXPECT_LE(line.find("logprob")->as_double(), 0.0);
    const json::Array& top = line.find("top_logprobs")->as_array();
    ASSERT_EQ(top.size(), 3u);
    EXPECT_EQ(top[0].find("id")->as_int64(), line.find("id")->as_int64());  // greedy
    EXPECT_EQ(top[0].find("logprob")->as_double(), line.find("logprob")->as_double());
    EXPECT_TRUE(top[2].find("text")->is_string());
  }
  const json::Value& summary = lines.back();
  EXPECT_EQ(summary.find("text")->as_string(), text);
  EXPECT_EQ(summary.find("completion_tokens")->as_int64(), static_cast<std::int64_t>(lines.size()) - 1);
  EXPECT_GT(summary.find("prompt_tokens")->as_int64(), 0);
  EXPECT_EQ(summary.find("seed")->as_int64(), 9);
  const std::string reason = summary.find("finish_reason")->as_string();
  EXPECT_TRUE(reason == "stop" || reason == "length") << reason;
  for (const char* name : {"load_seconds", "prompt_seconds", "generation_seconds", "prompt_tokens_per_second",
                           "generation_tokens_per_second"}) {
    EXPECT_GE(summary.find("timings")->find(name)->as_double(), 0.0) << name;
  }
  EXPECT_EQ(ask().out, text + "\n");
}

TEST(Generate, LogprobsAfterTheFiltersAreThoseOfTheChoice) {
  const auto lines = json_lines(ask({"--json", "--logprobs", "5", "--sampled-logprobs"}).out);
  EXPECT_EQ(lines[0].find("logprob")->as_double(), 0.0);  // greedy: nothing else could have come
  EXPECT_EQ(lines[0].find("top_logprobs")->as_array().size(), 1u);
}

TEST(Generate, EndsAfterMaxTokens) {
  const auto lines = json_lines(sparkx(kEndless + Arguments{"-n", "7", "--json"}).out);
  EXPECT_EQ(lines.size(), 8u);
  EXPECT_EQ(lines.back().find("finish_reason")->as_string(), "length");
  EXPECT_EQ(lines.back().find("completion_tokens")->as_int64(), 7);
}

TEST(Generate, AFullContextIsALengthAndNoError) {
  const ProcessResult r = sparkx(kEndless + Arguments{"--ctx", "64", "--json"});
  EXPECT_EQ(r.status, 0);
  const auto lines = json_lines(r.out);
  const json::Value& summary = lines.back();
  EXPECT_EQ(summary.find("finish_reason")->as_string(), "length");
  // The last token needs no position of its own.
  EXPECT_EQ(summary.find("prompt_tokens")->as_int64() + summary.find("completion_tokens")->as_int64(), 65);
}

TEST(Generate, WholeNumbersAreDecimalWhateverTheyBeginWith) {
  const auto lines = json_lines(sparkx(kEndless + Arguments{"-n", "010", "--json"}).out);
  EXPECT_EQ(lines.back().find("completion_tokens")->as_int64(), 10);
}

TEST(Generate, TheTemperatureHasTwoNames) {
  EXPECT_EQ(ask({"--temperature", "4", "--seed", "3"}).out, ask({"--temp", "4", "--seed", "3"}).out);
  EXPECT_NE(ask({"--temperature", "4", "--seed", "3"}).out, ask().out);
}

TEST(Generate, APromptMayBeginWithADash) {
  EXPECT_EQ(generate({"-p", "-5+3=?", "-n", "20"}).out, generate({"-n", "20"}, {.input = "-5+3=?"}).out);
}

TEST(Generate, ASeedGivesTheSameTextOnAnyNumberOfThreads) {
  const Arguments sampled = {"--temp",
                             "4",
                             "--top-p",
                             "0.95",
                             "--top-k",
                             "50",
                             "--min-p",
                             "0.01",
                             "--repetition-penalty",
                             "1.1",
                             "--repetition-window",
                             "20",
                             "--presence-penalty",
                             "0.2",
                             "--frequency-penalty",
                             "0.1"};
  const std::string seven = ask(sampled + Arguments{"--seed", "7", "--threads", "1"}).out;
  EXPECT_EQ(ask(sampled + Arguments{"--seed", "7", "--threads", "2"}).out, seven);
  EXPECT_NE(ask(sampled + Arguments{"--seed", "8"}).out, seven);
}

TEST(Generate, ARandomSeedIsShownAndGivesTheTextAgain) {
  const Arguments sampled = {"--temp", "4", "--verbose"};
  const ProcessResult r = ask(sampled);
  const std::size_t begin = r.err.find("seed: ");
  ASSERT_NE(begin, std::string::npos) << r.err;
  const std::string seed = r.err.substr(begin + 6, r.err.find('\n', begin) - begin - 6);
  EXPECT_EQ(ask(sampled + Arguments{"--seed", seed}).out, r.out);
  EXPECT_NE(ask(sampled).out, r.out);
}

TEST(Generate, AStopStringIsNotPrintedWhereverItBegins) {
  std::string text = ask().out;
  text.pop_back();
  // Three characters from the middle, cut between characters.
  std::vector<std::size_t> starts;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if ((static_cast<unsigned char>(text[i]) & 0xC0) != 0x80) starts.push_back(i);
  }
  ASSERT_GT(starts.size(), 12u);
  const std::string stop = text.substr(starts[8], starts[11] - starts[8]);
  const ProcessResult r = ask({"--stop", "never there", "--stop", stop, "--json"});
  const auto lines = json_lines(r.out);
  EXPECT_EQ(lines.back().find("finish_reason")->as_string(), "stop");
  EXPECT_EQ(lines.back().find("text")->as_string(), text.substr(0, text.find(stop)));
}

TEST(Generate, HiddenThinkingLeavesTheAnswer) {
  std::string text = generate({"-p", kQuestion, "-n", "300"}).out;
  text.pop_back();
  const std::string marker = "</think>";
  ASSERT_TRUE(contains(text, marker)) << text;
  const std::string answer = text.substr(text.find(marker) + marker.size());
  EXPECT_EQ(generate({"-p", kQuestion, "-n", "300", "--hide-thinking"}).out, answer + "\n");
}

TEST(Generate, OnATerminalTheReasoningIsDimmedAndTheAnswerHasItsOwnLine) {
  if (!testing::has_terminals()) GTEST_SKIP() << "no pseudo-terminals here";
  const Arguments arguments = {"-p", kQuestion, "-n", "300"};
  const std::string plain = generate(arguments).out;
  std::string seen = generate(arguments, {.terminal_output = true}).out;
  EXPECT_TRUE(seen.starts_with("\x1b[2m")) << seen;
  for (const std::string gone : {"\x1b[2m", "\x1b[0m", "\r"}) {  // a terminal begins a line with \r
    for (std::size_t at; (at = seen.find(gone)) != std::string::npos;) seen.erase(at, gone.size());
  }
  std::string expected = plain;
  expected.replace(expected.find("</think>"), 8, "\n");
  EXPECT_EQ(seen, expected);
  const ProcessResult no_colour = generate(arguments, {.terminal_output = true, .environment = {{"NO_COLOR", "1"}}});
  EXPECT_FALSE(contains(no_colour.out, "\x1b["));
  EXPECT_TRUE(contains(no_colour.out, "</think>"));
  EXPECT_FALSE(contains(generate(arguments + Arguments{"--json"}, {.terminal_output = true}).out, "\x1b["));
}

// The message of the summary, after making the model say these tokens, each once, in their order.
std::string message_of(const std::vector<std::string>& tokens, const Arguments& more) {
  Arguments arguments = {"-p", kQuestion, "--json", "-n", std::to_string(tokens.size()), "--presence-penalty", "1e6"};
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const std::string ids = sparkx({"tokenize", tokens[i]}).out;
    EXPECT_EQ(ids.find(' '), std::string::npos) << tokens[i] << " is more than one token";
    arguments.push_back("--logit-bias");
    arguments.push_back(ids.substr(0, ids.find('\n')) + "=" + std::to_string(90000 - 10000 * i));
  }
  return json::print(*json_lines(generate(arguments + more).out).back().find("message"));
}

TEST(Generate, TheSummaryHasTheMessage) {
  const std::vector<std::string> tokens = {"x", "</think>", "y"};
  const std::string thought = R"({"role": "assistant", "reasoning_content": "x", "content": "y"})";
  EXPECT_EQ(message_of(tokens, {}), thought);
  EXPECT_EQ(message_of(tokens, {"--hide-thinking"}), thought);
  EXPECT_EQ(message_of(tokens, {"--no-thinking"}),
            R"({"role": "assistant", "reasoning_content": null, "content": "x</think>y"})");
}

TEST(Generate, CallsAreReadWhenThereAreTools) {
  TempDir folder;
  const std::string tools =
      folder.write("tools.json", R"([{"type": "function", "function": {"name": "f", "parameters": {}}}])").string();
  const std::vector<std::string> tokens = {"</think>", "<tool_call>", "f", "</tool_call>"};
  EXPECT_EQ(message_of(tokens, {"--tools", tools}),
            R"({"role": "assistant", "reasoning_content": "", "content": null, "tool_calls": [{"id": "call_0", )"
            R"("type": "function", "function": {"name": "f", "arguments": "{}"}}]})");
  EXPECT_EQ(message_of(tokens, {}),
            R"({"role": "assistant", "reasoning_content": "", "content": "<tool_call>f</tool_call>"})");
}

TEST(Generate, ToolsAndVariablesAndTheTemplateShapeThePrompt) {
  TempDir folder;
  const std::string tools =
      folder.write("tools.json", R"({"tools": [{"type": "function", "function": {"name": "f"}}]})").string();
  const auto prompt_tokens = [](const Arguments& arguments) {
    const auto lines = json_lines(generate(Arguments{"-p", "x<think>", "--json", "-n", "0"} + arguments).out);
    return lines.back().find("prompt_tokens")->as_int64();
  };
  EXPECT_GT(prompt_tokens({"--tools", tools}), prompt_tokens({}));
  EXPECT_LT(prompt_tokens({"--parse-special-content"}), prompt_tokens({}));
  const std::string own =
      folder.write("own.jinja", "<think>{{ n * 'a<think>' }}{{ messages[0].content[:n] }}{{ bos_token }}").string();
  EXPECT_EQ(prompt_tokens({"--chat-template", own, "--kwargs", R"({"n": 1})"}), 5);
}

TEST(Generate, ACheckpointWithoutATemplateNamesTheWaysOut) {
  TempDir folder;
  for (const char* name :
       {"config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json", "model.safetensors"}) {
    std::filesystem::create_symlink(std::filesystem::path(SPARKX_SOURCE_DIR) / "models/mini" / name,
                                    folder.path() / name);
  }
  const std::string model = folder.path().string();
  const ProcessResult r = ask({"-m", model});
  EXPECT_EQ(r.status, 1);
  EXPECT_TRUE(contains(r.err, "no chat template")) << r.err;
  EXPECT_TRUE(contains(r.err, "--chat-template")) << r.err;
  EXPECT_TRUE(contains(r.err, "--raw")) << r.err;
  EXPECT_EQ(generate({"-m", model, "--raw", "-p", "x", "-n", "1"}).status, 0);
}

TEST(Generate, WhatIsWrongWithThePromptIsSaidBeforeTheWeightsAreRead) {
  TempDir folder;
  const std::filesystem::path mini = SPARKX_SOURCE_DIR "/models/mini";
  const std::string config = read_file(mini / "config.json");
  folder.write("config.json", config);
  std::filesystem::create_symlink(mini / "model.safetensors", folder / "model.safetensors");
  const std::string model = folder.path().string();
  const Arguments no_room = {"-m", model, "-p", "x", "--ctx", "1000000000"};  // is refused when the weights are due
  EXPECT_EQ(generate(no_room).err, "sparkx: error: " + model + "/tokenizer.json: there is no such file\n");
  std::filesystem::create_symlink(mini / "tokenizer.json", folder / "tokenizer.json");
  EXPECT_TRUE(contains(generate(no_room).err, "no chat template"));
  EXPECT_TRUE(contains(generate(no_room + Arguments{"--raw"}).err, "a context of 1000000000 positions"));
}

TEST(Generate, VerboseSaysWhatIsInForceAndHowLongItTook) {
  const std::string err = ask({"--verbose", "--threads", "1"}).err;
  for (const char* part :
       {"bfloat16 cache", "1 thread", "load: ", "prompt: ", "generation: ", "tokens/s", "peak memory: "}) {
    EXPECT_TRUE(contains(err, part)) << part << "\n" << err;
  }
  EXPECT_TRUE(
      contains(ask({"--verbose", "--dtype", "float32"}).err, "float32 weights, float32 activations, float32 cache"));
  EXPECT_TRUE(contains(ask({"--verbose", "--quantize", "4bit"}).err, "4-bit (groups of 64)"));
  EXPECT_TRUE(contains(ask({"--verbose", "--quantize", "8bit", "--group-size", "32"}).err, "8-bit (groups of 32)"));
  EXPECT_TRUE(contains(ask({"--verbose", "--quantize", "4bit"}).err, "int8 activations, bfloat16 cache"));
  EXPECT_TRUE(contains(ask({"--verbose", "--quantize", "4bit", "--activations", "float32"}).err,
                       "float32 activations, float32 cache"));
  EXPECT_TRUE(contains(ask({"--verbose", "--dtype", "float32", "--kv-dtype", "bfloat16"}).err, "bfloat16 cache"));
  EXPECT_TRUE(contains(ask({"--verbose", "--kv-dtype", "int8"}).err, "int8 cache"));
}

TEST(Generate, ALongPromptHasABarOnATerminalOnly) {
  if (!testing::has_terminals()) GTEST_SKIP() << "no pseudo-terminals here";
  std::string prompt;
  for (int i = 0; i < 150; ++i) prompt += "7 ";
  // The plain kernels are slow enough on any machine for a bar to be worth it.
  const Arguments arguments = {"--raw", "-p", prompt, "-n", "1", "--threads", "1"};
  const auto environment = std::vector<std::pair<std::string, std::string>>{{"SPARKX_ISA", "reference"}};
  const ProcessResult terminal = generate(arguments, {.terminal_error = true, .environment = environment});
  EXPECT_EQ(terminal.status, 0);
  EXPECT_TRUE(contains(terminal.err, "\rprompt [")) << terminal.err;
  EXPECT_TRUE(terminal.err.ends_with("\r\x1b[K")) << terminal.err;  // it is gone at the end
  EXPECT_FALSE(contains(generate(arguments, {.environment = environment}).err, "prompt ["));
}

TEST(Generate, AClosedPipeEndsQuietly) {
  Process process(sparkx_arguments(kEndless));
  process.run_until([](const ProcessResult& r) { return !r.out.empty(); });
  process.close_output();
  const ProcessResult r = process.wait();
  EXPECT_EQ(r.status, 0);
  EXPECT_EQ(r.err, "sparkx: no model given (-m): using the built-in demonstration model\n");
}

TEST(Generate, ControlCEndsCleanlyWithStatistics) {
  Process process(sparkx_arguments(kEndless));
  process.run_until([](const ProcessResult& r) { return !r.out.empty(); });
  process.send_signal(SIGINT);
  const ProcessResult r = process.wait();
  EXPECT_EQ(r.status, 130);
  EXPECT_TRUE(r.out.ends_with('\n'));
  EXPECT_TRUE(contains(r.err, "tokens/s, cancelled")) << r.err;
  EXPECT_FALSE(contains(r.err, "error")) << r.err;
}

TEST(Generate, ControlCEndsALongPrompt) {
  std::string prompt;
  for (int i = 0; i < 3000; ++i) prompt += "7 ";
  // It would take the plain kernels many seconds.
  Process process(sparkx_arguments({"generate", "--raw", "-p", prompt, "--threads", "1"}),
                  {.environment = {{"SPARKX_ISA", "reference"}}});
  const auto begin = std::chrono::steady_clock::now();
  process.run_until(
      [&](const ProcessResult&) { return std::chrono::steady_clock::now() - begin > std::chrono::milliseconds(500); });
  process.send_signal(SIGINT);
  const ProcessResult r = process.wait();
  EXPECT_EQ(r.status, 130);
  EXPECT_TRUE(contains(r.err, "tokens/s, cancelled")) << r.err;
}

TEST(Generate, OtherSignalsEndAsCleanlyWithTheirOwnStatus) {
  for (const int signal : {SIGTERM, SIGHUP}) {
    Process process(sparkx_arguments(kEndless));
    process.run_until([](const ProcessResult& r) { return !r.out.empty(); });
    process.send_signal(signal);
    const ProcessResult r = process.wait();
    EXPECT_EQ(r.status, 128 + signal);
    EXPECT_TRUE(contains(r.err, "tokens/s, cancelled")) << r.err;
  }
}

TEST(Generate, NohupKeepsItGoing) {
  Process process(sparkx_arguments(kEndless + Arguments{"-n", "200"}), {.ignore_hangup = true});
  process.run_until([](const ProcessResult& r) { return !r.out.empty(); });
  process.send_signal(SIGHUP);
  EXPECT_EQ(process.wait().status, 0);
}

TEST(Generate, ControlCLeavesWholeJson) {
  Process process(sparkx_arguments(kEndless + Arguments{"--json"}));
  process.run_until([](const ProcessResult& r) { return !r.out.empty(); });
  process.send_signal(SIGINT);
  const ProcessResult r = process.wait();
  EXPECT_EQ(r.status, 130);
  EXPECT_EQ(json_lines(r.out).back().find("finish_reason")->as_string(), "cancelled");
}

TEST(Generate, ControlCEndsTheWaitForAPrompt) {
  Process process(sparkx_arguments({"generate"}), {.input = "not yet", .keep_input_open = true});
  const auto begin = std::chrono::steady_clock::now();
  process.run_until(
      [&](const ProcessResult&) { return std::chrono::steady_clock::now() - begin > std::chrono::milliseconds(500); });
  process.send_signal(SIGINT);
  const ProcessResult r = process.wait();
  EXPECT_EQ(r.status, 130);
  EXPECT_EQ(r.out, "");
}

TEST(Generate, ControlCEndsTheWaitForTheOtherEndOfAPipe) {
  const TempDir dir;
  const std::string pipe = dir / "prompt";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  Process process(sparkx_arguments({"generate", "-f", pipe}));
  const auto begin = std::chrono::steady_clock::now();
  process.run_until(
      [&](const ProcessResult&) { return std::chrono::steady_clock::now() - begin > std::chrono::milliseconds(500); });
  process.send_signal(SIGINT);
  EXPECT_EQ(process.wait().status, 130);
}

}  // namespace
}  // namespace sparkx::testing
