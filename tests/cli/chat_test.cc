// sparkx render and sparkx parse, as programs.
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include "cli/sparkx_program.h"
#include "core/json.h"
#include "support/oracle.h"
#include "support/temp_dir.h"
#include "support/text.h"

namespace sparkx::testing {
namespace {

using Arguments = std::vector<std::string>;

const std::string kMini = SPARKX_SOURCE_DIR "/models/mini";

Arguments operator+(Arguments a, const Arguments& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

std::ptrdiff_t words(const std::string& text) {
  std::istringstream in(text);
  return std::distance(std::istream_iterator<std::string>(in), {});
}

class Chat : public ::testing::Test {
 protected:
  std::string file(const std::string& name, const std::string& text) { return folder_.write(name, text).string(); }
  ProcessResult render(const std::string& messages, const Arguments& more = {}) {
    return sparkx(Arguments{"render", "--messages", file("messages.json", messages)} + more);
  }

  TempDir folder_;
};

const std::string kTools =
    R"([{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties":)"
    R"( {"s": {"type": "string"}, "n": {"type": "integer"}}}}}])";

TEST_F(Chat, RenderPrintsExactlyThePrompt) {
  const std::string opening = "<｜start▁of▁sentence｜><|System|>\nyou are a helpful assistant.<｜end▁of▁sentence｜>";
  const std::string question = "<｜start▁of▁sentence｜><|User|>Hi<｜end▁of▁sentence｜>";
  const std::string messages = R"([{"role": "user", "content": "Hi"}])";
  const ProcessResult r = render(messages, {"-m", kMini});
  EXPECT_EQ(r.status, 0);
  EXPECT_EQ(r.err, "");
  EXPECT_EQ(r.out, opening + question + "<｜start▁of▁sentence｜><|Bot|><think>");
  EXPECT_EQ(render(messages).out, r.out);
  EXPECT_EQ(render(messages, {"--no-generation-prompt"}).out, opening + question);
  EXPECT_TRUE(render(messages, {"--kwargs", R"({"enable_thinking": false})"}).out.ends_with("<|Bot|></think>"));
  EXPECT_TRUE(render(R"({"messages": )" + messages + R"(, "chat_template_kwargs": {"enable_thinking": false}})")
                  .out.ends_with("<|Bot|></think>"));
}

TEST_F(Chat, RenderTakesToolsFromEitherFile) {
  const std::string messages = R"([{"role": "user", "content": "Hi"}])";
  const ProcessResult r = render(R"({"messages": )" + messages + R"(, "tools": )" + kTools + "}");
  EXPECT_TRUE(contains(r.out, "## Tools\nYou have access to the following functions:\n<tools>\n{\"name\": \"f\", "))
      << r.out << r.err;
  EXPECT_EQ(render(messages, {"--tools", file("tools.json", kTools)}).out, r.out);
}

TEST_F(Chat, RenderReadsOpenAiMessages) {
  const ProcessResult r = render(
      R"([{"role": "developer", "content": "Be brief."}, {"role": "user", "content": [{"type": "text", "text": "a"},)"
      R"( {"type": "text", "text": "b"}]}, {"role": "assistant", "content": null, "reasoning": "r", "tool_calls":)"
      R"( [{"id": "1", "type": "function", "function": {"name": "f", "arguments": "{\"s\": \"x\", \"n\": 1.50}"}}]},)"
      R"( {"role": "tool", "tool_call_id": "1", "content": "ok"}])");
  EXPECT_EQ(r.out,
            "<｜start▁of▁sentence｜><|System|>\nyou are a helpful assistant.\n\nBe brief.<｜end▁of▁sentence｜>"
            "<｜start▁of▁sentence｜><|User|>ab<｜end▁of▁sentence｜>"
            "<｜start▁of▁sentence｜><|Bot|><think>r</think><tool_call>f<arg_key>s</arg_key><arg_value>x</arg_value>"
            "<arg_key>n</arg_key><arg_value>1.5</arg_value></tool_call><｜end▁of▁sentence｜>"
            "<｜start▁of▁sentence｜><|Tool|><tool_response>ok</tool_response><｜end▁of▁sentence｜>"
            "<｜start▁of▁sentence｜><|Bot|><think>")
      << r.err;
}

