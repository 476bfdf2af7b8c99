#include "formats/gguf.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <numeric>
#include <span>

#include "core/error.h"
#include "core/printable.h"

namespace sparkx {
namespace {

constexpr std::array<char, 4> kMagic = {'G', 'G', 'U', 'F'};
constexpr std::uint64_t kMaxKeyBytes = 65535;  // as the format says
constexpr std::uint64_t kMaxTensorName = 64;
constexpr std::uint32_t kMaxDimensions = 4;
constexpr std::int64_t kDefaultAlignment = 32;
constexpr std::int64_t kMaxAlignment = std::int64_t{1} << 20;
constexpr std::uint64_t kMaxHeaderBytes = std::uint64_t{1}
                                          << 28;  // metadata and tensor table; values take up to 8 times as much

// Elements per block and bytes of a block. Those that sparkx does not read are here because their tensors take space.
constexpr GgufType kTypes[] = {
    {0, "F32", 1, 4},         {1, "F16", 1, 2},         {2, "Q4_0", 32, 18},      {3, "Q4_1", 32, 20},
    {6, "Q5_0", 32, 22},      {7, "Q5_1", 32, 24},      {8, "Q8_0", 32, 34},      {9, "Q8_1", 32, 36},
    {10, "Q2_K", 256, 84},    {11, "Q3_K", 256, 110},   {12, "Q4_K", 256, 144},   {13, "Q5_K", 256, 176},
    {14, "Q6_K", 256, 210},   {15, "Q8_K", 256, 292},   {16, "IQ2_XXS", 256, 66}, {17, "IQ2_XS", 256, 74},
    {18, "IQ3_XXS", 256, 98}, {19, "IQ1_S", 256, 50},   {20, "IQ4_NL", 32, 18},   {21, "IQ3_S", 256, 110},
    {22, "IQ2_S", 256, 82},   {23, "IQ4_XS", 256, 136}, {24, "I8", 1, 1},         {25, "I16", 1, 2},
    {26, "I32", 1, 4},        {27, "I64", 1, 8},        {28, "F64", 1, 8},        {29, "IQ1_M", 256, 56},
    {30, "BF16", 1, 2},       {34, "TQ1_0", 256, 54},   {35, "TQ2_0", 256, 66},   {39, "MXFP4", 32, 17},
};

// The types of metadata values, by the format's own numbers.
enum class ValueType : std::uint32_t {
  uint8 = 0,
  int8 = 1,
  uint16 = 2,
  int16 = 3,
  uint32 = 4,
  int32 = 5,
  float32 = 6,
  boolean = 7,
  string = 8,
  array = 9,
  uint64 = 10,
  int64 = 11,
  float64 = 12,
};

// The least number of bytes that a value takes.
std::uint64_t least_bytes(ValueType type) {
  switch (type) {
    case ValueType::uint8:
    case ValueType::int8:
    case ValueType::boolean:
      return 1;
    case ValueType::uint16:
    case ValueType::int16:
      return 2;
    case ValueType::uint32:
    case ValueType::int32:
    case ValueType::float32:
      return 4;
    case ValueType::uint64:
    case ValueType::int64:
    case ValueType::float64:
    case ValueType::string:
      return 8;
    case ValueType::array:
      break;
  }
  return 12;
}

const char* type_name(const GgufValue& value) {
  static constexpr const char* kNames[] = {"a boolean", "an integer", "a floating-point number", "a string"};
  static constexpr const char* kArrays[] = {"an array of booleans", "an array of integers",
                                            "an array of floating-point numbers", "an array of strings"};
  if (const auto* array = std::get_if<GgufArray>(&value)) return kArrays[array->index()];
  return kNames[value.index()];
}

// The file from its start, through a buffer.
class Reader {
 public:
  explicit Reader(const ByteSource& file) : file_(file), end_(std::min(file.size(), kMaxHeaderBytes)) {}

  std::uint64_t position() const { return position_; }

  template <typename T>
  T number() {
    T value;
    take(std::as_writable_bytes(std::span(&value, 1)));
    return value;
  }

  bool boolean() {
    const auto value = number<std::uint8_t>();
    if (value > 1) fail("has a boolean of the value {}", value);
    return value != 0;
  }

  std::string string(std::uint64_t limit) {
    const auto length = number<std::uint64_t>();
    if (length > limit) fail("has a string of {} bytes where {} are the most", length, limit);
    need(length);
    std::string text(length, '\0');
    take(std::as_writable_bytes(std::span(text)));
    return text;
  }

  // A count of things that take at least `each` bytes, so that no count can be larger than the file.
  std::uint64_t count(std::uint64_t count, std::uint64_t each, const char* what) {
    if (count > (end_ - position_) / each) fail("is too short for {} {}", count, what);
    return count;
  }

