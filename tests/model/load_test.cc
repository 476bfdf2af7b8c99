#include "model/load.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "core/error.h"
#include "model/cpu_model.h"
#include "support/locked_memory.h"
#include "support/model_runs.h"
#include "support/random_model.h"

namespace sparkx {
namespace {

using kernels::KvKind;
using kernels::WeightKind;
using testing::Logits;
using testing::run;
using testing::same_bits;

constexpr std::size_t kGiB = std::size_t{1} << 30;

std::size_t mib_per_position(std::int64_t positions) {
  return positions << 20;
}

TEST(Context, DefaultIsTheLeastOfModelMemoryAndDefault) {
  EXPECT_EQ(choose_context({0, 0, 1000 * kGiB}, {}, 1048576, mib_per_position), kDefaultContext);
  EXPECT_EQ(choose_context({0, 0, 1000 * kGiB}, {}, 4096, mib_per_position), 4096);
  EXPECT_EQ(choose_context({kGiB, kGiB, 4 * kGiB}, {}, 1048576, mib_per_position), 2048);
  EXPECT_EQ(choose_context({kGiB, kGiB, 2 * kGiB + (std::size_t{512} << 20)}, {}, 1048576, mib_per_position), 512);
}

TEST(Context, WantedIsTakenWhenItFits) {
  EXPECT_EQ(choose_context({kGiB, kGiB, 4 * kGiB}, 2048, 1048576, mib_per_position), 2048);
  EXPECT_EQ(choose_context({0, 0, 1000 * kGiB}, 500000, 1048576, mib_per_position), 500000);
  EXPECT_EQ(choose_context({0, 0, kGiB}, 1, 1048576, mib_per_position), 1);
}

std::string refusal(const MemoryNeed& need, std::optional<std::int64_t> wanted, std::int64_t most, ErrorCode code) {
  try {
    choose_context(need, wanted, most, mib_per_position);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code);
    return error.what();
  }
  return "no error";
}

TEST(Context, RefusalSaysWhatIsNeededAndWhatIsFree) {
  EXPECT_EQ(refusal({3 * kGiB, kGiB / 2, 4 * kGiB}, 2048, 1048576, ErrorCode::out_of_memory),
            "not enough memory: 3.0 GiB for the weights, 512.0 MiB for buffers and 2.0 GiB for the KV cache of 2048 "
            "positions "
            "make 5.5 GiB, but 4.0 GiB are free; a context of 512 (--ctx) would fit");
  EXPECT_EQ(refusal({3 * kGiB, kGiB / 2, 2 * kGiB}, {}, 1048576, ErrorCode::out_of_memory),
            "not enough memory: 3.0 GiB for the weights, 512.0 MiB for buffers and 512.0 MiB for the KV cache of 512 "
            "positions "
            "make 4.0 GiB, but 2.0 GiB are free");
}

TEST(Context, BeyondTheModelIsRefused) {
  EXPECT_EQ(refusal({0, 0, kGiB}, 5000, 4096, ErrorCode::invalid_argument),
            "a context of 5000 positions: this model can have 1 to 4096");
  refusal({0, 0, kGiB}, 0, 4096, ErrorCode::invalid_argument);
}

TEST(Load, TooLittleMemoryIsRefusedBeforeReading) {
  testing::RandomModel random({});
  LoadOptions options;
  options.available_bytes = 1000;
  options.progress = [](std::uint64_t, std::uint64_t) -> bool { throw std::logic_error("reading"); };
  try {
    load_model(random.open(), options);
    FAIL() << "loaded";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::out_of_memory);
  }
}

TEST(Load, InfoNamesSizesAndModes) {
  testing::RandomModel random({});
  Checkpoint checkpoint = random.open();
  LoadOptions options;
  options.threads = 2;
  options.kernels = &kernels::kernel_table("reference");
  auto model = load_model(checkpoint, options);
  const ModelInfo& info = model->info();
  EXPECT_EQ(info.vocab_size, 61);
  EXPECT_EQ(info.max_position_embeddings, 1048576);
  EXPECT_EQ(info.context, kDefaultContext);
  EXPECT_EQ(info.weights, "float32");
  EXPECT_EQ(info.kv, "bfloat16");
  EXPECT_EQ(info.device, "cpu: reference, 2 threads");
  EXPECT_GE(info.weight_bytes, checkpoint.weight_bytes());
  EXPECT_EQ(info.kv_bytes_reserved,
            kv_sequence_bytes(kv_layout(checkpoint.config(), KvKind::bfloat16), kDefaultContext, 512));

  options.weights.dtype = WeightKind::float32;
  EXPECT_EQ(load_model(checkpoint, options)->info().kv, "float32");
  options.kv_kind = KvKind::bfloat16;
  EXPECT_EQ(load_model(checkpoint, options)->info().kv, "bfloat16");
  options.kv_kind = KvKind::int8;
  auto with_int8 = load_model(checkpoint, options);
  EXPECT_EQ(with_int8->info().kv, "int8");
  EXPECT_EQ(with_int8->info().kv_bytes_reserved,
            kv_sequence_bytes(kv_layout(checkpoint.config(), KvKind::int8), kDefaultContext, 512));
}

