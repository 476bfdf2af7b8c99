// formats/checkpoint: whatever a model.safetensors.index.json says of two shards, a checkpoint that opens has every
// tensor of the model, from the shard that the index names, and has read no file outside its folder. Behind the first
// NUL byte of an input stand the bytes of the second shard; without them it is the one that fits.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "core/json.h"
#include "expect.h"
#include "formats/checkpoint.h"
#include "support/checkpoints.h"

namespace {

using namespace sparkx;
using fuzz::require;
using testing::safetensors_file;
using testing::TestFiles;
using testing::TestTensor;

constexpr const char* kIndex = "model.safetensors.index.json";

// The small checkpoint, tensors at even places in the first shard, and the second under names that an index must not
// use.
const TestFiles& small_shards() {
  static const TestFiles kFiles = [] {
    std::vector<TestTensor> parts[2];
    const std::vector<TestTensor> tensors = testing::small_tensors();
    for (std::size_t i = 0; i < tensors.size(); ++i) parts[i % 2].push_back(tensors[i]);
    TestFiles files;
    files.contents["config.json"] = testing::kSmallConfig;
    files.contents["a.safetensors"] = safetensors_file(parts[0]);
    for (const char* name : {"b.safetensors", "../b.safetensors", "/b.safetensors", "./b.safetensors",
                             "sub/b.safetensors", "sub\\b.safetensors", ".b.safetensors", "b.bin", "b\n.safetensors"}) {
      files.contents[name] = safetensors_file(parts[1]);
    }
    return files;
  }();
  return kFiles;
}

// What the index says of each tensor, under the name that the model has for it.
std::map<std::string, std::string> placements(const std::string& index) {
  std::map<std::string, std::string> places;
  const json::Value root = json::parse(index, kIndex);
  for (const auto& [name, shard] : root.find("weight_map")->as_object()) {
    places[name == "model.embed_tokens.weight" ? "model.embedding.weight" : name] = shard.as_string();
  }
  return places;
}

void check(const TestFiles& files, const Checkpoint& checkpoint) {
  const std::map<std::string, std::string> places = placements(files.contents.at(kIndex));
  for (const auto& [name, shard] : places) require(shard == "a.safetensors" || shard == "b.safetensors");
  require(checkpoint.tensors().size() == testing::small_tensors().size());
  for (const TensorInfo& tensor : checkpoint.tensors()) {
    std::string out(tensor.bytes(), '\0');
    checkpoint.read(tensor, 0, tensor.rows(), std::as_writable_bytes(std::span(out)));
    const std::string& shard = files.contents.at(places.at(tensor.name));
    require(tensor.offset <= shard.size() && shard.substr(tensor.offset, out.size()) == out);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const std::size_t nul = std::min(input.find('\0'), input.size());
  TestFiles files = small_shards();
  files.contents[kIndex] = input.substr(0, nul);
  if (nul + 1 < input.size()) files.contents["b.safetensors"] = input.substr(nul + 1);
  try {
    check(files, Checkpoint::open("fuzz", files.memory()));
  } catch (const Error& error) {
    const ErrorCode code = error.code();
    require(code == ErrorCode::corrupt || code == ErrorCode::unsupported || code == ErrorCode::not_found);
  }
  return 0;
}
