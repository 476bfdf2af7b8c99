// The sizes of the published models (docs/model.md, Sizes), for measurements without their weights.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace sparkx {

// The config.json of "1.7b" or "4b"; absent for any other name.
std::optional<std::string> published_config(std::string_view shape);

}  // namespace sparkx
