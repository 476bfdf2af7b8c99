#include "text/output_parser.h"

#include <gtest/gtest.h>

#include <fstream>
#include <random>
#include <sstream>

#include "core/error.h"
#include "support/oracle.h"

namespace sparkx {
namespace {

const json::Value& tools() {
  static const json::Value kTools = json::parse(R"([
    {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {
      "s": {"type": "string"}, "i": {"type": "integer"}, "n": {"type": "number"}, "b": {"type": "boolean"},
      "a": {"type": "array"}, "o": {"type": "object"}, "z": {"type": "null"},
      "si": {"type": ["string", "integer"]}, "any": {}, "e": {"enum": ["x", 1, null]}, "es": {"enum": ["x", "y"]},
      "one": {"oneOf": [{"type": "boolean"}, {"$ref": "#/$defs/number"}]}, "r": {"$ref": "#/$defs/loop"},
      "in": {"type": ["integer", "number"]}, "c": {"const": 5}, "all": {"allOf": [{"$ref": "#/$defs/number"}]},
      "anyof": {"anyOf": [{}, {"type": "integer"}]}},
      "$defs": {"number": {"type": "number"}, "loop": {"$ref": "#/$defs/loop"}}}}},
    {"type": "function", "function": {"name": "g"}}])",
                                                "tools");
  return kTools;
}

struct Result {
  std::vector<MessageEvent> events;
  json::Value message;
  std::size_t ignored;
};

Result parse(const std::vector<std::string_view>& pieces, const json::Value& with_tools, bool thinking) {
  OutputParser parser(with_tools, thinking);
  Result result;
  MessageBuilder builder;
  const auto flush = [&](std::vector<MessageEvent>& events) {
    for (const MessageEvent& event : events) {
      builder.add(event);
      result.events.push_back(event);
    }
    events.clear();
  };
  std::vector<MessageEvent> events;
  for (std::string_view piece : pieces) {
    parser.feed(piece, events);
    flush(events);
  }
  parser.finish(events);
  flush(events);
  result.message = builder.message();
  result.ignored = parser.ignored_bytes();
  return result;
}

json::Value message_of(std::string_view text, bool thinking = false) {
  return parse({text}, tools(), thinking).message;
}

std::vector<std::string_view> code_points(std::string_view text) {
  std::vector<std::string_view> pieces;
  for (std::size_t begin = 0; begin < text.size();) {
    std::size_t end = begin + 1;
    while (end < text.size() && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) ++end;
    pieces.push_back(text.substr(begin, end - begin));
    begin = end;
  }
  return pieces;
}

// The message as the oracle writes it: arguments as an object, the last of repeated keys.
json::Value simplified(const json::Value& message) {
  json::Array calls;
  if (const json::Value* list = message.find("tool_calls")) {
    for (const json::Value& call : list->as_array()) {
      const json::Value& function = *call.find("function");
      json::Object entry;
      entry.emplace_back("name", *function.find("name"));
      entry.emplace_back("arguments", json::parse(function.find("arguments")->as_string(), "arguments",
                                                  {.refuse_duplicate_keys = false}));
      calls.push_back(std::move(entry));
    }
  }
  return json::Object{{"reasoning_content", *message.find("reasoning_content")},
                      {"content", *message.find("content")},
                      {"tool_calls", std::move(calls)}};
}

// JSON values are equal when their numbers are, however they are spelled, and objects in any order.
bool same_json(const json::Value& a, const json::Value& b) {
  if (a.is_number() && b.is_number()) {
    return a.is_integer() && b.is_integer() ? a == b : a.as_double() == b.as_double();
  }
  if (a.is_array() && b.is_array()) {
    if (a.as_array().size() != b.as_array().size()) return false;
    for (std::size_t i = 0; i < a.as_array().size(); ++i) {
      if (!same_json(a.as_array()[i], b.as_array()[i])) return false;
    }
    return true;
  }
  if (a.is_object() && b.is_object()) {
    if (a.as_object().size() != b.as_object().size()) return false;
    for (const auto& [key, value] : a.as_object()) {
      if (b.find(key) == nullptr || !same_json(value, *b.find(key))) return false;
    }
    return true;
  }
  return a == b;
}

void expect_message(const json::Value& message, const json::Value& expected, const std::string& what) {
  EXPECT_TRUE(same_json(simplified(message), expected))
      << what << "\nfound:    " << json::print(simplified(message)) << "\nexpected: " << json::print(expected);
}

