#include "formats/compressed_tensors.h"

#include <algorithm>
#include <initializer_list>
#include <numeric>
#include <utility>

#include "core/error.h"
#include "core/printable.h"
#include "formats/bit_stream.h"

namespace sparkx {
namespace {

constexpr std::string_view kPattern = "re:";
constexpr std::size_t kMaxGroups = 64;
constexpr std::size_t kMaxTargets = 4096;

// A JSON object in the config, with the names that messages need.
struct Section {
  const json::Value& object;
  const std::string& file;
  std::string where;

  std::string name(std::string_view key) const { return fmt::format("{}.{}", where, printable(key)); }

  [[noreturn]] void unsupported(std::string_view key, const json::Value& found, std::string_view supported) const {
    throw_error(ErrorCode::unsupported, "{}: {} is {}; sparkx supports {}", file, name(key),
                printable(json::print(found)), supported);
  }

  // Null counts as absent.
  const json::Value* find(std::string_view key) const {
    const json::Value* value = object.find(key);
    return value == nullptr || value->is_null() ? nullptr : value;
  }

  const json::Value& require(std::string_view key) const {
    const json::Value* value = find(key);
    if (value == nullptr) throw_error(ErrorCode::corrupt, "{}: {} is missing", file, name(key));
    return *value;
  }

  void expect(std::string_view key, const json::Value& supported) const {
    const json::Value* value = find(key);
    if (value != nullptr && !(*value == supported)) unsupported(key, *value, json::print(supported));
  }

  // A member that would change the result, and that sparkx does not have.
  void expect_absent(std::initializer_list<std::string_view> keys) const {
    for (const std::string_view key : keys) {
      const json::Value* value = find(key);
      const bool empty = value == nullptr || (value->is_object() && value->as_object().empty()) ||
                         (value->is_array() && value->as_array().empty());
      if (!empty) unsupported(key, *value, "null");
    }
  }

  void only_keys(std::initializer_list<std::string_view> known) const {
    for (const auto& [key, value] : object.as_object()) {
      if (std::find(known.begin(), known.end(), key) == known.end() && !value.is_null()) {
        throw_error(ErrorCode::unsupported, "{}: {} is {}, which sparkx does not know", file, name(key),
                    printable(json::print(value)));
      }
    }
  }

  std::int64_t integer(std::string_view key) const {
    const json::Value& value = require(key);
    if (!value.is_integer() || value.as_number().text.size() > 9) {
      throw_error(ErrorCode::corrupt, "{}: {} is {}; expected an integer", file, name(key),
                  printable(json::print(value)));
    }
    return value.as_int64();
  }

