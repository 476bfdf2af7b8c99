// Measuring a model (sparkx/benchmark.hpp says what is measured).
#pragma once

#include "model/model.h"
#include "sparkx/benchmark.hpp"

namespace sparkx {

// Throws Error{invalid_argument} for options that make no sense or do not fit into the context, Error{out_of_memory}
// when the cache is too small for the batch, Error{cancelled}.
BenchmarkReport run_benchmark(Model& model, const BenchmarkOptions& options);

}  // namespace sparkx
