// text/jinja: no template crashes, hangs or needs more than its limits, and what it renders is made of its stretches.
// Input: the template, then perhaps a NUL and a JSON object with the variables.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "core/error.h"
#include "core/json.h"
#include "expect.h"
#include "text/jinja/template.h"

namespace {

using namespace sparkx;
using fuzz::require;

jinja::LocalTime fixed_time() {
  jinja::LocalTime now{};
  now.time.tm_year = 126;
  now.time.tm_mday = 1;
  return now;
}

json::Value variables(std::string_view text) {
  constexpr std::string_view kUsual =
      R"({"messages": [{"role": "user", "content": "Hi <|x|>"}, {"role": "assistant", "content": null, "tool_calls":
      [{"function": {"name": "f", "arguments": {"a": 1, "b": [1.5, "x"]}}}]}], "tools": [{"type": "function"}], "s": "é text",
      "n": 7, "f": -0.5, "big": 123456789012345678901234567890, "add_generation_prompt": true})";
  try {
    json::Value given = json::parse(text, "variables");
    if (given.is_object()) return given;
  } catch (const Error&) {
  }
  return json::parse(kUsual, "variables");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const std::size_t nul = input.find('\0');
  jinja::RenderOptions options;
  options.limits.steps = 20'000;
  options.limits.memory_bytes = 4u << 20;
  options.limits.output_bytes = 1u << 20;
  options.limits.depth = 400;
  options.limits.integer_bits = 1u << 12;
  options.clock = fixed_time;
  try {
    const jinja::Template parsed = jinja::Template::parse(input.substr(0, nul), "fuzz");
    const jinja::Rendered rendered =
        parsed.render(variables(nul == std::string_view::npos ? "" : input.substr(nul + 1)), options);
    for (std::size_t i = 0; i < rendered.stretches.size(); ++i) {
      require(!rendered.stretches[i].text.empty());
      require(i == 0 || rendered.stretches[i].from_template != rendered.stretches[i - 1].from_template);
    }
  } catch (const jinja::TemplateError& error) {
    require(error.line() >= 1 && error.column() >= 1);
  }
  return 0;
}
