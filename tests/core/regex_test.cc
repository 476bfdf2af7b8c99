#include "core/regex.h"

#include <gtest/gtest.h>

#include <chrono>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "core/json.h"
#include "support/errors.h"

namespace sparkx {
namespace {

using testing::error_of;

std::vector<std::string> pieces(const Regex& regex, std::string_view text) {
  std::vector<std::string> pieces;
  const auto add = [&](std::size_t begin, std::size_t end) {
    if (begin < end) pieces.emplace_back(text.substr(begin, end - begin));
  };
  RegexScanner scanner(regex, text);
  std::size_t done = 0;
  while (const auto match = scanner.next()) {
    add(done, match->begin);
    add(match->begin, match->end);
    done = match->end;
  }
  add(done, text.size());
  return pieces;
}

// tests/oracle/make_regex_golden.py: Oniguruma in the tokenizers library, and Python's re.
TEST(Regex, MatchesAsTheEnginesDo) {
  std::ifstream file(SPARKX_SOURCE_DIR "/tests/data/regex_golden.json");
  const json::Value cases = json::parse(std::string{std::istreambuf_iterator<char>(file), {}}, "regex_golden.json");
  ASSERT_GT(cases.as_array().size(), 2000u);
  for (const json::Value& test : cases.as_array()) {
    const std::string& pattern = test.find("pattern")->as_string();
    const std::string& text = test.find("text")->as_string();
    if (test.find("syntax")->as_string() == "python") {
      std::optional<std::size_t> expected;
      if (!test.find("end")->is_null()) expected = static_cast<std::size_t>(test.find("end")->as_int64());
      EXPECT_EQ(Regex(pattern, RegexSyntax::python).match(text), expected) << json::print(test);
    } else {
      std::vector<std::string> expected;
      for (const json::Value& piece : test.find("pieces")->as_array()) expected.push_back(piece.as_string());
      EXPECT_EQ(pieces(Regex(pattern, RegexSyntax::oniguruma), text), expected) << json::print(test);
    }
  }
}

struct Refusal {
  const char* pattern;
  RegexSyntax syntax;
  const char* message;
};

TEST(Regex, RefusesWhatItDoesNotSupportByNameAndPlace) {
  constexpr auto kOniguruma = RegexSyntax::oniguruma;
  constexpr auto kPython = RegexSyntax::python;
  const Refusal refusals[] = {
      {"ab++", kOniguruma, "character 3: the possessive quantifier \"++\" is not supported"},
      {"a?+", kPython, "character 2: the possessive quantifier \"?+\" is not supported"},
      {"é(?<=a)b", kOniguruma, "character 2: lookbehind is not supported"},
      {"(?<name>a)", kOniguruma, "a named group"},
      {"(?P<name>a)", kPython, "a named group"},
      {"(?>a)", kOniguruma, "an atomic group"},
      {"(a)\\1", kPython, "\"\\1\" is not supported"},
      {"\\bword", kPython, "\"\\b\" is not supported"},
      {"(?=ab)", kPython, "lookahead of anything but one character"},
      {"\\p{Han}", kOniguruma, "the property \"Han\" (general categories only)"},
      {"\\p{L}", kPython, "without a property in braces"},
      {"[a[b]]", kOniguruma, "character 3: a class inside a class"},
      {"[[:alpha:]]", kOniguruma, "a POSIX class"},
      {"[a-z&&[^x]]", kOniguruma, "the intersection \"&&\""},
      {"(?:a?)*", kOniguruma, "repeating an expression that may match nothing"},
      {"a{1001}", kPython, "a quantifier bound above 1000"},
      {"a**", kOniguruma, "a quantifier after a quantifier"},
      {"a{2}?", kOniguruma, "\"{n}?\" is not supported"},
      {"{a", kPython, "\"{\" that begins no quantifier"},
      {"(?i:ss)", kOniguruma, "\"ss\" under (?i)"},
      {"(?i:é)", kOniguruma, "a character beyond ASCII under (?i)"},
      {"(?i)a", kOniguruma, "\"(?i\" is not supported"},
      {"\\xE4", kOniguruma, "a byte beyond ASCII"},
      {"(?#c)a", kPython, "\"(?#\""},
      {"(a", kPython, "character 1: \"(\" without \")\""},
      {"a)", kPython, "character 2: \")\" without \"(\""},
      {"[a", kPython, "\"[\" without \"]\""},
      {"[b-a]", kPython, "a range whose ends are reversed"},
      {"*a", kPython, "a quantifier without anything to repeat"},
      {"a\\", kPython, "\"\\\" at the end"},
      {"\\x{110000}", kOniguruma, "an escape that is no code point"},
      {"\xff", kPython, "not valid UTF-8"},
  };
  for (const Refusal& refusal : refusals) {
    const std::string error = error_of([&] { Regex(refusal.pattern, refusal.syntax); });
    EXPECT_NE(error.find(refusal.message), std::string::npos) << refusal.pattern << "\n" << error;
  }
}

TEST(Regex, RefusesPatternsWhoseAutomatonIsTooLarge) {
  for (const char* pattern : {".*a.{30}b", "(?:(?:a{1000}){1000}){1000}", "(?:.{1000}){19}"}) {
    const auto begin = std::chrono::steady_clock::now();
    const std::string error = error_of([&] { Regex(pattern, RegexSyntax::python); });
    EXPECT_NE(error.find("is too complex"), std::string::npos) << pattern << "\n" << error;
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(60)) << pattern;
  }
  EXPECT_NE(error_of([] { Regex(std::string(101, '(') + std::string(101, ')'), RegexSyntax::python); }), "no error");
}

// Each of these reads to the end of the text at every position unless what is hopeless is remembered: 10^11 steps.
TEST(Regex, TakesLinearTimeWhereMatchesAreShorterThanWhatMustBeRead) {
  const std::string text(1'000'000, 'a');
  const auto count = [&](const char* pattern) {
    const Regex regex(pattern, RegexSyntax::oniguruma);
    RegexScanner scanner(regex, text);
    std::size_t matches = 0;
    while (scanner.next()) ++matches;
    return matches;
  };
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(count("a+b|a"), text.size());
  EXPECT_EQ(count("a+b"), 0u);
  EXPECT_EQ(count("(?:a|aa)+$|b"), 1u);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(120));
}

TEST(RegexScanner, FindsALongMatchAfterShortOnesThatReadFar) {
  // Places noted as hopeless must not hide the match that begins behind them.
  const std::string text = std::string(1000, 'a') + "c" + std::string(1000, 'a') + "b";
  const Regex regex("a+b|a|c", RegexSyntax::oniguruma);
  RegexScanner scanner(regex, text);
  for (std::size_t i = 0; i <= 1000; ++i) ASSERT_EQ(scanner.next(), (RegexScanner::Match{i, i + 1}));
  EXPECT_EQ(scanner.next(), (RegexScanner::Match{1001, 2002}));
  EXPECT_EQ(scanner.next(), std::nullopt);
}

}  // namespace
}  // namespace sparkx
