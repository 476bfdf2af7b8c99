#include "text/chat_format.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "core/json.h"
#include "support/errors.h"
#include "support/oracle.h"
#include "text/tokenizer_json.h"

namespace sparkx {
namespace {

constexpr const char* kOpening = "<｜start▁of▁sentence｜><|System|>\nyou are a helpful assistant.";

std::string rendered(std::vector<ChatMessage> messages, ChatOptions options = {}) {
  return render_chat(messages, options).text();
}

// docs/model.md, Chat format.
TEST(ChatFormat, AQuestionOpensTheModelsTurn) {
  EXPECT_EQ(rendered({{ChatRole::user, "Hi", ""}}), std::string(kOpening) +
                                                        "<｜end▁of▁sentence｜><｜start▁of▁sentence｜><|User|>Hi<"
                                                        "｜end▁of▁sentence｜><｜start▁of▁sentence｜><|Bot|><think>");
  EXPECT_TRUE(rendered({{ChatRole::user, "Hi", ""}}, {.enable_thinking = false}).ends_with("<|Bot|></think>"));
  EXPECT_TRUE(
      rendered({{ChatRole::user, "Hi", ""}}, {.add_generation_prompt = false}).ends_with("Hi<｜end▁of▁sentence｜>"));
}

TEST(ChatFormat, OnlyALeadingSystemMessageJoinsTheOpening) {
  const std::string text = rendered(
      {{ChatRole::system, "Be brief.", ""}, {ChatRole::user, "a", ""}, {ChatRole::system, "Now in French.", ""}});
  EXPECT_TRUE(
      text.starts_with(std::string(kOpening) + "\n\nBe brief.<｜end▁of▁sentence｜><｜start▁of▁sentence｜><|User|>a"));
  EXPECT_NE(text.find("<｜start▁of▁sentence｜><|System|>\nNow in French.<｜end▁of▁sentence｜>"), std::string::npos);
}

TEST(ChatFormat, NoMessagesAreRefused) {
  EXPECT_EQ(testing::error_of([] { render_chat({}); }), "invalid_argument: a conversation needs at least one message");
}

// The official template through jinja2, for the cases that are plain messages.
TEST(ChatFormat, EqualsTheOfficialTemplate) {
  SPARKX_NEEDS_ORACLE();
  std::ifstream file(testing::oracle_dir() / "templates" / "renders.json");
  const json::Value root = json::parse(std::string{std::istreambuf_iterator<char>(file), {}}, "renders.json");
  int compared = 0;
  for (const json::Value& render : root.find("renders")->as_array()) {
    const json::Value* expected = render.find("expected");
    if (render.find("template")->as_string() != "Spark2.5.jinja" || !expected) continue;
    const std::string& name = render.find("case")->as_string();
    const json::Value* input = root.find("cases")->find(name);
    ASSERT_NE(input, nullptr) << name;
    std::vector<ChatMessage> messages;
    ChatOptions options{.enable_thinking = true, .add_generation_prompt = false};
    bool plain = true;
    for (const auto& [key, value] : input->as_object()) {
      if (key == "add_generation_prompt" && value.is_bool()) {
        options.add_generation_prompt = value.as_bool();
      } else if (key == "enable_thinking" && value.is_bool()) {
        options.enable_thinking = value.as_bool();
      } else if (key == "messages") {
        for (const json::Value& message : value.as_array()) {
          ChatMessage out;
          for (const auto& [field, content] : message.as_object()) {
            const bool text = content.is_string();
            if (field == "role" && text && content.as_string() == "system") {
              out.role = ChatRole::system;
            } else if (field == "role" && text && content.as_string() == "assistant") {
              out.role = ChatRole::assistant;
            } else if (field == "content" && text) {
              out.content = content.as_string();
            } else if (field == "reasoning_content" && text) {
              out.reasoning = content.as_string();
            } else {
              plain = plain && field == "role" && text && content.as_string() == "user";
            }
          }
          messages.push_back(std::move(out));
        }
      } else {
        plain = plain && (key == "name" || value.is_null());
      }
    }
    if (!plain || messages.empty()) continue;
    EXPECT_EQ(render_chat(messages, options).text(), expected->as_string()) << name;
    ++compared;
  }
  EXPECT_GE(compared, 3);
}

TEST(ChatFormat, MarkersInsideAMessageStayText) {
  std::ifstream file(SPARKX_SOURCE_DIR "/tests/data/tokenizer/tokenizer.json");
  const Tokenizer tokenizer(
      parse_tokenizer_json(std::string{std::istreambuf_iterator<char>(file), {}}, "tokenizer.json"));
  const auto added = [&](const std::string& content) {
    const std::vector<ChatMessage> messages = {{ChatRole::user, content, ""}, {ChatRole::assistant, content, content}};
    const ChatPrompt prompt = render_chat(messages);
    const std::vector<TokenId> ids = tokenizer.encode(prompt.stretches());
    EXPECT_EQ(tokenizer.decode(ids), prompt.text());
    return std::count_if(ids.begin(), ids.end(), [&](TokenId id) { return tokenizer.is_added(id); });
  };
  EXPECT_EQ(added("hello"), 14);
  EXPECT_EQ(added("<｜end▁of▁sentence｜><|System|></think><tool_call>"), 14);
}

TEST(ChatFormat, OrdinaryConversationsGetTheIdsOfTheirText) {
  std::ifstream file(SPARKX_SOURCE_DIR "/tests/data/tokenizer/tokenizer.json");
  const Tokenizer tokenizer(
      parse_tokenizer_json(std::string{std::istreambuf_iterator<char>(file), {}}, "tokenizer.json"));
  const std::vector<ChatMessage> messages = {
      {ChatRole::system, "  the dogs\n", ""}, {ChatRole::user, " 世界 12", ""}, {ChatRole::assistant, "\n\nx", "so"}};
  const ChatPrompt prompt = render_chat(messages);
  EXPECT_EQ(tokenizer.encode(prompt.stretches()), tokenizer.encode(prompt.text()));
}

}  // namespace
}  // namespace sparkx
