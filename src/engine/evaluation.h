// Perplexity and the distance between predictions (sparkx/evaluation.hpp says what is computed).
//
// All sums are in double and in the order of the text: results do not depend on threads. Logits are there for some
// positions at a time, never for all.
#pragma once

#include <span>

#include "core/thread_pool.h"
#include "model/model.h"
#include "sparkx/evaluation.hpp"

namespace sparkx {

// Both throw Error{invalid_argument} for fewer than two tokens, or options outside their range or the context,
// Error{corrupt} when logits are not finite, Error{cancelled}, and what the model's steps report.
PerplexityResult evaluate_perplexity(Model& model, std::span<const TokenId> tokens, const EvaluationOptions& options,
                                     ThreadPool& threads);

// Also throws Error{invalid_argument} when the vocabularies differ in size.
LogitsComparison evaluate_difference(Model& reference, Model& other, std::span<const TokenId> tokens,
                                     const EvaluationOptions& options, ThreadPool& threads);

}  // namespace sparkx
