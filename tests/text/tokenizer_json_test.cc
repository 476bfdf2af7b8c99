#include "text/tokenizer_json.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "core/json.h"
#include "support/errors.h"
#include "support/oracle.h"
#include "support/temp_dir.h"
#include "text/byte_level.h"
#include "text/tokenizer.h"

namespace sparkx {
namespace {

using testing::error_of;

std::string all_bytes() {
  std::string entries;
  for (int byte = 0; byte < 256; ++byte) {
    const char text = static_cast<char>(byte);
    entries +=
        json::print(json::Value(bytes_to_token_text(std::string_view(&text, 1)))) + ":" + std::to_string(byte) + ",";
  }
  return entries;
}

// A valid file; `from` is replaced by `to`, which must change it.
std::string file_with(std::string_view from = "", std::string_view to = "") {
  std::string text = R"({"version":"1.0","truncation":null,"padding":null,
"added_tokens":[{"id":257,"content":"<think>","single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":true}],
"normalizer":null,
"pre_tokenizer":{"type":"Sequence","pretokenizers":[{"type":"Split","pattern":{"Regex":"a+"},"behavior":"Isolated","invert":false},
{"type":"Digits","individual_digits":true},{"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":false}]},
"post_processor":{"type":"ByteLevel","add_prefix_space":true,"trim_offsets":false,"use_regex":true},
"decoder":{"type":"ByteLevel"},
"model":{"type":"BPE","dropout":null,"unk_token":null,"continuing_subword_prefix":null,"end_of_word_suffix":null,"fuse_unk":false,
"byte_fallback":false,"ignore_merges":false,"vocab":{)" +
                     all_bytes() + R"("ab":256},"merges":[["a","b"]]}})";
  if (from.empty()) return text;
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

struct Refusal {
  const char* from;
  const char* to;
  const char* message;
};

TEST(TokenizerJson, ReadsEveryPart) {
  const TokenizerDescription description = parse_tokenizer_json(file_with(), "t.json");
  ASSERT_EQ(description.tokens.size(), 258u);
  EXPECT_EQ(description.tokens[0x20], "Ġ");
  EXPECT_EQ(description.tokens[257], "<think>");
  EXPECT_EQ(description.merges, (std::vector<std::pair<TokenId, TokenId>>{{'a', 'b'}}));
  EXPECT_EQ(description.added_tokens,
            (std::vector<AddedTokenDescription>{{.id = 257, .content = "<think>", .special = true}}));
  EXPECT_EQ(
      description.pre_tokenizer,
      (std::vector<PreTokenizerStep>{{.kind = PreTokenizerStep::Kind::split, .pattern = "a+"},
                                     {.kind = PreTokenizerStep::Kind::digits, .pattern = "", .individual_digits = true},
                                     {.kind = PreTokenizerStep::Kind::byte_level, .pattern = ""}}));
  EXPECT_TRUE(description.warnings.empty());
  EXPECT_EQ(description.unknown, std::nullopt);
}

TEST(TokenizerJson, OtherSpellingsOfTheSameAreRead) {
  const TokenizerDescription expected = parse_tokenizer_json(file_with(), "t.json");
  const std::pair<const char*, const char*> changes[] = {
      {R"([["a","b"]])", R"(["a b"])"},
      {R"("normalizer":null)", R"("normalizer":{"type":"Sequence","normalizers":[]})"},
      {R"("post_processor":{"type":"ByteLevel","add_prefix_space":true,"trim_offsets":false,"use_regex":true})",
       R"("post_processor":null)"},
      {R"("dropout":null)", R"("dropout":0.0)"},
      {R"("end_of_word_suffix":null)", R"("end_of_word_suffix":"")"},
      {R"(,"ignore_merges":false)", ""},
  };
  for (const auto& [from, to] : changes) {
    const TokenizerDescription description = parse_tokenizer_json(file_with(from, to), "t.json");
    EXPECT_EQ(description.merges, expected.merges) << to;
    EXPECT_EQ(description.pre_tokenizer, expected.pre_tokenizer) << to;
    EXPECT_EQ(description.tokens, expected.tokens) << to;
  }
}

TEST(TokenizerJson, ReadsTheComponentsOfOtherFamilies) {
  const auto read = [](std::string_view from, std::string_view to) {
    return parse_tokenizer_json(file_with(from, to), "t.json");
  };
  EXPECT_EQ(read(R"("normalizer":null)", R"("normalizer":{"type":"Sequence","normalizers":[{"type":"NFC"},
{"type":"Replace","pattern":{"String":"a."},"content":"b"},{"type":"Strip","strip_left":false,"strip_right":true},
{"type":"Prepend","prepend":"_"}]})")
                .normalizer,
            (std::vector<NormalizerStep>{
                {.kind = NormalizerStep::Kind::nfc, .pattern = "", .content = ""},
                {.kind = NormalizerStep::Kind::replace, .pattern = R"(\x{61}\x{2E})", .content = "b"},
                {.kind = NormalizerStep::Kind::strip, .pattern = "", .content = "", .strip_right = true},
                {.kind = NormalizerStep::Kind::prepend, .pattern = "", .content = "_"}}));
  using Keep = PreTokenizerStep::Keep;
  EXPECT_EQ(
      read(R"("behavior":"Isolated","invert":false)", R"("behavior":"Removed","invert":true)").pre_tokenizer[0].keep,
      Keep::matches);
  EXPECT_EQ(read(R"("behavior":"Isolated")", R"("behavior":"Removed")").pre_tokenizer[0].keep, Keep::rest);
  EXPECT_EQ(read(R"("invert":false)", R"("invert":true)").pre_tokenizer[0].keep, Keep::all);
  EXPECT_TRUE(read(R"("add_prefix_space":false)", R"("add_prefix_space":true)").pre_tokenizer.back().prefix_space);
}

TEST(TokenizerJson, IdsMayBeLeftOut) {
  const Tokenizer tokenizer(parse_tokenizer_json(file_with(R"("ab":256)", R"("ab":300)"), "t.json"));
  EXPECT_EQ(tokenizer.vocab_size(), 301);
  EXPECT_EQ(tokenizer.find("ab"), TokenId{300});
  EXPECT_EQ(tokenizer.decode(std::vector<TokenId>{97, 299, 300}), "aab");
  EXPECT_EQ(tokenizer.find(""), std::nullopt);
}

constexpr const char* kTemplate = R"("post_processor":{"type":"Sequence","processors":[{"type":"ByteLevel"},
{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"<think>","type_id":0}},{"Sequence":{"id":"A","type_id":0}}],
"pair":[],"special_tokens":{"<think>":{"id":"<think>","ids":[257],"tokens":["<think>"]}}}]},"decoder":{)";

