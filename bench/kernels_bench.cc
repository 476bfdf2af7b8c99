// How fast the kernels of the chosen table are (SPARKX_ISA chooses): the shapes of the 1.7B model, one thread.
#include <benchmark/benchmark.h>

#include <algorithm>

#include "core/aligned_buffer.h"
#include "core/thread_pool.h"
#include "kernels/kernels.h"
#include "kernels/pack.h"

namespace sparkx::kernels {
namespace {

constexpr std::int64_t kColumns = 2048;

// Panels of ones; enough of them that a GEMV reads from memory.
struct Weights {
  Weights(const WeightFormat& format, std::int64_t rows)
      : bytes(panel_bytes(format, kColumns)), panels(static_cast<std::size_t>(rows / kLanes) * bytes) {
    std::fill(panels.begin(), panels.end(), std::byte{0x3c});
    matrix = {format, rows, kColumns, bytes, panels.data(), nullptr};
  }
  std::size_t bytes;
  AlignedBuffer<std::byte> panels;
  PanelMatrix matrix;
};

void dot(benchmark::State& state, WeightKind kind) {
  const std::int64_t tokens = state.range(0), rows = tokens == 1 ? 32768 : 512;
  const Weights w({kind}, rows);
  AlignedBuffer<float> x(tokens * kColumns), out(tokens * rows);
  std::fill(x.begin(), x.end(), 0.5f);
  const KernelTable& table = kernel_table();
  for (auto _ : state) {
    table.dot[static_cast<int>(kind)](w.matrix, 0, rows / kLanes, {x.data(), kColumns, tokens}, 0, tokens, out.data(),
                                      rows);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(w.panels.size() * state.iterations()));
  state.counters["mac/s"] =
      benchmark::Counter(static_cast<double>(rows * kColumns * tokens), benchmark::Counter::kIsIterationInvariantRate);
  state.SetLabel(table.name);
}
BENCHMARK_CAPTURE(dot, float32, WeightKind::float32)->Arg(1)->Arg(4)->Arg(12)->Arg(96);
BENCHMARK_CAPTURE(dot, bfloat16, WeightKind::bfloat16)->Arg(1)->Arg(4)->Arg(12)->Arg(96);
BENCHMARK_CAPTURE(dot, float16, WeightKind::float16)->Arg(1)->Arg(4)->Arg(12)->Arg(96);

// --dtype bfloat16-fast, where the CPU has it.
void dot_bfloat16_fast(benchmark::State& state) {
  const std::int64_t tokens = state.range(0), rows = tokens == 1 ? 32768 : 512;
  const KernelTable& table = kernel_table();
  if (!has_fast_bfloat16(table)) {
    state.SkipWithError("no dot product of bfloat16 here");
    return;
  }
  const Weights w({WeightKind::bfloat16}, rows);
  AlignedBuffer<std::uint16_t> x(tokens * kColumns);
  AlignedBuffer<float> out(tokens * rows);
  std::fill(x.begin(), x.end(), std::uint16_t{0x3f00});
  for (auto _ : state) {
    table.dot_bfloat16(w.matrix, 0, rows / kLanes, {x.data(), kColumns, tokens}, 0, tokens, out.data(), rows);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(w.panels.size() * state.iterations()));
  state.counters["mac/s"] =
      benchmark::Counter(static_cast<double>(rows * kColumns * tokens), benchmark::Counter::kIsIterationInvariantRate);
  state.SetLabel(table.name);
}
BENCHMARK(dot_bfloat16_fast)->Arg(1)->Arg(4)->Arg(12)->Arg(96);

// Quantized weights with bfloat16 scales, and activations as codes.
void dot_codes(benchmark::State& state, WeightFormat format) {
  const std::int64_t tokens = state.range(0), rows = tokens == 1 ? 65536 : 512;
  const Weights w(format, rows);
  AlignedBuffer<std::int8_t> codes(tokens * kColumns);
  AlignedBuffer<float> scales(tokens * kColumns / 32), out(tokens * rows);
  std::fill(codes.begin(), codes.end(), std::int8_t{3});
  std::fill(scales.begin(), scales.end(), 0.01f);
  const int group = form_group(coded_form(format));
  const std::int64_t groups = group == kWholeRow ? 1 : kColumns / group;
  const float* sums = scales.data();
  AlignedBuffer<std::int16_t> quarter_sums(tokens * kColumns / 16);
  const CodedActivations x{group, codes.data(), kColumns,      scales.data(),       sums,  sums, groups,
                           sums,  sums,         kColumns / 32, quarter_sums.data(), tokens};
  const KernelTable& table = kernel_table();
  for (auto _ : state) {
    table.dot_codes[static_cast<int>(format.kind)](w.matrix, 0, rows / kLanes, x, 0, tokens, out.data(), rows);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(w.panels.size() * state.iterations()));
  state.counters["mac/s"] =
      benchmark::Counter(static_cast<double>(rows * kColumns * tokens), benchmark::Counter::kIsIterationInvariantRate);
  state.SetLabel(table.name);
}
WeightFormat format_of(WeightKind kind, int group, CodeScheme scheme) {
  return {kind, group, WeightKind::bfloat16, scheme, kind == WeightKind::codes4 ? 8 : 128};
}
BENCHMARK_CAPTURE(dot_codes, codes4, format_of(WeightKind::codes4, 64, CodeScheme::affine))
    ->Arg(1)
    ->Arg(4)
    ->Arg(12)
    ->Arg(96);
BENCHMARK_CAPTURE(dot_codes, codes8, format_of(WeightKind::codes8, 64, CodeScheme::affine))
    ->Arg(1)
    ->Arg(4)
    ->Arg(12)
    ->Arg(96);
BENCHMARK_CAPTURE(dot_codes, codes4_zero_point, format_of(WeightKind::codes4, 64, CodeScheme::zero_point))
    ->Arg(1)
    ->Arg(96);
BENCHMARK_CAPTURE(dot_codes, codes4_offset_g32, format_of(WeightKind::codes4, 32, CodeScheme::offset))->Arg(1)->Arg(96);
BENCHMARK_CAPTURE(dot_codes, codes8_whole_row, format_of(WeightKind::codes8, kWholeRow, CodeScheme::offset))
    ->Arg(1)
    ->Arg(96);
BENCHMARK_CAPTURE(dot_codes, w8a8, format_of(WeightKind::codes8, kWholeRow, CodeScheme::w8a8))->Arg(1)->Arg(96);
BENCHMARK_CAPTURE(dot_codes, codes2, format_of(WeightKind::codes2, 64, CodeScheme::affine))->Arg(1)->Arg(96);
BENCHMARK_CAPTURE(dot_codes, codes3, format_of(WeightKind::codes3, 64, CodeScheme::affine))->Arg(1)->Arg(96);
BENCHMARK_CAPTURE(dot_codes, codes5, format_of(WeightKind::codes5, 64, CodeScheme::affine))->Arg(1)->Arg(96);
BENCHMARK_CAPTURE(dot_codes, codes6, format_of(WeightKind::codes6, 64, CodeScheme::affine))->Arg(1)->Arg(96);

// Of GGUF files, and of MLX's modes of floats.
WeightFormat two_levels(WeightKind kind) {
  return {kind, sub_block_columns(kind), WeightKind::float16, CodeScheme::two_level, two_level_zero(kind)};
}
WeightFormat table(WeightKind kind, int group, WeightKind scale_kind) {
  return {kind, group, scale_kind, CodeScheme::offset, table_zero(kind)};
}
BENCHMARK_CAPTURE(dot_codes, Q2_K, two_levels(WeightKind::codes2))->Arg(1)->Arg(96);
BENCHMARK_CAPTURE(dot_codes, Q3_K, two_levels(WeightKind::codes3))->Arg(1)->Arg(96);
BENCHMARK_CAPTURE(dot_codes, Q4_K, two_levels(WeightKind::codes4))->Arg(1)->Arg(96);
BENCHMARK_CAPTURE(dot_codes, Q5_K, two_levels(WeightKind::codes5))->Arg(1)->Arg(96);
BENCHMARK_CAPTURE(dot_codes, Q6_K, two_levels(WeightKind::codes6))->Arg(1)->Arg(96);
BENCHMARK_CAPTURE(dot_codes, IQ4_XS, two_levels(WeightKind::iq4))->Arg(1)->Arg(96);
BENCHMARK_CAPTURE(dot_codes, IQ4_NL, table(WeightKind::iq4, 32, WeightKind::float16))->Arg(1)->Arg(96);
BENCHMARK_CAPTURE(dot_codes, mxfp4, table(WeightKind::e2m1, 32, WeightKind::bfloat16))->Arg(1)->Arg(96);
BENCHMARK_CAPTURE(dot_codes, nvfp4, table(WeightKind::e2m1, 16, WeightKind::e4m3))->Arg(1)->Arg(96);

// The same weights decoded, and activations as floats.
void dot_decoded(benchmark::State& state, const WeightFormat& format) {
  const WeightKind kind = format.kind;
  const std::int64_t tokens = state.range(0), rows = tokens == 1 ? 65536 : 512;
  const Weights w(format, rows);
  AlignedBuffer<float> x(tokens * kColumns), out(tokens * rows);
  std::fill(x.begin(), x.end(), 0.5f);
  const KernelTable& table = kernel_table();
  for (auto _ : state) {
    table.dot[static_cast<int>(kind)](w.matrix, 0, rows / kLanes, {x.data(), kColumns, tokens}, 0, tokens, out.data(),
                                      rows);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(w.panels.size() * state.iterations()));
  state.counters["mac/s"] =
      benchmark::Counter(static_cast<double>(rows * kColumns * tokens), benchmark::Counter::kIsIterationInvariantRate);
  state.SetLabel(table.name);
}
BENCHMARK_CAPTURE(dot_decoded, codes4, format_of(WeightKind::codes4, 64, CodeScheme::affine))->Arg(1)->Arg(12)->Arg(96);
BENCHMARK_CAPTURE(dot_decoded, codes8, format_of(WeightKind::codes8, 64, CodeScheme::affine))->Arg(1)->Arg(96);
BENCHMARK_CAPTURE(dot_decoded, Q4_K, two_levels(WeightKind::codes4))->Arg(1)->Arg(96);
BENCHMARK_CAPTURE(dot_decoded, mxfp8, table(WeightKind::e4m3, 32, WeightKind::bfloat16))->Arg(1)->Arg(96);

// One row of 2048 activations as codes; one row of bfloat16 weights quantized.
void code_activations(benchmark::State& state) {
  AlignedBuffer<float> x(kColumns), numbers(5 * kColumns / 32);
  AlignedBuffer<std::int8_t> codes(kColumns);
  for (std::int64_t i = 0; i < kColumns; ++i) x[i] = static_cast<float>(i % 37) - 18.0f;
  const auto part = [&](int i) { return numbers.data() + i * kColumns / 32; };
  AlignedBuffer<std::int16_t> quarter_sums(kColumns / 16);
  const CodedRow out{codes.data(), part(0), part(1), part(2), part(3), part(4), quarter_sums.data()};
  const KernelTable& table = kernel_table();
  for (auto _ : state) {
    table.code_activations(x.data(), kColumns, 64, out);
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(kColumns * state.iterations());
  state.SetLabel(table.name);
}
BENCHMARK(code_activations);

void quantize(benchmark::State& state) {
  AlignedBuffer<std::uint16_t> row(kColumns);
  AlignedBuffer<std::uint8_t> codes(kColumns);
  AlignedBuffer<float> scales(kColumns / 64), biases(kColumns / 64);
  for (std::int64_t i = 0; i < kColumns; ++i) row[i] = static_cast<std::uint16_t>(0x3c00 + i % 911 + i % 2 * 0x8000);
  const KernelTable& table = kernel_table();
  for (auto _ : state) {
    table.quantize_affine[static_cast<int>(WeightKind::bfloat16)](std::as_bytes(row.span()).data(), kColumns, 4, 64,
                                                                  codes.data(), scales.data(), biases.data());
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(kColumns * state.iterations());
  state.SetLabel(table.name);
}
BENCHMARK(quantize);

void gelu_mul(benchmark::State& state) {
  AlignedBuffer<float> gate(6656), up(6656), out(6656);
  const KernelTable& table = kernel_table();
  for (auto _ : state) {
    table.gelu_mul(gate.data(), up.data(), 6656, out.data());
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(6656 * state.iterations());
  state.SetLabel(table.name);
}
BENCHMARK(gelu_mul);

// What an empty stage costs with so many threads.
void stage(benchmark::State& state) {
  ThreadPool pool(static_cast<int>(state.range(0)));
  for (auto _ : state) {
    pool.parallel_for(64, 1, [](std::int64_t begin, std::int64_t, int) { benchmark::DoNotOptimize(begin); });
  }
}
BENCHMARK(stage)->Arg(1)->Arg(2)->Arg(8)->UseRealTime();

}  // namespace
}  // namespace sparkx::kernels
