#include "sparkx/reasoning.hpp"

#include <gtest/gtest.h>

#include <string>

namespace sparkx {
namespace {

struct Case {
  const char* name;
  bool prompt_ended_in_think;
  std::string text;
  std::string reasoning;
  std::string answer;
};

class Reasoning : public ::testing::TestWithParam<Case> {};

TEST_P(Reasoning, IsToldFromTheAnswerHoweverTheTextIsCut) {
  const Case& c = GetParam();
  for (std::size_t size = 1; size <= c.text.size() + 1; ++size) {
    ReasoningSplitter splitter(c.prompt_ended_in_think);
    std::string reasoning;
    std::string answer;
    const auto add = [&](const ReasoningSplitter::Parts& parts) {
      reasoning += parts.reasoning;
      answer += parts.answer;
    };
    for (std::size_t begin = 0; begin < c.text.size(); begin += size) add(splitter.feed(c.text.substr(begin, size)));
    add(splitter.finish());
    EXPECT_EQ(reasoning, c.reasoning) << "pieces of " << size;
    EXPECT_EQ(answer, c.answer) << "pieces of " << size;
  }
}

INSTANTIATE_TEST_SUITE_P(
    ReasoningSplitter, Reasoning,
    ::testing::Values(Case{"NoThinking", false, "just text", "", "just text"},
                      Case{"PromptOpened", true, "a < b</think>\nso", "a < b", "\nso"},
                      Case{"TextOpened", false, "<think>why</think>so", "why", "so"},
                      Case{"OpenedInTheMiddleIsText", false, "x<think>why</think>so", "", "x<think>why</think>so"},
                      Case{"Unclosed", true, "still at it</thi", "still at it</thi", ""},
                      Case{"OnlyTheFirstCloses", true, "a</think>b</think>c", "a", "b</think>c"},
                      Case{"FalseBeginnings", true, "<</</think</think>x", "<</</think", "x"},
                      Case{"HalfAnOpening", false, "<thin", "", "<thin"}, Case{"Empty", true, "", "", ""}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(ReasoningSplitter, HoldsBackOnlyAPossibleMarker) {
  ReasoningSplitter splitter(true);
  EXPECT_EQ(splitter.feed("abc</").reasoning, "abc");
  EXPECT_EQ(splitter.feed("x").reasoning, "</x");
  EXPECT_EQ(splitter.feed("</think>so").answer, "so");
  EXPECT_EQ(splitter.feed("</th").answer, "</th");
}

}  // namespace
}  // namespace sparkx