  std::string text(std::string_view key) const {
    const json::Value& value = require(key);
    if (!value.is_string()) {
      throw_error(ErrorCode::corrupt, "{}: {} is {}; expected a string", file, name(key),
                  printable(json::print(value)));
    }
    return value.as_string();
  }
};

Section section(const json::Value& object, const std::string& file, std::string where) {
  if (!object.is_object()) {
    throw_error(ErrorCode::corrupt, "{}: {} is of type {}; expected an object", file, where, object.type_name());
  }
  return {object, file, std::move(where)};
}

// The zero points of rows [begin, end): of each group a stream of codes down the rows, its words one below the other.
void read_packed_zeros(const StoredTensor& tensor, int bits, std::int64_t begin, std::int64_t end,
                       std::uint8_t* zeros) {
  const std::int64_t groups = tensor.columns();
  const std::int64_t first = begin * bits / 32, last = (end * bits + 31) / 32;
  std::vector<std::uint32_t> words(static_cast<std::size_t>((last - first) * groups));
  read_rows(tensor, first, last, std::as_writable_bytes(std::span(words)));
  for (std::int64_t row = begin; row < end; ++row) {
    const std::int64_t bit = row * bits - first * 32;
    for (std::int64_t g = 0; g < groups; ++g) {
      const auto word = [&](std::int64_t i) { return words[static_cast<std::size_t>(i * groups + g)]; };
      std::uint64_t code = word(bit / 32) >> (bit % 32);
      if (bit % 32 + bits > 32) code |= std::uint64_t{word(bit / 32 + 1)} << (32 - bit % 32);
      zeros[(row - begin) * groups + g] = static_cast<std::uint8_t>(code & ((1u << bits) - 1));
    }
  }
}

// The order of columns that sorts them by group (docs/numerics.md rule 3); empty when they are sorted. Throws
// Error{corrupt} unless every group has its number of columns.
std::vector<std::int32_t> sorted_columns(const StoredTensor& tensor, std::int64_t columns, std::int64_t group) {
  expect_tensor(tensor, Dtype::int32, {columns}, "columns");
  std::vector<std::int32_t> group_of(static_cast<std::size_t>(columns));
  read_rows(tensor, 0, columns, std::as_writable_bytes(std::span(group_of)));
  // The library writes -1 before it knows groups; then columns are in order.
  if (std::all_of(group_of.begin(), group_of.end(), [](std::int32_t g) { return g == -1; })) return {};
  std::vector<std::int64_t> counts(static_cast<std::size_t>(columns / group));
  for (std::size_t k = 0; k < group_of.size(); ++k) {
    if (group_of[k] < 0 || static_cast<std::size_t>(group_of[k]) >= counts.size()) {
      throw_error(ErrorCode::corrupt, "{}: tensor {} places column {} in group {}; there are {}", tensor.file->name(),
                  printable(tensor.file_name), k, group_of[k], counts.size());
    }
    ++counts[static_cast<std::size_t>(group_of[k])];
  }
  for (std::size_t g = 0; g < counts.size(); ++g) {
    if (counts[g] == group) continue;
    throw_error(ErrorCode::corrupt, "{}: tensor {} places {} columns in group {}; expected {}", tensor.file->name(),
                printable(tensor.file_name), counts[g], g, group);
  }
  if (std::is_sorted(group_of.begin(), group_of.end())) return {};
  std::vector<std::int32_t> order(group_of.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
    return group_of[static_cast<std::size_t>(a)] < group_of[static_cast<std::size_t>(b)];
  });
  return order;
}

// In which order the columns were quantized; where it changed them, weight_g_idx says so.
void expect_known_order(const Section& weights) {
  const json::Value* order = weights.find("actorder");
  if (order == nullptr || order->is_bool()) return;
  for (const char* known : {"group", "weight", "dynamic", "static"}) {
    if (*order == json::Value(known)) return;
  }
  weights.unsupported("actorder", *order, "\"group\" and \"weight\"");
}

// Puts the codes of some rows in this order; an empty one leaves them.
void sort_columns(std::span<const std::int32_t> order, std::int64_t rows, std::uint8_t* codes) {
  std::vector<std::uint8_t> stored(order.size());
  for (std::int64_t row = 0; row < rows; ++row, codes += order.size()) {
    std::copy_n(codes, order.size(), stored.begin());
    for (std::size_t i = 0; i < order.size(); ++i) codes[i] = stored[static_cast<std::size_t>(order[i])];
  }
}

// The least number of bits that codes are kept with here.
int kept_bits(int bits) {
  return bits == 1 ? 2 : bits == 7 ? 8 : bits;
}

}  // namespace

CompressedTensors::CompressedTensors(const json::Value& config, const std::string& file) : file_(file) {
  const Section root = section(config, file, "quantization_config");
  root.only_keys({"quant_method", "format", "config_groups", "ignore", "kv_cache_scheme", "quantization_status",
                  "global_compression_ratio", "sparsity_config", "transform_config", "version"});
  root.expect_absent({"kv_cache_scheme", "sparsity_config", "transform_config"});
  root.expect("quantization_status", "compressed");
  const std::string format = root.text("format");
  const Section groups = section(root.require("config_groups"), file, root.name("config_groups"));
  if (groups.object.as_object().size() > kMaxGroups) {
    throw_error(ErrorCode::corrupt, "{}: {} has more than {} groups", file, groups.where, kMaxGroups);
  }
  for (const auto& [name, value] : groups.object.as_object()) {
    groups_.push_back(read_group(groups.name(name), value, format));
    const Section group = section(value, file, groups.name(name));
    const json::Value& targets = group.require("targets");
    if (!targets.is_array()) throw_error(ErrorCode::corrupt, "{}: {} is no list", file, group.name("targets"));
    for (const json::Value& target : targets.as_array()) {
      targets_.push_back(read_target(target, group.name("targets"), groups_.size() - 1));
    }
  }
  if (const json::Value* ignored = root.find("ignore")) {
    if (!ignored->is_array()) throw_error(ErrorCode::corrupt, "{}: {} is no list", file, root.name("ignore"));
    for (const json::Value& target : ignored->as_array())
      ignored_.push_back(read_target(target, root.name("ignore"), 0));
  }
  if (targets_.size() + ignored_.size() > kMaxTargets) {
    throw_error(ErrorCode::corrupt, "{}: quantization_config has more than {} targets", file, kMaxTargets);
  }
  std::stable_sort(targets_.begin(), targets_.end(), [](const Target& a, const Target& b) { return a.text < b.text; });
}

