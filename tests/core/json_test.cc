#include "core/json.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

#include "core/error.h"
#include "support/errors.h"

namespace sparkx::json {
namespace {

using sparkx::testing::error_of;

std::string parse_error(std::string_view text, const ParseOptions& options = {}) {
  const std::string error = error_of([&] { parse(text, "t.json", options); });
  if (error == "no error") return error;
  EXPECT_EQ(error.substr(0, 9), "corrupt: ") << text.substr(0, 100);
  return error.substr(9);
}

// Lines of tests/data/json_golden.txt (made by tests/oracle/make_json_golden.py), fields decoded.
std::vector<std::vector<std::string>> golden_lines() {
  std::ifstream file(SPARKX_SOURCE_DIR "/tests/data/json_golden.txt");
  std::vector<std::vector<std::string>> lines;
  for (std::string line; std::getline(file, line);) {
    std::vector<std::string> fields;
    for (std::size_t begin = 0; begin <= line.size();) {
      const std::size_t end = std::min(line.find('\t', begin), line.size());
      fields.push_back(parse(line.substr(begin, end - begin), "json_golden.txt").as_string());
      begin = end + 1;
    }
    lines.push_back(std::move(fields));
  }
  return lines;
}

TEST(Json, ReadsRefusesAndPrintsLikePython) {
  int accepted = 0;
  int refused = 0;
  for (const auto& fields : golden_lines()) {
    if (fields[0] == "repr") continue;
    SCOPED_TRACE(fields[0]);
    if (fields[1] == "error") {
      EXPECT_THROW(parse(fields[0], "t.json"), Error);
      ++refused;
      continue;
    }
    Value value;
    ASSERT_NO_THROW(value = parse(fields[0], "t.json"));
    EXPECT_EQ(print(value), fields[2]);
    EXPECT_EQ(print(value, {.ensure_ascii = true}), fields[3]);
    EXPECT_EQ(print(value, {.indent = 2, .sort_keys = true}), fields[4]);
    EXPECT_EQ(print(value, {.item_separator = ",", .key_separator = ":"}), fields[5]);
    EXPECT_TRUE(parse(print(value), "again") == value);
    ++accepted;
  }
  EXPECT_GT(accepted, 300);
  EXPECT_GT(refused, 250);
}

TEST(Json, DoublesPrintAsPythonsRepr) {
  int checked = 0;
  for (const auto& fields : golden_lines()) {
    if (fields[0] != "repr") continue;
    const auto value = std::bit_cast<double>(std::stoull(fields[1], nullptr, 16));
    EXPECT_EQ(print(Value(value)), fields[2]);
    EXPECT_EQ(std::bit_cast<std::uint64_t>(parse(fields[2], "t").as_double()), std::bit_cast<std::uint64_t>(value))
        << fields[2];
    ++checked;
  }
  EXPECT_GT(checked, 1000);
  EXPECT_THROW(static_cast<void>(Value(std::numeric_limits<double>::infinity())), Error);
  EXPECT_THROW(static_cast<void>(Value(std::numeric_limits<double>::quiet_NaN())), Error);
}

TEST(Json, ErrorsSayWhereAndWhat) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "t.json:1:1: the document is empty"},
      {" \n ", "t.json:2:2: the document is empty"},
      {"?", "t.json:1:1: expected a value"},
      {"{\n  \"a\": 1,\n  \"b\": nul\n}", "t.json:3:11: expected a value"},
      {"{\"é😀\" 1}", "t.json:1:7: expected ':' after a key"},
      {"{\"a\":1 \"b\":2}", "t.json:1:8: expected ',' or '}'"},
      {"[1 2]", "t.json:1:4: expected ',' or ']'"},
      {"[1,]", "t.json:1:4: expected a value"},
      {"{\"a\":1,}", "t.json:1:8: expected a key in double quotes"},
      {"{a:1}", "t.json:1:2: expected a key in double quotes"},
      {"1 2", "t.json:1:3: unexpected text after the document"},
      {"[1", "t.json:1:3: expected ',' or ']'"},
      {"\"abc", "t.json:1:5: a string without its closing quotation mark"},
      {"\"a\\x\"", "t.json:1:3: unknown escape in a string"},
      {"\"a\\u12x4\"", "t.json:1:3: expected four hexadecimal digits after \\u"},
      {"\"a\nb\"", "t.json:1:3: control character in a string, it must be escaped"},
      {"\"\xFF\"", "t.json:1:2: invalid UTF-8"},
      {"\"\xE0", "t.json:1:2: invalid UTF-8"},
      {"\"a long text that needs memory of its own \xF0\x90", "t.json:1:43: invalid UTF-8"},
      {"1.x", "t.json:1:3: expected a digit after the decimal point"},
      {"1ex", "t.json:1:3: expected a digit in the exponent"},
      {std::string("[1]\0", 4), "t.json:1:4: a NUL byte"},
      {std::string("\"a\0b\"", 5), "t.json:1:3: a NUL byte"},
      {"[NaN]", "t.json:1:2: expected a value"},
      {"[Infinity]", "t.json:1:2: expected a value"},
      {"[-Infinity]", "t.json:1:3: expected a value"},
      {"{\"a\":1,\"b\":2,\n\"a\":3}", "t.json:2:1: duplicate key \"a\""},
  };
  for (const auto& [text, expected] : cases) EXPECT_EQ(parse_error(text), expected) << text;
}

