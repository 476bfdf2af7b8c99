#include "formats/gguf.h"

#include <gtest/gtest.h>

#include "support/errors.h"
#include "support/gguf_files.h"

namespace sparkx {
namespace {

using testing::error_of;
using testing::raw;
using testing::small_gguf;
using testing::TestGguf;

GgufHeader read(const std::string& bytes) {
  return read_gguf(ByteSource::memory("m.gguf", std::as_bytes(std::span(bytes))));
}

std::string error_in(const std::string& bytes) {
  return error_of([&] { read(bytes); });
}

template <typename Change>
std::string error_after(Change change) {
  TestGguf file = small_gguf();
  change(file);
  return error_in(file.bytes());
}

TEST(Gguf, ReadsValuesOfEveryType) {
  TestGguf file;
  const std::pair<const char*, std::string> integers[] = {
      {"u8", raw<std::uint32_t>(0) + raw<std::uint8_t>(200)},  {"i8", raw<std::uint32_t>(1) + raw<std::int8_t>(-3)},
      {"u16", raw<std::uint32_t>(2) + raw<std::uint16_t>(7)},  {"i16", raw<std::uint32_t>(3) + raw<std::int16_t>(-7)},
      {"u32", raw<std::uint32_t>(4) + raw<std::uint32_t>(9)},  {"i32", raw<std::uint32_t>(5) + raw<std::int32_t>(-9)},
      {"u64", raw<std::uint32_t>(10) + raw<std::uint64_t>(5)}, {"i64", raw<std::uint32_t>(11) + raw<std::int64_t>(-5)}};
  for (const auto& [key, value] : integers) file.set_raw(key, value);
  file.set_raw("f32", raw<std::uint32_t>(6) + raw(0.5f));
  file.set_raw("f64", raw<std::uint32_t>(12) + raw(0.1));
  file.set_raw("yes", raw<std::uint32_t>(7) + '\1');
  file.set("text", "Ġa");
  file.set("texts", std::vector<std::string>{"a", ""});
  file.set("flags", std::vector<bool>{true, false});
  file.set("numbers", std::vector<std::uint32_t>{3, 1});
  const GgufMetadata m = read(file.bytes()).metadata;
  const std::pair<const char*, std::int64_t> expected[] = {{"u8", 200}, {"i8", -3},  {"u16", 7}, {"i16", -7},
                                                           {"u32", 9},  {"i32", -9}, {"u64", 5}, {"i64", -5}};
  for (const auto& [key, value] : expected) EXPECT_EQ(m.integer(key), value) << key;
  EXPECT_EQ(m.number("f32"), 0.5);
  EXPECT_EQ(m.number("f64"), 0.1);
  EXPECT_EQ(m.number("u8"), 200.0);
  EXPECT_TRUE(*m.boolean("yes"));
  EXPECT_EQ(*m.text("text"), "Ġa");
  EXPECT_EQ(*m.array<std::string>("texts"), (std::vector<std::string>{"a", ""}));
  EXPECT_EQ(*m.array<bool>("flags"), (std::vector<bool>{true, false}));
  EXPECT_EQ(*m.array<std::int64_t>("numbers"), (std::vector<std::int64_t>{3, 1}));
  EXPECT_EQ(m.integer("absent"), std::nullopt);
  EXPECT_EQ(m.text("absent"), nullptr);
  EXPECT_EQ(error_of([&] { m.integer("text"); }), "corrupt: m.gguf: text is a string; expected an integer");
  EXPECT_EQ(error_of([&] { m.array<bool>("texts"); }),
            "corrupt: m.gguf: texts is an array of strings; expected an array of booleans");
}

TEST(Gguf, TensorsHaveShapesRowsFirstAndOffsetsIntoTheFile) {
  const std::string bytes = small_gguf().bytes();
  const GgufHeader header = read(bytes);
  ASSERT_EQ(header.tensors.size(), 18u);
  const GgufTensor& qkv = header.tensors[2];
  EXPECT_EQ(qkv.name, "blk.0.attn_qkv.weight");
  EXPECT_EQ(qkv.shape, (std::vector<std::int64_t>{32, 6}));
  EXPECT_STREQ(qkv.type->name, "F32");
  EXPECT_EQ(qkv.bytes, 32u * 6 * 4);
  EXPECT_EQ(bytes.substr(qkv.offset, 8), raw(2.0f) + raw(3.0f));
  EXPECT_EQ(header.tensors.back().offset + header.tensors.back().bytes, bytes.size());
}

TEST(Gguf, Version2IsReadToo) {
  TestGguf file = small_gguf();
  file.version = 2;
  EXPECT_EQ(read(file.bytes()).tensors.size(), 18u);
}

TEST(Gguf, RefusesOtherVersionsAndByteOrders) {
  EXPECT_EQ(error_after([](TestGguf& f) { f.version = 1; }),
            "unsupported: m.gguf: is GGUF version 1; sparkx reads 2 and 3");
  EXPECT_EQ(error_after([](TestGguf& f) { f.version = 0x03000000; }),
            "unsupported: m.gguf: is a big-endian GGUF file; sparkx reads little-endian ones");
  EXPECT_EQ(error_in("GGML and so on"), "corrupt: m.gguf: is no GGUF file");
  EXPECT_EQ(error_in(""), "corrupt: m.gguf: is no GGUF file");
}

// Wherever a file ends, it is refused, and nothing is read behind its end (the sanitizers look).
TEST(Gguf, EveryShorterFileIsRefused) {
  const std::string bytes = small_gguf().bytes();
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_EQ(error_in(std::string(bytes, 0, size)).find("corrupt: "), 0u) << size;
  }
}

TEST(Gguf, CountsBeyondTheFileAreRefusedBeforeMemoryIsTaken) {
  const std::uint64_t huge = std::uint64_t{1} << 60;
  std::string bytes = small_gguf().bytes();
  EXPECT_NE(error_in(std::string(bytes).replace(8, 8, raw(huge))).find("is too short for 1152921504606846976 tensors"),
            std::string::npos);
  EXPECT_NE(error_in(std::string(bytes).replace(16, 8, raw(huge))).find("entries of metadata"), std::string::npos);
  EXPECT_NE(error_after([&](TestGguf& f) {
              f.set_raw("x", TestGguf::array(testing::GgufValueType::string, huge));
            }).find("elements"),
            std::string::npos);
  EXPECT_NE(error_after([&](TestGguf& f) { f.set_raw("x", raw<std::uint32_t>(8) + raw(huge)); }).find("a string of"),
            std::string::npos);
}

TEST(Gguf, RefusesMetadataThatIsNone) {
  EXPECT_NE(error_after([](TestGguf& f) { f.set_raw("x", raw<std::uint32_t>(13)); }).find("the unknown type 13"),
            std::string::npos);
  EXPECT_NE(
      error_after([](TestGguf& f) { f.set_raw("x", raw<std::uint32_t>(7) + '\2'); }).find("a boolean of the value 2"),
      std::string::npos);
  EXPECT_NE(error_after([](TestGguf& f) {
              f.set_raw("x", TestGguf::array(testing::GgufValueType::array, 1));
            }).find("an array of arrays"),
            std::string::npos);
  EXPECT_NE(error_after([](TestGguf& f) {
              f.set_raw("x", raw<std::uint32_t>(10) + raw(~std::uint64_t{0}));
            }).find("the integer 18446744073709551615"),
            std::string::npos);
  EXPECT_EQ(error_after([](TestGguf& f) { f.entries.push_back(f.entries[0]); }),
            "corrupt: m.gguf: the key general.architecture is there twice");
  for (const std::uint32_t alignment : {0u, 4u, 48u, 1u << 21}) {
    EXPECT_NE(error_after([&](TestGguf& f) { f.set("general.alignment", alignment); }).find("expected a power of two"),
              std::string::npos);
  }
}

TEST(Gguf, RefusesTensorsThatCannotBe) {
  const auto error = [](auto change) { return error_after([&](TestGguf& f) { change(f.tensors[0]); }); };
  using Tensor = testing::TestGgufTensor;
  EXPECT_EQ(error([](Tensor& t) { t.dimensions = {}; }), "corrupt: m.gguf: tensor token_embd.weight has 0 dimensions");
  EXPECT_EQ(error([](Tensor& t) {
              t.dimensions = {1, 1, 1, 1, 1};
            }),
            "corrupt: m.gguf: tensor token_embd.weight has 5 dimensions");
  EXPECT_EQ(error([](Tensor& t) {
              t.dimensions = {0, 8};
            }),
            "corrupt: m.gguf: tensor token_embd.weight has a dimension of 0");
  EXPECT_NE(error([](Tensor& t) {
              t.dimensions = {std::uint64_t{1} << 40, std::uint64_t{1} << 40};
            }).find("a dimension of"),
            std::string::npos);
  EXPECT_EQ(error([](Tensor& t) { t.type = 77; }),
            "unsupported: m.gguf: tensor token_embd.weight has elements of type 77, which sparkx does not know");
  EXPECT_EQ(
      error([](Tensor& t) { t.type = 8; }),
      "corrupt: m.gguf: tensor token_embd.weight has rows of 6 elements, no multiple of the 32 in a block of Q8_0");
  EXPECT_EQ(error([](Tensor& t) {
              t.dimensions = {6, 1u << 20};
            }),
            "corrupt: m.gguf: tensor token_embd.weight ends beyond the file: cut off");
  EXPECT_NE(error([](Tensor& t) { t.name = std::string(65, 'x'); }).find("a string of 65 bytes where 64"),
            std::string::npos);
}

TEST(Gguf, RefusesTensorsInWrongPlaces) {
  const auto error = [](std::vector<std::uint64_t> offsets) {
    return error_after([&](TestGguf& f) { f.offsets = std::move(offsets); });
  };
  EXPECT_EQ(error({0, 200}),
            "corrupt: m.gguf: tensor blk.0.attn_norm.weight begins at 200, no multiple of the alignment 32");
  EXPECT_EQ(error({0, 160}), "corrupt: m.gguf: tensor blk.0.attn_norm.weight overlaps tensor token_embd.weight");
  EXPECT_NE(error({0, std::uint64_t{1} << 62}).find("belong to no tensor"), std::string::npos);
  EXPECT_EQ(error(std::vector<std::uint64_t>(18, 0)),
            "corrupt: m.gguf: tensor blk.0.attn_norm.weight overlaps tensor token_embd.weight");
  EXPECT_NE(error({32}).find("belong to no tensor"), std::string::npos);
}

}  // namespace
}  // namespace sparkx