CompressedTensors::Target CompressedTensors::read_target(const json::Value& value, const std::string& where,
                                                         std::size_t group) const {
  if (!value.is_string()) {
    throw_error(ErrorCode::corrupt, "{}: {} has an entry of type {}; expected strings", file_, where,
                value.type_name());
  }
  Target target{value.as_string(), std::nullopt, group};
  if (target.text.starts_with(kPattern)) {
    try {
      target.pattern.emplace(std::string_view(target.text).substr(kPattern.size()), RegexSyntax::python);
    } catch (const Error& error) {
      throw_error(error.code(), "{}: {}: the pattern {}: {}", file_, where, printable(target.text), error.what());
    }
  }
  return target;
}

CompressedTensors::Group CompressedTensors::read_group(const std::string& name, const json::Value& value,
                                                       const std::string& format) const {
  const Section group = section(value, file_, name);
  group.only_keys({"targets", "weights", "input_activations", "output_activations", "format"});
  group.expect_absent({"output_activations"});
  const std::string packing = group.find("format") != nullptr ? group.text("format") : format;
  if (packing != "pack-quantized" && packing != "int-quantized") {
    throw_error(ErrorCode::unsupported,
                "{}: the format of {} is {}; sparkx supports \"pack-quantized\" and \"int-quantized\"", file_, name,
                in_quotes(packing));
  }

  const Section weights = section(group.require("weights"), file_, group.name("weights"));
  weights.only_keys({"num_bits", "type", "symmetric", "strategy", "group_size", "dynamic", "actorder",
                     "block_structure", "observer", "observer_kwargs", "scale_dtype", "zp_dtype"});
  weights.expect("type", "int");
  weights.expect("dynamic", false);
  weights.expect_absent({"block_structure"});
  expect_known_order(weights);
  const std::int64_t bits = weights.integer("num_bits");
  if (bits < 1 || bits > 8) weights.unsupported("num_bits", bits, "1 to 8");
  if (packing == "int-quantized" && bits != 8) weights.unsupported("num_bits", bits, "8 in this format");
  const std::string strategy = weights.text("strategy");
  std::int64_t columns = kWholeRow;
  if (strategy == "group") {
    columns = weights.integer("group_size");
    if (columns != 32 && columns != 64 && columns != 128) weights.unsupported("group_size", columns, "32, 64 and 128");
  } else if (strategy != "channel" && strategy != "tensor") {
    weights.unsupported("strategy", strategy, "\"group\", \"channel\" and \"tensor\"");
  }
  const json::Value& symmetric = weights.require("symmetric");
  if (!symmetric.is_bool()) weights.unsupported("symmetric", symmetric, "true and false");

  bool coded_activations = false;
  if (const json::Value* input = group.find("input_activations")) {
    const Section activations = section(*input, file_, group.name("input_activations"));
    activations.only_keys({"num_bits", "type", "symmetric", "strategy", "group_size", "dynamic", "actorder",
                           "block_structure", "observer", "observer_kwargs", "scale_dtype", "zp_dtype"});
    const std::pair<const char*, json::Value> supported[] = {
        {"num_bits", 8}, {"type", "int"}, {"symmetric", true}, {"strategy", "token"}, {"dynamic", true}};
    for (const auto& [key, wanted] : supported) {
      activations.require(key);
      activations.expect(key, wanted);
    }
    activations.expect_absent({"group_size", "actorder", "block_structure"});
    if (bits != 8 || !symmetric.as_bool() || strategy == "group") {
      throw_error(ErrorCode::unsupported,
                  "{}: {} has input_activations; sparkx supports them with symmetric 8-bit weights of one scale a row",
                  file_, name);
    }
    coded_activations = true;
  }
  return {name,
          packing == "pack-quantized" ? Packing::pack_quantized : Packing::int_quantized,
          static_cast<int>(bits),
          symmetric.as_bool(),
          strategy == "tensor",
          columns,
          coded_activations};
}

