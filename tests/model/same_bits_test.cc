// One sequence's logits are the same to the bit however the work is cut, shared and placed.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "kernels/kernels.h"
#include "model/kv_cache.h"
#include "support/model_runs.h"
#include "support/oracle.h"
#include "support/random_model.h"
#include "support/safetensors_files.h"

namespace sparkx {
namespace {

using kernels::KvKind;
using testing::Logits;
using testing::run;
using testing::same_bits;

struct Subject {
  std::string name;
  Checkpoint checkpoint;
  std::vector<TokenId> tokens;
  WeightOptions weights = {};
};

std::unique_ptr<Model> load(const Subject& subject, KvKind kv, int threads, const kernels::KernelTable& kernels) {
  LoadOptions options;
  options.weights = subject.weights;
  options.kv_kind = kv;
  options.threads = threads;
  options.kernels = &kernels;
  options.context = 8192;
  return load_model(subject.checkpoint, options);
}

// The reference table, one thread, the whole text at once, then everything else against it.
void check_all_ways(const Subject& subject, KvKind kv) {
  SCOPED_TRACE(subject.name + ", " + std::string(kv_kind_name(kv)) + " cache");
  const kernels::KernelTable& reference = kernels::kernel_table("reference");
  auto model = load(subject, kv, 1, reference);
  const std::int64_t vocab = model->info().vocab_size;
  const auto whole = static_cast<std::int64_t>(subject.tokens.size());
  const Logits want = run(*model, subject.tokens, whole);

  for (const kernels::KernelTable* table : kernels::kernel_tables()) {
    if (!kernels::runs_on_this_cpu(*table)) continue;
    auto on_table = load(subject, kv, 2, *table);
    EXPECT_TRUE(same_bits(run(*on_table, subject.tokens, whole), want, vocab)) << table->name << ", whole";
    on_table = load(subject, kv, 1, *table);
    EXPECT_TRUE(same_bits(run(*on_table, subject.tokens, 13), want, vocab)) << table->name << ", chunks of 13";
  }
  for (int threads : {1, 2, 3, 5}) {
    auto threaded = load(subject, kv, threads, kernels::kernel_table());
    for (std::int64_t chunk : {std::int64_t{1}, std::int64_t{7}, std::int64_t{64}, std::int64_t{512}, whole}) {
      // Many tiny steps take minutes where threads wait for a busy core, and show nothing that shorter texts do not.
      if (whole > 500 && threads > 1 && chunk < 64) continue;
      // The second and later chunkings run in the blocks of the first.
      EXPECT_TRUE(same_bits(run(*threaded, subject.tokens, chunk), want, vocab))
          << threads << " threads, chunks of " << chunk;
    }
  }
}

// The subject in steps with strangers of other lengths, all of them cut differently, some in fresh and some in reused
// blocks.
void check_company(const Subject& subject, KvKind kv) {
  SCOPED_TRACE(subject.name);
  auto model = load(subject, kv, 3, kernels::kernel_table());
  const std::int64_t vocab = model->info().vocab_size;
  const Logits want = run(*model, subject.tokens, 512);

  struct Party {
    SequenceId sequence;
    std::vector<TokenId> tokens;
    std::size_t chunk;
    std::size_t done = 0;
  };
  std::vector<Party> parties;
  parties.push_back({model->create_sequence(), testing::random_tokens(90, vocab, 5), 1});
  parties.push_back({model->create_sequence(), testing::random_tokens(700, vocab, 6), 97});
  parties.push_back({model->create_sequence(), subject.tokens, 29});
  parties.push_back({model->create_sequence(), testing::random_tokens(17, vocab, 7), 17});
  parties.push_back({model->create_sequence(), testing::random_tokens(1200, vocab, 8), 600});
  const std::size_t subject_index = 2;
  Logits got;
  while (parties[subject_index].done < subject.tokens.size()) {
    std::vector<StepItem> items;
    std::size_t place = 0;
    for (std::size_t i = 0; i < parties.size(); ++i) {
      Party& party = parties[i];
      std::size_t take = std::min(party.chunk, party.tokens.size() - party.done);
      if (take == 0) {  // another stranger moves into its blocks
        model->free_sequence(party.sequence);
        party.sequence = model->create_sequence();
        party.done = 0;
        take = std::min(party.chunk, party.tokens.size());
      }
      if (i == subject_index) place = items.size();
      items.push_back({party.sequence, std::span(party.tokens).subspan(party.done, take),
                       i == subject_index ? LogitsWanted::all : static_cast<LogitsWanted>(i % 3)});
      party.done += take;
    }
    std::span<const StepOutput> outputs = model->step(items);
    for (const StepOutput& output : outputs) ASSERT_FALSE(output.error) << output.message;
    got.insert(got.end(), outputs[place].logits.begin(), outputs[place].logits.end());
  }
  EXPECT_TRUE(same_bits(got, want, vocab));
}

Subject committed(const std::string& name) {
  auto folder = std::filesystem::path(SPARKX_SOURCE_DIR) / "tests/data/model" / name;
  return {name, Checkpoint::open(folder),
          testing::read_safetensors(folder / "golden.safetensors").at("tokens").as<TokenId>()};
}

TEST(SameBits, SlidingWindowFourTimesOver) {
  Subject subject = committed("tied-bf16");
  for (KvKind kv : {KvKind::float32, KvKind::bfloat16, KvKind::int8}) check_all_ways(subject, kv);
}

TEST(SameBits, UntiedWithBiasesAndOddSizes) {
  Subject subject = committed("untied-biased-f32");
  for (KvKind kv : {KvKind::float32, KvKind::bfloat16, KvKind::int8}) check_all_ways(subject, kv);
}

TEST(SameBits, ManySpansAndThreeWindowsOf512) {
  testing::ModelSpec spec;
  spec.window = 512;
  spec.hidden_size = 20;
  spec.intermediate_size = 24;
  spec.head_dim = 8;
  testing::RandomModel random(spec);
  Subject subject{"random", random.open(), testing::random_tokens(1700, spec.vocab_size, 3)};
  check_all_ways(subject, KvKind::bfloat16);
  check_all_ways(subject, KvKind::int8);
}

TEST(SameBits, Quantized) {
  testing::ModelSpec spec;
  spec.hidden_size = 96;  // groups of 32, the last group of activations a half
  spec.intermediate_size = 160;
  spec.head_dim = 24;
  spec.biases = true;
  for (ActivationMode activations : {ActivationMode::int8, ActivationMode::float32}) {
    for (int bits : {4, 8}) {
      spec.tied = bits == 8;
      testing::RandomModel random(spec);
      Subject subject{
          std::to_string(bits) + " bits",
          random.open(),
          testing::random_tokens(200, spec.vocab_size, 3),
          {.dtype = kernels::WeightKind::bfloat16, .quantize = Quantization{bits, 32}, .activations = activations}};
      check_all_ways(subject, KvKind::bfloat16);
      check_all_ways(subject, KvKind::int8);
      check_company(subject, KvKind::float32);
    }
  }
}

TEST(SameBits, AloneOrWithStrangers) {
  Subject subject = committed("untied-biased-f32");
  for (KvKind kv : {KvKind::float32, KvKind::bfloat16, KvKind::int8}) check_company(subject, kv);
}

class SameBitsOracle : public ::testing::TestWithParam<const char*> {};

TEST_P(SameBitsOracle, EveryWay) {
  SPARKX_NEEDS_ORACLE();
  auto folder = testing::oracle_dir() / GetParam();
  Subject subject{GetParam(), Checkpoint::open(folder),
                  testing::read_safetensors(folder / "golden.safetensors").at("tokens").as<TokenId>()};
  check_all_ways(subject, KvKind::float32);
  check_all_ways(subject, KvKind::bfloat16);
  check_company(subject, KvKind::bfloat16);
}

INSTANTIATE_TEST_SUITE_P(, SameBitsOracle,
                         ::testing::Values("tied-f32", "untied-biased-f32", "window512-f32", "sharded-bf16", "tied-f16",
                                           "quant-source-bf16"),
                         testing::case_name);

class SameBitsOracleQuantized : public ::testing::TestWithParam<Quantization> {};

TEST_P(SameBitsOracleQuantized, EveryWay) {
  SPARKX_NEEDS_ORACLE();
  auto folder = testing::oracle_dir() / "quant-source-bf16";
  Subject subject{"quant-source-bf16",
                  Checkpoint::open(folder),
                  testing::read_safetensors(folder / "golden.safetensors").at("tokens").as<TokenId>(),
                  {.quantize = GetParam()}};
  check_all_ways(subject, KvKind::bfloat16);
  check_company(subject, KvKind::bfloat16);
}

INSTANTIATE_TEST_SUITE_P(, SameBitsOracleQuantized,
                         ::testing::Values(Quantization{4, 32}, Quantization{4, 64}, Quantization{4, 128},
                                           Quantization{8, 64}),
                         [](const auto& info) {
                           return std::to_string(info.param.bits) + "bit_g" + std::to_string(info.param.group);
                         });

}  // namespace
}  // namespace sparkx