TEST(TokenizerJson, TemplatesAreCheckedAndAddNothing) {
  std::string file = file_with();
  const std::size_t begin = file.find("\"post_processor\""), end = file.find("\"decoder\":{");
  const auto with = [&](std::string from, std::string_view to) {
    std::string text = kTemplate;
    if (!from.empty()) text.replace(text.find(from), from.size(), to);
    return std::string(file).replace(begin, end + 11 - begin, text);
  };
  EXPECT_EQ(Tokenizer(parse_tokenizer_json(with("", ""), "t.json")).encode("ab"), (std::vector<TokenId>{97, 98}));
  const Refusal refusals[] = {
      {"[257]", "[258]", "special_tokens[\"<think>\"].ids names token 258, which is not in the vocabulary"},
      {R"({"id":"<think>","type_id":0})", R"({"id":"<s>"})", "single[0] names \"<s>\", which is not in special_tokens"},
      {R"({"Sequence":{"id":"A","type_id":0}})", R"({"Sequence":{}},{"Sequence":{}})",
       "has the text 2 times; expected once"},
      {R"("SpecialToken")", R"("Token")", "single[0].SpecialToken is missing"},
  };
  for (const Refusal& refusal : refusals) {
    const std::string error = error_of([&] { parse_tokenizer_json(with(refusal.from, refusal.to), "t.json"); });
    EXPECT_EQ(error.find("corrupt: t.json: post_processor.processors[1]"), 0u) << error;
    EXPECT_NE(error.find(refusal.message), std::string::npos) << error;
  }
}

