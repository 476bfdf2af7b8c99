// Element types as files store them.
#pragma once

#include <cstddef>
#include <cstdint>

namespace sparkx {

enum class Dtype {
  float64,
  float32,
  float16,
  bfloat16,
  int64,
  int32,
  int16,
  int8,
  uint64,
  uint32,
  uint16,
  uint8,
  boolean,
  float8_e4m3,  // 4 bits of exponent, 3 of mantissa, no infinity
  float8_e8m0,  // a power of two
};

constexpr std::size_t dtype_size(Dtype dtype) {
  switch (dtype) {
    case Dtype::float64:
    case Dtype::int64:
    case Dtype::uint64:
      return 8;
    case Dtype::float32:
    case Dtype::int32:
    case Dtype::uint32:
      return 4;
    case Dtype::float16:
    case Dtype::bfloat16:
    case Dtype::int16:
    case Dtype::uint16:
      return 2;
    case Dtype::int8:
    case Dtype::uint8:
    case Dtype::boolean:
    case Dtype::float8_e4m3:
    case Dtype::float8_e8m0:
      return 1;
  }
  return 0;
}

// "float32", "bfloat16", …: the spelling of the command line and of messages.
constexpr const char* dtype_name(Dtype dtype) {
  switch (dtype) {
    case Dtype::float64:
      return "float64";
    case Dtype::float32:
      return "float32";
    case Dtype::float16:
      return "float16";
    case Dtype::bfloat16:
      return "bfloat16";
    case Dtype::int64:
      return "int64";
    case Dtype::int32:
      return "int32";
    case Dtype::int16:
      return "int16";
    case Dtype::int8:
      return "int8";
    case Dtype::uint64:
      return "uint64";
    case Dtype::uint32:
      return "uint32";
    case Dtype::uint16:
      return "uint16";
    case Dtype::uint8:
      return "uint8";
    case Dtype::boolean:
      return "bool";
    case Dtype::float8_e4m3:
      return "float8_e4m3";
    case Dtype::float8_e8m0:
      return "float8_e8m0";
  }
  return "?";
}

}  // namespace sparkx
