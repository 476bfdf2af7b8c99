#include "text/added_tokens.h"

#include <algorithm>

#include "core/error.h"

namespace sparkx {
namespace {

constexpr std::size_t kMaxTokenBytes = 1024;

}  // namespace

void AddedTokenFinder::Tree::add(std::string_view text, int token) {
  starts[static_cast<unsigned char>(text[0])] = true;
  int at = 0;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    int child = nodes[static_cast<std::size_t>(at)].first_child;
    while (child >= 0 && nodes[static_cast<std::size_t>(child)].byte != byte) {
      child = nodes[static_cast<std::size_t>(child)].sibling;
    }
    if (child < 0) {
      child = static_cast<int>(nodes.size());
      nodes.push_back({-1, -1, nodes[static_cast<std::size_t>(at)].first_child, byte});
      nodes[static_cast<std::size_t>(at)].first_child = child;
    }
    at = child;
  }
  nodes[static_cast<std::size_t>(at)].token = token;
}

AddedTokenFinder::AddedTokenFinder(std::span<const AddedTokenDescription> tokens, const Normalizer& normalizer,
                                   std::string_view what)
    : tokens_(tokens.begin(), tokens.end()), single_word_(single_word_set()), white_space_(white_space_set()) {
  for (std::size_t i = 0; i < tokens_.size(); ++i) {
    const AddedTokenDescription& token = tokens_[i];
    if (token.content.size() > kMaxTokenBytes) {
      throw_error(ErrorCode::unsupported, "{}: added token {} has {} bytes; sparkx supports up to {}", what, token.id,
                  token.content.size(), kMaxTokenBytes);
    }
    if (token.normalized && !normalizer.empty()) {
      tokens_[i].content = normalizer.normalize(token.content);
      if (token.content.empty() || token.content.size() > kMaxTokenBytes) {
        throw_error(ErrorCode::unsupported, "{}: added token {} has {} bytes once it is normalized; expected 1 to {}",
                    what, token.id, token.content.size(), kMaxTokenBytes);
      }
    }
    (token.normalized ? normalized_ : exact_).add(token.content, static_cast<int>(i));
  }
}

std::vector<TextSegment> AddedTokenFinder::split(Pass pass, std::string_view text, TextRange segment,
                                                 std::span<const TextRange> trusted) const {
  const Tree& tree = pass == Pass::exact ? exact_ : normalized_;
  std::vector<TextSegment> out;
  const std::string_view before_end = text.substr(0, segment.end);
  std::size_t done = segment.begin;
  const auto first_after = std::partition_point(trusted.begin(), trusted.end(),
                                                [&](const TextRange& range) { return range.end <= segment.begin; });
  for (auto range = first_after; range != trusted.end() && range->begin < segment.end && !tree.empty(); ++range) {
    TextRange where = {std::max(range->begin, segment.begin), std::min(range->end, segment.end)};
    while (const std::optional<Match> match = find(tree, text, where)) {
      where.begin = match->range.end;
      const AddedTokenDescription& token = tokens_[static_cast<std::size_t>(match->token)];
      auto [begin, end] = match->range;
      if (token.single_word) {
        const bool word_before =
            begin > segment.begin && single_word_[last_character(text.substr(0, begin)).code_point] != 0;
        const bool word_after = end < segment.end && single_word_[decode_valid_utf8(text.data() + end).code_point] != 0;
        if (word_before || word_after) continue;
      }
      if (token.lstrip) {
        while (begin > done) {
          const Utf8Character character = last_character(text.substr(0, begin));
          if (white_space_[character.code_point] == 0) break;
          begin -= character.size;
        }
      }
      if (token.rstrip) {
        while (end < before_end.size()) {
          const Utf8Character character = decode_valid_utf8(text.data() + end);
          if (white_space_[character.code_point] == 0) break;
          end += character.size;
        }
      }
      if (done < begin) out.push_back({{done, begin}, std::nullopt});
      out.push_back({{begin, end}, token.id});
      done = end;
    }
  }
  if (done < segment.end) out.push_back({{done, segment.end}, std::nullopt});
  return out;
}

std::optional<AddedTokenFinder::Match> AddedTokenFinder::find(const Tree& tree, std::string_view text,
                                                              TextRange where) const {
  for (std::size_t begin = where.begin; begin < where.end; ++begin) {
    if (!tree.starts[static_cast<unsigned char>(text[begin])]) continue;
    std::optional<Match> longest;
    int at = 0;
    for (std::size_t i = begin; i < where.end; ++i) {
      const auto byte = static_cast<unsigned char>(text[i]);
      at = tree.nodes[static_cast<std::size_t>(at)].first_child;
      while (at >= 0 && tree.nodes[static_cast<std::size_t>(at)].byte != byte) {
        at = tree.nodes[static_cast<std::size_t>(at)].sibling;
      }
      if (at < 0) break;
      const int token = tree.nodes[static_cast<std::size_t>(at)].token;
      if (token >= 0) longest = Match{{begin, i + 1}, token};
    }
    if (longest) return longest;
  }
  return std::nullopt;
}

}  // namespace sparkx
