// Against the real jinja2 as transformers sets it up: thousands of small templates, chat templates of our own, and the
// renders of real ones.
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <sstream>

#include "support/oracle.h"
#include "text/jinja/template.h"

namespace sparkx::jinja {
namespace {

std::string read_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  EXPECT_TRUE(in) << path;
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

json::Value read_json(const std::filesystem::path& path) {
  return json::parse(read_file(path), path.string());
}

// The time that make_jinja_golden.py gives strftime_now.
LocalTime golden_time() {
  LocalTime now{};
  now.time.tm_year = 126;
  now.time.tm_mon = 2;
  now.time.tm_mday = 7;
  now.time.tm_hour = 9;
  now.time.tm_min = 5;
  now.time.tm_sec = 3;
  now.time.tm_wday = 6;
  now.time.tm_yday = 65;
  now.time.tm_isdst = -1;
  now.microseconds = 123;
  return now;
}

struct Outcome {
  bool failed;
  std::string text;  // or the message
};

Outcome render(const std::string& source, const std::string& name, const json::Value& context) {
  RenderOptions options;
  options.clock = golden_time;
  try {
    return {false, Template::parse(source, name).render(context, options).text()};
  } catch (const TemplateError& error) {
    return {true, error.what()};
  }
}

void check(const json::Value& expected, const Outcome& outcome, const std::string& what) {
  if (const json::Value* error = expected.find("error")) {
    EXPECT_TRUE(outcome.failed) << what << "\nshould fail with " << error->as_string()
                                << "\nbut gave: " << outcome.text;
    return;
  }
  EXPECT_FALSE(outcome.failed) << what << "\nfailed: " << outcome.text
                               << "\nexpected: " << expected.find("expected")->as_string();
  if (!outcome.failed) {
    EXPECT_EQ(outcome.text, expected.find("expected")->as_string()) << what;
  }
}

TEST(JinjaGolden, EveryTemplateGivesWhatJinjaGives) {
  const std::filesystem::path data = std::filesystem::path(SPARKX_SOURCE_DIR) / "tests/data";
  const json::Value golden = read_json(data / "jinja_golden.json");
  ASSERT_GT(golden.find("cases")->as_array().size(), 4000u);
  for (const json::Value& entry : golden.find("cases")->as_array()) {
    const json::Value* file = entry.find("file");
    const std::string source =
        file != nullptr ? read_file(data / "jinja" / file->as_string()) : entry.find("template")->as_string();
    const std::string& context = entry.find("context")->as_string();
    const std::string name = file != nullptr ? file->as_string() : "snippet";
    check(entry, render(source, name, *golden.find("contexts")->find(context)),
          file != nullptr ? name + " with " + context : source);
  }
}

// What transformers adds to a case: the tokens of the tokenizer, and nothing where there are no tools.
json::Value with_defaults(const json::Value& given) {
  json::Object context = given.as_object();
  const std::pair<const char*, json::Value> kDefaults[] = {
      {"bos_token", "<｜start▁of▁sentence｜>"},
      {"eos_token", "<｜end▁of▁sentence｜>"},
      {"pad_token", "<｜▁pad▁｜>"},
      {"unk_token", "<unk>"},
      {"tools", nullptr},
      {"documents", nullptr},
  };
  for (const auto& [name, value] : kDefaults) {
    if (given.find(name) == nullptr) context.emplace_back(name, value);
  }
  return context;
}

TEST(JinjaOracle, RealTemplatesRenderAsWithJinja) {
  SPARKX_NEEDS_ORACLE();
  const std::filesystem::path folder = testing::oracle_dir() / "templates";
  const json::Value oracle = read_json(folder / "renders.json");
  std::map<std::string, std::string> sources;
  std::size_t count = 0;
  for (const json::Value& entry : oracle.find("renders")->as_array()) {
    const std::string& file = entry.find("template")->as_string();
    const std::string& name = entry.find("case")->as_string();
    if (!sources.contains(file)) sources[file] = read_file(folder / file);
    check(entry, render(sources[file], file, with_defaults(*oracle.find("cases")->find(name))), file + " with " + name);
    ++count;
  }
  EXPECT_GE(count, 600u);
}

}  // namespace
}  // namespace sparkx::jinja
