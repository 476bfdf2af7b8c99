// Safetensors for tests: reading golden files, writing small checkpoints.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "core/json.h"

namespace sparkx::testing {

struct StoredTensor {
  std::string dtype;  // "F32", as the header spells it
  std::vector<std::int64_t> shape;
  std::vector<std::byte> data;

  template <typename T>
  std::vector<T> as() const {
    std::vector<T> values(data.size() / sizeof(T));
    std::memcpy(values.data(), data.data(), values.size() * sizeof(T));
    return values;
  }
};

template <typename T>
StoredTensor stored_tensor(std::string dtype, std::vector<std::int64_t> shape, const std::vector<T>& values) {
  StoredTensor tensor{std::move(dtype), std::move(shape), std::vector<std::byte>(values.size() * sizeof(T))};
  std::memcpy(tensor.data.data(), values.data(), tensor.data.size());
  return tensor;
}

using StoredTensors = std::map<std::string, StoredTensor>;

inline StoredTensors read_safetensors(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::string all((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  std::uint64_t length = 0;
  if (all.size() < sizeof length) throw std::runtime_error("cannot read " + path.string());
  std::memcpy(&length, all.data(), sizeof length);
  std::string_view data = std::string_view(all).substr(sizeof length + length);
  StoredTensors tensors;
  json::Value header = json::parse(std::string_view(all).substr(sizeof length, length), path.string());
  for (const auto& [name, entry] : header.as_object()) {
    if (name == "__metadata__") continue;
    StoredTensor tensor{entry.find("dtype")->as_string(), {}, {}};
    for (const json::Value& size : entry.find("shape")->as_array()) tensor.shape.push_back(size.as_int64());
    const json::Array& offsets = entry.find("data_offsets")->as_array();
    auto bytes =
        std::as_bytes(std::span(data.substr(offsets[0].as_int64(), offsets[1].as_int64() - offsets[0].as_int64())));
    tensor.data.assign(bytes.begin(), bytes.end());
    tensors.emplace(name, std::move(tensor));
  }
  return tensors;
}

inline std::vector<std::byte> safetensors_bytes(const StoredTensors& tensors) {
  json::Object header;
  std::vector<std::byte> data;
  for (const auto& [name, tensor] : tensors) {
    json::Array shape;
    for (std::int64_t size : tensor.shape) shape.emplace_back(size);
    json::Array offsets{data.size(), data.size() + tensor.data.size()};
    header.emplace_back(name, json::Object{{"dtype", tensor.dtype}, {"shape", shape}, {"data_offsets", offsets}});
    data.insert(data.end(), tensor.data.begin(), tensor.data.end());
  }
  std::string text = json::print(json::Value(header));
  text.append((8 - text.size() % 8) % 8, ' ');
  std::uint64_t length = text.size();
  std::vector<std::byte> bytes(sizeof length + text.size());
  std::memcpy(bytes.data(), &length, sizeof length);
  std::memcpy(bytes.data() + sizeof length, text.data(), text.size());
  bytes.insert(bytes.end(), data.begin(), data.end());
  return bytes;
}

}  // namespace sparkx::testing
