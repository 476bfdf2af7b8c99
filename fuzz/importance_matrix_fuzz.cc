// formats/importance_matrix: whatever is accepted has names with means that are finite and not negative, of no more
// values than the file has bytes.
#include <cmath>
#include <cstdint>
#include <span>

#include "core/error.h"
#include "expect.h"
#include "formats/importance_matrix.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace sparkx;
  fuzz::run({ErrorCode::corrupt, ErrorCode::unsupported}, [&] {
    const ByteSource file = ByteSource::memory("fuzz", std::as_bytes(std::span(data, size)));
    is_binary(file);
    std::size_t values = 0;
    for (const auto& [name, means] : read_importance_matrix(file)) {
      values += means.size();
      for (const float mean : means) fuzz::require(std::isfinite(mean) && mean >= 0);
    }
    fuzz::require(values <= size / sizeof(float));
  });
  return 0;
}