const CompressedTensors::Group* CompressedTensors::group_of(const std::string& path,
                                                            std::string_view class_name) const {
  const auto names = [&](const Target& target) { return target.text == path; };
  const auto fits = [&](const Target& target) { return target.pattern && target.pattern->match(path).has_value(); };
  const auto is_class = [&](const Target& target) { return target.text == class_name; };
  for (const Target& target : ignored_) {
    if (names(target) || fits(target) || is_class(target)) return nullptr;
  }
  // The last of several groups with the same target.
  const auto last = [&](const Target& found) {
    const Group* group = nullptr;
    for (const Target& target : targets_) {
      if (target.text == found.text) group = &groups_[target.group];
    }
    return group;
  };
  for (const Target& target : targets_) {
    if (names(target)) return last(target);
  }
  for (const Target& target : targets_) {
    if (fits(target)) return last(target);
  }
  for (const Target& target : targets_) {
    if (is_class(target)) return last(target);
  }
  return nullptr;
}

std::optional<QuantizedMatrix> CompressedTensors::matrix(const std::string& path, std::string_view class_name,
                                                         std::int64_t rows, std::int64_t columns,
                                                         StoredTensors& tensors) const {
  const Group* group = group_of(path, class_name);
  if (group == nullptr) return std::nullopt;
  const auto part = [&](std::string_view name) -> const StoredTensor& {
    const StoredTensor* found = tensors.take(fmt::format("{}.{}", path, name));
    if (found == nullptr) {
      throw_error(ErrorCode::not_found, "{}: {} quantizes {}, but there is no tensor {}.{}", file_, group->name, path,
                  path, name);
    }
    return *found;
  };
  const bool packed = group->packing == Packing::pack_quantized;
  const int bits = group->bits;
  const std::int64_t groups = group->group == kWholeRow ? 1 : columns / group->group;
  if (group->group != kWholeRow && columns % group->group != 0) {
    throw_error(ErrorCode::corrupt, "{}: {} has groups of {} columns, but {} has {}", file_, group->name, group->group,
                path, columns);
  }

  const StoredTensor& weight = part(packed ? "weight_packed" : "weight");
  if (packed) {
    expect_tensor(weight, Dtype::int32, {rows, (columns * bits + 31) / 32}, "rows, columns * num_bits / 32");
    const StoredTensor& shape = part("weight_shape");
    expect_tensor(shape, Dtype::int64, {2}, "rows and columns");
    std::int64_t found[2];
    read_rows(shape, 0, 2, std::as_writable_bytes(std::span(found)));
    if (found[0] != rows || found[1] != columns) {
      throw_error(ErrorCode::corrupt, "{}: tensor {}.weight_shape says [{}, {}], expected [{}, {}]", shape.file->name(),
                  path, found[0], found[1], rows, columns);
    }
  } else {
    expect_tensor(weight, Dtype::int8, {rows, columns}, "rows, columns");
  }
  const StoredTensor& scale = part("weight_scale");
  if (scale.dtype != Dtype::float32 && scale.dtype != Dtype::float16 && scale.dtype != Dtype::bfloat16) {
    throw_error(ErrorCode::corrupt, "{}: tensor {}.weight_scale is {}; expected float32, float16 or bfloat16",
                scale.file->name(), path, scale.type_name);
  }
  if (group->per_tensor) {
    expect_shape(scale, {1}, "one scale");
  } else {
    expect_shape(scale, {rows, groups}, "rows, groups");
  }
  const StoredTensor* zero_point = tensors.take(path + ".weight_zero_point");
  if (group->symmetric != (zero_point == nullptr) && !group->symmetric) part("weight_zero_point");
  if (group->symmetric && zero_point != nullptr) {
    throw_error(ErrorCode::corrupt, "{}: there is {}.weight_zero_point, but {} is symmetric", file_, path, group->name);
  }
  const bool packed_zeros = packed && !group->per_tensor;
  if (zero_point != nullptr) {
    if (packed_zeros) {
      expect_tensor(*zero_point, Dtype::int32, {(rows * bits + 31) / 32, groups}, "rows * num_bits / 32, groups");
    } else if (group->per_tensor) {
      expect_tensor(*zero_point, Dtype::int8, {1}, "one zero point");
    } else {
      expect_tensor(*zero_point, Dtype::int8, {rows, groups}, "rows, groups");
    }
  }

  QuantizedMatrix matrix;
  if (const StoredTensor* order = tensors.take(path + ".weight_g_idx")) {
    if (group->group == kWholeRow) {
      throw_error(ErrorCode::corrupt, "{}: there is {}.weight_g_idx, but {} has no groups of columns", file_, path,
                  group->name);
    }
    matrix.column_order = sorted_columns(*order, columns, group->group);
  }
  const int middle = 1 << (bits - 1);
  matrix.spec = {group->coded_activations ? CodeScheme::w8a8
                 : group->symmetric       ? CodeScheme::offset
                                          : CodeScheme::zero_point,
                 kept_bits(bits), static_cast<int>(group->group), *scale.dtype, group->symmetric ? middle : 0};
  const std::optional<StoredTensor> zeros =
      zero_point == nullptr ? std::nullopt : std::optional<StoredTensor>(*zero_point);
  matrix.read = [weight, scale, zeros, packed, packed_zeros, bits, middle, columns, per_tensor = group->per_tensor,
                 order = matrix.column_order](std::int64_t begin, std::int64_t end, const CodeBuffers& out) {
    const std::int64_t count = end - begin;
    if (packed) {
      const auto row_bytes = static_cast<std::size_t>(weight.columns() * 4);
      std::vector<std::byte> stored(static_cast<std::size_t>(count) * row_bytes);
      read_rows(weight, begin, end, stored);
      for (std::int64_t row = 0; row < count; ++row) {
        unpack_codes(stored.data() + static_cast<std::size_t>(row) * row_bytes, bits, columns,
                     out.codes + row * columns);
      }
    } else {
      const auto size = static_cast<std::size_t>(count * columns);
      read_rows(weight, begin, end, std::as_writable_bytes(std::span(out.codes, size)));
      for (std::size_t i = 0; i < size; ++i) out.codes[i] ^= 0x80;  // signed to unsigned: plus 128
    }
    sort_columns(order, count, out.codes);
    if (per_tensor) {
      read_floats(scale, 0, 1, out.scales);
      std::fill_n(out.scales, count, out.scales[0]);
    } else {
      read_floats(scale, begin, end, out.scales);
    }
    if (!zeros) return;
    if (packed_zeros) {
      read_packed_zeros(*zeros, bits, begin, end, out.zeros);
      return;
    }
    const auto size = static_cast<std::size_t>(count * (per_tensor ? 1 : zeros->columns()));
    read_rows(*zeros, per_tensor ? 0 : begin, per_tensor ? 1 : end,
              std::as_writable_bytes(std::span(out.zeros, per_tensor ? 1 : size)));
    if (per_tensor) std::fill_n(out.zeros, size, out.zeros[0]);
    for (std::size_t i = 0; i < size; ++i) {
      const int zero = static_cast<std::int8_t>(out.zeros[i]);
      if (zero < -middle || zero >= middle) {
        throw_error(ErrorCode::corrupt, "{}: tensor {} has the zero point {}, which is no code of {} bits",
                    zeros->file->name(), printable(zeros->file_name), zero, bits);
      }
      out.zeros[i] = static_cast<std::uint8_t>(zero + middle);
    }
  };
  return matrix;
}

}  // namespace sparkx
