#include "text/tokenizer.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "core/error.h"
#include "core/printable.h"
#include "core/unicode.h"
#include "text/added_tokens.h"
#include "text/bpe.h"
#include "text/normalizer.h"
#include "text/pre_tokenizer.h"

namespace sparkx {
namespace {

constexpr std::size_t kMaxTokens = 1 << 24;
constexpr std::size_t kMaxTextBytes = std::size_t{1} << 31;

// Everything that does not need the tables; the parts that do check the rest.
TokenizerDescription checked(TokenizerDescription description) {
  const std::size_t count = description.tokens.size();
  if (count == 0 || count > kMaxTokens) {
    throw_error(ErrorCode::corrupt, "{}: the vocabulary has {} tokens; expected 1 to {}", description.source, count,
                kMaxTokens);
  }
  const auto check_id = [&](TokenId id, std::string_view name) {
    if (id < 0 || static_cast<std::size_t>(id) >= count) {
      throw_error(ErrorCode::corrupt, "{}: {} has id {}, but the vocabulary has {} tokens", description.source, name,
                  id, count);
    }
  };
  std::vector<bool> added(count);
  for (const AddedTokenDescription& token : description.added_tokens) {
    check_id(token.id, "added token " + in_quotes(token.content));
    const auto id = static_cast<std::size_t>(token.id);
    if (token.content.empty())
      throw_error(ErrorCode::corrupt, "{}: added token {} has no text", description.source, id);
    if (description.tokens[id] != token.content) {
      throw_error(ErrorCode::corrupt, "{}: added token {} is {}, but the vocabulary has {} there", description.source,
                  id, in_quotes(token.content), in_quotes(description.tokens[id]));
    }
    if (added[id]) throw_error(ErrorCode::corrupt, "{}: added token {} is listed twice", description.source, id);
    added[id] = true;
  }
  const std::pair<const std::optional<TokenId>&, std::string_view> special[] = {{description.bos, "bos_token"},
                                                                                {description.eos, "eos_token"},
                                                                                {description.pad, "pad_token"},
                                                                                {description.unknown, "unk_token"}};
  for (const auto& [id, name] : special) {
    if (id) check_id(*id, name);
  }
  return description;
}

// The parts of ascending ranges that lie in `part`, counted from its beginning.
std::vector<TextRange> ranges_within(std::span<const TextRange> ranges, TextRange part) {
  std::vector<TextRange> out;
  auto range = std::partition_point(ranges.begin(), ranges.end(), [&](TextRange r) { return r.end <= part.begin; });
  for (; range != ranges.end() && range->begin < part.end; ++range) {
    out.push_back({std::max(range->begin, part.begin) - part.begin, std::min(range->end, part.end) - part.begin});
  }
  return out;
}

}  // namespace

struct Tokenizer::Impl {
  explicit Impl(TokenizerDescription unchecked)
      : description(checked(std::move(unchecked))),
        index(description.tokens, description.source),
        bytes(description.tokens),
        normalizer(description.normalizer, description.source),
        pre_tokenizer(description.pre_tokenizer, description.source),
        bpe(description, index, bytes),
        added_tokens(description.added_tokens, normalizer, description.source),
        kinds(description.tokens.size()) {
    for (const AddedTokenDescription& token : description.added_tokens) {
      kinds[static_cast<std::size_t>(token.id)] = token.special ? Kind::special : Kind::added;
    }
  }

  enum class Kind : std::uint8_t { ordinary, added, special };

  // Encodes a segment without exact added tokens, already normalized. `apart`: take_added_apart.
  void encode_normalized(std::string_view text, TextRange segment, std::span<const TextRange> trusted, bool apart,
                         std::vector<TokenId>& ids) const {
    for (const TextSegment& part : added_tokens.split(AddedTokenFinder::Pass::normalized, text, segment, trusted)) {
      if (part.token) {
        ids.push_back(*part.token);
        continue;
      }
      const std::size_t begin = ids.size();
      pre_tokenizer.split(text.substr(part.range.begin, part.range.end - part.range.begin),
                          [&](std::string_view piece) { bpe.encode(piece, ids); });
      if (apart) bpe.take_added_apart(ids, begin);
    }
  }