TEST_F(Chat, ATemplateInAFileGetsTheMessagesAsTheyAre) {
  const std::string messages =
      R"([{"role": "developer", "tool_calls": [{"function": {"name": "f", "arguments": "{}"}}]}])";
  const std::string own = file("own.jinja",
                               "{{ messages[0].role }} {{ messages[0].tool_calls[0].function.arguments is "
                               "string }} [{{ bos_token }}] {{ tools is none }} {{ documents }}");
  const ProcessResult r = render(messages, {"--chat-template", own});
  EXPECT_EQ(r.out, "developer True [] True None");
  EXPECT_EQ(r.err, "");
  EXPECT_EQ(render(messages, {"--chat-template", own, "-m", kMini}).out,
            "developer True [<｜start▁of▁sentence｜>] True None");
}

TEST_F(Chat, RenderKnowsTheTimeItIsGiven) {
  const std::string own = file("own.jinja", "{{ strftime_now('%d %b %Y %H:%M:%S %A %j') }}");
  const auto at = [&](const std::string& time) { return render("[]", {"--chat-template", own, "--now", time}).out; };
  EXPECT_EQ(at("2026-03-07"), "07 Mar 2026 00:00:00 Saturday 066");
  EXPECT_EQ(at("2024-12-31T23:59:58"), "31 Dec 2024 23:59:58 Tuesday 366");
  EXPECT_EQ(at("2024-12-31 23:59"), "31 Dec 2024 23:59:00 Tuesday 366");
  for (const char* bad : {"2026-02-30", "yesterday", "2026-01-01T"}) {
    EXPECT_EQ(render("[]", {"--chat-template", own, "--now", bad}).status, 2) << bad;
  }
}

TEST_F(Chat, MarkersInMessagesAreTextUnlessAskedOtherwise) {
  const auto tokens = [&](const std::string& content, const Arguments& more = {}) {
    return words(render(R"([{"role": "user", "content": ")" + content + "\"}]", Arguments{"--tokens"} + more).out);
  };
  const auto none = tokens("");
  EXPECT_EQ(tokens("<think>", {"--parse-special-content"}), none + 1);
  EXPECT_GT(tokens("<think>"), none + 1);
}

TEST_F(Chat, WhatCannotBeRenderedIsSaid) {
  const auto error = [&](const std::string& messages, const Arguments& more = {}) {
    const ProcessResult r = render(messages, more);
    EXPECT_EQ(r.status, 1);
    EXPECT_EQ(r.out, "");
    return r.err;
  };
  EXPECT_TRUE(contains(error("[]"), "a conversation needs at least one message"));
  EXPECT_TRUE(contains(error(R"([{"role": "user", "content": [{"type": "image_url"}]}])"), "image_url"));
  EXPECT_TRUE(contains(error("{}"), "there is no member \"messages\""));
  EXPECT_TRUE(contains(error("[", {}), "messages.json:1:2"));
  EXPECT_TRUE(contains(error("[]", {"--kwargs", "[]"}), "expected an object"));
  EXPECT_TRUE(contains(error("[]", {"--chat-template", "nowhere"}), "there is no chat template \"nowhere\""));
  EXPECT_TRUE(contains(error("[]", {"--chat-template", file("bad.jinja", "a\n{{ b + }}")}), "bad.jinja:2:"));
  EXPECT_EQ(sparkx({"render"}).status, 2);
}

