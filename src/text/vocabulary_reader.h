// The two large tables of a tokenizer.json, model.vocab and model.merges, taken as they are read: as JSON values they
// would need several times the memory and most of the time of loading a tokenizer.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/json.h"

namespace sparkx {

// {"token": id, …}
class VocabularyReader {
 public:
  struct Entry {
    std::string token;
    std::int64_t id;
  };

  void take(json::Part part, std::string_view text);

  std::vector<Entry>& entries() { return entries_; }
  // The first value that is no integer of at most 18 digits, as a message shows it.
  const std::optional<std::string>& wrong() const { return wrong_; }

 private:
  std::size_t depth_ = 0;
  std::string token_;  // whose id comes next
  std::vector<Entry> entries_;
  std::optional<std::string> wrong_;
};

// ["left right", …] or [["left", "right"], …]
class MergesReader {
 public:
  void take(json::Part part, std::string_view text);

  std::size_t size() const { return ends_.size() / 2; }
  std::string_view left(std::size_t i) const { return part(2 * i); }
  std::string_view right(std::size_t i) const { return part(2 * i + 1); }
  std::optional<std::size_t> wrong() const { return wrong_; }  // the first entry that is none of the two forms

 private:
  std::string_view part(std::size_t i) const {
    const std::size_t begin = i == 0 ? 0 : ends_[i - 1];
    return std::string_view(text_).substr(begin, ends_[i] - begin);
  }
  void add(std::string_view part);
  void note_wrong();

  std::size_t depth_ = 0;
  std::size_t entries_ = 0;          // read so far
  std::size_t strings_ = 0;          // of the pair that is being read
  std::string text_;                 // of all merges, left and right in turn
  std::vector<std::uint32_t> ends_;  // in text_; two for each merge
  std::optional<std::size_t> wrong_;
};

}  // namespace sparkx
