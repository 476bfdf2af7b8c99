// What an observer of linear inputs is told, and that nobody's bits change by it.
#include "model/input_observer.h"

#include <gtest/gtest.h>

#include <map>
#include <vector>

#include "support/model_runs.h"
#include "support/random_model.h"

namespace sparkx {
namespace {

using testing::Logits;

struct Recorder final : InputObserver {
  void observe(LinearInputPlace place, const kernels::Activations& rows) override {
    for (std::int64_t t = 0; t < rows.tokens; ++t) {
      const float* row = rows.values + t * rows.stride;
      seen[place].emplace_back(row, row + columns.at(place.input));
    }
  }
  std::map<LinearInput, std::int64_t> columns;
  std::map<LinearInputPlace, std::vector<std::vector<float>>> seen;  // [token][column]
};

class InputObserving : public ::testing::Test {
 protected:
  InputObserving() {
    recorder_.columns = {{LinearInput::attention, spec_.hidden_size},
                         {LinearInput::heads, spec_.heads * spec_.head_dim},
                         {LinearInput::mlp, spec_.hidden_size},
                         {LinearInput::hidden, spec_.intermediate_size},
                         {LinearInput::head, spec_.hidden_size}};
  }
  Logits logits(std::int64_t chunk, InputObserver* observer, ActivationMode activations) {
    LoadOptions options;
    options.context = 128;
    options.weights.activations = activations;
    options.observer = observer;
    return testing::run(*load_model(random_.open(), options), tokens_, chunk);
  }

  testing::ModelSpec spec_;
  testing::RandomModel random_{spec_};
  std::vector<TokenId> tokens_ = testing::random_tokens(60, spec_.vocab_size, 7);
  Recorder recorder_;
};

TEST_F(InputObserving, ChangesNoBits) {
  for (const ActivationMode mode : {ActivationMode::int8, ActivationMode::float32}) {
    EXPECT_TRUE(testing::same_bits(logits(17, &recorder_, mode), logits(17, nullptr, mode), spec_.vocab_size));
  }
}

TEST_F(InputObserving, SeesEveryInputOfEveryToken) {
  logits(17, &recorder_, ActivationMode::float32);
  EXPECT_EQ(recorder_.seen.size(), 4 * spec_.layers.size() + 1);
  for (const auto& [place, rows] : recorder_.seen) {
    EXPECT_EQ(rows.size(), tokens_.size()) << static_cast<int>(place.input) << " of layer " << place.layer;
  }
  EXPECT_EQ(recorder_.seen.begin()->first, (LinearInputPlace{LinearInput::attention, 0}));
  Recorder in_one;
  in_one.columns = recorder_.columns;
  logits(60, &in_one, ActivationMode::float32);
  EXPECT_TRUE(in_one.seen == recorder_.seen) << "the cut into steps shows";
}

// The head's rows times the head are the logits: so these are the values that the module meets, in order.
TEST_F(InputObserving, SeesWhatTheModuleReads) {
  const Logits found = logits(17, &recorder_, ActivationMode::float32);
  const std::vector<float> head = random_.values("lm_head.weight");
  const std::vector<std::vector<float>>& rows = recorder_.seen.at({LinearInput::head, 0});
  for (std::size_t t = 0; t < rows.size(); ++t) {
    for (std::int64_t v = 0; v < spec_.vocab_size; ++v) {
      double sum = 0;
      for (std::int64_t c = 0; c < spec_.hidden_size; ++c) sum += double{head[v * spec_.hidden_size + c]} * rows[t][c];
      ASSERT_NEAR(found[t * spec_.vocab_size + v], sum, 1e-3 * (1 + std::abs(sum))) << "token " << t;
    }
  }
}

}  // namespace
}  // namespace sparkx
