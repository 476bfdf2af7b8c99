#include "formats/safetensors.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "core/json.h"
#include "support/checkpoints.h"
#include "support/errors.h"
#include "support/temp_dir.h"

namespace sparkx {
namespace {

using testing::error_of;
using testing::little_endian_64;
using testing::safetensors_file;
using testing::TempDir;

SafetensorsHeader read_header(const std::string& content) {
  return read_safetensors_header(ByteSource::memory("t.safetensors", std::as_bytes(std::span(content))));
}

std::string error_in(const std::string& content) {
  return error_of([&] { read_header(content); });
}

// tests/data/golden.safetensors is by the safetensors library (tests/oracle/make_safetensors_golden.py).
constexpr const char* kGolden = SPARKX_SOURCE_DIR "/tests/data/golden.safetensors";

TEST(Safetensors, TheLibrarysFileIsReadAsTheLibraryWroteIt) {
  const std::string content = testing::read_file(kGolden);
  const SafetensorsHeader header = read_safetensors_header(ByteSource::open(kGolden));
  EXPECT_EQ(header.metadata,
            (std::vector<std::pair<std::string, std::string>>{{"format", "pt"}, {"note", "golden é"}}));
  std::ifstream lines(SPARKX_SOURCE_DIR "/tests/data/golden_safetensors.txt");
  std::size_t i = 0;
  for (std::string line; std::getline(lines, line); ++i) {
    std::istringstream fields(line);
    std::string name, code, shape, offset, hex;
    std::getline(fields, name, '\t') && std::getline(fields, code, '\t') && std::getline(fields, shape, '\t') &&
        std::getline(fields, offset, '\t') && std::getline(fields, hex);
    ASSERT_LT(i, header.tensors.size());
    const SafetensorsTensor& tensor = header.tensors[i];
    EXPECT_EQ(json::print(tensor.name), name);
    EXPECT_EQ(json::print(json::Array(tensor.shape.begin(), tensor.shape.end())), shape) << name;
    EXPECT_EQ(std::to_string(tensor.offset), offset) << name;
    std::string bytes;
    for (const char c : content.substr(tensor.offset, tensor.bytes))
      bytes += fmt::format("{:02x}", static_cast<unsigned char>(c));
    EXPECT_EQ(bytes, hex == "-" ? "" : hex) << name;
  }
  EXPECT_EQ(i, header.tensors.size());
  EXPECT_EQ(i, 16u);
}

TEST(Safetensors, ElementTypesAreToldApart) {
  const std::vector<std::pair<std::string, Dtype>> codes = {
      {"F64", Dtype::float64}, {"F32", Dtype::float32}, {"F16", Dtype::float16}, {"BF16", Dtype::bfloat16},
      {"I64", Dtype::int64},   {"I32", Dtype::int32},   {"I16", Dtype::int16},   {"I8", Dtype::int8},
      {"U64", Dtype::uint64},  {"U32", Dtype::uint32},  {"U16", Dtype::uint16},  {"U8", Dtype::uint8},
      {"BOOL", Dtype::boolean}};
  for (const auto& [code, dtype] : codes) {
    EXPECT_EQ(read_header(safetensors_file({{"a", {3}, code, dtype_size(dtype)}})).tensors[0].dtype, dtype) << code;
  }
}

TEST(Safetensors, WhatIsWrittenEqualsTheLibrarysFileByteForByte) {
  const ByteSource golden = ByteSource::open(kGolden);
  const SafetensorsHeader header = read_safetensors_header(golden);
  const TempDir dir;
  SafetensorsWriter writer(dir / "out.safetensors", header.tensors, header.metadata);
  for (const SafetensorsTensor& tensor : header.tensors) {
    std::vector<std::byte> bytes(tensor.bytes);
    golden.read(tensor.offset, bytes);
    const std::size_t half = bytes.size() / 2;
    writer.write(std::span(bytes).first(half));
    writer.write(std::span(bytes).subspan(half));
  }
  writer.commit();
  EXPECT_EQ(testing::read_file(dir / "out.safetensors"), testing::read_file(kGolden));
}

TEST(Safetensors, TheWriterRefusesWhatWouldNotBeAFile) {
  const TempDir dir;
  const std::vector<SafetensorsTensor> one{{"a", Dtype::float32, {2}}};
  {
    SafetensorsWriter writer(dir / "out", one);
    writer.write(std::vector<std::byte>(4));
    EXPECT_EQ(error_of([&] { writer.commit(); }), "invalid_argument: 4 bytes of the tensors are missing");
    EXPECT_EQ(error_of([&] { writer.write(std::vector<std::byte>(5)); }),
              "invalid_argument: 1 bytes more than the tensors have");
  }
  EXPECT_FALSE(std::filesystem::exists(dir / "out"));
  const std::string path = (dir / "out").string();
  const auto create = [&](std::vector<SafetensorsTensor> tensors) {
    return error_of([&] { SafetensorsWriter(dir / "out", tensors); });
  };
  EXPECT_EQ(create({one[0], one[0]}), "invalid_argument: " + path + ": two tensors with the name a");
  EXPECT_EQ(create({{"__metadata__", Dtype::int8, {}}}),
            "invalid_argument: " + path + ": two tensors with the name __metadata__");
  EXPECT_EQ(create({{"a", Dtype::int8, {-1}}}), "invalid_argument: " + path + ": tensor a has a shape without a size");
  EXPECT_EQ(create({{"a", Dtype::float32, {INT64_MAX / 4, 2}}}),
            "invalid_argument: " + path + ": tensor a has a shape without a size");
}

TEST(Safetensors, AHeaderOfTheWrongLengthIsRefused) {
  EXPECT_EQ(error_in(""), "corrupt: t.safetensors: 0 bytes are no safetensors file");
  EXPECT_EQ(error_in("1234567"), "corrupt: t.safetensors: 7 bytes are no safetensors file");
  EXPECT_EQ(error_in(little_endian_64(0)), "corrupt: t.safetensors (header):1:1: the document is empty");
  EXPECT_EQ(error_in(little_endian_64(3) + "{}"),
            "corrupt: t.safetensors: a header of 3 bytes in a file of 10 bytes: cut off, or no safetensors file");
  EXPECT_EQ(error_in(little_endian_64(~std::uint64_t{0}) + "{}"),
            "corrupt: t.safetensors: a header of 18446744073709551615 bytes in a file of 10 bytes: cut off, or no "
            "safetensors file");
  EXPECT_EQ(error_in(little_endian_64(~std::uint64_t{0} - 7) + "{}"),
            "corrupt: t.safetensors: a header of 18446744073709551608 bytes in a file of 10 bytes: cut off, or no "
            "safetensors file");
  EXPECT_EQ(error_in(little_endian_64(100'000'001) + std::string(100'000'001, ' ')),
            "corrupt: t.safetensors: a header of 100000001 bytes, more than the format's limit of 100000000");
}

TEST(Safetensors, AHeaderThatIsNoSuchJsonIsRefused) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"[]", "t.safetensors: the header is a JSON array, not an object"},
      {"{", "t.safetensors (header):1:2: expected a key in double quotes"},
      {R"({"a":1})", "t.safetensors: tensor a is described by a JSON number, not an object"},
      {R"({"a":)" + std::string(1'000'000, '['), "t.safetensors (header):1:13: nested deeper than 8 levels"},
      {R"({"__metadata__":[]})", "t.safetensors: __metadata__ is a JSON array, not an object"},
      {R"({"__metadata__":{"a":1}})", "t.safetensors: __metadata__ has a JSON number for a, not a string"},
      {R"({"a":{"dtype":"I8","shape":[],"data_offsets":[0,1]},"a":{"dtype":"I8","shape":[],"data_offsets":[0,1]}})",
       "t.safetensors (header):1:53: duplicate key \"a\""},
      {R"({"a":{"dtype":"I8","dtype":"I8","shape":[],"data_offsets":[0,1]}})",
       "t.safetensors (header):1:20: duplicate key \"dtype\""},
  };
  for (const auto& [header, expected] : cases) {
    EXPECT_EQ(error_in(safetensors_file(header, "x")), "corrupt: " + expected) << header.substr(0, 200);
  }
}

