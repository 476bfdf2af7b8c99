#include "formats/safetensors.h"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <string_view>

#include "core/error.h"
#include "core/json.h"
#include "core/printable.h"

namespace sparkx {
namespace {

constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;  // the format's own limit
constexpr std::size_t kMaxDimensions = 16;
constexpr std::string_view kMetadataKey = "__metadata__";

struct DtypeCode {
  std::string_view code;
  Dtype dtype;
};
constexpr DtypeCode kDtypeCodes[] = {
    {"F64", Dtype::float64},  {"F32", Dtype::float32}, {"F16", Dtype::float16}, {"BF16", Dtype::bfloat16},
    {"I64", Dtype::int64},    {"I32", Dtype::int32},   {"I16", Dtype::int16},   {"I8", Dtype::int8},
    {"U64", Dtype::uint64},   {"U32", Dtype::uint32},  {"U16", Dtype::uint16},  {"U8", Dtype::uint8},
    {"BOOL", Dtype::boolean},
};
// Codes of the format without a type here.
constexpr std::string_view kOtherDtypeCodes[] = {"F8_E4M3", "F8_E5M2", "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ",
                                                 "F6_E2M3", "F6_E3M2", "F4",      "C64"};

// What one tensor's entry in the header is called in messages.
struct Entry {
  const ByteSource& file;
  const std::string& tensor;

