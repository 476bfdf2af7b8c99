// The generated tables behind core/unicode_normalization.h. Hangul syllables are not in them.
#pragma once

#include <cstddef>
#include <cstdint>

namespace sparkx::unicode_tables {

// The full decomposition is kDecomposed[begin … begin + size - 1].
struct Decomposition {
  char32_t code_point;
  std::uint16_t begin;
  std::uint16_t size;
};
struct Composition {
  char32_t first;
  char32_t second;
  char32_t composed;
};
struct CombiningClass {
  char32_t first;
  char32_t last;
  std::uint8_t value;
};

// All ascending.
extern const Decomposition kCanonical[];
extern const std::size_t kCanonicalCount;
extern const Decomposition kCompatible[];  // where the compatibility decomposition differs from the canonical one
extern const std::size_t kCompatibleCount;
extern const char32_t kDecomposed[];
extern const std::size_t kDecomposedCount;
extern const Composition kCompositions[];
extern const std::size_t kCompositionsCount;
extern const CombiningClass kCombiningClasses[];
extern const std::size_t kCombiningClassesCount;

}  // namespace sparkx::unicode_tables
