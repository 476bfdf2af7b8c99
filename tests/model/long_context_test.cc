// Positions near the model's limit, with a cache that is made up instead of a million tokens: every position before the
// last ones holds the keys and values of its slot in one shared block.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <vector>

#include "core/float_environment.h"
#include "kernels/kernels.h"
#include "model/cpu_model.h"
#include "model/transformer.h"
#include "support/model_runs.h"
#include "support/random_model.h"
#include "support/safetensors_files.h"

namespace sparkx {
namespace {

using kernels::kBlockPositions;
using testing::Logits;
using testing::same_bits;

// A model, and one sequence whose first positions are made up.
class MadeUpPast {
 public:
  MadeUpPast(const Checkpoint& checkpoint, const kernels::KernelTable& kernels, kernels::KvKind kind, int threads)
      : config_(checkpoint.config()),
        kernels_(kernels),
        threads_(threads),
        weights_(pack_weights(checkpoint, {}, kernels::kernel_table(), threads_)),
        cache_(kv_layout(config_, kind), std::numeric_limits<std::size_t>::max()),
        transformer_(config_, weights_, kernels, threads_) {}

  // As tests/oracle/make_model_goldens.py defines them. `layer` counts all layers.
  static float key(int layer, int head, int slot, int channel) {
    return static_cast<float>((layer * 5 + head * 3 + slot * 7 + channel * 11) % 17 - 8) / 8.0f;
  }
  static float value(int layer, int head, int slot, int channel) {
    return static_cast<float>((layer * 3 + head * 7 + slot * 5 + channel * 13) % 19 - 9) / 8.0f;
  }

  // A sequence of `length` positions, in blocks of its own where it will be written and in shared ones before.
  KvSequence sequence(std::int64_t length) {
    KvSequence sequence;
    sequence.length = length;
    for (LayerType type : {LayerType::sliding_attention, LayerType::full_attention}) {
      std::vector<BlockId>& blocks = type == LayerType::full_attention ? sequence.full : sequence.sliding;
      BlockId shared = made_up_block(type);
      blocks.assign(length / kBlockPositions, shared);
      if (length % kBlockPositions != 0) blocks.push_back(made_up_block(type));
    }
    // As commit leaves a sequence of this length: the window and 64 positions of slack.
    sequence.first_sliding = std::max<std::int64_t>(0, length - 64 - (config_.sliding_window - 1)) / kBlockPositions;
    std::fill_n(sequence.sliding.begin(), sequence.first_sliding, kNoBlock);
    return sequence;
  }

  Logits step(std::vector<std::pair<KvSequence*, std::vector<TokenId>>> items) {
    ScopedFloatEnvironment float_environment;
    std::vector<Chunk> chunks;
    Logits logits;
    std::size_t floats = 0;
    for (auto& [sequence, tokens] : items) floats += tokens.size() * config_.vocab_size;
    logits.resize(floats);
    float* next = logits.data();
    for (auto& [sequence, tokens] : items) {
      EXPECT_TRUE(cache_.reserve(*sequence, static_cast<std::int64_t>(tokens.size()), kPassTokens));
      cache_.place(*sequence, static_cast<std::int64_t>(tokens.size()));
      chunks.push_back({sequence, tokens, 0, next});
      next += tokens.size() * config_.vocab_size;
    }
    transformer_.forward(chunks, cache_, nullptr);
    return logits;
  }

  const ModelConfig& config() const { return config_; }

 private:
  BlockId made_up_block(LayerType type) {
    BlockId block = cache_.pool(type).acquire();
    int d = cache_.layout().head_dim;
    auto kind = static_cast<int>(cache_.layout().kind);
    std::vector<float> floats(d);
    int of_type = 0;
    for (int layer = 0; layer < static_cast<int>(config_.layer_types.size()); ++layer) {
      if (config_.layer_types[layer] != type) continue;
      for (int head = 0; head < cache_.layout().kv_heads; ++head) {
        for (int slot = 0; slot < kBlockPositions; ++slot) {
          for (int i = 0; i < d; ++i) floats[i] = key(layer, head, slot, i);
          kernels_.store_key[kind](cache_.keys(type, block, of_type, head), slot, floats.data(), d);
          for (int i = 0; i < d; ++i) floats[i] = value(layer, head, slot, i);
          kernels_.store_value[kind](cache_.values(type, block, of_type, head), slot, floats.data(), d);
        }
      }
      ++of_type;
    }
    return block;
  }

  ModelConfig config_;
  const kernels::KernelTable& kernels_;
  ThreadPool threads_;
  PackedWeights weights_;
  KvCache cache_;
  Transformer transformer_;
};

class LongContext : public ::testing::TestWithParam<const char*> {};

TEST_P(LongContext, LastPositionOfAMillionAgreesWithTheReference) {
  auto folder = std::filesystem::path(SPARKX_SOURCE_DIR) / "tests/data/model" / GetParam();
  testing::StoredTensors golden = testing::read_safetensors(folder / "golden.safetensors");
  auto want = golden.at("far_logits").as<float>();
  for (const kernels::KernelTable* table : kernels::kernel_tables()) {
    if (!kernels::runs_on_this_cpu(*table)) continue;
    MadeUpPast past(Checkpoint::open(folder), *table, kernels::KvKind::float32, 2);
    KvSequence sequence = past.sequence(1048575);
    Logits got = past.step({{&sequence, golden.at("far_token").as<TokenId>()}});
    double error = testing::relative_rms(got, want);
    std::printf("%s, %s: position 1048575, relative rms %.2e\n", GetParam(), table->name, error);
    EXPECT_LE(error, 2e-5);
  }
}

INSTANTIATE_TEST_SUITE_P(, LongContext, ::testing::Values("tied-bf16", "untied-biased-f32"),
                         [](const auto& info) { return info.param[0] == 't' ? "tied" : "untied"; });

// With one thread every tile walks its spans; with several, long ones are split over threads, in waves of bounded size.
// Many heads and tokens make waves of a few spans: tiles end inside a wave, begin in the middle of one and go on over
// several.
TEST(LongContextBits, WalkedAndSplitSpansGiveTheSameBits) {
  testing::ModelSpec spec;
  spec.layers = "fs";
  spec.heads = 64;
  spec.kv_heads = 8;
  spec.head_dim = 2;
  spec.full_factor = 1.0;
  spec.window = 1500;
  testing::RandomModel random(spec);
  Checkpoint checkpoint = random.open();
  std::vector<TokenId> eight = testing::random_tokens(8, spec.vocab_size, 1);
  std::vector<TokenId> three = testing::random_tokens(3, spec.vocab_size, 2);
  auto run_with = [&](int threads) {
    MadeUpPast past(checkpoint, kernels::kernel_table(), kernels::KvKind::bfloat16, threads);
    KvSequence a = past.sequence(9 * 512 + 100), b = past.sequence(20 * 512 - 3), c = past.sequence(70);
    KvSequence d = past.sequence(31 * 512 + 511);
    return past.step({{&a, eight}, {&b, three}, {&c, eight}, {&d, eight}});
  };
  const Logits walked = run_with(1);
  for (int threads : {2, 3, 5})
    EXPECT_TRUE(same_bits(run_with(threads), walked, spec.vocab_size)) << threads << " threads";

  MadeUpPast past(checkpoint, kernels::kernel_table(), kernels::KvKind::bfloat16, 3);
  KvSequence d = past.sequence(31 * 512 + 511);
  EXPECT_TRUE(same_bits(past.step({{&d, eight}}), std::span(walked).last(8 * spec.vocab_size), spec.vocab_size));
}

}  // namespace
}  // namespace sparkx
