// Which type an argument has: what its schema declares and what its text reads as.
#include <algorithm>
#include <optional>

#include "core/error.h"
#include "text/output_parser.h"

namespace sparkx {
namespace {

constexpr int kMaxReferences = 16;  // a schema may point at itself

void declare(ParameterTypes& types, std::string_view name) {
  const std::pair<std::string_view, bool ParameterTypes::*> kTypes[] = {
      {"string", &ParameterTypes::string},   {"integer", &ParameterTypes::integer}, {"number", &ParameterTypes::number},
      {"boolean", &ParameterTypes::boolean}, {"array", &ParameterTypes::array},     {"object", &ParameterTypes::object},
      {"null", &ParameterTypes::null}};
  for (const auto& [known, member] : kTypes) {
    if (name == known) types.*member = types.declared = true;
  }
}

// A member of an enumeration.
void declare_value(ParameterTypes& types, const json::Value& value) {
  declare(types, value.is_integer() ? "integer" : value.type_name());
}

// "#/$defs/name" inside `root`.
const json::Value* resolve(const json::Value& root, std::string_view reference) {
  if (!reference.starts_with("#")) return nullptr;
  const json::Value* at = &root;
  reference.remove_prefix(1);
  while (!reference.empty() && at != nullptr) {
    if (reference[0] != '/') return nullptr;
    const std::size_t end = std::min(reference.find('/', 1), reference.size());
    std::string part;
    for (std::size_t i = 1; i < end; ++i) {
      const bool escape = reference[i] == '~' && i + 1 < end;
      part += !escape ? reference[i] : reference[++i] == '1' ? '/' : '~';
    }
    at = at->find(part);
    reference.remove_prefix(end);
  }
  return at;
}

// Adds what `schema` allows; false when it allows anything.
bool collect(ParameterTypes& types, const json::Value& schema, const json::Value& root, int depth) {
  if (depth > kMaxReferences || !schema.is_object()) return false;
  if (const json::Value* reference = schema.find("$ref"); reference != nullptr && reference->is_string()) {
    const json::Value* target = resolve(root, reference->as_string());
    return target != nullptr && collect(types, *target, root, depth + 1);
  }
  if (const json::Value* type = schema.find("type"); type != nullptr && type->is_string()) {
    declare(types, type->as_string());
    return true;
  } else if (type != nullptr && type->is_array()) {
    for (const json::Value& name : type->as_array()) {
      if (name.is_string()) declare(types, name.as_string());
    }
    return true;
  }
  if (const json::Value* values = schema.find("enum"); values != nullptr && values->is_array()) {
    for (const json::Value& value : values->as_array()) declare_value(types, value);
    return true;
  }
  if (const json::Value* value = schema.find("const")) {
    declare_value(types, *value);
    return true;
  }
  for (std::string_view key : {"anyOf", "oneOf", "allOf"}) {
    const json::Value* members = schema.find(key);
    if (members == nullptr || !members->is_array() || members->as_array().empty()) continue;
    bool all = true;
    for (const json::Value& member : members->as_array()) all = collect(types, member, root, depth + 1) && all;
    return all;
  }
  return false;
}

bool is_blank(char c) {
  return c == ' ' || (c >= '\t' && c <= '\r');
}

std::string_view trim(std::string_view text) {
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
  return text;
}

// The integer that a JSON number with a fraction or an exponent stands for.
std::optional<std::string> integral(std::string_view number) {
  constexpr int kMostDigits = 400;
  std::string digits, sign;
  int exponent = 0;
  std::size_t at = 0;
  if (number[at] == '-') sign = number[at++];
  bool fraction = false;
  for (; at < number.size() && number[at] != 'e' && number[at] != 'E'; ++at) {
    if (number[at] == '.') {
      fraction = true;
    } else {
      digits += number[at];
      if (fraction) --exponent;
    }
  }
  if (at < number.size()) {
    ++at;
    const bool negative = number[at] == '-';
    if (negative || number[at] == '+') ++at;
    int value = 0;
    for (; at < number.size() && value < 100'000; ++at) value = value * 10 + (number[at] - '0');
    exponent += negative ? -value : value;
  }
  while (digits.size() > 1 && digits[0] == '0') digits.erase(0, 1);
  while (exponent < 0 && digits.ends_with('0')) {
    digits.pop_back();
    ++exponent;
  }
  if (digits.empty() || digits == "0") return "0";
  if (exponent < 0 || exponent > kMostDigits) return std::nullopt;
  return sign + digits + std::string(static_cast<std::size_t>(exponent), '0');
}

std::optional<json::Value> read(std::string_view text) {
  if (text == "True") return json::Value(true);
  if (text == "False") return json::Value(false);
  if (text == "None") return json::Value(nullptr);
  try {
    return json::parse(text, "argument", {.refuse_duplicate_keys = false});
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace

ParameterTypes parameter_types(const json::Value& parameters, std::string_view name) {
  ParameterTypes types;
  const json::Value* properties = parameters.find("properties");
  const json::Value* schema = properties == nullptr ? nullptr : properties->find(name);
  if (schema == nullptr || !collect(types, *schema, parameters, 0)) return {};
  return types;
}

std::string argument_json(std::string_view text, const ParameterTypes& types) {
  if (types.only_string()) return json::print(text);
  const std::optional<json::Value> value = read(trim(text));
  if (!value) return json::print(text);
  if (!types.declared) return json::print(*value);
  if (value->is_number()) {
    if (types.number || (types.integer && value->is_integer())) return json::print(*value);
    if (types.integer) {
      if (const auto whole = integral(value->as_number().text)) return *whole;
    }
    return json::print(text);
  }
  const bool fits = (value->is_bool() && types.boolean) || (value->is_null() && types.null) ||
                    (value->is_array() && types.array) || (value->is_object() && types.object);
  return fits ? json::print(*value) : json::print(text);
}

}  // namespace sparkx
