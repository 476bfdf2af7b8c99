// The generated tables behind core/unicode.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/unicode.h"

namespace sparkx::unicode_tables {

extern const std::uint32_t kCategoryRuns[];
extern const std::size_t kCategoryRunsCount;
extern const CodePointRange kWhiteSpace[];
extern const std::size_t kWhiteSpaceCount;
extern const CodePointRange kWord[];
extern const std::size_t kWordCount;
extern const CodePointRange kRustWord[];
extern const std::size_t kRustWordCount;
extern const CodePointRange kNumericBeyondNumber[];
extern const std::size_t kNumericBeyondNumberCount;

}  // namespace sparkx::unicode_tables