  template <typename... Args>
  [[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) const {
    throw_error(ErrorCode::corrupt, "{}: {} (at byte {})", file_.name(),
                fmt::format(format, std::forward<Args>(args)...), position_);
  }

 private:
  void need(std::uint64_t bytes) const {
    if (bytes <= end_ - position_) return;
    if (end_ < file_.size()) fail("has more than {} bytes of metadata", kMaxHeaderBytes);
    fail("ends within its metadata: cut off, or no GGUF file");
  }

  void take(std::span<std::byte> out) {
    need(out.size());
    while (!out.empty()) {
      if (position_ < buffer_begin_ || position_ >= buffer_begin_ + buffer_.size()) {
        buffer_.resize(std::min<std::uint64_t>(kBufferBytes, end_ - position_));
        file_.read(position_, buffer_);
        buffer_begin_ = position_;
      }
      const std::size_t from = position_ - buffer_begin_;
      const std::size_t size = std::min(out.size(), buffer_.size() - from);
      std::memcpy(out.data(), buffer_.data() + from, size);
      out = out.subspan(size);
      position_ += size;
    }
  }

  static constexpr std::uint64_t kBufferBytes = 1 << 16;

  const ByteSource& file_;
  std::uint64_t end_;
  std::uint64_t position_ = 0;
  std::uint64_t buffer_begin_ = 0;
  std::vector<std::byte> buffer_;
};

ValueType read_type(Reader& reader) {
  const auto type = reader.number<std::uint32_t>();
  if (type > static_cast<std::uint32_t>(ValueType::float64)) reader.fail("has a value of the unknown type {}", type);
  return static_cast<ValueType>(type);
}

std::int64_t read_integer(Reader& reader, ValueType type) {
  switch (type) {
    case ValueType::uint8:
      return reader.number<std::uint8_t>();
    case ValueType::int8:
      return reader.number<std::int8_t>();
    case ValueType::uint16:
      return reader.number<std::uint16_t>();
    case ValueType::int16:
      return reader.number<std::int16_t>();
    case ValueType::uint32:
      return reader.number<std::uint32_t>();
    case ValueType::int32:
      return reader.number<std::int32_t>();
    case ValueType::int64:
      return reader.number<std::int64_t>();
    default:
      break;
  }
  const auto value = reader.number<std::uint64_t>();
  constexpr auto kMax = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  if (value > kMax) reader.fail("has the integer {}; {} is the largest that sparkx reads", value, kMax);
  return static_cast<std::int64_t>(value);
}

double read_float(Reader& reader, ValueType type) {
  return type == ValueType::float32 ? static_cast<double>(reader.number<float>()) : reader.number<double>();
}

template <typename Element, typename Read>
GgufArray read_elements(std::uint64_t count, Read read) {
  std::vector<Element> elements;
  elements.reserve(count);
  for (std::uint64_t i = 0; i < count; ++i) elements.push_back(read());
  return elements;
}

GgufArray read_array(Reader& reader) {
  const ValueType type = read_type(reader);
  if (type == ValueType::array) reader.fail("has an array of arrays");
  const std::uint64_t count = reader.count(reader.number<std::uint64_t>(), least_bytes(type), "elements");
  switch (type) {
    case ValueType::boolean:
      return read_elements<bool>(count, [&] { return reader.boolean(); });
    case ValueType::float32:
    case ValueType::float64:
      return read_elements<double>(count, [&] { return read_float(reader, type); });
    case ValueType::string:
      return read_elements<std::string>(count, [&] { return reader.string(kMaxHeaderBytes); });
    default:
      return read_elements<std::int64_t>(count, [&] { return read_integer(reader, type); });
  }
}

GgufValue read_value(Reader& reader) {
  const ValueType type = read_type(reader);
  switch (type) {
    case ValueType::boolean:
      return reader.boolean();
    case ValueType::float32:
    case ValueType::float64:
      return read_float(reader, type);
    case ValueType::string:
      return reader.string(kMaxHeaderBytes);
    case ValueType::array:
      return read_array(reader);
    default:
      return read_integer(reader, type);
  }
}

GgufTensor read_tensor(Reader& reader, const ByteSource& file) {
  GgufTensor tensor;
  tensor.name = reader.string(kMaxTensorName);
  const auto fail = [&]<typename... Args>(fmt::format_string<Args...> format, Args&&... args) {
    throw_error(ErrorCode::corrupt, "{}: tensor {} {}", file.name(), printable(tensor.name),
                fmt::format(format, std::forward<Args>(args)...));
  };
  const auto dimensions = reader.number<std::uint32_t>();
  if (dimensions < 1 || dimensions > kMaxDimensions) fail("has {} dimensions", dimensions);
  std::int64_t elements = 1;
  for (std::uint32_t i = 0; i < dimensions; ++i) {
    const auto size = reader.number<std::uint64_t>();
    // Any product of sizes, and of it and a block's bytes, then fits 63 bits.
    constexpr std::int64_t kMaxElements = std::int64_t{1} << 50;
    if (size < 1 || size > static_cast<std::uint64_t>(kMaxElements / elements)) fail("has a dimension of {}", size);
    elements *= static_cast<std::int64_t>(size);
    tensor.shape.insert(tensor.shape.begin(), static_cast<std::int64_t>(size));
  }
  // Whether outer dimensions of 1 are written depends on the writer.
  while (tensor.shape.size() > 1 && tensor.shape.front() == 1) tensor.shape.erase(tensor.shape.begin());
  const auto number = reader.number<std::uint32_t>();
  const auto type = std::find_if(std::begin(kTypes), std::end(kTypes),
                                 [number](const GgufType& known) { return known.number == number; });
  if (type == std::end(kTypes)) {
    throw_error(ErrorCode::unsupported, "{}: tensor {} has elements of type {}, which sparkx does not know",
                file.name(), printable(tensor.name), number);
  }
  tensor.type = type;
  if (tensor.shape.back() % type->block_size != 0) {
    fail("has rows of {} elements, no multiple of the {} in a block of {}", tensor.shape.back(), type->block_size,
         type->name);
  }
  tensor.bytes = static_cast<std::uint64_t>(elements / type->block_size) * type->block_bytes;
  tensor.offset = reader.number<std::uint64_t>();  // as yet from the start of the data
  return tensor;
}

std::uint64_t align(std::uint64_t offset, std::uint64_t alignment) {
  return (offset + alignment - 1) / alignment * alignment;
}

// Makes offsets count from the start of the file, and checks where the tensors lie.
void place(std::vector<GgufTensor>& tensors, std::uint64_t header_end, std::uint64_t alignment,
           const ByteSource& file) {
  const std::uint64_t data_begin = align(header_end, alignment);
  if (!tensors.empty() && data_begin > file.size()) {
    throw_error(ErrorCode::corrupt, "{}: ends before its tensors: cut off", file.name());
  }
  std::stable_sort(tensors.begin(), tensors.end(),
                   [](const GgufTensor& a, const GgufTensor& b) { return a.offset < b.offset; });
  std::uint64_t end = 0;  // of the tensor before
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    GgufTensor& tensor = tensors[i];
    const std::string name = printable(tensor.name);
    if (tensor.offset % alignment != 0) {
      throw_error(ErrorCode::corrupt, "{}: tensor {} begins at {}, no multiple of the alignment {}", file.name(), name,
                  tensor.offset, alignment);
    }
    const std::uint64_t data_bytes = file.size() - data_begin;
    if (tensor.offset > data_bytes || tensor.bytes > data_bytes - tensor.offset) {
      throw_error(ErrorCode::corrupt, "{}: tensor {} ends beyond the file: cut off", file.name(), name);
    }
    if (tensor.offset < end) {
      throw_error(ErrorCode::corrupt, "{}: tensor {} overlaps tensor {}", file.name(), name,
                  printable(tensors[i - 1].name));
    }
    if (tensor.offset != align(end, alignment)) {
      throw_error(ErrorCode::corrupt, "{}: tensor {} begins after {} bytes that belong to no tensor", file.name(), name,
                  tensor.offset - end);
    }
    end = tensor.offset + tensor.bytes;
    tensor.offset += data_begin;
  }
}

}  // namespace

const GgufType* find_gguf_type(std::string_view name) {
  const auto type =
      std::find_if(std::begin(kTypes), std::end(kTypes), [name](const GgufType& known) { return known.name == name; });
  return type == std::end(kTypes) ? nullptr : type;
}

GgufMetadata::GgufMetadata(std::string file, std::vector<std::pair<std::string, GgufValue>> entries)
    : file_(std::move(file)), entries_(std::move(entries)), by_key_(entries_.size()) {
  std::iota(by_key_.begin(), by_key_.end(), 0u);
  const auto key = [this](std::uint32_t i) -> const std::string& { return entries_[i].first; };
  std::sort(by_key_.begin(), by_key_.end(), [&](std::uint32_t a, std::uint32_t b) { return key(a) < key(b); });
  const auto twice = std::adjacent_find(by_key_.begin(), by_key_.end(),
                                        [&](std::uint32_t a, std::uint32_t b) { return key(a) == key(b); });
  if (twice != by_key_.end()) {
    throw_error(ErrorCode::corrupt, "{}: the key {} is there twice", file_, printable(key(*twice)));
  }
}

const GgufValue* GgufMetadata::find(std::string_view key) const {
  const auto found =
      std::lower_bound(by_key_.begin(), by_key_.end(), key,
                       [this](std::uint32_t i, std::string_view wanted) { return entries_[i].first < wanted; });
  return found != by_key_.end() && entries_[*found].first == key ? &entries_[*found].second : nullptr;
}

void GgufMetadata::wrong_type(std::string_view key, const GgufValue& value, const char* expected) const {
  throw_error(ErrorCode::corrupt, "{}: {} is {}; expected {}", file_, printable(key), type_name(value), expected);
}

std::optional<std::int64_t> GgufMetadata::integer(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (const auto* integer = std::get_if<std::int64_t>(value)) return *integer;
  wrong_type(key, *value, "an integer");
}

std::optional<double> GgufMetadata::number(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (const auto* integer = std::get_if<std::int64_t>(value)) return static_cast<double>(*integer);
  if (const auto* number = std::get_if<double>(value)) return *number;
  wrong_type(key, *value, "a number");
}

const bool* GgufMetadata::boolean(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return nullptr;
  if (const auto* boolean = std::get_if<bool>(value)) return boolean;
  wrong_type(key, *value, "a boolean");
}

const std::string* GgufMetadata::text(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return nullptr;
  if (const auto* text = std::get_if<std::string>(value)) return text;
  wrong_type(key, *value, "a string");
}

template <typename Element>
const std::vector<Element>* GgufMetadata::array(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return nullptr;
  if (const auto* array = std::get_if<GgufArray>(value)) {
    if (const auto* elements = std::get_if<std::vector<Element>>(array)) return elements;
  }
  wrong_type(key, *value, type_name(GgufArray(std::vector<Element>())));
}
template const std::vector<bool>* GgufMetadata::array(std::string_view) const;
template const std::vector<std::int64_t>* GgufMetadata::array(std::string_view) const;
template const std::vector<double>* GgufMetadata::array(std::string_view) const;
template const std::vector<std::string>* GgufMetadata::array(std::string_view) const;

GgufHeader read_gguf(const ByteSource& file) {
  static_assert(std::endian::native == std::endian::little);
  Reader reader(file);
  if (!is_gguf(file)) throw_error(ErrorCode::corrupt, "{}: is no GGUF file", file.name());
  reader.number<std::uint32_t>();
  const auto version = reader.number<std::uint32_t>();
  if (version == 0x02000000 || version == 0x03000000) {
    throw_error(ErrorCode::unsupported, "{}: is a big-endian GGUF file; sparkx reads little-endian ones", file.name());
  }
  if (version != 2 && version != 3) {
    throw_error(ErrorCode::unsupported, "{}: is GGUF version {}; sparkx reads 2 and 3", file.name(), version);
  }
  const auto tensor_count = reader.number<std::uint64_t>();
  const auto entry_count = reader.number<std::uint64_t>();

  reader.count(entry_count, 8 + 4 + 1, "entries of metadata");
  std::vector<std::pair<std::string, GgufValue>> entries;
  entries.reserve(std::min<std::uint64_t>(entry_count, 1024));
  for (std::uint64_t i = 0; i < entry_count; ++i) {
    std::string key = reader.string(kMaxKeyBytes);
    entries.emplace_back(std::move(key), read_value(reader));
  }
  GgufHeader header;
  header.metadata = GgufMetadata(file.name(), std::move(entries));

  reader.count(tensor_count, 8 + 4 + 8 + 4 + 8, "tensors");
  for (std::uint64_t i = 0; i < tensor_count; ++i) header.tensors.push_back(read_tensor(reader, file));

  const std::int64_t alignment = header.metadata.integer("general.alignment").value_or(kDefaultAlignment);
  if (alignment < 8 || alignment > kMaxAlignment || !std::has_single_bit(static_cast<std::uint64_t>(alignment))) {
    throw_error(ErrorCode::corrupt, "{}: general.alignment is {}; expected a power of two from 8 to {}", file.name(),
                alignment, kMaxAlignment);
  }
  place(header.tensors, reader.position(), static_cast<std::uint64_t>(alignment), file);
  return header;
}

bool is_gguf(const ByteSource& file) {
  std::array<std::byte, kMagic.size()> start;
  if (file.size() < start.size()) return false;
  file.read(0, start);
  return std::memcmp(start.data(), kMagic.data(), start.size()) == 0;
}

}  // namespace sparkx
