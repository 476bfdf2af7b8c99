// Running a model in tests: all logits of a text, in chunks; comparing bits and distances.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "model/load.h"
#include "model/model.h"

namespace sparkx::testing {

using Logits = std::vector<float>;  // [position][vocab_size]

// Steps `tokens` in chunks and appends the logits of every position. An error of the step fails the test.
inline void step_all(Model& model, SequenceId sequence, std::span<const TokenId> tokens, std::int64_t chunk,
                     Logits& logits) {
  while (!tokens.empty()) {
    auto take = std::min<std::size_t>(tokens.size(), chunk);
    StepItem item{sequence, tokens.first(take), LogitsWanted::all};
    StepOutput output = model.step({&item, 1})[0];
    ASSERT_FALSE(output.error) << output.message;
    logits.insert(logits.end(), output.logits.begin(), output.logits.end());
    tokens = tokens.subspan(take);
  }
}

// All logits of a text, in a sequence of its own.
inline Logits run(Model& model, std::span<const TokenId> tokens, std::int64_t chunk) {
  SequenceId sequence = model.create_sequence();
  Logits logits;
  step_all(model, sequence, tokens, chunk, logits);
  model.free_sequence(sequence);
  return logits;
}

inline std::vector<TokenId> random_tokens(std::int64_t count, std::int64_t vocab_size, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<TokenId> tokens(count);
  for (TokenId& token : tokens) token = static_cast<TokenId>(random() % vocab_size);
  return tokens;
}

// Every bit the same; says where they differ first.
inline ::testing::AssertionResult same_bits(std::span<const float> got, std::span<const float> want,
                                            std::int64_t vocab_size) {
  if (got.size() != want.size()) {
    return ::testing::AssertionFailure() << got.size() << " logits, expected " << want.size();
  }
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (std::memcmp(&got[i], &want[i], sizeof(float)) == 0) continue;
    return ::testing::AssertionFailure() << "position " << i / vocab_size << ", token " << i % vocab_size << ": "
                                         << got[i] << ", expected " << want[i];
  }
  return ::testing::AssertionSuccess();
}

inline double relative_rms(std::span<const float> got, std::span<const float> want) {
  double error = 0, square = 0;
  for (std::size_t i = 0; i < want.size(); ++i) {
    error += (double{got[i]} - want[i]) * (double{got[i]} - want[i]);
    square += double{want[i]} * want[i];
  }
  return got.size() == want.size() ? std::sqrt(error / square) : INFINITY;
}

}  // namespace sparkx::testing
