// A part of a text.
#pragma once

#include <cstddef>

namespace sparkx {

// [begin, end) in bytes.
struct TextRange {
  std::size_t begin;
  std::size_t end;

  bool operator==(const TextRange&) const = default;
};

}  // namespace sparkx
