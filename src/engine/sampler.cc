// The steps of sparkx/sampling.hpp, by the same numbers. A vocabulary of 131072 is never sorted as a whole unless top-p
// asks for nearly all of it: the largest are selected, and more of them as long as top-p is not reached.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "core/aligned_buffer.h"
#include "core/error.h"
#include "core/float_environment.h"
#include "core/random.h"
#include "kernels/kernels.h"
#include "kernels/math.h"
#include "sparkx/sampling.hpp"

namespace sparkx {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr std::size_t kFirstSelection = 256;  // of the most probable tokens, for top-p; 95 % usually is fewer
constexpr std::size_t kSelectionGrowth = 8;

struct Candidate {
  TokenId id;
  float score;
  float z;
  float term;  // exp(z)
};

// Orders by score, then by the lowest id: a larger key comes first. +0.0f makes -0 and +0 the same score.
std::uint64_t order_key(float score, std::size_t id) {
  std::uint32_t bits;
  const float normalized = score + 0.0f;
  std::memcpy(&bits, &normalized, sizeof bits);
  bits ^= (bits >> 31) != 0 ? 0xffffffffu : 0x80000000u;
  return std::uint64_t{bits} << 32 | (0xffffffffu - static_cast<std::uint32_t>(id));
}

TokenId id_of_key(std::uint64_t key) {
  return static_cast<TokenId>(0xffffffffu - static_cast<std::uint32_t>(key));
}

// The ids of the `count` largest scores, the largest first; -inf is never among them.
std::vector<TokenId> largest(std::span<const float> scores, std::size_t count) {
  if (count == 0) return {};
  std::vector<std::uint64_t> keys;
  const std::size_t room = std::max<std::size_t>(2 * count, 1024);
  float threshold = -kInfinity;  // a later id with this score cannot be among the largest any more
  const auto cut = [&] {
    std::nth_element(keys.begin(), keys.begin() + static_cast<std::ptrdiff_t>(count) - 1, keys.end(), std::greater<>());
    keys.resize(count);
    threshold = scores[id_of_key(keys.back())];
  };
  for (std::size_t id = 0; id < scores.size(); ++id) {
    if (!(scores[id] > threshold)) continue;
    keys.push_back(order_key(scores[id], id));
    if (keys.size() == room) cut();
  }
  if (keys.size() > count) cut();
  std::sort(keys.begin(), keys.end(), std::greater<>());
  std::vector<TokenId> ids(keys.size());
  std::transform(keys.begin(), keys.end(), ids.begin(), id_of_key);
  return ids;
}

TokenId lowest_id_of_largest(std::span<const float> scores) {
  std::size_t best = 0;
  for (std::size_t id = 1; id < scores.size(); ++id) {
    if (scores[id] > scores[best]) best = id;
  }
  return static_cast<TokenId>(best);
}

void sort_by_id(std::vector<Candidate>& candidates) {
  const auto by_id = [](const Candidate& a, const Candidate& b) { return a.id < b.id; };
  if (!std::is_sorted(candidates.begin(), candidates.end(), by_id)) {
    std::sort(candidates.begin(), candidates.end(), by_id);
  }
}

// As kernels' exp_sum adds: by id modulo 16, in ascending order, then the tree. Tokens that are not there add nothing.
float sum_of_terms(std::span<const Candidate> ascending) {
  std::array<float, kernels::kLanes> partial{};
  for (const Candidate& c : ascending) partial[static_cast<std::size_t>(c.id) % partial.size()] += c.term;
  for (std::size_t h = partial.size() / 2; h >= 1; h /= 2) {
    for (std::size_t j = 0; j < h; ++j) partial[j] += partial[j + h];
  }
  return partial[0];
}

void check_option(bool valid, const char* name, const char* range, double value) {
  if (!valid) throw_error(ErrorCode::invalid_argument, "{} must be {}, not {}", name, range, value);
}

}  // namespace