TEST(Safetensors, AnEntryThatContradictsItselfOrTheFileIsRefused) {
  // Each is a file with 8 bytes of data; the message begins with "corrupt: t.safetensors: tensor a ".
  const std::vector<std::pair<std::string, std::string>> cases = {
      {R"({"shape":[8],"data_offsets":[0,8]})", "has no dtype"},
      {R"({"dtype":8,"shape":[8],"data_offsets":[0,8]})", "has no dtype"},
      {R"({"dtype":"I9","shape":[8],"data_offsets":[0,8]})", "has the unknown dtype I9"},
      {R"({"dtype":"i8","shape":[8],"data_offsets":[0,8]})", "has the unknown dtype i8"},
      {R"({"dtype":"I8","data_offsets":[0,8]})", "has no shape"},
      {R"({"dtype":"I8","shape":8,"data_offsets":[0,8]})", "has no shape"},
      {R"({"dtype":"I8","shape":[-8],"data_offsets":[0,8]})", "has the shape [-8]"},
      {R"({"dtype":"I8","shape":[8.0],"data_offsets":[0,8]})", "has the shape [8.0]"},
      {R"({"dtype":"I8","shape":["8"],"data_offsets":[0,8]})", "has the shape [\"8\"]"},
      {R"({"dtype":"I8","shape":[99999999999999999999],"data_offsets":[0,8]})", "has the shape [99999999999999999999]"},
      {R"({"dtype":"I8","shape":[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,8],"data_offsets":[0,8]})",
       "has 17 dimensions, more than 16"},
      {R"({"dtype":"I8","shape":[4294967296,4294967296],"data_offsets":[0,8]})",
       "has the shape [4294967296,4294967296], too large to exist"},
      {R"({"dtype":"F64","shape":[2305843009213693952],"data_offsets":[0,8]})",
       "has the shape [2305843009213693952], too large to exist"},
      // 2^32 · 2^32 · 1 would be 0, and (2^61 + 1) · 8 would be 8, in 64 bits.
      {R"({"dtype":"F64","shape":[2305843009213693953],"data_offsets":[0,8]})",
       "has the shape [2305843009213693953], too large to exist"},
      {R"({"dtype":"I8","shape":[8]})", "has no data_offsets"},
      {R"({"dtype":"I8","shape":[8],"data_offsets":[0]})", "has no data_offsets"},
      {R"({"dtype":"I8","shape":[8],"data_offsets":[0,4,8]})", "has no data_offsets"},
      {R"({"dtype":"I8","shape":[8],"data_offsets":[-8,0]})", "has the data_offsets [-8,0]"},
      {R"({"dtype":"I8","shape":[8],"data_offsets":[8,0]})", "has the data_offsets [8,0]"},
      {R"({"dtype":"I8","shape":[8],"data_offsets":[0,8.0]})", "has the data_offsets [0,8.0]"},
      {R"({"dtype":"I8","shape":[8],"data_offsets":[0,18446744073709551616]})",
       "has the data_offsets [0,18446744073709551616]"},
      {R"({"dtype":"I8","shape":[9],"data_offsets":[0,9]})",
       "has the data_offsets [0,9], beyond the 8 bytes of data in the file"},
      {R"({"dtype":"I8","shape":[8],"data_offsets":[9223372036854775799,9223372036854775807]})",
       "has the data_offsets [9223372036854775799,9223372036854775807], beyond the 8 bytes of data in the file"},
      {R"({"dtype":"I8","shape":[7],"data_offsets":[0,8]})",
       "has 8 bytes (data_offsets [0,8]), expected 7 (shape [7] of int8)"},
      {R"({"dtype":"F32","shape":[2,2],"data_offsets":[0,8]})",
       "has 8 bytes (data_offsets [0,8]), expected 16 (shape [2, 2] of float32)"},
      {R"({"dtype":"I8","shape":[0],"data_offsets":[0,8]})",
       "has 8 bytes (data_offsets [0,8]), expected 0 (shape [0] of int8)"},
      {R"({"dtype":"I8","shape":[4],"data_offsets":[4,8]})", "begins after 4 bytes that belong to no tensor"},
  };
  for (const auto& [entry, expected] : cases) {
    EXPECT_EQ(error_in(safetensors_file("{\"a\":" + entry + "}", "12345678")),
              "corrupt: t.safetensors: tensor a " + expected)
        << entry;
  }
}