TEST(Json, UnpairedSurrogatesAreRefused) {
  for (const char* text : {R"("\ud800")", R"("\udbffx")", R"("\udc00")", R"("x\udfff")", R"("\ud800\ud800")",
                           R"("\ud800\u0041")", R"({"\udc00":1})", R"("\udc00\ud800")"}) {
    EXPECT_NE(parse_error(text).find("surrogate"), std::string::npos) << text << ": " << parse_error(text);
  }
  EXPECT_EQ(parse(R"("\ud7ff\ue000\udbff\udfff")", "t").as_string(), "\uD7FF\uE000\U0010FFFF");
}

TEST(Json, IllFormedUtf8IsRefused) {
  for (const char* bytes : {"\x80", "\xBF", "\xC0\x80", "\xC1\xBF", "\xC2", "\xC2\x41", "\xE0\x80\x80", "\xE0\x9F\xBF",
                            "\xED\xA0\x80", "\xED\xBF\xBF", "\xEF\xBF", "\xF0\x80\x80\x80", "\xF0\x8F\xBF\xBF",
                            "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xF8\x88\x80\x80\x80", "\xFE", "\xFF"}) {
    EXPECT_THROW(parse(std::string("\"") + bytes + "\"", "t"), Error) << bytes;
    EXPECT_THROW(parse(std::string("{\"") + bytes + "\":1}", "t"), Error) << bytes;
  }
  EXPECT_EQ(parse("\"\xEE\x80\x80\xED\x9F\xBF\xF4\x8F\xBF\xBF\"", "t").as_string(), "\uE000\uD7FF\U0010FFFF");
}

