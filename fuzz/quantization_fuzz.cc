// formats/mlx_quantization and formats/compressed_tensors: whatever config.json says of quantization, a checkpoint that
// opens has codes that fit their bits, and reads no byte outside its files. An input is the JSON text of that member,
// tried with the tensors of each format; behind the first NUL byte may stand a model.safetensors instead of those.
#include <algorithm>
#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "core/quantization.h"
#include "expect.h"
#include "formats/checkpoint.h"
#include "support/quantized_files.h"

namespace {

using namespace sparkx;
using fuzz::require;
using fuzz::run;

constexpr std::initializer_list<ErrorCode> kRefusals = {ErrorCode::corrupt, ErrorCode::unsupported,
                                                        ErrorCode::not_found};

std::string file_of(testing::QuantizedFiles files) {
  const std::vector<std::byte> bytes = testing::safetensors_bytes(files.tensors);
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

// A model.safetensors of each format.
const std::vector<std::string>& models() {
  static const std::vector<std::string> kModels = [] {
    testing::QuantizedFiles reordered = testing::compressed(4, false, "group");
    std::vector<std::int32_t> groups;
    for (std::int32_t k = 0; k < testing::kColumns; ++k) groups.push_back(k % 2);
    reordered.tensors[testing::part("weight_g_idx")] = testing::stored_tensor("I32", {testing::kColumns}, groups);
    return std::vector<std::string>{file_of({}),
                                    file_of(testing::mlx(8, 32)),
                                    file_of(testing::mlx(3, 64)),
                                    file_of(testing::mlx_floats("nvfp4", 4, 16)),
                                    file_of(std::move(reordered)),
                                    file_of(testing::compressed(5, true, "group")),
                                    file_of(testing::compressed(8, true, "channel", false))};
  }();
  return kModels;
}

void check(const Checkpoint& checkpoint) {
  for (const TensorInfo& tensor : checkpoint.tensors()) {
    const QuantizedMatrix* matrix = checkpoint.find_quantized(tensor.name);
    if (matrix == nullptr) continue;
    const std::int64_t rows = tensor.rows(), columns = tensor.columns();
    CodeStorage storage(matrix->spec, rows, columns);
    const CodeBuffers codes = storage.buffers();
    matrix->read(0, rows, codes);
    require(std::all_of(codes.codes, codes.codes + rows * columns,
                        [&](std::uint8_t code) { return code < 1 << matrix->spec.bits; }));
    require(matrix->column_order.empty() || matrix->column_order.size() == static_cast<std::size_t>(columns));
    std::vector<float> weights(static_cast<std::size_t>(rows * columns));
    read_weights(*matrix, columns, 0, rows, weights.data());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const std::size_t nul = std::min(input.find('\0'), input.size());
  std::string config = testing::config_text();
  config.pop_back();
  for (const char* key : {"quantization", "quantization_config"}) {
    testing::TestFiles files;
    files.contents["config.json"] = config + ", \"" + key + "\": " + std::string(input.substr(0, nul)) + "}";
    const auto open = [&](std::string model) {
      files.contents["model.safetensors"] = std::move(model);
      run(kRefusals, [&] { check(Checkpoint::open("fuzz", files.memory())); });
    };
    if (nul + 1 < input.size()) {
      open(std::string(input.substr(nul + 1)));
      continue;
    }
    for (const std::string& model : models()) open(model);
  }
  return 0;
}
