#include "engine/stop.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "core/error.h"

namespace sparkx {
namespace {

struct Case {
  const char* name;
  std::vector<std::string> stops;
  std::vector<std::string> pieces;
  std::vector<std::string> released;  // by each piece
  bool stopped;
  std::string rest;  // at the end
};

class StopStringsTable : public ::testing::TestWithParam<Case> {};

TEST_P(StopStringsTable, ReleasesTextAsEarlyAsItIsCertain) {
  const Case& c = GetParam();
  StopStrings stops(c.stops);
  for (std::size_t i = 0; i < c.pieces.size(); ++i) EXPECT_EQ(stops.feed(c.pieces[i]), c.released[i]) << "piece " << i;
  EXPECT_EQ(stops.stopped(), c.stopped);
  EXPECT_EQ(stops.finish(), c.rest);
}

INSTANTIATE_TEST_SUITE_P(
    StopStrings, StopStringsTable,
    ::testing::Values(Case{"None", {}, {"abc", "def"}, {"abc", "def"}, false, ""},
                      Case{"InsideOnePiece", {"STOP"}, {"one STOP two"}, {"one "}, true, ""},
                      Case{"AcrossPieces", {"STOP"}, {"one S", "TO", "P two", "three"}, {"one ", "", "", ""}, true, ""},
                      Case{"FalseBeginning", {"STOP"}, {"ST", "AR"}, {"", "STAR"}, false, ""},
                      Case{"HeldBackToTheEnd", {"STOP"}, {"one ST"}, {"one "}, false, "ST"},
                      Case{"OnlyTheLongestBeginningIsHeld", {"aab"}, {"aaa", "a", "c"}, {"a", "a", "aac"}, false, ""},
                      Case{"FallsBackToAShorterBeginning", {"abab!", "b?"}, {"aba", "c"}, {"", "abac"}, false, ""},
                      Case{"RestartsInsideAFailedMatch", {"abac"}, {"ababac"}, {"ab"}, true, ""},
                      Case{"FirstToEndCounts", {"abcd", "bc"}, {"xabcd"}, {"xa"}, true, ""},
                      Case{"LongestOfThoseEndingTogether", {"bc", "abc", "c"}, {"xabcd"}, {"x"}, true, ""},
                      Case{"OneBeginsAnother", {"ab", "abc"}, {"zabc"}, {"z"}, true, ""},
                      Case{"SameStringTwice", {"ab", "ab"}, {"zab"}, {"z"}, true, ""},
                      Case{"Characters", {"。結"}, {"完。", "了。", "結"}, {"完", "。了", ""}, true, ""},
                      Case{"StopAtTheVeryBeginning", {"ab"}, {"ab"}, {""}, true, ""}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(StopStrings, TheCutOfTheTextMakesNoDifference) {
  std::mt19937 random(1);
  const auto random_text = [&](int longest) {
    std::string text(1 + random() % longest, ' ');
    for (char& c : text) c = static_cast<char>('a' + random() % 2);
    return text;
  };
  for (int round = 0; round < 2000; ++round) {
    std::vector<std::string> stops;
    for (unsigned i = 0; i <= random() % 3; ++i) stops.push_back(random_text(5));
    const std::string text = random_text(30);

    // By definition: the stop string that ends first, the longest of those.
    std::string expected = text;
    for (std::size_t end = 1; end <= text.size() && expected == text; ++end) {
      for (const std::string& stop : stops) {
        if (text.substr(0, end).ends_with(stop) && end - stop.size() < expected.size()) {
          expected = text.substr(0, end - stop.size());
        }
      }
    }

    StopStrings cut(stops);
    std::string out;
    for (std::size_t begin = 0; begin < text.size();) {
      const std::size_t size = 1 + random() % 4;
      out += cut.feed(std::string_view(text).substr(begin, size));
      begin += size;
    }
    out += cut.finish();
    ASSERT_EQ(out, expected) << text << ::testing::PrintToString(stops);
  }
}

TEST(StopStrings, EmptyOrHalfCharactersAreRefused) {
  EXPECT_THROW(StopStrings({""}), Error);
  EXPECT_THROW(StopStrings({"ok", "\x80x"}), Error);
}

}  // namespace
}  // namespace sparkx
