#include "text/vocabulary_reader.h"

#include <charconv>

namespace sparkx {
namespace {

using json::Part;

std::string shown(Part part, std::string_view text) {
  switch (part) {
    case Part::string:
      return json::print(json::Value(text), {.ensure_ascii = true});
    case Part::null:
      return "null";
    case Part::array_begin:
      return "an array";
    case Part::object_begin:
      return "an object";
    default:
      return std::string(text);
  }
}

// 18 digits fit, and no id has more.
std::optional<std::int64_t> parse_id(std::string_view digits) {
  std::int64_t id = 0;
  const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), id);
  const bool whole = parsed.ec == std::errc() && parsed.ptr == digits.data() + digits.size();
  return whole && digits.size() <= 18 ? std::optional(id) : std::nullopt;
}

}  // namespace

void VocabularyReader::take(Part part, std::string_view text) {
  switch (part) {
    case Part::start:
      *this = VocabularyReader();
      return;
    case Part::array_begin:
    case Part::object_begin:
      if (++depth_ == 2 && !wrong_) wrong_ = shown(part, text);
      return;
    case Part::array_end:
    case Part::object_end:
      --depth_;
      return;
    case Part::key:
      token_ = text;
      return;
    default:
      if (const auto id = part == Part::number ? parse_id(text) : std::nullopt) {
        entries_.push_back({token_, *id});
      } else if (!wrong_) {
        wrong_ = shown(part, text);
      }
  }
}

void MergesReader::take(Part part, std::string_view text) {
  switch (part) {
    case Part::start:
      *this = MergesReader();
      return;
    case Part::array_begin:
    case Part::object_begin:
      strings_ = 0;
      if (++depth_ > 2 || (depth_ == 2 && part != Part::array_begin)) note_wrong();
      return;
    case Part::array_end:
    case Part::object_end:
      if (--depth_ != 1) return;
      if (strings_ != 2) note_wrong();
      ++entries_;
      return;
    case Part::string:
      if (depth_ == 2) {
        if (++strings_ <= 2) add(text);
        return;
      }
      if (const std::size_t blank = text.find(' '); depth_ == 1 && blank == text.rfind(' ') && blank != text.npos) {
        add(text.substr(0, blank));
        add(text.substr(blank + 1));
      } else {
        note_wrong();
      }
      ++entries_;
      return;
    default:
      note_wrong();
      if (depth_ == 1) ++entries_;
  }
}

void MergesReader::add(std::string_view part) {
  text_ += part;
  ends_.push_back(static_cast<std::uint32_t>(text_.size()));
}

void MergesReader::note_wrong() {
  if (!wrong_) wrong_ = entries_;
}

}  // namespace sparkx
