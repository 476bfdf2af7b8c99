// Evaluating a model: how well it predicts a text, and how far another model's predictions are from its own.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>

namespace sparkx {

// A text is read in windows of `context` tokens, each of which begins `stride` tokens after the one before. A window
// predicts the token after each of its own; what the window before has predicted already counts there. So every token
// of the text but the first is predicted once, in later windows from context - stride + 1 tokens at least.
struct EvaluationOptions {
  std::optional<std::int64_t> context;  // absent: 2048, or what the models' contexts have room for
  std::optional<std::int64_t> stride;   // 1 to context; absent: half of it
  // Told between steps how many of how many positions are computed; false cancels.
  std::function<bool(std::int64_t done, std::int64_t total)> progress = {};
};

// A mean over the predicted tokens, and its standard error by the spread among them (0 for one token).
struct MeanOfTokens {
  double mean = 0;
  double standard_error = 0;
};

struct PerplexityResult {
  std::int64_t tokens = 0;  // that were predicted
  std::int64_t windows = 0;
  std::int64_t context = 0;
  std::int64_t stride = 0;
  MeanOfTokens surprise;      // -ln of the probability of the token that came
  double perplexity = 0;      // exp(surprise.mean)
  double standard_error = 0;  // of the perplexity, to first order
};

// Of the predictions of a model, the reference, and of another one.
struct LogitsComparison {
  PerplexityResult reference;
  PerplexityResult other;
  MeanOfTokens divergence;  // Kullback-Leibler, reference from other, in nats: Σ p ln(p/q) over the vocabulary
  double median_divergence = 0;
  double largest_divergence = 0;
  double same_top_token = 0;  // share of the predictions where both find the same token most probable
};

// Some pages in several languages, code and a conversation, for a comparison without a text of one's own.
std::string_view comparison_text();

}  // namespace sparkx