TEST(Load, MemoryIsLockedForAllSequences) {
  testing::RandomModel random({});
  Checkpoint checkpoint = random.open();
  LoadOptions options;
  options.context = 200;
  options.sequences = 3;
  options.lock_memory = true;
  const std::size_t sequence = kv_sequence_bytes(kv_layout(checkpoint.config(), KvKind::bfloat16), 200, 512);
  const std::size_t need = plan_weights(checkpoint, {}).bytes + 3 * sequence;
  if (!testing::can_lock(need + (std::size_t{64} << 20))) GTEST_SKIP() << "this process may not lock so much memory";
  const std::size_t before = testing::locked_bytes();
  {
    auto model = load_model(checkpoint, options);
    EXPECT_GE(testing::locked_bytes(), before + need);
    std::vector<TokenId> tokens = testing::random_tokens(40, 61, 1);
    options.lock_memory = false;
    EXPECT_TRUE(same_bits(run(*model, tokens, 40), run(*load_model(checkpoint, options), tokens, 40), 61));
  }
  EXPECT_EQ(testing::locked_bytes(), before);
}

TEST(Load, SequencesMustFitTogether) {
  EXPECT_EQ(
      refusal({0, 0, 4 * kGiB, 3}, 2048, 1048576, ErrorCode::out_of_memory),
      "not enough memory: 0 B for the weights, 0 B for buffers and 6.0 GiB for the KV caches of 3 sequences of 2048 "
      "positions make 6.0 GiB, but 4.0 GiB are free; a context of 1365 (--ctx) would fit");
  EXPECT_EQ(choose_context({0, 0, 6 * kGiB, 3}, 2048, 1048576, mib_per_position), 2048);
}

TEST(Load, ThreadsAreAsManyAsTheirCpus) {
  // In a thread of its own, which stays on the CPU.
  std::thread([] {
    testing::RandomModel random({});
    LoadOptions options;
    options.cpus = {sched_getcpu(), sched_getcpu(), sched_getcpu()};
    EXPECT_TRUE(load_model(random.open(), options)->info().device.ends_with(", 3 threads"));
    options.threads = 1;
    EXPECT_TRUE(load_model(random.open(), options)->info().device.ends_with(", 1 thread"));
  }).join();
}

TEST(Load, ProgressReachesTheTotalAndCanCancel) {
  testing::RandomModel random({});
  Checkpoint checkpoint = random.open();
  LoadOptions options;
  std::uint64_t last = 0;
  options.progress = [&](std::uint64_t done, std::uint64_t total) {
    EXPECT_LE(last, done);
    EXPECT_EQ(total, checkpoint.weight_bytes());
    last = done;
    return true;
  };
  load_model(checkpoint, options);
  EXPECT_EQ(last, checkpoint.weight_bytes());

  options.progress = [](std::uint64_t, std::uint64_t) { return false; };
  try {
    load_model(checkpoint, options);
    FAIL() << "loaded";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::cancelled);
  }
}

// Rounding of our own, so that the test does not trust the code it checks.
std::uint16_t rounded_bfloat16(float value) {
  auto bits = std::bit_cast<std::uint32_t>(value);
  std::uint32_t rest = bits & 0xffffu;
  std::uint32_t up = rest > 0x8000u || (rest == 0x8000u && (bits & 0x10000u) != 0) ? 1 : 0;
  return static_cast<std::uint16_t>((bits >> 16) + up);
}

bool is_matrix(const testing::StoredTensor& tensor) {
  return tensor.shape.size() == 2;
}

