#include "engine/evaluation.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <vector>

#include "core/error.h"
#include "engine/sequence.h"

namespace sparkx {
namespace {

constexpr std::int64_t kDefaultWindow = 2048;
constexpr std::int64_t kPromptChunk = 512;                     // tokens of a step without logits
constexpr std::int64_t kLogitsBytes = std::int64_t{64} << 20;  // of a step with them, for each model

// How a text is cut; see EvaluationOptions.
struct Windows {
  std::int64_t context;
  std::int64_t stride;
  std::int64_t positions;  // whose logits predict a token: all but the last
  std::int64_t count;

  std::int64_t begin(std::int64_t window) const { return window * stride; }
  std::int64_t end(std::int64_t window) const { return std::min(begin(window) + context, positions); }
  // The first position that the window before has not predicted.
  std::int64_t first_new(std::int64_t window) const { return window == 0 ? 0 : end(window - 1); }
};

Windows cut(std::int64_t tokens, std::int64_t most, const EvaluationOptions& options) {
  if (tokens < 2) {
    throw_error(ErrorCode::invalid_argument, "the text has {} token{}: there is nothing to predict", tokens,
                tokens == 1 ? "" : "s");
  }
  Windows windows{};
  windows.context = options.context.value_or(std::min(kDefaultWindow, most));
  if (windows.context < 1 || windows.context > most) {
    throw_error(ErrorCode::invalid_argument, "windows of {} tokens: 1 to {} are possible", windows.context, most);
  }
  windows.stride = options.stride.value_or(std::max<std::int64_t>(1, windows.context / 2));
  if (windows.stride < 1 || windows.stride > windows.context) {
    throw_error(ErrorCode::invalid_argument, "a stride of {} tokens: 1 to {}, the context, are possible",
                windows.stride, windows.context);
  }
  windows.positions = tokens - 1;
  const std::int64_t beyond_first = std::max<std::int64_t>(0, windows.positions - windows.context);
  windows.count = 1 + (beyond_first + windows.stride - 1) / windows.stride;
  return windows;
}

// Steps all models through the windows. visit(begin, logits) gets the logits of positions from `begin` on, of each
// model [positions][vocab_size].
template <std::size_t kModels, typename Visit>
void read_windows(const std::array<Model*, kModels>& models, std::span<const TokenId> tokens, const Windows& windows,
                  const EvaluationOptions& options, Visit visit) {
  const std::int64_t row_bytes = models[0]->info().vocab_size * static_cast<std::int64_t>(sizeof(float));
  const std::int64_t logits_chunk = std::clamp<std::int64_t>(kLogitsBytes / row_bytes, 1, kPromptChunk);
  std::int64_t done = 0, total = 0;
  for (std::int64_t w = 0; w < windows.count; ++w) total += windows.end(w) - windows.begin(w);
  for (std::int64_t w = 0; w < windows.count; ++w) {
    std::vector<std::unique_ptr<TokenSequence>> sequences;
    std::vector<StepBatch> batches;
    for (Model* model : models) {
      sequences.push_back(std::make_unique<TokenSequence>(*model));
      batches.emplace_back(*model);
    }
    for (std::int64_t at = windows.begin(w); at < windows.end(w);) {
      const bool old = at < windows.first_new(w);
      const std::int64_t count =
          old ? std::min(kPromptChunk, windows.first_new(w) - at) : std::min(logits_chunk, windows.end(w) - at);
      const auto piece = tokens.subspan(static_cast<std::size_t>(at), static_cast<std::size_t>(count));
      std::array<std::span<const float>, kModels> logits;
      for (std::size_t i = 0; i < kModels; ++i) {
        logits[i] = batches[i].step(*sequences[i], piece, old ? LogitsWanted::none : LogitsWanted::all);
      }
      if (!old) visit(at, logits);
      at += count;
      done += count;
      if (options.progress && !options.progress(done, total)) throw_error(ErrorCode::cancelled, "cancelled");
    }
  }
}

// The distribution that logits stand for.
struct Distribution {
  std::span<const float> logits;
  double log_sum;  // ln Σ exp(logit)
  TokenId top;     // of several the lowest id
  bool finite;

  explicit Distribution(std::span<const float> of) : logits(of) {
    top = static_cast<TokenId>(std::max_element(of.begin(), of.end()) - of.begin());
    const double most = of[static_cast<std::size_t>(top)];
    double sum = 0;
    for (const float logit : of) sum += std::exp(logit - most);
    log_sum = most + std::log(sum);
    finite = std::isfinite(log_sum);
  }