TEST(Json, DepthIsBounded) {
  const auto nested = [](std::size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  EXPECT_NO_THROW(parse(nested(128), "t"));
  EXPECT_EQ(parse_error(nested(129)), "t.json:1:129: nested deeper than 128 levels");
  EXPECT_EQ(parse_error(std::string(10'000'000, '[')), "t.json:1:129: nested deeper than 128 levels");
  std::string objects;
  for (int i = 0; i < 200; ++i) objects += "{\"a\":";
  EXPECT_EQ(parse_error(objects), "t.json:1:641: nested deeper than 128 levels");
  EXPECT_NO_THROW(parse("[[],[],[[]]]", "t", {.max_depth = 3}));
}

TEST(Json, SizeIsBounded) {
  EXPECT_EQ(parse_error("[1,2]", {.max_bytes = 4}), "t.json: 5 bytes of JSON, more than the limit of 4");
  EXPECT_NO_THROW(parse("[1,2]", "t", {.max_bytes = 5}));
}

TEST(Json, OfDuplicateKeysTheLastWinsAtThePlaceOfTheFirstWhereAllowed) {
  const Value value = parse(R"({"a":1,"b":2,"a":3,"c":4,"b":5,"a":6})", "t", {.refuse_duplicate_keys = false});
  EXPECT_EQ(print(value), R"({"a": 6, "b": 5, "c": 4})");
  EXPECT_EQ(parse_error(R"({"x":{"a":1},"y":{"a":1,"\u0061":2}})"), "t.json:1:25: duplicate key \"a\"");
}

// What a container at `path` hands over, and the document without it.
std::pair<std::string, std::string> streamed(std::string_view text, std::vector<std::string_view> path) {
  std::string parts;
  const Streamed there = {std::move(path), [&](Part part, std::string_view t) {
                            constexpr const char* kNames[] = {"=", "null", "", "", "'", "key ", "[", "]", "{", "}"};
                            parts += kNames[static_cast<int>(part)] + std::string(t) + " ";
                          }};
  const std::string document = print(parse(text, "t", {.streamed = std::span(&there, 1)}));
  return {parts, document};
}

TEST(Json, AStreamedContainerHandsItsPartsOverAndStaysEmpty) {
  using P = std::pair<std::string, std::string>;
  constexpr const char* kText =
      R"({"x": {"y": [0]}, "a": {"z": 1, "y": [1.50, "\u00e9", {"k": [], "j": null}, true]}, "y": [2]})";
  EXPECT_EQ(streamed(kText, {"a", "y"}), P("= [ 1.50 'é { key k [ ] key j null } true ] ",
                                           R"({"x": {"y": [0]}, "a": {"z": 1, "y": []}, "y": [2]})"));
  EXPECT_EQ(
      streamed(kText, {"x"}),
      P("= { key y [ 0 ] } ", R"({"x": {}, "a": {"z": 1, "y": [1.50, "é", {"k": [], "j": null}, true]}, "y": [2]})"));
  EXPECT_EQ(streamed("[1, [2]]", {}), P("= [ 1 [ 2 ] ] ", "[]"));
  EXPECT_EQ(streamed(R"([{"a": {"b": 1}}])", {"a"}), P("", R"([{"a": {"b": 1}}])"));       // not below an array
  EXPECT_EQ(streamed(R"({"a": 1})", {"a"}), P("", R"({"a": 1})"));                         // no container
  EXPECT_EQ(streamed(R"({"a": [1e999]})", {"a"}), P("= [ = [ 1e999 ] ", R"({"a": []})"));  // begins again
}

TEST(Json, AStreamedContainerIsCheckedLikeOthers) {
  const Streamed there = {{"a"}, [](Part, std::string_view) {}};
  const auto error = [&](std::string_view text) {
    try {
      parse(text, "t.json", {.max_depth = 3, .streamed = std::span(&there, 1)});
      return std::string();
    } catch (const Error& e) {
      return std::string(e.what());
    }
  };
  EXPECT_EQ(error(R"({"a":[[1]]})"), "");
  EXPECT_EQ(error(R"({"a":[[[1]]]})"), "t.json:1:8: nested deeper than 3 levels");
  EXPECT_EQ(error(R"({"a":["\udc00"]})"),
            "t.json:1:7: a string with an unpaired surrogate (\\ud800 to \\udfff) is no Unicode text");
  EXPECT_EQ(error(R"({"a":[1,]})"), "t.json:1:9: expected a value");
  EXPECT_EQ(error(R"({"a":[],"a":[]})"), "t.json:1:9: duplicate key \"a\"");
}

// Comparing every key with every other would take hours.
TEST(Json, AMillionKeysAreNoTrouble) {
  std::string text = "{";
  for (int i = 0; i < 1'000'000; ++i) text += "\"" + std::to_string(i) + "\":0,";
  text += "\"7\":0}";
  EXPECT_NE(parse_error(text).find("duplicate key \"7\""), std::string::npos);
}

TEST(Json, NumbersKeepTheirText) {
  for (const std::string text : {"18.4", "18.40", "1E5", "1e+05", "-0", "0.10", "1e400", "-1e-400", "1e999999999999",
                                 "123456789012345678901234567890"}) {
    EXPECT_EQ(parse(text, "t").as_number().text, text);
    EXPECT_EQ(print(parse("[" + text + "]", "t")), "[" + text + "]");
  }
  // Numbers beyond a double between strings that look like them.
  const std::string text =
      R"({"1e400":"1e500\"1e600","a":[1e400, -2e999,3],"b":)" + std::string(500, '7') + R"(,"c":"9e999"})";
  const Value value = parse(text, "t");
  EXPECT_EQ(print(value, {.item_separator = ",", .key_separator = ":"}),
            R"({"1e400":"1e500\"1e600","a":[1e400,-2e999,3],"b":)" + std::string(500, '7') + R"(,"c":"9e999"})");
  EXPECT_EQ(parse_error("[" + std::string(1000, '1') + ".]").substr(0, 9), "t.json:1:");
  EXPECT_EQ(parse_error("[1e400, x]"), "t.json:1:9: expected a value");
}