TEST(TokenizerJson, TruncationAndPaddingAreLeftAsideWithAWarning) {
  const TokenizerDescription description =
      parse_tokenizer_json(file_with(R"("truncation":null)", R"("truncation":{"max_length":8})"), "t.json");
  EXPECT_EQ(description.warnings, (std::vector<std::string>{"t.json: \"truncation\" is left aside"}));
}

TEST(TokenizerJson, RefusesByNameWhatItDoesNotKnow) {
  const Refusal refusals[] = {
      {R"("normalizer":null)", R"("normalizer":{"type":"Lowercase"})", "normalizer Lowercase is not supported"},
      {R"("normalizer":null)", R"("normalizer":{"type":"Sequence","normalizers":[{"type":"Lowercase"}]})",
       "normalizer.normalizers[0] Lowercase is not supported"},
      {R"({"type":"Digits","individual_digits":true})", R"({"type":"Metaspace"})",
       "pre_tokenizer.pretokenizers[1] Metaspace is not supported"},
      {R"("post_processor":{"type":"ByteLevel")", R"("post_processor":{"type":"RobertaProcessing")",
       "post_processor RobertaProcessing is not supported"},
      {R"("normalizer":null)", R"("normalizer":{"type":"Replace","pattern":{"String":""},"content":"x"})",
       "normalizer.pattern is an empty string; that is not supported"},
      {R"("decoder":{"type":"ByteLevel"})", R"("decoder":{"type":"WordPiece"})", "decoder WordPiece is not supported"},
      {R"("model":{"type":"BPE")", R"("model":{"type":"Unigram")", "model Unigram is not supported"},
      {R"("dropout":null)", R"("dropout":0.1)", "model.dropout is 0.1; sparkx supports null"},
      {R"("byte_fallback":false)", R"("byte_fallback":true)", "model.byte_fallback is not supported"},
      {R"("continuing_subword_prefix":null)", R"("continuing_subword_prefix":"##")",
       "model.continuing_subword_prefix is \"##\"; sparkx supports null"},
      {R"("fuse_unk":false)", R"("fuse_unk":false,"novelty":1)",
       "model has the option \"novelty\", which sparkx does not know"},
      {R"("version":"1.0")", R"("version":"2.0")", "version is \"2.0\"; sparkx supports \"1.0\""},
      {R"("padding":null)", R"("padding":null,"extra":1)",
       "the document has the option \"extra\", which sparkx does not know"},
      {R"("behavior":"Isolated")", R"("behavior":"MergedWithNext")",
       "pretokenizers[0].behavior is \"MergedWithNext\"; sparkx supports \"Isolated\" and \"Removed\""},
      {R"({"Regex":"a+"})", R"({"Glob":"a"})", "pretokenizers[0].pattern of kind \"Glob\" is not supported"},
      {R"("use_regex":false}])", R"("use_regex":false},{"type":"Digits","individual_digits":true}])",
       "Digits after ByteLevel is not supported"},
      {R"(,{"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":false}])", "]",
       "pre_tokenizer does not end with ByteLevel"},
  };
  for (const Refusal& refusal : refusals) {
    std::string from = refusal.from;
    if (from[0] == ',') from.insert(1, "");
    std::string file = file_with();
    // The one place where a line break stands between list entries.
    const std::size_t at = file.find(from);
    if (at == std::string::npos) from.insert(1, "\n");
    const std::string error = error_of([&] { parse_tokenizer_json(file_with(from, refusal.to), "t.json"); });
    EXPECT_EQ(error.find("unsupported: t.json: "), 0u) << error;
    EXPECT_NE(error.find(refusal.message), std::string::npos) << refusal.to << "\n" << error;
  }
}

