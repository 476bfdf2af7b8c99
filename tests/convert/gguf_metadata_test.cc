// tests/data/gguf_conversion.json says what llama.cpp's converter writes for the built-in model
// (tests/oracle/make_gguf_conversion.py).
#include "convert/gguf_metadata.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <span>

#include "core/json.h"
#include "formats/gguf_model.h"
#include "support/errors.h"
#include "support/temp_dir.h"
#include "text/tokenizer_json.h"

namespace sparkx {
namespace {

namespace fs = std::filesystem;
using testing::error_of;
using testing::read_file;
using testing::TempDir;

const fs::path kMini = fs::path(SPARKX_SOURCE_DIR) / "models" / "mini";

GgufMetadata metadata_of(const fs::path& model, std::uint32_t file_type, std::vector<std::string>* notes = nullptr) {
  const Checkpoint checkpoint = Checkpoint::open(model);
  GgufWriter writer;
  std::vector<std::string> found;
  add_gguf_metadata(checkpoint, file_type, writer, found);
  if (notes != nullptr) *notes = found;
  const std::string head = writer.head();
  return read_gguf(ByteSource::memory("m.gguf", std::as_bytes(std::span(head)))).metadata;
}

// The value as the reader has it, whatever its width.
json::Value printed(const GgufValue& value) {
  if (const auto* array = std::get_if<GgufArray>(&value)) {
    return std::visit(
        [](const auto& elements) {
          json::Array out;
          for (const auto& element : elements) {
            using Element = typename std::decay_t<decltype(elements)>::value_type;
            out.emplace_back(static_cast<Element>(element));
          }
          return json::Value(std::move(out));
        },
        *array);
  }
  if (const auto* flag = std::get_if<bool>(&value)) return *flag;
  if (const auto* integer = std::get_if<std::int64_t>(&value)) return *integer;
  if (const auto* number = std::get_if<double>(&value)) return *number;
  return std::get<std::string>(value);
}

// Copies the built-in model's files, so that a test can change one.
void copy_mini(const TempDir& folder) {
  for (const fs::directory_entry& entry : fs::directory_iterator(kMini)) {
    if (entry.is_regular_file()) fs::copy(entry.path(), folder.path() / entry.path().filename());
  }
}

void replace_in(const fs::path& file, std::string_view from, std::string_view to) {
  std::string text = read_file(file);
  const std::size_t at = text.find(from);
  ASSERT_NE(at, text.npos) << from;
  text.replace(at, from.size(), to);
  std::ofstream(file, std::ios::binary) << text;
}

TEST(GgufMetadata, EntriesAreThoseOfLlamaCppsConverterInTheSameOrder) {
  const json::Value document =
      json::parse(read_file(SPARKX_SOURCE_DIR "/tests/data/gguf_conversion.json"), "gguf_conversion.json");
  const GgufMetadata found = metadata_of(kMini, 32);
  std::vector<std::string> keys, expected_keys;
  for (const auto& [key, value] : found.entries()) {
    if (key != "general.sampling.temp") keys.push_back(key);  // which the converter does not write
  }
  EXPECT_EQ(found.number("general.sampling.temp"), 0.0);  // the model's do_sample is false
  for (const json::Value& entry : document.find("entries")->as_array()) {
    const std::string& key = entry.find("key")->as_string();
    expected_keys.push_back(key);
    const GgufValue* value = found.find(key);
    if (value == nullptr) continue;  // the comparison of all keys says so
    EXPECT_EQ(json::print(printed(*value)), json::print(*entry.find("value"))) << key;
  }
  EXPECT_EQ(keys, expected_keys);
}

// The widths, which the reader does not tell apart: each entry's bytes, after its key, begin with the type's number.
TEST(GgufMetadata, TypesAreThoseOfLlamaCppsConverter) {
  const std::vector<std::pair<const char*, char>> numbers = {{"UINT32", 4}, {"INT32", 5},  {"FLOAT32", 6},
                                                             {"BOOL", 7},   {"STRING", 8}, {"ARRAY", 9}};
  const json::Value document =
      json::parse(read_file(SPARKX_SOURCE_DIR "/tests/data/gguf_conversion.json"), "gguf_conversion.json");
  const Checkpoint checkpoint = Checkpoint::open(kMini);
  GgufWriter writer;
  std::vector<std::string> notes;
  add_gguf_metadata(checkpoint, 32, writer, notes);
  EXPECT_TRUE(notes.empty()) << notes.front();
  const std::string head = writer.head();
  for (const json::Value& entry : document.find("entries")->as_array()) {
    const std::string& key = entry.find("key")->as_string();
    std::string sought(8, '\0');
    sought[0] = static_cast<char>(key.size());
    sought += key;
    const json::Array& types = entry.find("type")->as_array();
    for (std::size_t i = 0; i < types.size(); ++i) {
      const auto number =
          std::find_if(numbers.begin(), numbers.end(), [&](const auto& n) { return n.first == types[i].as_string(); });
      ASSERT_NE(number, numbers.end()) << types[i].as_string();
      sought += std::string{number->second, '\0', '\0', '\0'};
    }
    EXPECT_NE(head.find(sought), head.npos) << key;
  }
}

TEST(GgufMetadata, TokenizerReadBackIsTheSame) {
  const TokenizerDescription source = read_tokenizer(kMini);
  const TokenizerDescription found = *gguf_tokenizer(metadata_of(kMini, 32));
  EXPECT_EQ(found.tokens, source.tokens);
  EXPECT_EQ(found.merges, source.merges);
  EXPECT_EQ(found.bos, source.bos);
  EXPECT_EQ(found.eos, source.eos);
  EXPECT_EQ(found.pad, source.pad);
  EXPECT_EQ(found.unknown, source.unknown);
  ASSERT_EQ(found.added_tokens.size(), source.added_tokens.size());
  for (std::size_t i = 0; i < found.added_tokens.size(); ++i) {
    EXPECT_EQ(found.added_tokens[i].id, source.added_tokens[i].id);
    EXPECT_EQ(found.added_tokens[i].content, source.added_tokens[i].content);
  }
}

// Changes the list of added tokens.
void change_added_tokens(const fs::path& file, const std::function<void(json::Array&)>& change) {
  json::Value root = json::parse(read_file(file), "tokenizer.json");
  for (auto& [key, value] : root.as_object()) {
    if (key == "added_tokens") change(value.as_array());
  }
  std::ofstream(file, std::ios::binary) << json::print(root);
}

TEST(GgufMetadata, IdsWithoutATokenAreUnused) {
  TempDir folder;
  copy_mini(folder);
  change_added_tokens(folder / "tokenizer.json", [](json::Array& added) { added.pop_back(); });
  const GgufMetadata metadata = metadata_of(folder.path(), 32);
  const auto& tokens = *metadata.array<std::string>("tokenizer.ggml.tokens");
  ASSERT_EQ(tokens.size(), 1024u);
  EXPECT_EQ(tokens.back(), "[PAD1023]");
  EXPECT_EQ(metadata.array<std::int64_t>("tokenizer.ggml.token_type")->back(), 5);
}

TEST(GgufMetadata, MoreTokensThanTheModelHasAreRefused) {
  TempDir folder;
  copy_mini(folder);
  change_added_tokens(folder / "tokenizer.json", [](json::Array& added) {
    json::Value more = added.back();
    for (auto& [key, value] : more.as_object()) {
      if (key == "id") value = 1024;
      if (key == "content") value = "<more>";
    }
    added.push_back(more);
  });
  const std::string error = error_of([&] { metadata_of(folder.path(), 32); });
  EXPECT_NE(error.find("tokenizer.json: has 1025 tokens, more than the model, which has 1024"), error.npos) << error;
}

TEST(GgufMetadata, BlanksThatAreSpelledOutBecomeBlanksInTokensThatAUserDefined) {
  TempDir folder;
  copy_mini(folder);
  replace_in(folder / "tokenizer.json", "\"content\": \"</tool_call>\"", "\"content\": \"<\xE2\x96\x81tool>\"");
  const GgufMetadata metadata = metadata_of(folder.path(), 32);
  const auto& tokens = *metadata.array<std::string>("tokenizer.ggml.tokens");
  const auto& types = *metadata.array<std::int64_t>("tokenizer.ggml.token_type");
  const auto found = std::find(tokens.begin(), tokens.end(), "< tool>");
  ASSERT_NE(found, tokens.end());
  EXPECT_EQ(types[static_cast<std::size_t>(found - tokens.begin())], 4);
}

TEST(GgufMetadata, SamplingAndEndsOfAnswersComeFromGenerationConfig) {
  TempDir folder;
  copy_mini(folder);
  std::ofstream(folder / "generation_config.json")
      << R"({"top_k": 40, "top_p": 0.5, "min_p": 0.25, "temperature": 0.75, "repetition_penalty": 1.5, "eos_token_id": [1, 2, 4]})";
  std::vector<std::string> notes;
  const GgufMetadata metadata = metadata_of(folder.path(), 32, &notes);
  EXPECT_EQ(metadata.integer("general.sampling.top_k"), 40);
  EXPECT_EQ(metadata.number("general.sampling.top_p"), 0.5);
  EXPECT_EQ(metadata.number("general.sampling.min_p"), 0.25);
  EXPECT_EQ(metadata.number("general.sampling.temp"), 0.75);
  EXPECT_EQ(metadata.number("general.sampling.penalty_repeat"), 1.5);
  EXPECT_EQ(metadata.integer("tokenizer.ggml.eos_token_id"), 1);
  EXPECT_EQ(metadata.integer("tokenizer.ggml.eot_token_id"), 2);
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_EQ(notes[0], "GGUF has room for two tokens that end an answer; 4 does not end it");
}

TEST(GgufMetadata, NamedTemplatesAndTheListOfTheirNames) {
  TempDir folder;
  copy_mini(folder);
  fs::remove(folder / "chat_template.jinja");
  replace_in(folder / "tokenizer_config.json", "\"add_bos_token\": false",
             R"("add_bos_token": true, "add_eos_token": false, "chat_template":
                [{"name": "tool-use", "template": "T"}, {"name": "default", "template": "D"}])");
  const GgufMetadata metadata = metadata_of(folder.path(), 32);
  EXPECT_EQ(*metadata.text("tokenizer.chat_template"), "D");
  EXPECT_EQ(*metadata.text("tokenizer.chat_template.tool_use"), "T");
  EXPECT_EQ(*metadata.array<std::string>("tokenizer.chat_templates"), std::vector<std::string>{"tool_use"});
  EXPECT_TRUE(*metadata.boolean("tokenizer.ggml.add_bos_token"));
  EXPECT_FALSE(*metadata.boolean("tokenizer.ggml.add_eos_token"));
}

TEST(GgufMetadata, TokenizersThatGgufHasNoNameForAreRefused) {
  const auto error_with = [](std::string_view from, std::string_view to) {
    TempDir folder;
    copy_mini(folder);
    replace_in(folder / "tokenizer.json", from, to);
    std::string error = error_of([&] { metadata_of(folder.path(), 32); });
    const std::size_t at = error.find(folder.path().string());
    return at == error.npos ? error : error.replace(at, folder.path().string().size(), "DIR");
  };
  EXPECT_EQ(error_with("\\\\p{N}{1,3}", "\\\\p{N}{1,2}"),
            "unsupported: DIR/tokenizer.json: has another pre_tokenizer than Spark-X2.5's, for which GGUF has no name");
  EXPECT_EQ(error_with("\"ignore_merges\": false", "\"ignore_merges\": true"),
            "unsupported: DIR/tokenizer.json: has ignore_merges, for which GGUF has no name");
  EXPECT_EQ(error_with("\"normalizer\": null", "\"normalizer\": {\"type\": \"NFC\"}"),
            "unsupported: DIR/tokenizer.json: has a normalizer, for which GGUF has no name");
}

TEST(GgufMetadata, AModelWithoutATokenizerIsSaidToHaveNone) {
  TempDir folder;
  copy_mini(folder);
  fs::remove(folder / "tokenizer.json");
  std::vector<std::string> notes;
  const GgufMetadata metadata = metadata_of(folder.path(), 32, &notes);
  EXPECT_EQ(metadata.find("tokenizer.ggml.model"), nullptr);
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_EQ(notes[0], "the source has no tokenizer, so the file has none: it knows tokens only by their ids");
}

TEST(GgufMetadata, NamesAndSizesAreWrittenAsLlamaCppWritesThem) {
  const std::pair<const char*, const char*> names[] = {{"mini", "Mini"},
                                                       {"Spark-X2.5-1.7B", "Spark X2.5 1.7B"},
                                                       {"my-fine_tune", "My Fine_Tune"},
                                                       {"a--b", "A B"},
                                                       {"v1.5-chat", "v1.5 Chat"},
                                                       {"7b-model", "7b Model"},
                                                       {"model v2", "Model v2"},
                                                       {"", ""}};
  for (const auto& [folder, name] : names) EXPECT_EQ(gguf_model_name(folder), name) << folder;
  const std::pair<double, const char*> sizes[] = {{4112079360.0, "4.1B"}, {1.7e9, "1.7B"}, {2.9e6, "2.9M"},
                                                  {123456789, "123M"},    {12345, "12K"},  {999, "1.0K"},
                                                  {2e12, "2.0T"},         {400, "0.40K"}};
  for (const auto& [count, label] : sizes) EXPECT_EQ(gguf_size_label(count), label) << count;
}

}  // namespace
}  // namespace sparkx