// Two numbers without a comma, one of them beyond a double, never become one.
TEST(Json, NumbersThatTouchAreRefused) {
  const std::string sevens(400, '7');
  const std::vector<std::string> cases = {"12-" + sevens, "1-1e400",    "1e400-1",   "1e400.5",
                                          sevens + "-1",  sevens + ".", sevens + "e"};
  for (const std::string& text : cases) {
    EXPECT_NE(parse_error("[1e400," + text + "]"), "no error") << text;
  }
}

TEST(Json, ValuesOfNumbers) {
  EXPECT_TRUE(parse("12", "t").is_integer());
  EXPECT_FALSE(parse("12.0", "t").is_integer());
  EXPECT_FALSE(parse("1e2", "t").is_integer());
  EXPECT_FALSE(parse("\"1\"", "t").is_integer());
  EXPECT_EQ(parse("-9223372036854775808", "t").as_int64(), INT64_MIN);
  EXPECT_EQ(parse("9223372036854775807", "t").as_int64(), INT64_MAX);
  EXPECT_EQ(error_of([] { parse("9223372036854775808", "t").as_int64(); }),
            "invalid_argument: 9223372036854775808 is not an integer of 64 bits");
  EXPECT_EQ(error_of([] { parse("1.0", "t").as_int64(); }), "invalid_argument: 1.0 is not an integer of 64 bits");
  EXPECT_EQ(parse("1e-400", "t").as_double(), 0.0);
  EXPECT_TRUE(std::signbit(parse("-1e-400", "t").as_double()));
  EXPECT_EQ(parse("0." + std::string(400, '0') + "1e401", "t").as_double(), 1.0);
  EXPECT_EQ(parse("0e999999999999999999999", "t").as_double(), 0.0);
  EXPECT_EQ(parse("1" + std::string(400, '0') + "e-400", "t").as_double(), 1.0);
  for (const char* text :
       {"1e309", "-1e309", "1e99999999999999999999",
        "1.7976931348623159e308"
        "66928879109465555478519404026306574886715058206819089020007083836762738548458177115317644757302700698555713669"
        "59622842914819860834936475292719074168444365510704342711559699508093042880"}) {
    EXPECT_NE(error_of([&] { parse(text, "t").as_double(); }).find("beyond the largest double"), std::string::npos)
        << text;
  }
}

TEST(Json, ValuesAreBuiltFromCppTypes) {
  EXPECT_EQ(
      print(Object{{"b", true},
                   {"n", nullptr},
                   {"i", 7},
                   {"u", std::uint64_t{18446744073709551615u}},
                   {"d", 1e-6},
                   {"s", "text"},
                   {"a", Array{1, 2.5, std::string_view("x")}}}),
      R"({"b": true, "n": null, "i": 7, "u": 18446744073709551615, "d": 1e-06, "s": "text", "a": [1, 2.5, "x"]})");
  EXPECT_EQ(error_of([] { Value(1).as_string(); }), "invalid_argument: expected a JSON string, found number");
  EXPECT_EQ(error_of([] { Value().as_object(); }), "invalid_argument: expected a JSON object, found null");
}

TEST(Json, BytesThatAreNotUtf8PrintAsReplacementCharacters) {
  // What Python's decode(errors="replace") makes of these bytes.
  const Value value(std::string("a\xF0\x9F\x98|\xE2\x82|\xFF\xC0\x80|\xED\xA0\x80"));
  EXPECT_EQ(print(value), "\"a\uFFFD|\uFFFD|\uFFFD\uFFFD\uFFFD|\uFFFD\uFFFD\uFFFD\"");
  EXPECT_EQ(print(value, {.ensure_ascii = true}), R"("a\ufffd|\ufffd|\ufffd\ufffd\ufffd|\ufffd\ufffd\ufffd")");
}

TEST(Json, FindLooksOnlyIntoObjects) {
  const Value value = parse(R"({"a":1,"b":{"c":2}})", "t");
  ASSERT_NE(value.find("b"), nullptr);
  EXPECT_EQ(value.find("b")->find("c")->as_int64(), 2);
  EXPECT_EQ(value.find("c"), nullptr);
  EXPECT_EQ(value.find("a")->find("x"), nullptr);
}

}  // namespace
}  // namespace sparkx::json
