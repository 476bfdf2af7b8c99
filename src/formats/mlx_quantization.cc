#include "formats/mlx_quantization.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/float_codes.h"
#include "core/printable.h"
#include "formats/bit_stream.h"

namespace sparkx {
namespace {

constexpr std::int64_t kBits[] = {2, 3, 4, 5, 6, 8};
constexpr std::int64_t kGroups[] = {16, 32, 64, 128};
constexpr std::int64_t kAffineGroups[] = {32, 64, 128};
constexpr std::string_view kModes[] = {"affine", "mxfp4", "mxfp8", "nvfp4"};
constexpr int kTokenCodeZero = 128;  // of W8A8: signed codes are stored with 128 added

template <typename List, typename T>
bool contains(const List& list, const T& value) {
  return std::find(std::begin(list), std::end(list), value) != std::end(list);
}

// MLX's defaults where a module says null.
std::int64_t default_group(std::string_view mode) {
  return mode == "affine" ? 64 : mode == "nvfp4" ? 16 : 32;
}

// What the tensors of a module say of its codes.
struct Packing {
  std::int64_t bits;
  std::int64_t group;
  std::string mode;
  bool floats() const { return mode != "affine"; }
};

// Each mode of floats has one number of bits and one group; empty for a pair that none has.
std::string_view mode_of_floats(std::int64_t bits, std::int64_t group) {
  if (bits == 4 && group == 16) return "nvfp4";
  if (bits == 4 && group == 32) return "mxfp4";
  if (bits == 8 && group == 32) return "mxfp8";
  return {};
}

// Shapes and the type of the scales tell what config.json says only now and then. Throws Error{corrupt}.
Packing packing_of(const std::string& path, std::int64_t rows, std::int64_t columns, const StoredTensor& weight,
                   const StoredTensor& scales) {
  const bool matrices = weight.shape.size() == 2 && scales.shape.size() == 2;
  const std::int64_t words = matrices ? weight.columns() : 0;
  const std::int64_t groups = matrices ? scales.columns() : 0;
  const std::int64_t bits = words > 0 && words <= columns ? words * 32 / columns : 0;
  const std::int64_t group = groups > 0 ? columns / groups : 0;
  const bool floats = scales.dtype == Dtype::uint8;
  const std::string_view mode = floats ? mode_of_floats(bits, group) : "affine";
  if (weight.dtype != Dtype::uint32 || mode.empty() || !contains(kBits, bits) || bits * columns != words * 32 ||
      !(floats || contains(kAffineGroups, group)) || group * groups != columns || weight.rows() != rows ||
      scales.rows() != rows) {
    throw_error(ErrorCode::corrupt,
                "{}: tensors {}.weight ({} {}) and {}.scales ({} {}) are no quantized matrix of {} rows and {} columns",
                scales.file->name(), path, weight.type_name, show_shape(weight.shape), path, scales.type_name,
                show_shape(scales.shape), rows, columns);
  }
  if (!floats && scales.dtype != Dtype::float32 && scales.dtype != Dtype::float16 && scales.dtype != Dtype::bfloat16) {
    throw_error(ErrorCode::corrupt, "{}: tensor {}.scales is {}; expected float32, float16, bfloat16 or uint8",
                scales.file->name(), path, scales.type_name);
  }
  return {bits, group, std::string(mode)};
}

void read_codes(const StoredTensor& weight, std::int64_t bits, std::int64_t begin, std::int64_t end,
                std::uint8_t* codes) {
  std::vector<std::byte> packed(static_cast<std::size_t>((end - begin) * weight.columns() * 4));
  read_rows(weight, begin, end, packed);
  // Rows end with a word, so they are one stream.
  unpack_codes(packed.data(), static_cast<int>(bits), static_cast<std::int64_t>(packed.size()) * 8 / bits, codes);
}

// Scales of 8 bits.
void read_float_scales(const StoredTensor& scales, Dtype dtype, std::int64_t begin, std::int64_t end, float* out) {
  std::vector<std::uint8_t> stored(static_cast<std::size_t>((end - begin) * scales.columns()));
  read_rows(scales, begin, end, std::as_writable_bytes(std::span(stored)));
  std::transform(stored.begin(), stored.end(), out, dtype == Dtype::float8_e4m3 ? e4m3_to_float : e8m0_to_float);
}

// The form of a W8A8 matrix here: every group of a row repeats its scale, and its bias is -128 of them.
void check_repeated(const StoredTensor& scales_tensor, const float* scales, const float* biases, std::int64_t rows,
                    std::int64_t groups, float* row_scales) {
  for (std::int64_t row = 0; row < rows; ++row) {
    const float scale = scales[row * groups];
    for (std::int64_t g = row * groups; g < (row + 1) * groups; ++g) {
      if (scales[g] == scale && biases[g] == -128.0f * scale) continue;
      throw_error(
          ErrorCode::corrupt,
          "{}: tensor {}: with input_activations the groups of a row must repeat one scale, with biases of -128 "
          "scales; found the scales {} and {} and the bias {}",
          scales_tensor.file->name(), printable(scales_tensor.file_name), scale, scales[g], biases[g]);
    }
    row_scales[row] = scale;
  }
}

}  // namespace

MlxQuantization::MlxQuantization(const json::Value& config, const std::string& file) : file_(file) {
  for (const char* key : {"quantization", "quantization_config"}) {
    const json::Value* object = config.find(key);
    if (object == nullptr || object->is_null()) continue;
    // A conversion may keep what its source said in another format's terms.
    if (object->find("quant_method") != nullptr) continue;
    if (!object->is_object()) {
      throw_error(ErrorCode::corrupt, "{}: {} is of type {}; expected an object", file, key, object->type_name());
    }
    for (const auto& [name, value] : object->as_object()) {
      const std::string where = fmt::format("{}.{}", key, printable(name));
      if (name == "group_size" || name == "bits" || name == "mode") continue;  // each tensor says it by its shape
      if (name == "quantize_activations" && value == json::Value(false)) continue;
      const bool module = value.is_object() || (value.is_bool() && !value.as_bool());
      if (!module || name == "quantize_activations") {
        throw_error(ErrorCode::unsupported, "{}: {} is {}, which sparkx does not know", file, where,
                    printable(json::print(value)));
      }
      Entry entry = read_entry(where, value);
      // The second of the two objects repeats the first, and alone says what becomes of activations.
      std::string path = name == "model.embed_tokens" ? "model.embedding" : name;
      const auto [place, added] = entries_.try_emplace(std::move(path), entry);
      if (added) continue;
      Entry& known = place->second;
      if (known.dense != entry.dense || known.bits != entry.bits || known.group != entry.group ||
          known.mode != entry.mode) {
        throw_error(ErrorCode::corrupt, "{}: {} contradicts quantization", file, where);
      }
      known.coded_activations |= entry.coded_activations;
    }
  }
}

MlxQuantization::Entry MlxQuantization::read_entry(const std::string& where, const json::Value& value) const {
  Entry entry;
  if (value.is_bool()) {
    entry.dense = true;
    return entry;
  }
  const auto unknown = [&](std::string_view key, const json::Value& found) {
    throw_error(ErrorCode::unsupported, "{}: {}.{} is {}, which sparkx does not know", file_, where, printable(key),
                printable(json::print(found)));
  };
  bool null_group = false;
  for (const auto& [key, member] : value.as_object()) {
    if (key == "bits" || key == "group_size") {
      if (key == "group_size" && member.is_null()) {
        null_group = true;
        continue;
      }
      const bool number = member.is_integer() && member.as_number().text.size() <= 4;
      const std::int64_t found = number ? member.as_int64() : 0;
      if (!(key == "bits" ? contains(kBits, found) : contains(kGroups, found))) unknown(key, member);
      (key == "bits" ? entry.bits : entry.group) = found;
    } else if (key == "mode") {
      if (!member.is_string() || !contains(kModes, std::string_view(member.as_string()))) unknown(key, member);
      entry.mode = member.as_string();
    } else if (key == "input_activations") {
      if (member.is_null()) continue;
      const json::Value expected(json::Object{
          {"num_bits", 8}, {"type", "int"}, {"strategy", "token"}, {"symmetric", true}, {"dynamic", true}});
      if (!member.is_object()) unknown(key, member);
      for (const auto& [name, setting] : member.as_object()) {
        const json::Value* wanted = expected.find(name);
        if (wanted == nullptr ? !setting.is_null() : !(setting == *wanted)) unknown(key, member);
      }
      for (const auto& [name, setting] : expected.as_object()) {
        if (member.find(name) == nullptr) unknown(key, member);
      }
      entry.coded_activations = true;
    } else {
      unknown(key, member);
    }
  }
  if (null_group) entry.group = default_group(entry.mode);
  return entry;
}

std::optional<QuantizedMatrix> MlxQuantization::matrix(const std::string& path, std::int64_t rows, std::int64_t columns,
                                                       StoredTensors& tensors) const {
  const auto found_entry = entries_.find(path);
  const Entry* entry = found_entry == entries_.end() ? nullptr : &found_entry->second;
  const StoredTensor* scales = tensors.take(path + ".scales");
  if (scales == nullptr) {
    if (entry == nullptr || entry->dense) return std::nullopt;
    throw_error(ErrorCode::not_found, "{}: says that {} is quantized, but there is no tensor {}.scales", file_, path,
                path);
  }
  const std::string& where = scales->file->name();
  if (entry != nullptr && entry->dense) {
    throw_error(ErrorCode::corrupt, "{}: says that {} is not quantized, but there is {}.scales in {}", file_, path,
                path, where);
  }
  const StoredTensor* weight = tensors.take(path + ".weight");
  if (weight == nullptr)
    throw_error(ErrorCode::not_found, "{}: there is {}.scales, but no {}.weight", where, path, path);

  const Packing packing = packing_of(path, rows, columns, *weight, *scales);
  const auto& [bits, group, mode] = packing;
  if (entry != nullptr &&
      (entry->bits.value_or(bits) != bits || entry->group.value_or(group) != group || entry->mode != mode)) {
    throw_error(ErrorCode::corrupt,
                "{}: says {}-bit {} in groups of {} of {}, but the tensors in {} are {}-bit {} in "
                "groups of {}",
                file_, entry->bits.value_or(bits), entry->mode, entry->group.value_or(group), path, where, bits, mode,
                group);
  }
  const bool coded_activations = entry != nullptr && entry->coded_activations;
  if (coded_activations && (bits != 8 || packing.floats())) {
    throw_error(ErrorCode::unsupported, "{}: {} has input_activations with {}-bit {}; sparkx supports 8-bit affine",
                file_, path, bits, mode);
  }
  if (packing.floats()) {
    const Dtype scale_dtype = mode == "nvfp4" ? Dtype::float8_e4m3 : Dtype::float8_e8m0;
    const CodeValues values = mode == "mxfp8" ? CodeValues::e4m3 : CodeValues::e2m1;
    QuantizedMatrix matrix;
    matrix.spec = {CodeScheme::offset, static_cast<int>(bits), static_cast<int>(group), scale_dtype, 0, values};
    matrix.read = [bits = bits, weight = *weight, scales = *scales, scale_dtype](std::int64_t begin, std::int64_t end,
                                                                                 const CodeBuffers& out) {
      read_codes(weight, bits, begin, end, out.codes);
      read_float_scales(scales, scale_dtype, begin, end, out.scales);
    };
    return matrix;
  }

  const StoredTensor* biases = tensors.take(path + ".biases");
  if (biases == nullptr) {
    throw_error(ErrorCode::not_found, "{}: there is {}.scales of type {}, but no {}.biases", where, path,
                scales->type_name, path);
  }
  expect_tensor(*biases, *scales->dtype, scales->shape, "as the scales");
  QuantizedMatrix matrix;
  matrix.spec = {CodeScheme::affine, static_cast<int>(bits), static_cast<int>(group), *scales->dtype};
  matrix.read = [bits = bits, weight = *weight, scales = *scales, biases = *biases](
                    std::int64_t begin, std::int64_t end, const CodeBuffers& out) {
    read_codes(weight, bits, begin, end, out.codes);
    read_floats(scales, begin, end, out.scales);
    read_floats(biases, begin, end, out.biases);
  };
  if (!coded_activations) return matrix;
  matrix.spec = {CodeScheme::w8a8, 8, kWholeRow, *scales->dtype, kTokenCodeZero};
  matrix.read = [weight = *weight, scales = *scales, biases = *biases](std::int64_t begin, std::int64_t end,
                                                                       const CodeBuffers& out) {
    read_codes(weight, 8, begin, end, out.codes);
    const auto count = static_cast<std::size_t>((end - begin) * scales.columns());
    std::vector<float> stored_scales(count), stored_biases(count);
    read_floats(scales, begin, end, stored_scales.data());
    read_floats(biases, begin, end, stored_biases.data());
    check_repeated(scales, stored_scales.data(), stored_biases.data(), end - begin, scales.columns(), out.scales);
  };
  return matrix;
}

}  // namespace sparkx
