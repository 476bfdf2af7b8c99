// core/json: whatever parses prints as JSON that parses to the same value.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "core/error.h"
#include "core/json.h"
#include "expect.h"

namespace {

using namespace sparkx;
using fuzz::require;

void visit_numbers(const json::Value& value) {
  if (value.is_number()) {
    try {
      value.as_double();
      value.as_int64();
    } catch (const Error& error) {
      require(error.code() == ErrorCode::invalid_argument);
    }
  } else if (value.is_array()) {
    for (const json::Value& element : value.as_array()) visit_numbers(element);
  } else if (value.is_object()) {
    for (const json::Member& member : value.as_object()) visit_numbers(member.second);
  }
}

void check(std::string_view text, bool refuse_duplicate_keys) {
  json::Value value;
  try {
    value = json::parse(text, "fuzz", {.refuse_duplicate_keys = refuse_duplicate_keys});
  } catch (const Error& error) {
    require(error.code() == ErrorCode::corrupt);
    return;
  }
  visit_numbers(value);
  require(json::parse(json::print(value), "printed") == value);
  require(json::parse(json::print(value, {.indent = 1, .ensure_ascii = true}), "indented") == value);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  check(text, true);
  check(text, false);
  // As text that may be no UTF-8 at all.
  json::parse(json::print(text), "string");
  return 0;
}
