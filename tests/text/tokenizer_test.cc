#include "text/tokenizer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "core/json.h"
#include "support/errors.h"
#include "text/byte_level.h"
#include "text/detokenizer.h"
#include "text/tokenizer_json.h"

namespace sparkx {
namespace {

using testing::error_of;

std::string read_data(const std::string& name) {
  std::ifstream file(SPARKX_SOURCE_DIR "/tests/data/tokenizer/" + name, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

const Tokenizer& golden_tokenizer() {
  static const Tokenizer tokenizer(parse_tokenizer_json(read_data("tokenizer.json"), "tokenizer.json"));
  return tokenizer;
}

std::vector<TokenId> ids_of(const json::Value& list) {
  std::vector<TokenId> ids;
  for (const json::Value& id : list.as_array()) ids.push_back(static_cast<TokenId>(id.as_int64()));
  return ids;
}

std::string streamed(const Tokenizer& tokenizer, const std::vector<TokenId>& ids, bool skip_special_tokens) {
  Detokenizer detokenizer(tokenizer, skip_special_tokens);
  std::string text;
  for (const TokenId id : ids) text += detokenizer.append(id);
  return text + detokenizer.finish();
}

// A vocabulary of all bytes and these tokens.
TokenizerDescription small_description(std::vector<std::string> more,
                                       std::vector<std::pair<std::string, std::string>> merges) {
  TokenizerDescription description;
  description.source = "small.json";
  for (int byte = 0; byte < 256; ++byte) {
    const char text = static_cast<char>(byte);
    description.tokens.push_back(bytes_to_token_text(std::string_view(&text, 1)));
  }
  description.tokens.insert(description.tokens.end(), more.begin(), more.end());
  const TokenIndex index(description.tokens, "small.json");
  for (const auto& [left, right] : merges) description.merges.emplace_back(*index.find(left), *index.find(right));
  description.pre_tokenizer = {{.kind = PreTokenizerStep::Kind::byte_level, .pattern = ""}};
  return description;
}

// tests/oracle/make_tokenizer_golden.py: the tokenizers library.
TEST(Tokenizer, EncodesAndDecodesAsTheLibraryDoes) {
  const Tokenizer& tokenizer = golden_tokenizer();
  const json::Value cases = json::parse(read_data("golden.json"), "golden.json");
  ASSERT_GT(cases.as_array().size(), 400u);
  for (const json::Value& test : cases.as_array()) {
    const std::vector<TokenId> ids = ids_of(*test.find("ids"));
    if (const json::Value* text = test.find("text")) {
      EXPECT_EQ(tokenizer.encode(text->as_string()), ids) << json::print(*text);
      EXPECT_EQ(tokenizer.encode(text->as_string(), AddedTokens::none), ids_of(*test.find("plain_ids")))
          << json::print(*text);
    }
    EXPECT_EQ(tokenizer.decode(ids), test.find("decoded")->as_string());
    EXPECT_EQ(tokenizer.decode(ids, true), test.find("without_special")->as_string());
    EXPECT_EQ(streamed(tokenizer, ids, false), test.find("decoded")->as_string());
    EXPECT_EQ(streamed(tokenizer, ids, true), test.find("without_special")->as_string());
  }
}

// tests/oracle/make_tokenizer_parts_golden.py: components that other families have.
TEST(Tokenizer, ComponentsOfOtherFamiliesDoAsTheLibraryDoes) {
  const json::Value groups = json::parse(read_data("parts.json"), "parts.json");
  int compared = 0;
  for (const json::Value& group : groups.as_array()) {
    if (!group.find("change")) continue;
    json::Value file = json::parse(read_data("tokenizer.json"), "tokenizer.json");
    for (const auto& [key, value] : group.find("change")->as_object()) {
      for (json::Member& member : file.as_object()) {
        if (member.first == key) member.second = value;
      }
    }
    const Tokenizer tokenizer(parse_tokenizer_json(json::print(file), group.find("name")->as_string()));
    for (const json::Value& test : group.find("cases")->as_array()) {
      EXPECT_EQ(tokenizer.encode(test.find("text")->as_string()), ids_of(*test.find("ids")))
          << group.find("name")->as_string() << ": " << json::print(*test.find("text"));
      ++compared;
    }
  }
  EXPECT_EQ(compared, 130);
}

TEST(Tokenizer, NormalizingDoesNotMakeMarkersOfUntrustedText) {
  TokenizerDescription description = small_description({"<s>"}, {});
  description.added_tokens = {{.id = 256, .content = "<s>", .normalized = true}};
  description.normalizer = {{.kind = NormalizerStep::Kind::replace, .pattern = "x", .content = "s"}};
  const Tokenizer tokenizer(description);
  const auto has_marker = [&](std::vector<Stretch> stretches) { return tokenizer.encode(stretches)[0] == 256; };
  EXPECT_TRUE(has_marker({{"<x>", true}}));
  EXPECT_TRUE(has_marker({{"<x>", true}, {"user", false}}));
  EXPECT_FALSE(has_marker({{"<x>", false}, {"template", true}}));
  EXPECT_FALSE(has_marker({{"<", true}, {"x", false}, {">", true}}));
}

TEST(Tokenizer, NoAddedTokenComesOutOfTextInModeNone) {
  const Tokenizer& tokenizer = golden_tokenizer();
  for (const AddedTokenDescription& token : tokenizer.description().added_tokens) {
    const std::string text = "a " + token.content + token.content + " b";
    for (const TokenId id : tokenizer.encode(text, AddedTokens::none))
      EXPECT_FALSE(tokenizer.is_added(id)) << token.content;
    EXPECT_EQ(tokenizer.decode(tokenizer.encode(text, AddedTokens::none)), text);
  }
}

TEST(Tokenizer, AddedTokensThatMergesPutTogetherAreTakenApartInModeNone) {
  TokenizerDescription description = small_description({"ab", "abc", "d!"}, {{"a", "b"}, {"ab", "c"}, {"d", "!"}});
  description.added_tokens = {{.id = 257, .content = "abc"}, {.id = 256, .content = "ab", .single_word = true}};
  const Tokenizer tokenizer(description);
  EXPECT_EQ(tokenizer.encode("abc"), (std::vector<TokenId>{257}));
  EXPECT_EQ(tokenizer.encode("abcd!", AddedTokens::none), (std::vector<TokenId>{'a', 'b', 'c', 258}));
}

TEST(Tokenizer, StretchesRecognizeAddedTokensOnlyWhereTrusted) {
  const Tokenizer& tokenizer = golden_tokenizer();
  const TokenId think = *tokenizer.find("<think>");
  const auto count = [&](std::vector<Stretch> stretches) {
    const std::vector<TokenId> ids = tokenizer.encode(stretches);
    return std::count(ids.begin(), ids.end(), think);
  };
  EXPECT_EQ(count({{"<think>", true}, {"<think>", false}, {"<think>", true}}), 2);
  EXPECT_EQ(count({{"<thi", true}, {"nk>", true}}), 1) << "neighbours that are trusted are one run";
  EXPECT_EQ(count({{"<thi", true}, {"nk>", false}}), 0);
  EXPECT_EQ(count({{"<thi", false}, {"nk>", true}}), 0);
  EXPECT_EQ(count({{"<thi", true}, {"", false}, {"nk>", true}}), 1);
}

TEST(Tokenizer, TextBetweenAddedTokensIsOnePieceWhoeverWroteIt) {
  const Tokenizer& tokenizer = golden_tokenizer();
  const std::string parts[] = {"<|User|>", "Hel", "lo  ", "\n", " wor", "ld", "<|Bot|>"};
  std::string joined;
  std::vector<Stretch> stretches;
  for (std::size_t i = 0; i < 7; ++i) {
    joined += parts[i];
    stretches.push_back({parts[i], i == 0 || i == 3 || i == 6});
  }
  EXPECT_EQ(tokenizer.encode(stretches), tokenizer.encode(joined));
}

TEST(Tokenizer, InvalidUtf8BecomesReplacementCharacters) {
  const Tokenizer& tokenizer = golden_tokenizer();
  EXPECT_EQ(tokenizer.encode("a\xff\xe4\xbd z"), tokenizer.encode("a\uFFFD\uFFFD z"));
  EXPECT_EQ(tokenizer.encode(std::vector<Stretch>{{"\xe4\xbd", true}, {"\xa0", true}}),
            tokenizer.encode("\uFFFD\uFFFD"));
}

TEST(Tokenizer, IdZeroIsAToken) {
  const Tokenizer& tokenizer = golden_tokenizer();
  EXPECT_EQ(tokenizer.find("<｜start▁of▁sentence｜>"), TokenId{0});
  EXPECT_EQ(tokenizer.encode("<｜start▁of▁sentence｜>"), (std::vector<TokenId>{0}));
  EXPECT_EQ(tokenizer.decode(std::vector<TokenId>{0}), "<｜start▁of▁sentence｜>");
  EXPECT_TRUE(tokenizer.is_special(0));
  EXPECT_FALSE(tokenizer.is_special(*tokenizer.find("<think>")));
}

TEST(Tokenizer, IdsOutsideTheVocabularyAreRefused) {
  const Tokenizer& tokenizer = golden_tokenizer();
  const auto size = static_cast<TokenId>(tokenizer.vocab_size());
  for (const TokenId id : {-1, size, 2147483647}) {
    const std::string message = "invalid_argument: token id " + std::to_string(id) +
                                " is not in the vocabulary (0 to " + std::to_string(size - 1) + ")";
    EXPECT_EQ(error_of([&] { tokenizer.decode(std::vector<TokenId>{1, id}); }), message);
    EXPECT_EQ(error_of([&] { tokenizer.token_bytes(id); }), message);
    EXPECT_FALSE(tokenizer.contains(id));
  }
  EXPECT_TRUE(tokenizer.contains(size - 1));
}

TEST(Tokenizer, AMegabyteOfOneCharacterIsNotQuadratic) {
  const Tokenizer& tokenizer = golden_tokenizer();
  for (const std::string_view character : {"a", " ", "=", "的", "1", "\n"}) {
    std::string text;
    while (text.size() < 1'000'000) text += character;
    EXPECT_EQ(tokenizer.decode(tokenizer.encode(text)), text);
  }
}

TEST(Tokenizer, LongPiecesMergeLikeShortOnes) {
  // The same piece on both sides of the size from which a heap finds the next merge.
  const Tokenizer tokenizer(
      small_description({"aa", "aaaa", "ab", "aab"}, {{"a", "b"}, {"a", "a"}, {"a", "ab"}, {"aa", "aa"}}));
  std::string text;
  for (int i = 0; i < 200; ++i) {
    text += i % 7 == 6 ? 'b' : 'a';
    // Runs of six: five a's and "ab"; the leftmost pairs merge first, then fours.
    std::vector<TokenId> expected;
    for (std::size_t at = 0; at < text.size(); at += 7) {
      const std::string run = text.substr(at, 7);
      const bool has_b = run.size() == 7;
      std::size_t letters = has_b ? 5 : run.size();
      for (; letters >= 4; letters -= 4) expected.push_back(257);
      if (letters >= 2) expected.push_back(256);
      const bool single = letters % 2 == 1;
      if (has_b) {
        expected.push_back(single ? 259 : 258);
      } else if (single) {
        expected.push_back(tokenizer.find("a").value());
      }
    }
    ASSERT_EQ(tokenizer.encode(text), expected) << text;
  }
}

TEST(Tokenizer, ManyThreadsMayUseOne) {
  const Tokenizer tokenizer(parse_tokenizer_json(read_data("tokenizer.json"), "tokenizer.json"));
  const std::string text = "The quick <think>brown fox</think> 12345 世界 don't\n\n" + std::string(100, 'x');
  const std::vector<TokenId> expected = golden_tokenizer().encode(text);
  std::vector<std::thread> threads;
  std::vector<int> right(4);
  for (std::size_t i = 0; i < right.size(); ++i) {
    threads.emplace_back([&, i] {
      for (int turn = 0; turn < 50; ++turn) right[i] += tokenizer.encode(text) == expected;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right, std::vector<int>(4, 50));
}

TEST(Tokenizer, DescriptionsThatContradictThemselvesAreRefused) {
  const auto error = [](auto change) {
    TokenizerDescription description = small_description({"ab"}, {{"a", "b"}});
    change(description);
    return error_of([&] { Tokenizer{description}; });
  };
  using D = TokenizerDescription;
  EXPECT_EQ(error([](D&) {}), "no error");
  EXPECT_EQ(error([](D& d) { d.tokens.push_back("a"); }),
            "corrupt: small.json: tokens 97 and 257 have the same text \"a\"");
  EXPECT_EQ(error([](D& d) { d.tokens.pop_back(); }),
            "corrupt: small.json: merge 0 gives \"ab\", which is not in the vocabulary");
  EXPECT_EQ(error([](D& d) { d.merges.emplace_back(1, 999); }),
            "corrupt: small.json: merge 1 names token 999, but the vocabulary has 257 tokens");
  EXPECT_EQ(error([](D& d) { d.merges.push_back(d.merges[0]); }),
            "corrupt: small.json: merges 0 and 1 are the same, \"a\" and \"b\"");
  EXPECT_EQ(error([](D& d) { d.added_tokens = {{.id = 257, .content = "x"}}; }),
            "corrupt: small.json: added token \"x\" has id 257, but the vocabulary has 257 tokens");
  EXPECT_EQ(error([](D& d) { d.added_tokens = {{.id = 256, .content = "x"}}; }),
            "corrupt: small.json: added token 256 is \"x\", but the vocabulary has \"ab\" there");
  EXPECT_EQ(error([](D& d) { d.bos = -1; }),
            "corrupt: small.json: bos_token has id -1, but the vocabulary has 257 tokens");
  EXPECT_EQ(error([](D& d) { d.tokens[65] = "gone"; }),
            "unsupported: small.json: the vocabulary has neither a token for byte 0x41 nor an unk_token");
  EXPECT_EQ(error([](D& d) { d.tokens.clear(); }),
            "corrupt: small.json: the vocabulary has 0 tokens; expected 1 to 16777216");
  EXPECT_EQ(
      error([](D& d) { d.pre_tokenizer = {{.kind = PreTokenizerStep::Kind::split, .pattern = "(?<=a)"}}; }),
      "unsupported: small.json: pre_tokenizer, step 1: regular expression \"(?<=a)\", character 1: lookbehind is not "
      "supported");
}

}  // namespace
}  // namespace sparkx
