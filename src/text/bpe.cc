#include "text/bpe.h"

#include <algorithm>
#include <bit>
#include <queue>
#include <span>

#include "core/error.h"
#include "core/hash.h"
#include "core/printable.h"
#include "text/byte_level.h"

namespace sparkx {
namespace {

constexpr std::size_t kFewSymbols = 40;  // up to here looking through all pairs beats a heap

}  // namespace

TokenBytes::TokenBytes(const std::vector<std::string>& tokens) {
  offsets_.reserve(tokens.size() + 1);
  offsets_.push_back(0);
  for (const std::string& token : tokens) {
    bytes_ += token_text_to_bytes(token);
    offsets_.push_back(bytes_.size());
  }
}

Bpe::Bpe(const TokenizerDescription& description, const TokenIndex& index, const TokenBytes& token_bytes)
    : token_bytes_(&token_bytes),
      ignore_merges_(description.ignore_merges),
      fuse_unknown_(description.fuse_unknown),
      unknown_(description.unknown.value_or(-1)),
      added_(description.tokens.size()) {
  for (const AddedTokenDescription& token : description.added_tokens) added_[static_cast<std::size_t>(token.id)] = true;
  read_bytes(description, index);
  read_merges(description, index);
  index_pieces(description);
}

void Bpe::read_bytes(const TokenizerDescription& description, const TokenIndex& index) {
  for (std::size_t byte = 0; byte < 256; ++byte) {
    const char text = static_cast<char>(byte);
    byte_tokens_[byte] = index.find(bytes_to_token_text(std::string_view(&text, 1))).value_or(-1);
    const bool occurs = byte < 0xC0 || (byte >= 0xC2 && byte <= 0xF4);  // in UTF-8
    if (byte_tokens_[byte] < 0 && occurs && unknown_ < 0) {
      throw_error(ErrorCode::unsupported, "{}: the vocabulary has neither a token for byte 0x{:02X} nor an unk_token",
                  description.source, byte);
    }
  }
}

void Bpe::read_merges(const TokenizerDescription& description, const TokenIndex& index) {
  // Some hundred thousand merges, in tables that no cache holds: looked up together, they wait for memory together.
  constexpr std::size_t kTogether = 64;
  const std::vector<std::string>& tokens = description.tokens;
  merges_.resize(std::bit_ceil(description.merges.size() * 2 + 1));
  std::string text;
  std::array<std::size_t, kTogether + 1> ends;
  std::array<std::string_view, kTogether> texts;
  std::array<TokenId, kTogether> merged;
  for (std::size_t begin = 0; begin < description.merges.size(); begin += kTogether) {
    const auto part =
        std::span(description.merges).subspan(begin, std::min(kTogether, description.merges.size() - begin));
    for (std::size_t i = 0; i < part.size(); ++i) {
      const auto [left, right] = part[i];
      for (const TokenId id : {left, right}) {
        if (id >= 0 && static_cast<std::size_t>(id) < tokens.size()) {
          __builtin_prefetch(&tokens[static_cast<std::size_t>(id)]);
          continue;
        }
        throw_error(ErrorCode::corrupt, "{}: merge {} names token {}, but the vocabulary has {} tokens",
                    description.source, begin + i, id, tokens.size());
      }
      __builtin_prefetch(&merges_[mix_bits(pair_of(left, right)) & (merges_.size() - 1)]);
    }
    text.clear();
    ends[0] = 0;
    for (std::size_t i = 0; i < part.size(); ++i) {
      const auto [left, right] = part[i];
      text.append(tokens[static_cast<std::size_t>(left)]).append(tokens[static_cast<std::size_t>(right)]);
      ends[i + 1] = text.size();
    }
    for (std::size_t i = 0; i < part.size(); ++i) {
      texts[i] = std::string_view(text).substr(ends[i], ends[i + 1] - ends[i]);
    }
    index.find(std::span(texts).first(part.size()), merged);
    for (std::size_t i = 0; i < part.size(); ++i) {
      if (merged[i] < 0) {
        throw_error(ErrorCode::corrupt, "{}: merge {} gives {}, which is not in the vocabulary", description.source,
                    begin + i, in_quotes(texts[i]));
      }
      add_merge(description, begin + i, merged[i]);
    }
  }
}

void Bpe::add_merge(const TokenizerDescription& description, std::size_t rank, TokenId merged) {
  const auto [left, right] = description.merges[rank];
  const std::uint64_t pair = pair_of(left, right);
  const std::size_t mask = merges_.size() - 1;
  std::size_t slot = mix_bits(pair) & mask;
  for (; merges_[slot].merge.rank != kNoMerge; slot = (slot + 1) & mask) {
    if (merges_[slot].pair != pair) continue;
    throw_error(ErrorCode::corrupt, "{}: merges {} and {} are the same, {} and {}", description.source,
                merges_[slot].merge.rank, rank, in_quotes(description.tokens[static_cast<std::size_t>(left)]),
                in_quotes(description.tokens[static_cast<std::size_t>(right)]));
  }
  merges_[slot] = {pair, {static_cast<std::uint32_t>(rank), merged}};
  if (added_[static_cast<std::size_t>(merged)]) parts_.insert_or_assign(merged, std::pair(left, right));
}

void Bpe::index_pieces(const TokenizerDescription& description) {
  const std::size_t count = description.tokens.size();
  whole_ = std::make_unique<std::atomic<std::uint8_t>[]>(count);
  pieces_.assign(std::bit_ceil(count * 2 + 1), -1);
  for (std::size_t id = 0; id < count; ++id) {
    const std::string& text = description.tokens[id];
    if (added_[id] || text.empty() || !is_byte_level(text)) continue;
    const std::string_view bytes = (*token_bytes_)[static_cast<TokenId>(id)];
    longest_piece_ = std::max(longest_piece_, bytes.size());
    std::size_t slot = hash_bytes(bytes) & (pieces_.size() - 1);
    while (pieces_[slot] >= 0) slot = (slot + 1) & (pieces_.size() - 1);
    pieces_[slot] = static_cast<TokenId>(id);
  }
}

const Bpe::Merge& Bpe::find_merge(TokenId left, TokenId right) const {
  const std::uint64_t pair = pair_of(left, right);
  std::size_t slot = mix_bits(pair) & (merges_.size() - 1);
  while (merges_[slot].pair != pair && merges_[slot].merge.rank != kNoMerge) slot = (slot + 1) & (merges_.size() - 1);
  return merges_[slot].merge;
}

std::optional<TokenId> Bpe::find_piece(std::string_view piece) const {
  if (piece.size() > longest_piece_) return std::nullopt;
  std::size_t slot = hash_bytes(piece) & (pieces_.size() - 1);
  for (; pieces_[slot] >= 0; slot = (slot + 1) & (pieces_.size() - 1)) {
    if ((*token_bytes_)[pieces_[slot]] == piece) return pieces_[slot];
  }
  return std::nullopt;
}

void Bpe::encode(std::string_view piece, std::vector<TokenId>& out) const {
  const std::optional<TokenId> token = find_piece(piece);
  if (!token) return merge_piece(piece, out);
  if (ignore_merges_) return out.push_back(*token);
  std::atomic<std::uint8_t>& whole = whole_[static_cast<std::size_t>(*token)];
  if (whole.load(std::memory_order_relaxed) == kYes) return out.push_back(*token);
  const std::size_t before = out.size();
  merge_piece(piece, out);
  whole.store(out.size() == before + 1 && out.back() == *token ? kYes : kNo, std::memory_order_relaxed);
}

void Bpe::take_added_apart(std::vector<TokenId>& ids, std::size_t begin) const {
  if (parts_.empty()) return;
  std::vector<TokenId> todo(ids.rbegin(), ids.rend() - static_cast<std::ptrdiff_t>(begin));
  ids.resize(begin);
  while (!todo.empty()) {
    const TokenId id = todo.back();
    todo.pop_back();
    const auto found = parts_.find(id);
    if (found == parts_.end()) {
      ids.push_back(id);
    } else {
      todo.push_back(found->second.second);
      todo.push_back(found->second.first);
    }
  }
}

void Bpe::merge_piece(std::string_view piece, std::vector<TokenId>& out) const {
  std::array<TokenId, kFewSymbols> few;
  std::vector<TokenId> many;
  if (piece.size() > kFewSymbols) many.resize(piece.size());
  TokenId* symbols = piece.size() > kFewSymbols ? many.data() : few.data();
  std::size_t count = 0;
  bool after_unknown = false;
  for (const char byte : piece) {
    const TokenId token = byte_tokens_[static_cast<unsigned char>(byte)];
    const bool is_unknown = token < 0;
    if (!is_unknown) symbols[count++] = token;
    if (is_unknown && !(fuse_unknown_ && after_unknown)) symbols[count++] = unknown_;
    after_unknown = is_unknown;
  }
  if (piece.size() <= kFewSymbols) return merge_few(symbols, count, out);
  many.resize(count);
  merge_many(many, out);
}

void Bpe::merge_few(TokenId* symbols, std::size_t count, std::vector<TokenId>& out) const {
  std::array<Merge, kFewSymbols> merges;  // [i] of symbols i and i + 1
  for (std::size_t i = 0; i + 1 < count; ++i) merges[i] = find_merge(symbols[i], symbols[i + 1]);
  while (count > 1) {
    std::size_t best = 0;
    for (std::size_t i = 1; i + 1 < count; ++i) {
      if (merges[i].rank < merges[best].rank) best = i;
    }
    if (merges[best].rank == kNoMerge) break;
    symbols[best] = merges[best].token;
    std::copy(symbols + best + 2, symbols + count, symbols + best + 1);
    if (best + 2 < count) std::copy(merges.begin() + best + 2, merges.begin() + count - 1, merges.begin() + best + 1);
    --count;
    if (best > 0) merges[best - 1] = find_merge(symbols[best - 1], symbols[best]);
    if (best + 1 < count) merges[best] = find_merge(symbols[best], symbols[best + 1]);
  }
  out.insert(out.end(), symbols, symbols + count);
}

void Bpe::merge_many(std::vector<TokenId>& symbols, std::vector<TokenId>& out) const {
  constexpr std::uint32_t kNone = 0xFFFFFFFF;
  struct Link {
    std::uint32_t previous;
    std::uint32_t next;
    Merge merge;  // with the next symbol
  };
  // Lowest rank first, then leftmost: rank << 32 | position.
  using Candidate = std::uint64_t;
  const auto candidate = [](std::uint32_t rank, std::uint32_t position) {
    return static_cast<Candidate>(rank) << 32 | position;
  };
  const auto count = static_cast<std::uint32_t>(symbols.size());
  std::vector<Link> links(count);
  std::vector<Candidate> initial;
  for (std::uint32_t i = 0; i < count; ++i) {
    links[i] = {i == 0 ? kNone : i - 1, i + 1 == count ? kNone : i + 1, {}};
    if (i + 1 == count) break;
    links[i].merge = find_merge(symbols[i], symbols[i + 1]);
    if (links[i].merge.rank != kNoMerge) initial.push_back(candidate(links[i].merge.rank, i));
  }
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> queue(std::greater<>(), std::move(initial));

  const auto look_at_pair = [&](std::uint32_t position) {
    Link& link = links[position];
    link.merge = link.next == kNone ? Merge{} : find_merge(symbols[position], symbols[link.next]);
    if (link.merge.rank != kNoMerge) queue.push(candidate(link.merge.rank, position));
  };
  while (!queue.empty()) {
    const auto position = static_cast<std::uint32_t>(queue.top());
    const auto rank = static_cast<std::uint32_t>(queue.top() >> 32);
    queue.pop();
    Link& link = links[position];
    if (link.merge.rank != rank) continue;  // the pair has changed since
    const std::uint32_t gone = link.next;
    symbols[position] = link.merge.token;
    link.next = links[gone].next;
    links[gone].merge = {};
    if (link.next != kNone) links[link.next].previous = position;
    look_at_pair(position);
    if (link.previous != kNone) look_at_pair(link.previous);
  }
  for (std::uint32_t i = 0; i != kNone; i = links[i].next) out.push_back(symbols[i]);
}

}  // namespace sparkx
