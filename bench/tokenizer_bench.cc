// Loading a tokenizer and encoding and decoding text with it.
//
// SPARKX_BENCH_TOKENIZER names a tokenizer.json (tests/oracle/check_tokenizer.py leaves a real one of Spark's size in
// build/oracle/deepseek_v3); without it the small one of the tests is taken. bench/tokenizers_bench.py measures the
// `tokenizers` library on the same texts.
#include <benchmark/benchmark.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "core/file.h"
#include "text/detokenizer.h"
#include "text/tokenizer.h"
#include "text/tokenizer_json.h"

namespace {

std::string read_file(const std::string& path) {
  return sparkx::ByteSource::open(path).read_all(std::uint64_t{1} << 28);
}

sparkx::Tokenizer load_tokenizer() {
  const char* given = std::getenv("SPARKX_BENCH_TOKENIZER");
  const std::string path = given != nullptr ? given : SPARKX_SOURCE_DIR "/tests/data/tokenizer/tokenizer.json";
  return sparkx::Tokenizer(sparkx::parse_tokenizer_json(read_file(path), path));
}

const sparkx::Tokenizer& tokenizer() {
  static const sparkx::Tokenizer tokenizer = load_tokenizer();
  return tokenizer;
}

std::string repeated(const std::string& text) {
  std::string out;
  while (out.size() < 1'000'000) out += text;
  return out;
}

// The project's own text: no other is always there.
std::string markdown() {
  return repeated(read_file(SPARKX_SOURCE_DIR "/docs/model.md") + read_file(SPARKX_SOURCE_DIR "/docs/numerics.md") +
                  read_file(SPARKX_SOURCE_DIR "/tests/README.md"));
}
std::string code() {
  return repeated(read_file(SPARKX_SOURCE_DIR "/src/core/regex.cc") + read_file(SPARKX_SOURCE_DIR "/src/text/bpe.cc") +
                  read_file(SPARKX_SOURCE_DIR "/src/core/unicode.cc"));
}
std::string chinese() {
  return repeated(read_file(SPARKX_SOURCE_DIR "/bench/chinese.txt"));
}

void load(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(load_tokenizer().vocab_size());
}
BENCHMARK(load)->Unit(benchmark::kMillisecond);

void encode(benchmark::State& state, std::string (*make)()) {
  const std::string text = make();
  benchmark::DoNotOptimize(tokenizer().vocab_size());  // loading it is not part of this
  for (auto _ : state) benchmark::DoNotOptimize(tokenizer().encode(text).size());
  state.SetBytesProcessed(static_cast<std::int64_t>(text.size() * state.iterations()));
}
BENCHMARK_CAPTURE(encode, markdown, markdown)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(encode, code, code)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(encode, chinese, chinese)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(encode, one_character, [] { return std::string(1'000'000, 'a'); })->Unit(benchmark::kMillisecond);

void stream_decode(benchmark::State& state) {
  const std::vector<sparkx::TokenId> ids = tokenizer().encode(markdown());
  for (auto _ : state) {
    sparkx::Detokenizer detokenizer(tokenizer());
    for (const sparkx::TokenId id : ids) benchmark::DoNotOptimize(detokenizer.append(id));
  }
  state.SetItemsProcessed(static_cast<std::int64_t>(ids.size() * state.iterations()));
}
BENCHMARK(stream_decode)->Unit(benchmark::kMillisecond);

}  // namespace