TEST(OutputParserOracle, EveryCaseAtEveryCut) {
  SPARKX_NEEDS_ORACLE();
  std::ifstream in(testing::oracle_dir() / "tool_parsing.json");
  std::ostringstream text;
  text << in.rdbuf();
  const json::Value cases = json::parse(text.str(), "tool_parsing.json");
  ASSERT_GT(cases.as_array().size(), 40u);
  for (const json::Value& entry : cases.as_array()) {
    const std::string& generated = entry.find("text")->as_string();
    const json::Value given = entry.find("tools") == nullptr ? json::Value() : *entry.find("tools");
    const bool thinking = entry.find("prompt_ends_in_think")->as_bool();
    const json::Value& expected = *entry.find("expected");
    const std::string& name = entry.find("name")->as_string();
    for (std::size_t cut = 0; cut <= generated.size(); ++cut) {
      const std::string_view whole = generated;
      expect_message(parse({whole.substr(0, cut), whole.substr(cut)}, given, thinking).message, expected,
                     name + ", cut at " + std::to_string(cut));
    }
    expect_message(parse(code_points(generated), given, thinking).message, expected, name + ", by code points");
  }
}

TEST(OutputParser, AnyTextGivesTheSameMessageHoweverItIsCut) {
  static constexpr std::string_view kParts[] = {"<tool_call>",
                                                "</tool_call>",
                                                "<arg_key>",
                                                "</arg_key>",
                                                "<arg_value>",
                                                "</arg_value>",
                                                "<think>",
                                                "</think>",
                                                "f",
                                                "g",
                                                "s",
                                                "i",
                                                "any",
                                                " ",
                                                "\n",
                                                "<",
                                                ">",
                                                "</",
                                                "<tool",
                                                "{\"name\": \"f\"}",
                                                "{\"name\": \"g\", \"arguments\": {\"a\": \"</tool_call>\"}}",
                                                "{",
                                                "\"",
                                                "\\",
                                                "text",
                                                "é",
                                                "\xf0\x9f\x99\x82",
                                                "\xff",
                                                "\xe4\xbd",
                                                "1",
                                                "2.0",
                                                "True",
                                                "null",
                                                "[1,",
                                                "]"};
  std::mt19937 random(7);
  for (int round = 0; round < 20'000; ++round) {
    std::string text;
    for (unsigned parts = random() % 14; parts > 0; --parts) text += kParts[random() % std::size(kParts)];
    const bool thinking = random() % 4 == 0;
    const Result whole = parse({text}, tools(), thinking);
    std::vector<std::string_view> pieces;
    for (std::size_t begin = 0; begin < text.size();) {
      const std::size_t length = 1 + random() % (round % 3 == 0 ? 1 : 9);
      pieces.push_back(std::string_view(text).substr(begin, length));
      begin += length;
    }
    const Result cut = parse(pieces, tools(), thinking);
    ASSERT_EQ(json::print(cut.message), json::print(whole.message)) << json::print(text);
    ASSERT_EQ(cut.ignored, whole.ignored) << json::print(text);
    ASSERT_NO_THROW(simplified(whole.message)) << json::print(text);
  }
}

TEST(OutputParser, WithoutToolsEverythingComesAtOnce) {
  OutputParser parser(nullptr, false);
  std::vector<MessageEvent> events;
  parser.feed("a <tool_call", events);
  parser.feed(">f ", events);
  const std::vector<MessageEvent> expected = {{MessageEvent::Kind::content, "a <tool_call>f "}};
  EXPECT_EQ(events, expected);
}

TEST(OutputParser, HoldsBackNothingButAMarkersBeginning) {
  OutputParser parser(tools(), true);
  std::vector<MessageEvent> events;
  const auto fed = [&](std::string_view text) {
    events.clear();
    parser.feed(text, events);
    std::string all;
    for (const MessageEvent& event : events) all += event.text;
    return all;
  };
  EXPECT_EQ(fed("I think <"), "I think ");
  EXPECT_EQ(fed("b</thin"), "<b");
  EXPECT_EQ(fed("k>Yes"), "Yes");
  EXPECT_EQ(fed(" or no\n\n"), " or no\n\n");
  EXPECT_EQ(fed("<tool_call>f"), "");
  EXPECT_EQ(fed("<arg_key>s</arg_key><arg_value>gro"), "f{\"s\": \"gro");
  EXPECT_EQ(fed("ws \"q\"\n</arg"), "ws \\\"q\\\"\\n");
  EXPECT_EQ(fed("_value><arg_key>i</arg_key><arg_value>1"), "\", \"i\": ");
  EXPECT_EQ(fed("2</arg_value>"), "12");
  EXPECT_EQ(fed("</tool_call>"), "}");
  EXPECT_EQ(fed("  \n"), "");
  EXPECT_EQ(fed("end"), "  \nend");
}

