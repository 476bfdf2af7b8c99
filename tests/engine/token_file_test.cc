#include <gtest/gtest.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "formats/safetensors.h"
#include "sparkx/sparkx.hpp"
#include "support/errors.h"
#include "support/temp_dir.h"

namespace sparkx {
namespace {

using testing::error_of;
using testing::TempDir;
using Tokens = std::vector<TokenId>;

template <typename Element>
std::filesystem::path write_tensor(const TempDir& folder, const char* name, Dtype dtype,
                                   std::vector<std::int64_t> shape, const std::vector<Element>& elements) {
  SafetensorsTensor tensor;
  tensor.name = name;
  tensor.dtype = dtype;
  tensor.shape = std::move(shape);
  const auto path = folder / "tokens.safetensors";
  SafetensorsWriter writer(path, std::span(&tensor, 1));
  writer.write(std::as_bytes(std::span(elements)));
  writer.commit();
  return path;
}

TEST(TokenList, TakesCommasAndBlanksInAnyMix) {
  EXPECT_EQ(parse_token_list("0, 130973,53\n7\t8\r\n"), (Tokens{0, 130973, 53, 7, 8}));
  EXPECT_EQ(parse_token_list(" ,, "), Tokens{});
  EXPECT_EQ(parse_token_list("2147483647"), Tokens{2147483647});
}

TEST(TokenList, NamesWhatIsNoTokenId) {
  EXPECT_EQ(error_of([] { parse_token_list("1 x2 3"); }), "invalid_argument: \"x2\" is not a token id");
  EXPECT_EQ(error_of([] { parse_token_list("1,-2"); }), "invalid_argument: \"-2\" is not a token id");
  EXPECT_EQ(error_of([] { parse_token_list("2147483648"); }), "invalid_argument: \"2147483648\" is not a token id");
  EXPECT_EQ(error_of([] { parse_token_list("1.5"); }), "invalid_argument: \"1.5\" is not a token id");
}

TEST(TokenFile, TextIsAList) {
  TempDir folder;
  EXPECT_EQ(read_token_file(folder.write("tokens.txt", "1, 2\n3\n")), (Tokens{1, 2, 3}));
  EXPECT_EQ(read_token_file(folder.write("empty.txt", "")), Tokens{});
}

TEST(TokenFile, SafetensorsWithInt32AndInt64) {
  TempDir folder;
  EXPECT_EQ(read_token_file(write_tensor<std::int32_t>(folder, "tokens", Dtype::int32, {3}, {5, 0, 7})),
            (Tokens{5, 0, 7}));
  EXPECT_EQ(read_token_file(write_tensor<std::int64_t>(folder, "tokens", Dtype::int64, {2}, {9, 130975})),
            (Tokens{9, 130975}));
}

TEST(TokenFile, OtherTensorsAreRefused) {
  TempDir folder;
  const auto message = [&](const std::filesystem::path& path) { return error_of([&] { read_token_file(path); }); };
  EXPECT_TRUE(message(write_tensor<std::int32_t>(folder, "ids", Dtype::int32, {1}, {5}))
                  .ends_with("tokens.safetensors: there is no tensor tokens"));
  EXPECT_TRUE(message(write_tensor<float>(folder, "tokens", Dtype::float32, {1}, {5}))
                  .ends_with("tensor tokens is float32 with 1 dimensions, expected int32 or int64 with one"));
  EXPECT_TRUE(message(write_tensor<std::int32_t>(folder, "tokens", Dtype::int32, {1, 2}, {5, 6}))
                  .ends_with("tensor tokens is int32 with 2 dimensions, expected int32 or int64 with one"));
  EXPECT_TRUE(message(write_tensor<std::int64_t>(folder, "tokens", Dtype::int64, {2}, {5, std::int64_t{1} << 31}))
                  .ends_with("2147483648 is not a token id (tokens[1])"));
  EXPECT_TRUE(message(write_tensor<std::int32_t>(folder, "tokens", Dtype::int32, {1}, {-1}))
                  .ends_with("-1 is not a token id (tokens[0])"));
}

TEST(TokenFile, AMissingFileIsNamed) {
  EXPECT_TRUE(error_of([] { read_token_file("/no/such/file"); }).starts_with("not_found: /no/such/file"));
}

}  // namespace
}  // namespace sparkx