struct Sampler::Impl {
  SamplingOptions options;
  std::size_t vocab_size;
  AlignedBuffer<float> scores;             // l
  AlignedBuffer<float> terms;              // exp(z), where all of them are needed
  std::vector<Candidate> candidates;       // what may be drawn
  std::vector<std::uint32_t> occurrences;  // [vocab_size], all zero between uses

  void load(std::span<const float> logits);
  void add_model_logprobs(SampledToken& result);
  void mask(std::span<const std::uint64_t> allowed);
  void penalize(std::span<const TokenId> tokens, std::size_t prompt_length);
  float largest_score();
  void find_candidates(float max);
  bool keep_top_p(std::vector<Candidate>& descending, float total) const;
  Candidate draw(const std::vector<Candidate>& ascending, float total, std::uint64_t position) const;
};

Sampler::Sampler(SamplingOptions options, std::int64_t vocab_size) : impl_(std::make_unique<Impl>()) {
  if (vocab_size < 1) throw_error(ErrorCode::invalid_argument, "a vocabulary of {} tokens", vocab_size);
  const SamplingOptions& o = options;
  check_option(o.temperature >= 0 && std::isfinite(o.temperature), "temperature", "0 or more", o.temperature);
  check_option(o.top_k >= -1, "top_k", "-1 or more", static_cast<double>(o.top_k));
  check_option(o.top_p >= 0 && o.top_p <= 1, "top_p", "from 0 to 1", o.top_p);
  check_option(o.min_p >= 0 && o.min_p <= 1, "min_p", "from 0 to 1", o.min_p);
  check_option(o.repetition_penalty > 0 && std::isfinite(o.repetition_penalty), "repetition_penalty", "more than 0",
               o.repetition_penalty);
  check_option(o.repetition_window >= 0, "repetition_window", "0 or more", static_cast<double>(o.repetition_window));
  check_option(std::isfinite(o.presence_penalty), "presence_penalty", "finite", o.presence_penalty);
  check_option(std::isfinite(o.frequency_penalty), "frequency_penalty", "finite", o.frequency_penalty);
  for (const LogitBias& b : o.logit_bias) {
    if (b.id < 0 || b.id >= vocab_size) {
      throw_error(ErrorCode::invalid_argument, "logit bias for token {}: the vocabulary has {} tokens", b.id,
                  vocab_size);
    }
    check_option(std::isfinite(b.bias), "a logit bias", "finite", b.bias);
  }
  check_option(!o.logprobs || *o.logprobs >= 0, "logprobs", "0 or more", static_cast<double>(o.logprobs.value_or(0)));
  impl_->options = std::move(options);
  impl_->vocab_size = static_cast<std::size_t>(vocab_size);
  impl_->scores = AlignedBuffer<float>(impl_->vocab_size);
  impl_->terms = AlignedBuffer<float>(impl_->vocab_size);
  impl_->occurrences.resize(impl_->vocab_size);
}

Sampler::~Sampler() = default;
Sampler::Sampler(Sampler&&) noexcept = default;
Sampler& Sampler::operator=(Sampler&&) noexcept = default;

