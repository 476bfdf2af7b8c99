// Generation with one sequence: the prompt in chunks, then token after token (sparkx/generation.hpp says what is
// reported and when it ends).
#pragma once

#include <span>

#include "engine/sequence.h"
#include "model/model.h"
#include "sparkx/generation.hpp"
#include "text/tokenizer.h"

namespace sparkx {

// Appends `prompt` to the sequence and generates from there. The sequence then holds every generated token but the
// last, which no step needed. Without a tokenizer tokens have no text and stop strings are refused. Throws
// Error{invalid_argument} when the prompt is empty or does not fit into the context, and what the sampler and the model
// throw.
GenerationResult generate(Model& model, TokenSequence& sequence, std::span<const TokenId> prompt,
                          const GenerationOptions& options, const Tokenizer* tokenizer);

}  // namespace sparkx