  template <typename... Args>
  [[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) const {
    throw_error(ErrorCode::corrupt, "{}: tensor {} {}", file.name(), printable(tensor),
                fmt::format(format, std::forward<Args>(args)...));
  }
};

// A member of an entry that is a number from 0.
std::optional<std::int64_t> natural(const json::Value& value) {
  if (!value.is_integer()) return std::nullopt;
  try {
    const std::int64_t number = value.as_int64();
    return number >= 0 ? std::optional(number) : std::nullopt;
  } catch (const Error&) {  // more than 64 bits
    return std::nullopt;
  }
}

Dtype parse_dtype(const Entry& entry, const json::Value* value) {
  if (value == nullptr || !value->is_string()) entry.fail("has no dtype");
  const std::string& code = value->as_string();
  for (const DtypeCode& known : kDtypeCodes) {
    if (known.code == code) return known.dtype;
  }
  if (std::find(std::begin(kOtherDtypeCodes), std::end(kOtherDtypeCodes), code) != std::end(kOtherDtypeCodes)) {
    throw_error(ErrorCode::unsupported, "{}: tensor {} has dtype {}, which sparkx cannot read", entry.file.name(),
                printable(entry.tensor), code);
  }
  entry.fail("has the unknown dtype {}", printable(code));
}

// Bytes of a tensor, absent when they do not fit 63 bits.
std::optional<std::uint64_t> byte_count(const std::vector<std::int64_t>& shape, Dtype dtype) {
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return 0;
  std::uint64_t bytes = dtype_size(dtype);
  constexpr auto kMax = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  for (const std::int64_t dimension : shape) {
    if (bytes > kMax / static_cast<std::uint64_t>(dimension)) return std::nullopt;
    bytes *= static_cast<std::uint64_t>(dimension);
  }
  return bytes;
}

SafetensorsTensor parse_tensor(const ByteSource& file, const json::Member& member, std::uint64_t data_begin) {
  const Entry entry{file, member.first};
  const json::Value& value = member.second;
  if (!value.is_object()) entry.fail("is described by a JSON {}, not an object", value.type_name());

  SafetensorsTensor tensor;
  tensor.name = member.first;
  tensor.dtype = parse_dtype(entry, value.find("dtype"));

  const json::Value* shape = value.find("shape");
  if (shape == nullptr || !shape->is_array()) entry.fail("has no shape");
  if (shape->as_array().size() > kMaxDimensions) {
    entry.fail("has {} dimensions, more than {}", shape->as_array().size(), kMaxDimensions);
  }
  for (const json::Value& dimension : shape->as_array()) {
    const std::optional<std::int64_t> size = natural(dimension);
    if (!size) entry.fail("has the shape {}", printable(json::print(*shape, {.item_separator = ","})));
    tensor.shape.push_back(*size);
  }
  const std::optional<std::uint64_t> bytes = byte_count(tensor.shape, tensor.dtype);
  if (!bytes) entry.fail("has the shape {}, too large to exist", json::print(*shape, {.item_separator = ","}));

  const json::Value* offsets = value.find("data_offsets");
  if (offsets == nullptr || !offsets->is_array() || offsets->as_array().size() != 2) entry.fail("has no data_offsets");
  const std::optional<std::int64_t> begin = natural(offsets->as_array()[0]);
  const std::optional<std::int64_t> end = natural(offsets->as_array()[1]);
  const std::string shown = printable(json::print(*offsets, {.item_separator = ","}));
  if (!begin || !end || *begin > *end) entry.fail("has the data_offsets {}", shown);
  const std::uint64_t data_bytes = file.size() - data_begin;
  if (static_cast<std::uint64_t>(*end) > data_bytes) {
    entry.fail("has the data_offsets {}, beyond the {} bytes of data in the file", shown, data_bytes);
  }
  if (static_cast<std::uint64_t>(*end - *begin) != *bytes) {
    entry.fail("has {} bytes (data_offsets {}), expected {} (shape {} of {})", *end - *begin, shown, *bytes,
               json::print(*shape), dtype_name(tensor.dtype));
  }
  tensor.offset = data_begin + static_cast<std::uint64_t>(*begin);
  tensor.bytes = *bytes;
  return tensor;
}

// Tensors lie one after another from `data_begin` to the end of the file.
void check_cover(const ByteSource& file, const std::vector<SafetensorsTensor>& tensors, std::uint64_t data_begin) {
  std::uint64_t covered = data_begin;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const SafetensorsTensor& tensor = tensors[i];
    const Entry entry{file, tensor.name};
    if (tensor.offset < covered) entry.fail("overlaps tensor {}", printable(tensors[i - 1].name));
    if (tensor.offset > covered) entry.fail("begins after {} bytes that belong to no tensor", tensor.offset - covered);
    covered = tensor.offset + tensor.bytes;
  }
  if (covered < file.size()) {
    throw_error(ErrorCode::corrupt, "{}: {} bytes at the end belong to no tensor", file.name(), file.size() - covered);
  }
}

}  // namespace

SafetensorsHeader read_safetensors_header(const ByteSource& file) {
  std::array<std::byte, 8> length_bytes;
  if (file.size() < length_bytes.size()) {
    throw_error(ErrorCode::corrupt, "{}: {} bytes are no safetensors file", file.name(), file.size());
  }
  file.read(0, length_bytes);
  std::uint64_t length = 0;
  for (std::size_t i = 0; i < 8; ++i) length |= std::uint64_t{std::to_integer<unsigned>(length_bytes[i])} << (8 * i);
  if (length > file.size() - 8) {
    throw_error(ErrorCode::corrupt, "{}: a header of {} bytes in a file of {} bytes: cut off, or no safetensors file",
                file.name(), length, file.size());
  }
  if (length > kMaxHeaderBytes) {
    throw_error(ErrorCode::corrupt, "{}: a header of {} bytes, more than the format's limit of {}", file.name(), length,
                kMaxHeaderBytes);
  }
  std::string text(length, '\0');
  file.read(8, std::as_writable_bytes(std::span(text)));
  const json::Value root = json::parse(text, file.name() + " (header)", {.max_depth = 8, .max_bytes = kMaxHeaderBytes});
  if (!root.is_object()) {
    throw_error(ErrorCode::corrupt, "{}: the header is a JSON {}, not an object", file.name(), root.type_name());
  }

  SafetensorsHeader header;
  const std::uint64_t data_begin = 8 + length;
  for (const json::Member& member : root.as_object()) {
    if (member.first != kMetadataKey) {
      header.tensors.push_back(parse_tensor(file, member, data_begin));
      continue;
    }
    if (!member.second.is_object()) {
      throw_error(ErrorCode::corrupt, "{}: __metadata__ is a JSON {}, not an object", file.name(),
                  member.second.type_name());
    }
    for (const auto& [key, value] : member.second.as_object()) {
      if (!value.is_string()) {
        throw_error(ErrorCode::corrupt, "{}: __metadata__ has a JSON {} for {}, not a string", file.name(),
                    value.type_name(), printable(key));
      }
      header.metadata.emplace_back(key, value.as_string());
    }
  }
  std::stable_sort(header.tensors.begin(), header.tensors.end(),
                   [](const SafetensorsTensor& a, const SafetensorsTensor& b) {
                     return std::pair(a.offset, a.bytes) < std::pair(b.offset, b.bytes);
                   });
  check_cover(file, header.tensors, data_begin);
  return header;
}

std::string safetensors_head(std::string_view file, std::span<const SafetensorsTensor> tensors,
                             const std::vector<std::pair<std::string, std::string>>& metadata) {
  json::Object root;
  if (!metadata.empty()) {
    json::Object strings;
    for (const auto& [key, value] : metadata) strings.emplace_back(key, value);
    root.emplace_back(kMetadataKey, std::move(strings));
  }
  std::vector<std::string_view> names{kMetadataKey};
  std::uint64_t end = 0;
  for (const SafetensorsTensor& tensor : tensors) {
    const std::optional<std::uint64_t> bytes = byte_count(tensor.shape, tensor.dtype);
    const bool negative = std::any_of(tensor.shape.begin(), tensor.shape.end(), [](std::int64_t d) { return d < 0; });
    if (negative || !bytes || *bytes > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()) - end) {
      throw_error(ErrorCode::invalid_argument, "{}: tensor {} has a shape without a size", file, tensor.name);
    }
    const auto code = std::find_if(std::begin(kDtypeCodes), std::end(kDtypeCodes),
                                   [&](const DtypeCode& known) { return known.dtype == tensor.dtype; });
    json::Array shape(tensor.shape.begin(), tensor.shape.end());
    root.emplace_back(tensor.name, json::Object{{"dtype", code->code},
                                                {"shape", std::move(shape)},
                                                {"data_offsets", json::Array{end, end + *bytes}}});
    names.push_back(tensor.name);
    end += *bytes;
  }
  std::sort(names.begin(), names.end());
  if (const auto twice = std::adjacent_find(names.begin(), names.end()); twice != names.end()) {
    throw_error(ErrorCode::invalid_argument, "{}: two tensors with the name {}", file, *twice);
  }
  std::string header = json::print(std::move(root), {.item_separator = ",", .key_separator = ":"});
  header.append((8 - header.size() % 8) % 8,
                ' ');  // data begins at a multiple of 8, as the format's own library does it
  std::string head;
  for (std::size_t i = 0; i < 8; ++i) head += static_cast<char>(header.size() >> (8 * i) & 0xFF);
  return head + header;
}

SafetensorsWriter::SafetensorsWriter(const std::filesystem::path& path, std::span<const SafetensorsTensor> tensors,
                                     const std::vector<std::pair<std::string, std::string>>& metadata)
    : file_(path) {
  file_.write(safetensors_head(path.string(), tensors, metadata));
  for (const SafetensorsTensor& tensor : tensors) missing_ += byte_count(tensor.shape, tensor.dtype).value();
}

void SafetensorsWriter::write(std::span<const std::byte> bytes) {
  if (bytes.size() > missing_) {
    throw_error(ErrorCode::invalid_argument, "{} bytes more than the tensors have", bytes.size() - missing_);
  }
  file_.write(bytes);
  missing_ -= bytes.size();
}

void SafetensorsWriter::commit() {
  if (missing_ != 0) throw_error(ErrorCode::invalid_argument, "{} bytes of the tensors are missing", missing_);
  file_.commit();
}

}  // namespace sparkx
