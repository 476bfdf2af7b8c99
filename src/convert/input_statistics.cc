#include "convert/input_statistics.h"

#include <algorithm>
#include <atomic>
#include <cmath>

#include "core/error.h"
#include "core/float_environment.h"
#include "engine/sequence.h"
#include "model/load.h"

namespace sparkx {
namespace {

constexpr std::int64_t kChunk = 512;                           // tokens of a step
constexpr std::int64_t kLogitsBytes = std::int64_t{64} << 20;  // of a step, where the head's input is wanted
constexpr std::int64_t kColumnGrain = 64;

class Collector final : public InputObserver {
 public:
  Collector(std::span<const WantedInput> wanted, ThreadPool& threads, Progress& progress)
      : threads_(threads), progress_(progress) {
    for (const WantedInput& input : wanted) {
      InputStatistics& statistics = found_[input.place];
      statistics.squares.resize(static_cast<std::size_t>(input.columns));
      if (input.products) statistics.products = std::make_unique<SymmetricMatrix>(input.columns);
    }
  }

  const std::atomic<bool>* cancelled() const { return &cancelled_; }

  void observe(LinearInputPlace place, const kernels::Activations& rows) override {
    progress_.add(0);  // asks whether to go on: a step of a large model takes seconds
    if (progress_.cancelled()) cancelled_ = true;
    const auto found = found_.find(place);
    if (found == found_.end() || cancelled_) return;
    InputStatistics& statistics = found->second;
    const auto columns = static_cast<std::int64_t>(statistics.squares.size());
    threads_.parallel_for(columns, kColumnGrain, [&](std::int64_t begin, std::int64_t end, int) {
      for (std::int64_t t = 0; t < rows.tokens; ++t) {
        const float* row = rows.values + t * rows.stride;
        for (std::int64_t c = begin; c < end; ++c) statistics.squares[c] += double{row[c]} * row[c];
      }
    });
    if (statistics.products) statistics.products->add_products(rows, columns, 1, threads_, scratch_);
  }

  std::map<LinearInputPlace, InputStatistics> take() { return std::move(found_); }

 private:
  ThreadPool& threads_;
  Progress& progress_;
  std::atomic<bool> cancelled_ = false;
  std::map<LinearInputPlace, InputStatistics> found_;
  SymmetricMatrix::Scratch scratch_;
};

}  // namespace

std::map<LinearInputPlace, InputStatistics> collect_statistics(const Checkpoint& checkpoint,
                                                               const CalibrationText& text,
                                                               std::span<const WantedInput> wanted, ThreadPool& threads,
                                                               Progress& progress, std::uint64_t units) {
  const ScopedFloatEnvironment environment;
  Collector collector(wanted, threads, progress);
  LoadOptions options;
  options.weights.activations = ActivationMode::float32;
  options.context = text.window;
  options.threads = threads.size();
  options.observer = &collector;
  const std::unique_ptr<Model> model = load_model(checkpoint, std::move(options));
  model->cancel_steps_on(collector.cancelled());

  const bool head = std::any_of(wanted.begin(), wanted.end(),
                                [](const WantedInput& input) { return input.place.input == LinearInput::head; });
  const std::int64_t logits_row = checkpoint.config().vocab_size * static_cast<std::int64_t>(sizeof(float));
  const std::int64_t chunk = head ? std::clamp<std::int64_t>(kLogitsBytes / logits_row, 1, kChunk) : kChunk;
  const auto total = static_cast<std::int64_t>(text.tokens.size());
  StepBatch batch(*model);
  for (std::int64_t window = 0; window < total; window += text.window) {
    TokenSequence sequence(*model);
    const std::int64_t end = std::min(window + text.window, total);
    for (std::int64_t at = window; at < end; at += chunk) {
      const std::int64_t count = std::min(chunk, end - at);
      batch.step(sequence,
                 std::span(text.tokens).subspan(static_cast<std::size_t>(at), static_cast<std::size_t>(count)),
                 head ? LogitsWanted::all : LogitsWanted::none);
      const auto share = [&](std::int64_t tokens) {
        return static_cast<std::uint64_t>(static_cast<double>(units) * static_cast<double>(tokens) /
                                          static_cast<double>(total));
      };
      progress.add(share(at + count) - share(at));
      progress.check();
    }
  }
  std::map<LinearInputPlace, InputStatistics> found = collector.take();
  for (const auto& [place, statistics] : found) {
    if (std::all_of(statistics.squares.begin(), statistics.squares.end(), [](double s) { return std::isfinite(s); })) {
      continue;
    }
    throw_error(ErrorCode::corrupt, "the model's own activations are not finite on the calibration text (layer {})",
                place.layer);
  }
  return found;
}

}  // namespace sparkx
