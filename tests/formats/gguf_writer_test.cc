#include "formats/gguf_writer.h"

#include <gtest/gtest.h>

#include <span>

#include "support/errors.h"

namespace sparkx {
namespace {

using testing::error_of;

const GgufType& type(std::string_view name) {
  return *find_gguf_type(name);
}

GgufHeader read(std::string bytes, std::uint64_t file_bytes) {
  bytes.resize(file_bytes);
  return read_gguf(ByteSource::memory("m.gguf", std::as_bytes(std::span(bytes))));
}

TEST(GgufWriter, ReaderFindsEveryTypeOfValue) {
  GgufWriter writer;
  writer.add("u8", std::uint8_t{200});
  writer.add("i8", std::int8_t{-3});
  writer.add("u16", std::uint16_t{60000});
  writer.add("i16", std::int16_t{-7});
  writer.add("u32", std::uint32_t{4000000000});
  writer.add("i32", std::int32_t{-9});
  writer.add("u64", std::uint64_t{5});
  writer.add("i64", std::int64_t{-5});
  writer.add("f32", 0.5f);
  writer.add("f64", 0.1);
  writer.add("yes", true);
  writer.add("text", std::string("Ġa\0b", 5));
  writer.add("texts", std::vector<std::string>{"a", ""});
  writer.add("flags", std::vector<bool>{true, false});
  writer.add("none", std::vector<std::string>());
  writer.add("bytes", std::vector<std::uint8_t>{255, 0});
  writer.add("i8s", std::vector<std::int8_t>{-128});
  writer.add("u16s", std::vector<std::uint16_t>{65535});
  writer.add("i16s", std::vector<std::int16_t>{-32768});
  writer.add("u32s", std::vector<std::uint32_t>{4000000000});
  writer.add("i32s", std::vector<std::int32_t>{-1, 2});
  writer.add("u64s", std::vector<std::uint64_t>{1});
  writer.add("i64s", std::vector<std::int64_t>{-1});
  writer.add("f32s", std::vector<float>{0.5f});
  writer.add("f64s", std::vector<double>{0.1});
  const GgufMetadata m = read(writer.head(), writer.file_bytes()).metadata;
  ASSERT_EQ(m.entries().size(), 25u);
  const std::pair<const char*, std::int64_t> integers[] = {
      {"u8", 200}, {"i8", -3}, {"u16", 60000}, {"i16", -7}, {"u32", 4000000000}, {"i32", -9}, {"u64", 5}, {"i64", -5}};
  for (const auto& [key, value] : integers) EXPECT_EQ(m.integer(key), value) << key;
  EXPECT_EQ(m.number("f32"), 0.5);
  EXPECT_EQ(m.number("f64"), 0.1);
  EXPECT_TRUE(*m.boolean("yes"));
  EXPECT_EQ(*m.text("text"), std::string("Ġa\0b", 5));
  EXPECT_EQ(*m.array<std::string>("texts"), (std::vector<std::string>{"a", ""}));
  EXPECT_EQ(*m.array<bool>("flags"), (std::vector<bool>{true, false}));
  EXPECT_TRUE(m.array<std::string>("none")->empty());
  const std::pair<const char*, std::vector<std::int64_t>> arrays[] = {
      {"bytes", {255, 0}},    {"i8s", {-128}},   {"u16s", {65535}}, {"i16s", {-32768}},
      {"u32s", {4000000000}}, {"i32s", {-1, 2}}, {"u64s", {1}},     {"i64s", {-1}}};
  for (const auto& [key, values] : arrays) EXPECT_EQ(*m.array<std::int64_t>(key), values) << key;
  EXPECT_EQ(*m.array<double>("f32s"), std::vector<double>{0.5});
  EXPECT_EQ(*m.array<double>("f64s"), std::vector<double>{0.1});
}

TEST(GgufWriter, TensorsStandAtMultiplesOfTheAlignmentInTheOrderTheyCame) {
  GgufWriter writer;
  writer.add("a", std::string("of some length"));
  writer.add_tensor("norm", type("F32"), {5});
  writer.add_tensor("matrix", type("Q4_K"), {3, 256});
  writer.add_tensor("half", type("F16"), {2, 3});
  const std::vector<GgufTensor> tensors = writer.tensors();
  const GgufHeader header = read(writer.head(), writer.file_bytes());
  ASSERT_EQ(header.tensors.size(), 3u);
  EXPECT_EQ(tensors[0].offset, writer.head().size());
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(header.tensors[i].name, tensors[i].name);
    EXPECT_EQ(header.tensors[i].type, tensors[i].type);
    EXPECT_EQ(header.tensors[i].shape, tensors[i].shape);
    EXPECT_EQ(header.tensors[i].offset, tensors[i].offset);
    EXPECT_EQ(header.tensors[i].bytes, tensors[i].bytes);
    EXPECT_EQ(tensors[i].offset % 32, 0u);
  }
  EXPECT_EQ(tensors[1].bytes, 3u * 144);
  EXPECT_EQ(writer.file_bytes(), tensors[2].offset + 32);
}

TEST(GgufWriter, RefusesWhatTheFormatCannotHold) {
  const auto key_error = [](const std::string& key) {
    return error_of([&] {
      GgufWriter writer;
      writer.add("twice", true);
      writer.add(key, true);
    });
  };
  EXPECT_EQ(key_error("twice"), "invalid_argument: the metadata key twice is there already");
  EXPECT_EQ(key_error(""), "invalid_argument: a metadata key of 0 bytes; GGUF has 1 to 65535");
  EXPECT_EQ(key_error(std::string(65536, 'k')), "invalid_argument: a metadata key of 65536 bytes; GGUF has 1 to 65535");
  EXPECT_EQ(key_error(std::string(65535, 'k')), "no error");

  const auto tensor_error = [](const std::string& name, std::vector<std::int64_t> shape) {
    return error_of([&] {
      GgufWriter writer;
      writer.add_tensor("twice", type("F32"), {1});
      writer.add_tensor(name, type("Q8_0"), std::move(shape));
    });
  };
  EXPECT_EQ(tensor_error("twice", {32}), "invalid_argument: tensor twice is there already");
  EXPECT_EQ(tensor_error("", {32}), "invalid_argument: tensor \"\" has a name of 0 bytes; GGUF files have 1 to 63");
  EXPECT_EQ(tensor_error(std::string(63, 'n'), {32}), "no error");
  EXPECT_NE(tensor_error(std::string(64, 'n'), {32}).find("has a name of 64 bytes"), std::string::npos);
  EXPECT_EQ(tensor_error("t", {}), "invalid_argument: tensor t has 0 dimensions; GGUF has 1 to 4");
  EXPECT_EQ(tensor_error("t", {0, 32}), "invalid_argument: tensor t has a dimension of 0");
  EXPECT_EQ(tensor_error("t", {std::int64_t{1} << 40, 1 << 20}),
            "invalid_argument: tensor t has a dimension of 1048576");
  EXPECT_EQ(tensor_error("t", {2, 33}),
            "invalid_argument: tensor t has rows of 33 elements, no multiple of the 32 in a block of Q8_0");
}

}  // namespace
}  // namespace sparkx