SampledToken Sampler::sample(std::span<const float> logits, std::span<const TokenId> tokens, std::size_t prompt_length,
                             std::span<const std::uint64_t> allowed) {
  ScopedFloatEnvironment environment;
  Impl& impl = *impl_;
  if (logits.size() != impl.vocab_size) {
    throw_error(ErrorCode::invalid_argument, "{} logits for a vocabulary of {} tokens", logits.size(), impl.vocab_size);
  }
  if (prompt_length > tokens.size()) {
    throw_error(ErrorCode::invalid_argument, "a prompt of {} tokens in a sequence of {}", prompt_length, tokens.size());
  }
  if (!allowed.empty() && allowed.size() != (impl.vocab_size + 63) / 64) {
    throw_error(ErrorCode::invalid_argument, "a mask of {} words for a vocabulary of {} tokens", allowed.size(),
                impl.vocab_size);
  }
  const bool wants_logprobs = impl.options.logprobs.has_value();
  const bool of_model = impl.options.logprobs_of == LogprobsOf::model;
  const std::size_t top = static_cast<std::size_t>(impl.options.logprobs.value_or(0));

  impl.load(logits);
  SampledToken result;
  float model_max = 0.0f;
  float model_log_sum = 0.0f;
  if (wants_logprobs && of_model) {
    model_max = impl.largest_score();
    model_log_sum = kernels::log(kernels::kernel_table().exp_sum(
        impl.scores.data(), static_cast<std::int64_t>(impl.vocab_size), model_max, impl.terms.data()));
    for (TokenId id : largest(logits, std::min(top, impl.vocab_size))) {
      result.top_logprobs.push_back({id, (logits[id] - model_max) - model_log_sum});
    }
  }

  impl.mask(allowed);
  impl.penalize(tokens, prompt_length);
  for (const LogitBias& b : impl.options.logit_bias) impl.scores[b.id] += b.bias;
  const float max = impl.largest_score();

  if (impl.options.temperature == 0) {
    result.id = lowest_id_of_largest(impl.scores.span());
    if (wants_logprobs && !of_model && top > 0) result.top_logprobs.push_back({result.id, 0.0f});
  } else {
    impl.find_candidates(max);
    std::vector<Candidate>& candidates = impl.candidates;
    sort_by_id(candidates);
    const float total = sum_of_terms(candidates);
    const Candidate choice = impl.draw(candidates, total, tokens.size());
    result.id = choice.id;
    if (wants_logprobs && !of_model) {
      const float log_total = kernels::log(total);
      result.logprob = choice.z - log_total;
      std::sort(candidates.begin(), candidates.end(), [](const auto& a, const auto& b) {
        return order_key(a.score, static_cast<std::size_t>(a.id)) > order_key(b.score, static_cast<std::size_t>(b.id));
      });
      candidates.resize(std::min(top, candidates.size()));
      for (const Candidate& c : candidates) result.top_logprobs.push_back({c.id, c.z - log_total});
    }
  }
  if (wants_logprobs && of_model) result.logprob = (logits[result.id] - model_max) - model_log_sum;
  return result;
}

// NaN and +inf would make every comparison and sum behind them meaningless; -inf is a token of probability 0.
void Sampler::Impl::load(std::span<const float> logits) {
  std::copy(logits.begin(), logits.end(), scores.begin());
  const auto bad = std::find_if(logits.begin(), logits.end(), [](float l) { return !(l < kInfinity); });
  if (bad != logits.end()) {
    throw_error(ErrorCode::corrupt, "the model's logit of token {} is {}", bad - logits.begin(), *bad);
  }
}

void Sampler::Impl::mask(std::span<const std::uint64_t> allowed) {
  if (allowed.empty()) return;
  for (std::size_t id = 0; id < vocab_size; ++id) {
    if ((allowed[id / 64] >> (id % 64) & 1) == 0) scores[id] = -kInfinity;
  }
}

