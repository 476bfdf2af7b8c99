// The public options of a model in the terms of the layer below.
#pragma once

#include "model/load.h"
#include "sparkx/sparkx.hpp"

namespace sparkx {

// Throws Error{invalid_argument} for what makes no sense.
LoadOptions load_options(const ModelOptions& options);

}  // namespace sparkx