struct Argument {
  const char* key;
  const char* text;
  const char* json;
};

class OutputParserArguments : public ::testing::TestWithParam<Argument> {};

TEST_P(OutputParserArguments, AreReadByTheirSchema) {
  const Argument& argument = GetParam();
  EXPECT_EQ(argument_json(argument.text,
                          parameter_types(*tools().as_array()[0].find("function")->find("parameters"), argument.key)),
            argument.json)
      << argument.key << ": " << argument.text;
}

INSTANTIATE_TEST_SUITE_P(
    Types, OutputParserArguments,
    ::testing::Values(
        Argument{"s", " 5 ", "\" 5 \""}, Argument{"s", "null", "\"null\""}, Argument{"i", " 5\n", "5"},
        Argument{"i", "5.0", "5"}, Argument{"i", "1e2", "100"}, Argument{"i", "1.5e1", "15"},
        Argument{"i", "-0.0", "0"}, Argument{"i", "-30.00", "-30"}, Argument{"i", "1.5", "\"1.5\""},
        Argument{"i", "1e-2", "\"1e-2\""}, Argument{"i", "1e99999", "\"1e99999\""}, Argument{"i", "true", "\"true\""},
        Argument{"i", "05", "\"05\""}, Argument{"i", "\"5\"", "\"\\\"5\\\"\""},
        Argument{"i", "123456789012345678901234567890", "123456789012345678901234567890"},
        Argument{"n", "2.50", "2.50"}, Argument{"n", "NaN", "\"NaN\""}, Argument{"n", "Infinity", "\"Infinity\""},
        Argument{"n", "3.0", "3.0"}, Argument{"in", "3.0", "3.0"}, Argument{"b", "True", "true"},
        Argument{"b", "false", "false"}, Argument{"b", "1", "\"1\""}, Argument{"b", "None", "\"None\""},
        Argument{"z", "None", "null"}, Argument{"z", "", "\"\""}, Argument{"a", "[1,2]", "[1, 2]"},
        Argument{"a", "[1,", "\"[1,\""}, Argument{"a", "{}", "\"{}\""}, Argument{"o", "{\"a\":1}", "{\"a\": 1}"},
        Argument{"o", "[]", "\"[]\""}, Argument{"si", "7", "7"}, Argument{"si", "7x", "\"7x\""},
        Argument{"si", "true", "\"true\""}, Argument{"any", "7", "7"}, Argument{"any", "x y", "\"x y\""},
        Argument{"any", "\"q\"", "\"q\""}, Argument{"any", "None", "null"}, Argument{"undeclared", "[true]", "[true]"},
        Argument{"undeclared", "007", "\"007\""}, Argument{"e", "1", "1"}, Argument{"e", "x", "\"x\""},
        Argument{"e", "null", "null"}, Argument{"es", "1", "\"1\""}, Argument{"one", "2.5", "2.5"},
        Argument{"one", "true", "true"}, Argument{"one", "x", "\"x\""}, Argument{"r", "5", "5"},
        Argument{"r", "x", "\"x\""}, Argument{"c", "5", "5"}, Argument{"c", "x", "\"x\""},
        Argument{"all", "1.5", "1.5"}, Argument{"anyof", "[1]", "[1]"}));

TEST(OutputParser, ACallInsideACallEndsTheFirst) {
  expect_message(message_of("<tool_call>f<arg_key>i</arg_key><arg_value>1</arg_value><tool_call>g</tool_call>"),
                 json::parse(R"({"reasoning_content": null, "content": null, "tool_calls": [
                   {"name": "f", "arguments": {"i": 1}}, {"name": "g", "arguments": {}}]})",
                             "expected"),
                 "nested");
}