// Every render of the real templates, failures included, through the program.
TEST_F(Chat, RealTemplatesRenderAsUpstream) {
  SPARKX_NEEDS_ORACLE();
  const auto templates = oracle_dir() / "templates";
  std::ifstream in(templates / "renders.json");
  const json::Value root = json::parse(std::string{std::istreambuf_iterator<char>(in), {}}, "renders.json");
  const std::string tokenizer = (oracle_dir() / "tied-f32").string();
  int compared = 0;
  for (const json::Value& entry : root.find("renders")->as_array()) {
    const std::string& name = entry.find("template")->as_string();
    if (name != "Spark2.5.jinja" && ++compared % 5 != 0) continue;  // one in five: each starts a program
    const json::Value& input = *root.find("cases")->find(entry.find("case")->as_string());
    const ProcessResult r =
        render(json::print(input), {"-m", tokenizer, "--chat-template", (templates / name).string()});
    const std::string what = name + " with " + entry.find("case")->as_string();
    if (const json::Value* expected = entry.find("expected")) {
      EXPECT_EQ(r.out, expected->as_string()) << what << "\n" << r.err;
    } else {
      EXPECT_EQ(r.status, 1) << what;
    }
  }
  EXPECT_GE(compared, 600);
}

const std::string kGenerated =
    "so</think>I ask. <tool_call>f<arg_key>s</arg_key><arg_value>été \"1\"</arg_value>"
    "<arg_key>n</arg_key><arg_value>7</arg_value></tool_call>";

TEST_F(Chat, ParsePrintsOneMessage) {
  const ProcessResult r = sparkx({"parse", "--thinking", "--tools", file("tools.json", kTools)}, {.input = kGenerated});
  EXPECT_EQ(r.status, 0);
  EXPECT_EQ(r.err, "");
  EXPECT_EQ(r.out,
            R"({"role": "assistant", "reasoning_content": "so", "content": "I ask. ", "tool_calls": [{"id": "call_0", )"
            R"("type": "function", "function": {"name": "f", "arguments": "{\"s\": \"été \\\"1\\\"\", \"n\": 7}"}}]})"
            "\n");
}

TEST_F(Chat, WithoutToolsMarkupIsContent) {
  const ProcessResult r = sparkx({"parse"}, {.input = "<tool_call>f</tool_call>"});
  EXPECT_EQ(r.out,
            "{\"role\": \"assistant\", \"reasoning_content\": null, \"content\": \"<tool_call>f</tool_call>\"}\n");
}

TEST_F(Chat, StreamedDeltasAddUpToTheMessage) {
  const Arguments options = {"parse", "--thinking", "--tools", file("tools.json", kTools)};
  const json::Value message = json::parse(sparkx(options, {.input = kGenerated}).out, "message");
  std::string reasoning, content, name, arguments;
  std::istringstream lines(sparkx(options + Arguments{"--stream"}, {.input = kGenerated}).out);
  int count = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    const json::Value delta = json::parse(line, "delta");
    if (const json::Value* text = delta.find("reasoning_content")) reasoning += text->as_string();
    if (const json::Value* text = delta.find("content")) content += text->as_string();
    const json::Value* calls = delta.find("tool_calls");
    if (calls == nullptr) continue;
    const json::Value& call = calls->as_array().at(0);
    EXPECT_EQ(call.find("index")->as_int64(), 0);
    if (const json::Value* begun = call.find("function")->find("name")) name = begun->as_string();
    arguments += call.find("function")->find("arguments")->as_string();
  }
  EXPECT_GE(count, 5);
  EXPECT_EQ(reasoning, message.find("reasoning_content")->as_string());
  EXPECT_EQ(content, message.find("content")->as_string());
  const json::Value& function = *message.find("tool_calls")->as_array().at(0).find("function");
  EXPECT_EQ(name, function.find("name")->as_string());
  EXPECT_EQ(arguments, function.find("arguments")->as_string());
}

TEST_F(Chat, DeltasComeBeforeTheTextEnds) {
  Process process(sparkx_arguments({"parse", "--stream"}), {.input = "Hello", .keep_input_open = true});
  process.run_until([](const ProcessResult& so_far) { return contains(so_far.out, "{\"content\": \"Hello\"}\n"); });
  process.send_signal(SIGINT);
  EXPECT_EQ(process.wait().status, 130);
}

}  // namespace
}  // namespace sparkx::testing
