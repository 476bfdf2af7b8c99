#include "formats/importance_matrix.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "support/errors.h"
#include "support/gguf_files.h"

namespace sparkx {
namespace {

using testing::error_of;
using testing::raw;
using testing::TestGguf;

ByteSource source(std::string_view bytes) {
  return ByteSource::memory("m", std::as_bytes(std::span(bytes)));
}

ImportanceMatrix read(std::string_view bytes) {
  return read_importance_matrix(source(bytes));
}

std::string floats(const std::vector<float>& values) {
  std::string bytes;
  for (const float value : values) bytes += raw(value);
  return bytes;
}

// The older form.
std::string entry(std::string_view name, std::int32_t calls, const std::vector<float>& values) {
  return raw(static_cast<std::int32_t>(name.size())) + std::string(name) + raw(calls) +
         raw(static_cast<std::int32_t>(values.size())) + floats(values);
}

TestGguf gguf() {
  TestGguf file;
  file.set("general.type", std::string("imatrix"));
  file.tensors = {{"blk.0.ffn_up.weight.counts", 0, {1, 1}, floats({4})},
                  {"blk.0.ffn_up.weight.in_sum2", 0, {3, 1}, floats({2, 0, 12})},
                  {"blk.1.ffn_up.weight.counts", 0, {1, 1}, floats({0})},
                  {"blk.1.ffn_up.weight.in_sum2", 0, {3, 1}, floats({0, 0, 0})}};
  return file;
}

TEST(ImportanceMatrix, SumsOfTheGgufFormAreDividedByTheirCounts) {
  EXPECT_EQ(read(gguf().bytes()), (ImportanceMatrix{{"blk.0.ffn_up.weight", {0.5f, 0, 3}}}));
}

TEST(ImportanceMatrix, SumsOfTheListAreDividedByTheirCalls) {
  const std::string list = raw(2) + entry("a", 4, {2, 6}) + entry("b", 0, {1}) + raw(21) + raw(3) + "txt";
  EXPECT_EQ(read(list), (ImportanceMatrix{{"a", {0.5f, 1.5f}}, {"b", {1}}}));
}

TEST(ImportanceMatrix, BothFormsOfLlamaCppSayTheSame) {
  const std::string folder = SPARKX_SOURCE_DIR "/tests/data/calibration/";
  const ImportanceMatrix a = read_importance_matrix(ByteSource::open(folder + "mini.imatrix.gguf"));
  const ImportanceMatrix b = read_importance_matrix(ByteSource::open(folder + "mini.imatrix.dat"));
  ASSERT_EQ(a.size(), 6u * 6);
  ASSERT_EQ(b.size(), a.size());
  for (const auto& [name, values] : a) {
    const std::vector<float>& others = b.at(name);
    ASSERT_EQ(values.size(), name.find("ffn_down") != name.npos ? 512u
                             : name.find("output") != name.npos ? 256u
                                                                : 192u);
    ASSERT_EQ(others.size(), values.size());
    // One counts tokens, the other pieces of the text: up to a factor, which nobody's choice depends on.
    const double factor = double{others[0]} / values[0];
    for (std::size_t i = 0; i < values.size(); ++i) EXPECT_NEAR(others[i], factor * values[i], 1e-4 * others[i]);
  }
}

TEST(ImportanceMatrix, IsToldFromATextByItsFirstBytes) {
  EXPECT_TRUE(is_binary(source(gguf().bytes())));
  EXPECT_TRUE(is_binary(source(raw(1) + entry("a", 1, {1}))));
  EXPECT_FALSE(is_binary(source("a text")));
  EXPECT_FALSE(is_binary(source("短")));
  EXPECT_FALSE(is_binary(source("")));
}

TEST(ImportanceMatrix, EveryCutOfAListIsAnError) {
  const std::string list = raw(2) + entry("blk.0", 4, {2, 6}) + entry("blk.1", 1, {1});
  for (std::size_t size = 0; size < list.size(); ++size) {
    EXPECT_TRUE(error_of([&] { read(std::string_view(list).substr(0, size)); }).starts_with("corrupt: m: ")) << size;
  }
  EXPECT_EQ(read(list).size(), 2u);
}

TEST(ImportanceMatrix, WhatContradictsItselfIsRefused) {
  constexpr std::int32_t kMost = std::numeric_limits<std::int32_t>::max();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const auto broken = [](auto change) {
    TestGguf file = gguf();
    change(file);
    return file.bytes();
  };
  struct Case {
    std::string bytes;
    const char* error;
  };
  const Case cases[] = {
      {raw(kMost) + entry("a", 1, {1}),
       "corrupt: m: 2147483647 entries at byte 0, in a file of 21 bytes; it is no importance matrix"},
      {raw(-1) + entry("a", 1, {1}),
       "corrupt: m: -1 entries at byte 0, in a file of 21 bytes; it is no importance matrix"},
      {raw(1) + raw(kMost) + "aaaaaaaaaaaaaaaa",
       "corrupt: m: 2147483647 bytes of a name at byte 4, in a file of 24 bytes; it is no importance matrix"},
      {raw(1) + raw(0) + "aaaaaaaaaaaaaaaa",
       "corrupt: m: 0 bytes of a name at byte 4, in a file of 24 bytes; it is no importance matrix"},
      {raw(1) + raw(5000) + std::string(9000, 'a'), "corrupt: m: a name of 5000 bytes; it is no importance matrix"},
      {raw(1) + raw(1) + "a" + raw(1) + raw(kMost) + floats({1}),
       "corrupt: m: 2147483647 values at byte 13, in a file of 21 bytes; it is no importance matrix"},
      {raw(2) + entry("a", 1, {1}) + entry("a", 1, {2}), "corrupt: m: there are two entries for \"a\""},
      {raw(1) + entry("a", 1, {1, -2}), "corrupt: m: value 1 of \"a\" is -2, which is no sum of squares"},
      {raw(1) + entry("a", 1, {nan}), "corrupt: m: value 0 of \"a\" is nan, which is no sum of squares"},
      {broken([](TestGguf& f) { f.drop("general.type"); }),
       "unsupported: m: a GGUF file whose general.type is not said, not \"imatrix\""},
      {broken([](TestGguf& f) { f.set("general.type", std::string("model")); }),
       "unsupported: m: a GGUF file whose general.type is \"model\", not \"imatrix\""},
      {broken([](TestGguf& f) { f.tensors.erase(f.tensors.begin()); }),
       "corrupt: m: \"blk.0.ffn_up.weight\" has no .counts"},
      {broken([](TestGguf& f) { f.tensors.erase(f.tensors.begin() + 1); }),
       "corrupt: m: \"blk.0.ffn_up.weight\" has no .in_sum2"},
      {broken([](TestGguf& f) {
         f.tensors[0] = {f.tensors[0].name, 0, {1, 2}, floats({1, 1})};
       }),
       "unsupported: m: \"blk.0.ffn_up.weight\" has 2 experts, expected a matrix of one"},
      {broken([](TestGguf& f) {
         f.tensors[1] = {f.tensors[1].name, 1, {3}, "aabbcc"};
       }),
       "corrupt: m: tensor \"blk.0.ffn_up.weight.in_sum2\" is F16, expected F32"},
      {broken([nan](TestGguf& f) { f.tensors[0].bytes = floats({nan}); }),
       "corrupt: m: value 0 of \"blk.0.ffn_up.weight\" is nan, which is no sum of squares"},
  };
  for (const Case& c : cases) EXPECT_EQ(error_of([&] { read(c.bytes); }), c.error);
}

}  // namespace
}  // namespace sparkx