void Sampler::Impl::penalize(std::span<const TokenId> tokens, std::size_t prompt_length) {
  const bool repetition = options.repetition_penalty != 1;
  const bool presence_or_frequency = options.presence_penalty != 0 || options.frequency_penalty != 0;
  if (!repetition && !presence_or_frequency) return;
  for (TokenId token : tokens) {
    if (token < 0 || static_cast<std::size_t>(token) >= vocab_size) {
      throw_error(ErrorCode::invalid_argument, "token {}: the vocabulary has {} tokens", token, vocab_size);
    }
  }
  if (repetition) {
    const std::size_t window =
        options.repetition_window == 0 ? tokens.size() : static_cast<std::size_t>(options.repetition_window);
    const auto last = tokens.last(std::min(window, tokens.size()));
    for (TokenId id : last) {
      if (occurrences[id]++ != 0) continue;
      float& l = scores[id];
      l = l > 0 ? l / options.repetition_penalty : l * options.repetition_penalty;
    }
    for (TokenId id : last) occurrences[id] = 0;
  }
  if (presence_or_frequency) {
    const auto generated = tokens.subspan(prompt_length);
    for (TokenId id : generated) ++occurrences[id];
    for (TokenId id : generated) {
      const std::uint32_t count = std::exchange(occurrences[id], 0);
      if (count == 0) continue;  // seen before
      float& l = scores[id];
      l = l - static_cast<float>(count) * options.frequency_penalty;
      l = l - options.presence_penalty;
    }
  }
}

float Sampler::Impl::largest_score() {
  const float max = scores[lowest_id_of_largest(scores.span())];
  if (max == -kInfinity) throw_error(ErrorCode::invalid_argument, "no token is allowed here");
  if (!(max < kInfinity))
    throw_error(ErrorCode::invalid_argument, "penalties or biases are too large: a logit overflows");
  return max;
}

// Ranks by l, not by z: in z the differences of improbable tokens drown in the distance from the largest.
void Sampler::Impl::find_candidates(float max) {
  std::vector<Candidate>& result = candidates;
  result.clear();
  const auto z_of = [&](float score) { return (score - max) / options.temperature; };
  const auto take = [&](std::span<const TokenId> ids) {
    result.clear();
    result.reserve(ids.size());
    for (TokenId id : ids) result.push_back({id, scores[id], z_of(scores[id]), kernels::exp(z_of(scores[id]))});
  };
  if (options.top_k > 0 && static_cast<std::uint64_t>(options.top_k) < vocab_size) {
    take(largest(scores.span(), static_cast<std::size_t>(options.top_k)));
    if (options.top_p < 1) {
      std::vector<Candidate> ascending = result;
      sort_by_id(ascending);
      keep_top_p(result, sum_of_terms(ascending));
    }
  } else {
    std::transform(scores.begin(), scores.end(), terms.begin(), z_of);
    const float total =
        kernels::kernel_table().exp_sum(terms.data(), static_cast<std::int64_t>(vocab_size), 0.0f, terms.data());
    if (options.top_p < 1) {
      for (std::size_t count = kFirstSelection;; count *= kSelectionGrowth) {
        take(largest(scores.span(), std::min(count, vocab_size)));
        if (keep_top_p(result, total) || count >= vocab_size) break;
      }
    } else {
      result.reserve(vocab_size);
      for (std::size_t id = 0; id < vocab_size; ++id) {
        if (scores[id] > -kInfinity) {
          result.push_back({static_cast<TokenId>(id), scores[id], z_of(scores[id]), terms[id]});
        }
      }
    }
  }
  std::erase_if(result, [this](const Candidate& c) { return c.term == 0 || c.term < options.min_p; });
}

// Cuts `descending` behind the token at which top_p of `total` is reached; false when it is not reached.
bool Sampler::Impl::keep_top_p(std::vector<Candidate>& descending, float total) const {
  const double enough = static_cast<double>(options.top_p) * static_cast<double>(total);
  double sum = 0;
  for (std::size_t i = 0; i < descending.size(); ++i) {
    sum += static_cast<double>(descending[i].term);
    if (sum >= enough) {
      descending.resize(i + 1);
      return true;
    }
  }
  return false;
}

Candidate Sampler::Impl::draw(const std::vector<Candidate>& ascending, float total, std::uint64_t position) const {
  const double target = random_unit(options.seed, position) * static_cast<double>(total);
  double sum = 0;
  for (const Candidate& c : ascending) {
    sum += static_cast<double>(c.term);
    if (sum > target) return c;
  }
  return ascending.back();  // rounding left the running sum just short of the total
}

}  // namespace sparkx