TEST(TokenizerJson, AMessageWritesNothingFromTheFileToTheTerminal) {
  const Refusal refusals[] = {
      {R"("normalizer":null)", R"("normalizer":{"type":"\u001b[2J"})", R"(normalizer "\u001b[2J" is not supported)"},
      {R"("fuse_unk":false)", R"("fuse_unk":false,"\u009b":1)", R"(the option "\u009b")"},
      {R"([["a","b"]])", R"([["a","\u001b]0;x"]])", R"(entry 0 names "\u001b]0;x")"},
      {R"("ab":256)", R"("\u001b":97)", R"(to "\u001b")"},
      {R"("version":"1.0")", R"("version":"\u007f")", R"(version is "\u007f";)"},
  };
  for (const Refusal& refusal : refusals) {
    const std::string error = error_of([&] { parse_tokenizer_json(file_with(refusal.from, refusal.to), "t.json"); });
    EXPECT_NE(error.find(refusal.message), std::string::npos) << error;
    EXPECT_TRUE(std::all_of(error.begin(), error.end(), [](char c) { return c >= ' ' && c <= '~'; })) << error;
  }
}

TEST(TokenizerJson, RefusesMorePreTokenizerStepsThanAnyTokenizerHas) {
  std::string steps;
  for (int i = 0; i < 40; ++i) steps += R"({"type":"Digits","individual_digits":true},)";
  steps.pop_back();
  const std::string error = error_of(
      [&] { parse_tokenizer_json(file_with(R"({"type":"Digits","individual_digits":true})", steps), "t.json"); });
  EXPECT_EQ(error, "unsupported: t.json: pre_tokenizer has more than 32 steps");
}

// A number beyond any double has the parser begin anew in the middle of the tables.
TEST(TokenizerJson, TheTablesAreReadAnewWithTheDocument) {
  const std::string text = file_with(R"([["a","b"]])", R"([["a","b"],[1e999,"b"]])");
  EXPECT_NE(error_of([&] { parse_tokenizer_json(text, "t.json"); }).find("model.merges has at 1 an entry"),
            std::string::npos);
  const std::string id = file_with(R"("ab":256)", R"("ab":1e999)");
  EXPECT_NE(error_of([&] { parse_tokenizer_json(id, "t.json"); }).find("model.vocab is 1e999; expected an id"),
            std::string::npos);
}