TEST(Safetensors, ElementTypesOfTheFormatThatSparkxDoesNotReadAreNamed) {
  EXPECT_EQ(error_in(safetensors_file(R"({"a":{"dtype":"F8_E4M3","shape":[8],"data_offsets":[0,8]}})", "12345678")),
            "unsupported: t.safetensors: tensor a has dtype F8_E4M3, which sparkx cannot read");
}

TEST(Safetensors, OverlapsHolesAndTrailingBytesAreRefused) {
  const auto tensor = [](const std::string& name, int begin, int end) {
    return fmt::format(R"("{}":{{"dtype":"I8","shape":[{}],"data_offsets":[{},{}]}})", name, end - begin, begin, end);
  };
  const auto error = [&](const std::vector<std::string>& tensors) {
    std::string header;
    for (const std::string& t : tensors) header += (header.empty() ? "{" : ",") + t;
    return error_in(safetensors_file(header + "}", "12345678"));
  };
  EXPECT_EQ(error({tensor("a", 0, 4), tensor("b", 4, 8)}), "no error");
  EXPECT_EQ(error({tensor("b", 4, 8), tensor("a", 0, 4)}), "no error");
  EXPECT_EQ(error({tensor("a", 0, 4), tensor("empty", 4, 4), tensor("b", 4, 8)}), "no error");
  EXPECT_EQ(error({tensor("a", 0, 5), tensor("b", 4, 8)}), "corrupt: t.safetensors: tensor b overlaps tensor a");
  EXPECT_EQ(error({tensor("a", 0, 8), tensor("b", 0, 8)}), "corrupt: t.safetensors: tensor b overlaps tensor a");
  EXPECT_EQ(error({tensor("a", 0, 8), tensor("b", 2, 3)}), "corrupt: t.safetensors: tensor b overlaps tensor a");
  EXPECT_EQ(error({tensor("a", 0, 3), tensor("b", 4, 8)}),
            "corrupt: t.safetensors: tensor b begins after 1 bytes that belong to no tensor");
  EXPECT_EQ(error({tensor("a", 0, 4)}), "corrupt: t.safetensors: 4 bytes at the end belong to no tensor");
  EXPECT_EQ(error_in(safetensors_file("{}", "1")), "corrupt: t.safetensors: 1 bytes at the end belong to no tensor");
  EXPECT_EQ(error_in(safetensors_file("{}", "")), "no error");
}

TEST(Safetensors, NamesWithControlCharactersAreEscapedInMessages) {
  EXPECT_EQ(error_in(safetensors_file("{\"\\u001b[2Ja\":1}", "")),
            "corrupt: t.safetensors: tensor \"\\u001b[2Ja\" is described by a JSON number, not an object");
  EXPECT_LT(error_in(safetensors_file("{\"" + std::string(100'000, 'n') + "\":1}", "")).size(), 400u);
}

}  // namespace
}  // namespace sparkx