TEST(Dtype, Bfloat16RoundsMatricesAndKeepsNormsAndBiases) {
  testing::ModelSpec spec;
  spec.biases = true;
  testing::RandomModel random(spec), rounded(spec);
  for (auto& [name, tensor] : rounded.tensors) {
    if (!is_matrix(tensor)) continue;
    std::vector<std::uint16_t> bits;
    for (float value : tensor.as<float>()) bits.push_back(rounded_bfloat16(value));
    tensor = testing::stored_tensor("BF16", tensor.shape, bits);
  }
  std::vector<TokenId> tokens = testing::random_tokens(40, spec.vocab_size, 1);
  LoadOptions options;
  options.weights.dtype = WeightKind::bfloat16;
  auto converted = load_model(random.open(), options);
  auto stored = load_model(rounded.open(), {});
  EXPECT_EQ(converted->info().weights, "bfloat16");
  EXPECT_EQ(stored->info().weights, "bfloat16");
  EXPECT_TRUE(same_bits(run(*converted, tokens, 40), run(*stored, tokens, 40), spec.vocab_size));
  EXPECT_EQ(converted->info().weight_bytes, stored->info().weight_bytes);

  // Had the norms and biases been rounded too, rounding them beforehand would change nothing.
  for (auto& [name, tensor] : random.tensors) {
    if (is_matrix(tensor)) continue;
    std::vector<float> values = tensor.as<float>();
    for (float& value : values) value = std::bit_cast<float>(std::uint32_t{rounded_bfloat16(value)} << 16);
    tensor = testing::stored_tensor("F32", tensor.shape, values);
  }
  EXPECT_FALSE(
      same_bits(run(*load_model(random.open(), options), tokens, 40), run(*stored, tokens, 40), spec.vocab_size));
}

// Values that float16 and bfloat16 both hold, so that every conversion keeps them and the logits as well.
TEST(Dtype, WideningAndExactConversionsKeepTheBits) {
  for (bool tied : {true, false}) {
    testing::ModelSpec spec;
    spec.tied = tied;
    testing::RandomModel base(spec), half(spec), brain(spec);
    for (auto& [name, tensor] : base.tensors) {
      std::vector<float> values = tensor.as<float>();
      std::vector<std::uint16_t> float16, bfloat16;
      for (float& value : values) {
        value = std::round(value * 64.0f) / 64.0f;  // at most 8 significant bits …
        value = std::bit_cast<float>(std::bit_cast<std::uint32_t>(value) & 0xffff0000u);
        auto bits = std::bit_cast<std::uint32_t>(value);
        bfloat16.push_back(static_cast<std::uint16_t>(bits >> 16));
        // … and in float16's normal range, or zero
        std::uint32_t magnitude = bits & 0x7fffffffu;
        float16.push_back(static_cast<std::uint16_t>((bits >> 16 & 0x8000u) |
                                                     (magnitude == 0 ? 0u : (magnitude - (112u << 23)) >> 13)));
      }
      half.tensors[name] = testing::stored_tensor("F16", tensor.shape, float16);
      brain.tensors[name] = testing::stored_tensor("BF16", tensor.shape, bfloat16);
      base.set_values(name, values);
    }
    std::vector<TokenId> tokens = testing::random_tokens(40, spec.vocab_size, 1);
    LoadOptions options;
    options.kv_kind = KvKind::float32;
    const Logits want = run(*load_model(base.open(), options), tokens, 40);
    for (testing::RandomModel* model : {&base, &half, &brain}) {
      for (std::optional<WeightKind> dtype :
           {std::optional<WeightKind>{}, {WeightKind::float32}, {WeightKind::bfloat16}, {WeightKind::float16}}) {
        options.weights.dtype = dtype;
        auto loaded = load_model(model->open(), options);
        EXPECT_TRUE(same_bits(run(*loaded, tokens, 40), want, spec.vocab_size)) << loaded->info().weights;
        if (dtype) {
          EXPECT_EQ(parse_weight_kind(loaded->info().weights), dtype);
        }
      }
    }
    options.weights.dtype = {};
    EXPECT_EQ(load_model(half.open(), options)->info().weights, "float16");
    EXPECT_EQ(load_model(brain.open(), options)->info().weights, "bfloat16");
  }
}

TEST(Dtype, SixteenBitKindsTakeHalfTheMemory) {
  testing::ModelSpec spec;
  spec.hidden_size = 64;
  testing::RandomModel random(spec);
  Checkpoint checkpoint = random.open();
  EXPECT_LT(plan_weights(checkpoint, {.dtype = WeightKind::bfloat16}).bytes * 10,
            plan_weights(checkpoint, {.dtype = WeightKind::float32}).bytes * 6);
}

TEST(Dtype, NamesAreParsed) {
  EXPECT_EQ(parse_weight_kind("auto"), std::nullopt);
  EXPECT_EQ(parse_weight_kind("float32"), WeightKind::float32);
  EXPECT_EQ(parse_weight_kind("bfloat16"), WeightKind::bfloat16);
  EXPECT_EQ(parse_weight_kind("float16"), WeightKind::float16);
  EXPECT_EQ(parse_kv_kind("float32"), KvKind::float32);
  EXPECT_EQ(parse_kv_kind("bfloat16"), KvKind::bfloat16);
  EXPECT_EQ(parse_kv_kind("int8"), KvKind::int8);
  EXPECT_THROW(parse_weight_kind("int8"), Error);
  EXPECT_THROW(parse_kv_kind("float16"), Error);
}

}  // namespace
}  // namespace sparkx