TEST(OutputParser, OnlyItsTagEndsAValue) {
  expect_message(
      message_of(
          "<tool_call>f<arg_key>s</arg_key><arg_value><tool_call>g</tool_call> </arg_key></arg_value></tool_call>"),
      json::parse(R"({"reasoning_content": null, "content": null, "tool_calls": [
                   {"name": "f", "arguments": {"s": "<tool_call>g</tool_call> </arg_key>"}}]})",
                  "expected"),
      "markup in a value");
}

TEST(OutputParser, StrayTextInsideACallIsIgnoredAndCounted) {
  const Result result =
      parse({"<tool_call>f\n<arg_key>i</arg_key> what <arg_value>1</arg_value>!?</tool_call>"}, tools(), false);
  expect_message(result.message,
                 json::parse(R"({"reasoning_content": null, "content": null, "tool_calls": [
                   {"name": "f", "arguments": {"i": 1}}]})",
                             "expected"),
                 "stray");
  EXPECT_EQ(result.ignored, 6u);
}

TEST(OutputParser, APayloadThatDoesNotParseIsContent) {
  for (const char* text :
       {"<tool_call>{\"name\": \"f\"</tool_call> after", "<tool_call>{\"name\": \"f}</tool_call> after",
        "<tool_call>{\"arguments\": {}}</tool_call>", "<tool_call>{\"name\": \"\"}</tool_call>",
        "<tool_call> {\"name\": \"f\", \"arguments\": 5}</tool_call>", "<tool_call>{\"name\": \"f\"}",
        " \n<tool_call></tool_call>", "<tool_call> <arg_key>a</arg_key></tool_call>"}) {
    expect_message(message_of(text),
                   json::Object{{"reasoning_content", nullptr}, {"content", text}, {"tool_calls", json::Array{}}},
                   text);
  }
}

TEST(OutputParser, ACallBehindABrokenPayloadIsFound) {
  expect_message(
      message_of("<tool_call>{\"name\": \"f}</tool_call>\n<tool_call>g</tool_call>"),
      json::parse(R"({"reasoning_content": null, "content": "<tool_call>{\"name\": \"f}</tool_call>\n", "tool_calls": [
                   {"name": "g", "arguments": {}}]})",
                  "expected"),
      "broken payload");
}

TEST(OutputParser, AClosingTagInsideAPayloadsStringStaysThere) {
  expect_message(message_of("<tool_call>{\"name\": \"f\", \"arguments\": {\"s\": \"a</tool_call>\\\"b\"}}</tool_call>"),
                 json::parse(R"({"reasoning_content": null, "content": null, "tool_calls": [
                   {"name": "f", "arguments": {"s": "a</tool_call>\"b"}}]})",
                             "expected"),
                 "closing tag in a string");
}

TEST(OutputParser, BlanksThatTouchACallAreDropped) {
  expect_message(
      message_of("why</think>\n\n<tool_call>g</tool_call> \n", true),
      json::parse(R"({"reasoning_content": "why", "content": null, "tool_calls": [{"name": "g", "arguments": {}}]})",
                  "expected"),
      "blanks");
  expect_message(message_of(" \n "),
                 json::parse(R"({"reasoning_content": null, "content": " \n ", "tool_calls": []})", "expected"),
                 "blanks alone");
  expect_message(
      message_of("a \n<tool_call>g</tool_call>\nb"),
      json::parse(
          R"({"reasoning_content": null, "content": "a \n\nb", "tool_calls": [{"name": "g", "arguments": {}}]})",
          "expected"),
      "blanks with text");
}

TEST(OutputParser, TheMessageHasOpenAiShape) {
  EXPECT_EQ(
      json::print(message_of("hm</think>ok<tool_call>f<arg_key>s</arg_key><arg_value>é</arg_value></tool_call>", true)),
      R"({"role": "assistant", "reasoning_content": "hm", "content": "ok", "tool_calls": [{"id": "call_0", "type": "function", )"
      R"("function": {"name": "f", "arguments": "{\"s\": \"é\"}"}}]})");
}

TEST(OutputParser, ToolsMustBeAList) {
  EXPECT_THROW(OutputParser(json::Value("x"), false), Error);
}

TEST(OutputParser, LongHostileTextIsReadInLinearTime) {
  std::string text;
  for (int i = 0; i < 60'000; ++i)
    text += i % 3 == 0 ? "<tool_call>{\"</tool_call>" : "<tool_call>f<arg_key><arg_value>";
  EXPECT_NO_THROW(message_of(text));
  EXPECT_NO_THROW(message_of("<tool_call>{\"" + text));
}

}  // namespace
}  // namespace sparkx