  double log_probability(std::size_t token) const { return logits[token] - log_sum; }
};

double divergence(const Distribution& p, const Distribution& q) {
  double sum = 0;
  for (std::size_t i = 0; i < p.logits.size(); ++i) {
    const double log_p = p.log_probability(i);
    sum += std::exp(log_p) * (log_p - q.log_probability(i));
  }
  return std::max(0.0, sum);  // which it is but for rounding
}

MeanOfTokens mean_of(std::span<const double> values) {
  const auto count = static_cast<double>(values.size());
  MeanOfTokens result;
  for (const double value : values) result.mean += value;
  result.mean /= count;
  double squares = 0;
  for (const double value : values) squares += (value - result.mean) * (value - result.mean);
  if (values.size() > 1) result.standard_error = std::sqrt(squares / (count - 1) / count);
  return result;
}

PerplexityResult perplexity_of(std::span<const double> surprise, const Windows& windows) {
  PerplexityResult result;
  result.tokens = static_cast<std::int64_t>(surprise.size());
  result.windows = windows.count;
  result.context = windows.context;
  result.stride = windows.stride;
  result.surprise = mean_of(surprise);
  result.perplexity = std::exp(result.surprise.mean);
  result.standard_error = result.perplexity * result.surprise.standard_error;
  return result;
}

// Of positions [begin, begin + count).
void check_finite(std::span<const double> surprise, std::int64_t begin, std::int64_t count) {
  for (std::int64_t i = begin; i < begin + count; ++i) {
    if (!std::isfinite(surprise[static_cast<std::size_t>(i)])) {
      throw_error(ErrorCode::corrupt, "a model's logits at position {} of the text are not finite", i);
    }
  }
}

// What a token costs that the model gave this distribution; not finite when the logits are not.
double surprise_of(const Distribution& predicted, TokenId token) {
  return predicted.finite ? -predicted.log_probability(static_cast<std::size_t>(token)) : NAN;
}

std::span<const float> row(std::span<const float> logits, std::int64_t i, std::int64_t vocab_size) {
  return logits.subspan(static_cast<std::size_t>(i * vocab_size), static_cast<std::size_t>(vocab_size));
}

void check_tokens(std::span<const TokenId> tokens, std::int64_t vocab_size) {
  for (const TokenId token : tokens) {
    if (token < 0 || token >= vocab_size) {
      throw_error(ErrorCode::invalid_argument, "token {} is outside the vocabulary of {}", token, vocab_size);
    }
  }
}

}  // namespace

PerplexityResult evaluate_perplexity(Model& model, std::span<const TokenId> tokens, const EvaluationOptions& options,
                                     ThreadPool& threads) {
  const std::int64_t vocab_size = model.info().vocab_size;
  check_tokens(tokens, vocab_size);
  const Windows windows = cut(static_cast<std::int64_t>(tokens.size()), model.info().context, options);
  std::vector<double> surprise(static_cast<std::size_t>(windows.positions));
  read_windows<1>({&model}, tokens, windows, options, [&](std::int64_t first, const auto& logits) {
    const std::int64_t count = static_cast<std::int64_t>(logits[0].size()) / vocab_size;
    threads.parallel_for(count, 1, [&](std::int64_t begin, std::int64_t end, int) {
      for (std::int64_t i = begin; i < end; ++i) {
        const auto at = static_cast<std::size_t>(first + i);
        surprise[at] = surprise_of(Distribution(row(logits[0], i, vocab_size)), tokens[at + 1]);
      }
    });
    check_finite(surprise, first, count);
  });
  return perplexity_of(surprise, windows);
}

LogitsComparison evaluate_difference(Model& reference, Model& other, std::span<const TokenId> tokens,
                                     const EvaluationOptions& options, ThreadPool& threads) {
  const std::int64_t vocab_size = reference.info().vocab_size;
  if (&reference == &other) {  // the logits of one are gone when the other steps
    throw_error(ErrorCode::invalid_argument, "a model cannot be compared with itself: load it twice");
  }
  if (other.info().vocab_size != vocab_size) {
    throw_error(ErrorCode::invalid_argument, "the models have vocabularies of {} and {} tokens", vocab_size,
                other.info().vocab_size);
  }
  check_tokens(tokens, vocab_size);
  const std::int64_t most = std::min(reference.info().context, other.info().context);
  const Windows windows = cut(static_cast<std::int64_t>(tokens.size()), most, options);
  const auto positions = static_cast<std::size_t>(windows.positions);
  std::vector<double> reference_surprise(positions), other_surprise(positions), divergences(positions);
  std::vector<char> same(positions);
  read_windows<2>({&reference, &other}, tokens, windows, options, [&](std::int64_t first, const auto& logits) {
    const std::int64_t count = static_cast<std::int64_t>(logits[0].size()) / vocab_size;
    threads.parallel_for(count, 1, [&](std::int64_t begin, std::int64_t end, int) {
      for (std::int64_t i = begin; i < end; ++i) {
        const auto at = static_cast<std::size_t>(first + i);
        const Distribution p(row(logits[0], i, vocab_size)), q(row(logits[1], i, vocab_size));
        reference_surprise[at] = surprise_of(p, tokens[at + 1]);
        other_surprise[at] = surprise_of(q, tokens[at + 1]);
        divergences[at] = divergence(p, q);
        same[at] = p.top == q.top;
      }
    });
    check_finite(reference_surprise, first, count);
    check_finite(other_surprise, first, count);
  });
  LogitsComparison result;
  result.reference = perplexity_of(reference_surprise, windows);
  result.other = perplexity_of(other_surprise, windows);
  result.divergence = mean_of(divergences);
  result.same_top_token = static_cast<double>(std::count(same.begin(), same.end(), 1)) / static_cast<double>(positions);
  result.largest_divergence = *std::max_element(divergences.begin(), divergences.end());
  const auto middle = divergences.begin() + static_cast<std::ptrdiff_t>(positions / 2);
  std::nth_element(divergences.begin(), middle, divergences.end());
  result.median_divergence = *middle;
  if (positions % 2 == 0) {
    result.median_divergence = (*middle + *std::max_element(divergences.begin(), middle)) / 2;
  }
  return result;
}

}  // namespace sparkx
