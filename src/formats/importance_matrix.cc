#include "formats/importance_matrix.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "core/error.h"
#include "core/printable.h"
#include "formats/gguf.h"

namespace sparkx {
namespace {

constexpr std::string_view kSums = ".in_sum2";
constexpr std::string_view kCounts = ".counts";
constexpr std::uint64_t kLongestName = 4096;

std::vector<float> read_floats(const ByteSource& file, std::uint64_t offset, std::size_t count) {
  std::vector<float> values(count);
  file.read(offset, std::as_writable_bytes(std::span(values)));
  return values;
}

void check_values(const ByteSource& file, const std::string& name, std::span<const float> values) {
  const auto wrong = std::find_if(values.begin(), values.end(), [](float v) { return !std::isfinite(v) || v < 0; });
  if (wrong == values.end()) return;
  throw_error(ErrorCode::corrupt, "{}: value {} of {} is {}, which is no sum of squares", file.name(),
              wrong - values.begin(), in_quotes(name), *wrong);
}

// The sums as means; absent of nothing.
void add(ImportanceMatrix& matrix, const ByteSource& file, std::string name, std::vector<float> sums, double count) {
  check_values(file, name, sums);
  if (!(count > 0)) return;
  for (float& value : sums) value = static_cast<float>(value / count);
  if (!matrix.try_emplace(name, std::move(sums)).second) {
    throw_error(ErrorCode::corrupt, "{}: there are two entries for {}", file.name(), in_quotes(name));
  }
}

ImportanceMatrix read_gguf_form(const ByteSource& file) {
  const GgufHeader header = read_gguf(file);
  const std::string* type = header.metadata.text("general.type");
  if (type == nullptr || *type != "imatrix") {
    throw_error(ErrorCode::unsupported, "{}: a GGUF file whose general.type is {}, not \"imatrix\"", file.name(),
                type == nullptr ? "not said" : in_quotes(*type));
  }
  struct Entry {
    const GgufTensor* sums = nullptr;
    const GgufTensor* counts = nullptr;
  };
  std::map<std::string, Entry> entries;
  for (const GgufTensor& tensor : header.tensors) {
    const std::string_view name = tensor.name;
    for (const std::string_view suffix : {kSums, kCounts}) {
      if (!name.ends_with(suffix)) continue;
      Entry& entry = entries[std::string(name.substr(0, name.size() - suffix.size()))];
      (suffix == kSums ? entry.sums : entry.counts) = &tensor;
      if (std::string_view(tensor.type->name) == "F32") continue;
      throw_error(ErrorCode::corrupt, "{}: tensor {} is {}, expected F32", file.name(), in_quotes(name),
                  tensor.type->name);
    }
  }
  ImportanceMatrix matrix;
  for (const auto& [name, entry] : entries) {
    if (entry.sums == nullptr || entry.counts == nullptr) {
      throw_error(ErrorCode::corrupt, "{}: {} has no {}", file.name(), in_quotes(name),
                  entry.sums == nullptr ? kSums : kCounts);
    }
    if (entry.counts->bytes != sizeof(float)) {
      throw_error(ErrorCode::unsupported, "{}: {} has {} experts, expected a matrix of one", file.name(),
                  in_quotes(name), entry.counts->bytes / sizeof(float));
    }
    const float count = read_floats(file, entry.counts->offset, 1)[0];
    check_values(file, name, std::span(&count, 1));
    add(matrix, file, name, read_floats(file, entry.sums->offset, entry.sums->bytes / sizeof(float)), count);
  }
  return matrix;
}

// Reads one thing after another, none of which may reach beyond the end.
class Reader {
 public:
  explicit Reader(const ByteSource& file) : file_(file) {}

  std::uint64_t left() const { return file_.size() - at_; }

  std::int32_t integer(const char* what) {
    std::int32_t value = 0;
    file_.read(take(sizeof value, what), std::as_writable_bytes(std::span(&value, 1)));
    return value;
  }
  // How many, at least one, of things that take `each` bytes or more.
  std::uint64_t count(const char* what, std::uint64_t each) {
    const std::int32_t value = integer(what);
    if (value < 1 || static_cast<std::uint64_t>(value) > left() / each) {
      throw_error(ErrorCode::corrupt, "{}: {} {} at byte {}, in a file of {} bytes; it is no importance matrix",
                  file_.name(), value, what, at_ - sizeof value, file_.size());
    }
    return static_cast<std::uint64_t>(value);
  }
  std::string text(std::uint64_t length) {
    std::string value(length, '\0');
    file_.read(take(length, "bytes of a name"), std::as_writable_bytes(std::span(value)));
    return value;
  }
  std::vector<float> floats(std::uint64_t count) {
    return read_floats(file_, take(count * sizeof(float), "values"), count);
  }

 private:
  std::uint64_t take(std::uint64_t bytes, const char* what) {
    if (bytes > left()) {
      throw_error(ErrorCode::corrupt, "{}: ends before its {} at byte {}", file_.name(), what, at_);
    }
    return std::exchange(at_, at_ + bytes);
  }

  const ByteSource& file_;
  std::uint64_t at_ = 0;
};

ImportanceMatrix read_list_form(const ByteSource& file) {
  Reader reader(file);
  ImportanceMatrix matrix;
  constexpr std::uint64_t kLeastEntry = 3 * sizeof(std::int32_t) + 1 + sizeof(float);
  for (std::uint64_t entries = reader.count("entries", kLeastEntry); entries > 0; --entries) {
    const std::uint64_t length = reader.count("bytes of a name", 1);
    if (length > kLongestName) {
      throw_error(ErrorCode::corrupt, "{}: a name of {} bytes; it is no importance matrix", file.name(), length);
    }
    std::string name = reader.text(length);
    const std::int32_t calls = reader.integer("calls");
    std::vector<float> sums = reader.floats(reader.count("values", sizeof(float)));
    // What was not counted is as it is.
    add(matrix, file, std::move(name), std::move(sums), std::max(calls, 1));
  }
  return matrix;  // the number of pieces of the text and its name may follow
}

}  // namespace

bool is_binary(const ByteSource& file) {
  std::array<std::byte, 8> bytes{};
  const auto count = static_cast<std::size_t>(std::min<std::uint64_t>(bytes.size(), file.size()));
  file.read(0, std::span(bytes).first(count));
  return is_gguf(file) || std::find(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(count), std::byte{0}) !=
                              bytes.begin() + static_cast<std::ptrdiff_t>(count);
}

ImportanceMatrix read_importance_matrix(const ByteSource& file) {
  return is_gguf(file) ? read_gguf_form(file) : read_list_form(file);
}

}  // namespace sparkx