TEST(TokenizerJson, NamesWhatContradictsItself) {
  const Refusal refusals[] = {
      {R"("ab":256)", R"("ab":65793)",
       "model.vocab gives \"ab\" the id 65793, but model.vocab has 257 entries; ids must be below 65793"},
      {R"("ab":256)", R"("":256)", "model.vocab gives id 256 to an empty token"},
      {R"("ab":256)", R"("ab":97)", "model.vocab gives id 97 to \"a\" and to \"ab\""},
      {R"("ab":256)", R"("ab":-1)", "the id -1"},
      {R"("ab":256)", R"("ab":"256")", "model.vocab is \"256\"; expected an id"},
      {R"("ab":256)", R"("ab":[256])", "model.vocab is an array; expected an id"},
      {R"("ab":256)", R"("ab":{"x":256})", "model.vocab is an object; expected an id"},
      {R"("ab":256)", R"("ab":true)", "model.vocab is true; expected an id"},
      {R"("ab":256)", R"("ab":2.56e2)", "model.vocab is 2.56e2; expected an id"},
      {R"("ab":256)", R"("ab":99999999999999999999999)", "model.vocab is 99999999999999999999999; expected an id"},
      {R"([["a","b"]])", R"([["a","xyz"]])", "model.merges entry 0 names \"xyz\", which is not in the vocabulary"},
      {R"([["a","b"]])", R"(["a b c"])", "model.merges has at 0 an entry that is neither \"left right\" nor a pair"},
      {R"([["a","b"]])", R"([["a","b"],["a"]])", "model.merges has at 1 an entry that is neither"},
      {R"([["a","b"]])", R"([["a","b"],["a","b","c"]])", "model.merges has at 1 an entry that is neither"},
      {R"([["a","b"]])", R"([{"a":"b"}])", "model.merges has at 0 an entry that is neither"},
      {R"([["a","b"]])", R"([[["a"],"b"]])", "model.merges has at 0 an entry that is neither"},
      {R"([["a","b"]])", R"([1])", "model.merges has at 0 an entry that is neither"},
      {R"([["a","b"]])", R"({})", "model.merges is of type object; expected an array"},
      {R"("unk_token":null)", R"("unk_token":"<unk>")", "model.unk_token \"<unk>\" is not in the vocabulary"},
      {R"("id":257)", R"("id":258)", "added_tokens[0].id is 258 for \"<think>\"; expected 257, the next id"},
      {R"("content":"<think>")", R"("content":"ab")",
       "added_tokens[0].id is 257 for \"ab\"; expected 256 as in model.vocab"},
      {R"("content":"<think>")", R"("content":5)", "added_tokens[0].content is of type number; expected a string"},
      {R"("decoder":{"type":"ByteLevel"},)", "", "decoder is missing"},
      {R"("lstrip":false)", R"("lstrip":1)", "added_tokens[0].lstrip is of type number; expected a boolean"},
  };
  for (const Refusal& refusal : refusals) {
    const std::string error = error_of([&] { parse_tokenizer_json(file_with(refusal.from, refusal.to), "t.json"); });
    EXPECT_EQ(error.find("corrupt: t.json: "), 0u) << error;
    EXPECT_NE(error.find(refusal.message), std::string::npos) << refusal.to << "\n" << error;
  }
}

TEST(TokenizerConfig, GivesTheSpecialTokens) {
  TokenizerDescription description = parse_tokenizer_json(file_with(), "t.json");
  apply_tokenizer_config(
      description, R"({"bos_token":{"content":"<think>"},"eos_token":"ab","pad_token":null,"other":[1]})", "c.json");
  EXPECT_EQ(description.bos, TokenId{257});
  EXPECT_EQ(description.eos, TokenId{256});
  EXPECT_EQ(description.pad, std::nullopt);
  EXPECT_EQ(error_of([&] { apply_tokenizer_config(description, R"({"pad_token":"nowhere"})", "c.json"); }),
            "corrupt: c.json: pad_token \"nowhere\" is not in the vocabulary");
  EXPECT_EQ(error_of([&] { apply_tokenizer_config(description, R"({"pad_token":7})", "c.json"); }),
            "corrupt: c.json: pad_token is of type number; expected a string");
}

TEST(ReadTokenizer, TakesBothFilesOfAFolder) {
  const testing::TempDir dir;
  dir.write("tokenizer.json", file_with());
  EXPECT_EQ(read_tokenizer(dir.path()).bos, std::nullopt);
  dir.write("tokenizer_config.json", R"({"bos_token":"ab"})");
  EXPECT_EQ(read_tokenizer(dir.path()).bos, TokenId{256});
  EXPECT_EQ(error_of([&] { read_tokenizer(dir / "absent"); }).find("not_found: "), 0u);
}

TEST(ReadTokenizer, ReadsTheOraclesCheckpoint) {
  SPARKX_NEEDS_ORACLE();
  const Tokenizer tokenizer(read_tokenizer(testing::oracle_dir() / "tied-f32"));
  EXPECT_EQ(tokenizer.vocab_size(), 512);
  EXPECT_EQ(tokenizer.bos(), TokenId{0});
  EXPECT_EQ(tokenizer.eos(), TokenId{1});
  EXPECT_EQ(tokenizer.pad(), TokenId{2});
  EXPECT_EQ(tokenizer.unknown(), TokenId{5});
  EXPECT_EQ(tokenizer.encode("<｜start▁of▁sentence｜><|User|></tool_call>"), (std::vector<TokenId>{0, 500, 511}));
}

}  // namespace
}  // namespace sparkx