  void encode(std::string_view text, std::span<const TextRange> trusted, bool apart, std::vector<TokenId>& ids) const {
    for (const TextSegment& segment :
         added_tokens.split(AddedTokenFinder::Pass::exact, text, {0, text.size()}, trusted)) {
      if (segment.token) {
        ids.push_back(*segment.token);
      } else if (normalizer.empty()) {
        encode_normalized(text, segment.range, trusted, apart, ids);
      } else {
        const auto [begin, end] = segment.range;
        const NormalizedText normalized =
            normalizer.normalize(text.substr(begin, end - begin), ranges_within(trusted, segment.range));
        encode_normalized(normalized.text, {0, normalized.text.size()}, normalized.trusted, apart, ids);
      }
    }
  }

  void check(TokenId id) const {
    if (id < 0 || static_cast<std::size_t>(id) >= description.tokens.size()) {
      throw_error(ErrorCode::invalid_argument, "token id {} is not in the vocabulary (0 to {})", id,
                  description.tokens.size() - 1);
    }
  }

  TokenizerDescription description;
  TokenIndex index;
  TokenBytes bytes;
  Normalizer normalizer;
  PreTokenizer pre_tokenizer;
  Bpe bpe;
  AddedTokenFinder added_tokens;
  std::vector<Kind> kinds;  // [token]
};

Tokenizer::Tokenizer(TokenizerDescription description) : impl_(std::make_unique<Impl>(std::move(description))) {}
Tokenizer::~Tokenizer() = default;
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;

std::vector<TokenId> Tokenizer::encode(std::string_view text, AddedTokens added) const {
  const Stretch all = {text, added == AddedTokens::all};
  return encode(std::span(&all, 1));
}

std::vector<TokenId> Tokenizer::encode(std::span<const Stretch> stretches) const {
  std::string joined;
  std::string_view text;
  std::vector<TextRange> trusted;
  bool all_trusted = true;
  const auto note = [&](std::size_t begin, std::size_t end, bool is_trusted) {
    if (begin == end) return;
    all_trusted = all_trusted && is_trusted;
    if (!is_trusted) return;
    if (!trusted.empty() && trusted.back().end == begin) {
      trusted.back().end = end;
    } else {
      trusted.push_back({begin, end});
    }
  };
  if (stretches.size() == 1 && is_valid_utf8(stretches[0].text)) {
    text = stretches[0].text;
    note(0, text.size(), stretches[0].trusted);
  } else {
    for (const Stretch& stretch : stretches) {
      const std::size_t begin = joined.size();
      joined += replace_invalid_utf8(stretch.text);
      note(begin, joined.size(), stretch.trusted);
    }
    text = joined;
  }
  if (text.size() > kMaxTextBytes)
    throw_error(ErrorCode::invalid_argument, "a text of {} bytes is too long to encode", text.size());

  std::vector<TokenId> ids;
  ids.reserve(text.size() / 4 + 4);
  impl_->encode(text, trusted, !all_trusted, ids);
  return ids;
}

std::string Tokenizer::decode(std::span<const TokenId> ids, bool skip_special_tokens) const {
  std::string bytes;
  for (const TokenId id : ids) {
    impl_->check(id);
    if (skip_special_tokens && impl_->kinds[static_cast<std::size_t>(id)] == Impl::Kind::special) continue;
    bytes += impl_->bytes[id];
  }
  if (is_valid_utf8(bytes)) return bytes;
  return replace_invalid_utf8(bytes);
}

std::int64_t Tokenizer::vocab_size() const {
  return static_cast<std::int64_t>(impl_->description.tokens.size());
}

std::string_view Tokenizer::token_bytes(TokenId id) const {
  impl_->check(id);
  return impl_->bytes[id];
}

bool Tokenizer::is_added(TokenId id) const {
  impl_->check(id);
  return impl_->kinds[static_cast<std::size_t>(id)] != Impl::Kind::ordinary;
}

bool Tokenizer::is_special(TokenId id) const {
  impl_->check(id);
  return impl_->kinds[static_cast<std::size_t>(id)] == Impl::Kind::special;
}

std::optional<TokenId> Tokenizer::find(std::string_view token) const {
  return impl_->index.find(token);
}

std::optional<TokenId> Tokenizer::bos() const {
  return impl_->description.bos;
}
std::optional<TokenId> Tokenizer::eos() const {
  return impl_->description.eos;
}
std::optional<TokenId> Tokenizer::pad() const {
  return impl_->description.pad;
}
std::optional<TokenId> Tokenizer::unknown() const {
  return impl_->description.unknown;
}

const TokenizerDescription& Tokenizer::description() const {
  return impl_->description;
}

}  // namespace sparkx
