#include "text/normalizer.h"

#include <algorithm>

#include "core/error.h"
#include "core/printable.h"

namespace sparkx {
namespace {

constexpr std::size_t kMaxTextBytes = std::size_t{1} << 31;

using Kind = NormalizerStep::Kind;

std::optional<NormalizationForm> form_of(Kind kind) {
  switch (kind) {
    case Kind::nfc:
      return NormalizationForm::nfc;
    case Kind::nfd:
      return NormalizationForm::nfd;
    case Kind::nfkc:
      return NormalizationForm::nfkc;
    case Kind::nfkd:
      return NormalizationForm::nfkd;
    case Kind::replace:
    case Kind::prepend:
    case Kind::strip:
      break;
  }
  return std::nullopt;
}

// Puts a text together from parts of another and from new ones.
class Writer {
 public:
  explicit Writer(const NormalizedText& from) : from_(from), next_(from.trusted.begin()) {
    out_.text.reserve(from.text.size());
  }

  // Copies [begin, end); the ranges ascend from call to call.
  void keep(TextRange part) {
    check_room(part.end - part.begin);
    const std::size_t at = out_.text.size();
    out_.text.append(from_.text, part.begin, part.end - part.begin);
    for_each_trusted(part, [&](TextRange range) {
      trust({range.begin - part.begin + at, range.end - part.begin + at});
    });
  }

  // Writes `content` in the place of [begin, end).
  void replace(TextRange part, std::string_view content) {
    check_room(content.size());
    const std::size_t at = out_.text.size();
    out_.text += content;
    bool whole = false;
    for_each_trusted(part, [&](TextRange range) { whole = whole || range == part; });
    if (whole && !content.empty()) trust({at, at + content.size()});
  }

  NormalizedText take() { return std::move(out_); }

 private:
  void check_room(std::size_t more) const {
    if (more > kMaxTextBytes - out_.text.size()) {
      throw_error(ErrorCode::invalid_argument,
                  "a text of more than {} bytes once it is normalized is too long to encode", kMaxTextBytes);
    }
  }

  template <typename Use>
  void for_each_trusted(TextRange part, Use use) {
    while (next_ != from_.trusted.end() && next_->end <= part.begin) ++next_;
    for (auto range = next_; range != from_.trusted.end() && range->begin < part.end; ++range) {
      use(TextRange{std::max(range->begin, part.begin), std::min(range->end, part.end)});
    }
  }

  void trust(TextRange range) {
    if (!out_.trusted.empty() && out_.trusted.back().end == range.begin) {
      out_.trusted.back().end = range.end;
    } else {
      out_.trusted.push_back(range);
    }
  }

  const NormalizedText& from_;
  std::vector<TextRange>::const_iterator next_;
  NormalizedText out_;
};

}  // namespace

Normalizer::Normalizer(std::span<const NormalizerStep> steps, std::string_view what) : white_space_(white_space_set()) {
  for (std::size_t i = 0; i < steps.size(); ++i) {
    Step step = {steps[i].kind, {}, {}, steps[i].content, steps[i].strip_left, steps[i].strip_right};
    if (const std::optional<NormalizationForm> form = form_of(step.kind)) step.form.emplace(*form);
    if (step.kind == Kind::replace) {
      try {
        step.pattern.emplace(steps[i].pattern, RegexSyntax::oniguruma);
      } catch (const Error& error) {
        throw_error(error.code(), "{}: normalizer, step {}: {}", what, i + 1, without_controls(error.what()));
      }
    }
    if (!is_valid_utf8(step.content)) {
      throw_error(ErrorCode::corrupt, "{}: normalizer, step {}: its content is not UTF-8", what, i + 1);
    }
    steps_.push_back(std::move(step));
  }
}

NormalizedText Normalizer::normalize(std::string_view text, std::span<const TextRange> trusted) const {
  NormalizedText result = {std::string(text), {trusted.begin(), trusted.end()}};
  for (const Step& step : steps_) result = apply(step, result);
  return result;
}

NormalizedText Normalizer::apply(const Step& step, const NormalizedText& from) const {
  const std::string_view text = from.text;
  Writer out(from);
  switch (step.kind) {
    case Kind::nfc:
    case Kind::nfd:
    case Kind::nfkc:
    case Kind::nfkd: {
      const auto range = [&](std::string_view part) {
        const auto begin = static_cast<std::size_t>(part.data() - text.data());
        return TextRange{begin, begin + part.size()};
      };
      step.form->normalize(
          text, [&](std::string_view part) { out.keep(range(part)); },
          [&](std::string_view part, const std::string& normalized) {
            normalized == part ? out.keep(range(part)) : out.replace(range(part), normalized);
          });
      break;
    }
    case Kind::replace: {
      RegexScanner scanner(*step.pattern, text);
      std::size_t done = 0;
      while (const std::optional<RegexScanner::Match> match = scanner.next()) {
        out.keep({done, match->begin});
        out.replace({match->begin, match->end}, step.content);
        done = match->end;
      }
      out.keep({done, text.size()});
      break;
    }
    case Kind::prepend: {
      // Trusted where the first character is: the library finds an added token together with what stands before it.
      const std::size_t first = text.empty() ? 0 : decode_valid_utf8(text.data()).size;
      if (first > 0) out.replace({0, first}, step.content + std::string(text.substr(0, first)));
      out.keep({first, text.size()});
      break;
    }
    case Kind::strip: {
      std::size_t begin = 0, end = text.size();
      while (step.strip_left && begin < end) {
        const Utf8Character character = decode_valid_utf8(text.data() + begin);
        if (white_space_[character.code_point] == 0) break;
        begin += character.size;
      }
      while (step.strip_right && end > begin) {
        const Utf8Character character = last_character(text.substr(0, end));
        if (white_space_[character.code_point] == 0) break;
        end -= character.size;
      }
      out.keep({begin, end});
      break;
    }
  }
  return out.take();
}

}  // namespace sparkx
