#include "text/detokenizer.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "core/unicode.h"
#include "support/errors.h"
#include "text/byte_level.h"
#include "text/tokenizer.h"

namespace sparkx {
namespace {

// Every byte is a token of that id; 256 is special.
Tokenizer byte_tokenizer() {
  TokenizerDescription description;
  description.source = "bytes.json";
  for (int byte = 0; byte < 256; ++byte) {
    const char text = static_cast<char>(byte);
    description.tokens.push_back(bytes_to_token_text(std::string_view(&text, 1)));
  }
  description.tokens.push_back("<end>");
  description.added_tokens = {{.id = 256, .content = "<end>", .special = true}};
  return Tokenizer(std::move(description));
}

TEST(Detokenizer, HoldsACharacterBackUntilItIsWhole) {
  const Tokenizer tokenizer = byte_tokenizer();
  Detokenizer detokenizer(tokenizer);
  EXPECT_EQ(detokenizer.append(0xF0), "");
  EXPECT_EQ(detokenizer.append(0x9F), "");
  EXPECT_EQ(detokenizer.append(0x98), "");
  EXPECT_EQ(detokenizer.append(0x80), "😀");
  EXPECT_EQ(detokenizer.append('a'), "a");
  EXPECT_EQ(detokenizer.finish(), "");
}

TEST(Detokenizer, GivesUpACharacterThatCannotBecomeWhole) {
  const Tokenizer tokenizer = byte_tokenizer();
  Detokenizer detokenizer(tokenizer);
  EXPECT_EQ(detokenizer.append(0xE4), "");
  EXPECT_EQ(detokenizer.append('x'), "\uFFFDx");
  EXPECT_EQ(detokenizer.append(0xFF), "\uFFFD");
  EXPECT_EQ(detokenizer.append(0xE4), "");
  EXPECT_EQ(detokenizer.append(0xBD), "");
  EXPECT_EQ(detokenizer.finish(), "\uFFFD");
  EXPECT_EQ(detokenizer.finish(), "") << "finish leaves nothing behind";
}

TEST(Detokenizer, SpecialTokensAreSkippedOnlyWhenAsked) {
  const Tokenizer tokenizer = byte_tokenizer();
  Detokenizer all(tokenizer), skipping(tokenizer, true);
  EXPECT_EQ(all.append(256), "<end>");
  EXPECT_EQ(skipping.append(0xC3), "");
  EXPECT_EQ(skipping.append(256), "");
  EXPECT_EQ(skipping.append(0xA9), "é") << "as the whole decode, which has nothing between the bytes";
}

TEST(Detokenizer, ABadIdChangesNothing) {
  const Tokenizer tokenizer = byte_tokenizer();
  Detokenizer detokenizer(tokenizer);
  detokenizer.append(0xC3);
  EXPECT_NE(testing::error_of([&] { detokenizer.append(257); }), "no error");
  EXPECT_EQ(detokenizer.append(0xA9), "é");
}

TEST(Detokenizer, PartsOfAnyBytesAreTheWholeDecode) {
  const Tokenizer tokenizer = byte_tokenizer();
  std::mt19937 random(1);
  const unsigned char likely[] = {0x41, 0x80, 0xBF, 0xC2, 0xC3, 0xE0, 0xE4, 0xED,
                                  0xA0, 0xF0, 0x9F, 0x90, 0xF4, 0x8F, 0xFF, 0xC0};
  for (int turn = 0; turn < 20000; ++turn) {
    std::vector<TokenId> ids;
    Detokenizer detokenizer(tokenizer);
    std::string streamed;
    for (std::size_t size = random() % 8 + 1; size > 0; --size) {
      ids.push_back(likely[random() % std::size(likely)]);
      const std::string part = detokenizer.append(ids.back());
      ASSERT_TRUE(is_valid_utf8(part));
      streamed += part;
    }
    streamed += detokenizer.finish();
    ASSERT_EQ(streamed, tokenizer.decode(ids));
  }
}

}  // namespace
}  // namespace sparkx
