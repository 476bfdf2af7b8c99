#include "core/regex.h"

#include <algorithm>
#include <map>
#include <span>
#include <utility>

#include "core/error.h"
#include "core/regex_syntax.h"

namespace sparkx {
namespace {

using regex_syntax::Node;

constexpr std::size_t kMaxInstructions = 20000;
constexpr std::size_t kMaxStates = 10000;
constexpr std::size_t kMaxSetRanges = 1 << 17;       // of all sets of a pattern together
constexpr std::size_t kMaxStatePositions = 1 << 21;  // of all states together
constexpr std::uint64_t kMaxWork = 30'000'000;       // instructions looked at while the automaton is built
constexpr std::uint64_t kWorkPerTransition = 8;
constexpr std::size_t kMaxHopeless = 1 << 20;

// What stood before the current position; also the index of Regex::start_rows_.
enum Before : std::uint8_t { kTextStart, kAfterNewline, kElsewhere };

struct Instruction {
  enum class Kind { character, split, look_ahead, text_start, line_start, accept };
  Kind kind = Kind::accept;
  std::uint32_t set = 0;   // character, look_ahead
  std::uint32_t next = 0;  // split: what is tried first
  std::uint32_t other = 0;
  bool at_end = false;
  bool at_last_newline = false;
};

}  // namespace

// Parsed expression -> nondeterministic program -> classes of code points -> deterministic automaton. A state of the
// automaton is the list of program positions after the last character, most preferred first. Assertions look at the
// next character, so they are decided when its class is known: a match is seen one class late, and the end of the text
// counts as a class.
class AutomatonBuilder {
 public:
  AutomatonBuilder(Regex& regex, RegexSyntax syntax) : regex_(regex) {
    const std::uint32_t accept = add({.kind = Instruction::Kind::accept});
    start_ = compile(regex_syntax::parse(regex.pattern_, syntax), accept);
    make_classes();
    make_states();
  }

 private:
  struct State {
    std::vector<std::uint32_t> positions;
    Before before;
    auto operator<=>(const State&) const = default;
  };

  [[noreturn]] void too_large(std::string_view what) const {
    throw_error(ErrorCode::unsupported, "regular expression \"{}\" is too complex: {}",
                replace_invalid_utf8(std::string_view(regex_.pattern_).substr(0, 300)), what);
  }

  std::uint32_t add(Instruction instruction) {
    if (program_.size() >= kMaxInstructions) too_large("its repetitions unfold to more than 20000 steps");
    program_.push_back(instruction);
    return static_cast<std::uint32_t>(program_.size() - 1);
  }

  std::uint32_t set_index(const CodePointSet& set) {
    const auto known = std::find(sets_.begin(), sets_.end(), set);
    if (known != sets_.end()) return static_cast<std::uint32_t>(known - sets_.begin());
    set_ranges_ += set.ranges().size();
    if (set_ranges_ > kMaxSetRanges || sets_.size() >= 4096) too_large("it has too many different classes");
    sets_.push_back(set);
    return static_cast<std::uint32_t>(sets_.size() - 1);
  }

  // Compiles `node` so that it goes on at `next`; returns where it begins.
  std::uint32_t compile(const Node& node, std::uint32_t next) {
    switch (node.kind) {
      case Node::Kind::empty:
        return next;
      case Node::Kind::set:
        return add({.kind = Instruction::Kind::character, .set = set_index(node.set), .next = next});
      case Node::Kind::sequence:
        for (auto child = node.children.rbegin(); child != node.children.rend(); ++child) next = compile(*child, next);
        return next;
      case Node::Kind::choice: {
        std::uint32_t rest = compile(node.children.back(), next);
        for (std::size_t i = node.children.size() - 1; i-- > 0;) {
          const std::uint32_t first = compile(node.children[i], next);
          rest = add({.kind = Instruction::Kind::split, .next = first, .other = rest});
        }
        return rest;
      }
      case Node::Kind::repeat:
        return compile_repeat(node, next);
      case Node::Kind::look_ahead:
        cares_about_last_newline_ |= node.at_last_newline;
        return add({.kind = Instruction::Kind::look_ahead,
                    .set = set_index(node.set),
                    .next = next,
                    .at_end = node.at_end,
                    .at_last_newline = node.at_last_newline});
      case Node::Kind::text_start:
        cares_about_start_ = true;
        return add({.kind = Instruction::Kind::text_start, .next = next});
      case Node::Kind::line_start:
        cares_about_start_ = true;
        cares_about_newlines_ = true;
        return add({.kind = Instruction::Kind::line_start, .next = next});
    }
    return next;
  }

  std::uint32_t compile_repeat(const Node& node, std::uint32_t next) {
    const Node& body = node.children[0];
    const auto choose = [&](std::uint32_t more, std::uint32_t enough) {
      return node.lazy ? Instruction{.kind = Instruction::Kind::split, .next = enough, .other = more}
                       : Instruction{.kind = Instruction::Kind::split, .next = more, .other = enough};
    };
    if (node.most == Node::kUnbounded) {
      const std::uint32_t loop = add({.kind = Instruction::Kind::split});
      program_[loop] = choose(compile(body, loop), next);
      next = loop;
    } else {
      const std::uint32_t enough = next;
      for (int i = node.least; i < node.most; ++i) next = add(choose(compile(body, next), enough));
    }
    for (int i = 0; i < node.least; ++i) next = compile(body, next);
    return next;
  }

  // Code points that no set tells apart form one class.
  void make_classes() {
    newline_set_ = set_index(CodePointSet{{'\n', '\n'}});
    struct Border {
      char32_t at;
      std::uint32_t set;
    };
    std::vector<Border> borders;
    for (std::uint32_t i = 0; i < sets_.size(); ++i) {
      for (const CodePointRange range : sets_[i].ranges()) {
        borders.push_back({range.first, i});
        borders.push_back({range.last + 1, i});
      }
    }
    std::sort(borders.begin(), borders.end(), [](const Border& a, const Border& b) { return a.at < b.at; });

    std::vector<bool> member(sets_.size());  // of the code point at hand
    std::map<std::vector<bool>, std::uint8_t> known;
    std::vector<CodePointRange> ranges;
    std::vector<std::uint8_t> class_of_range;
    char32_t first = 0;
    for (std::size_t i = 0; first <= kLastCodePoint;) {
      for (; i < borders.size() && borders[i].at == first; ++i) member[borders[i].set] = !member[borders[i].set];
      const char32_t end = i < borders.size() ? borders[i].at : kLastCodePoint + 1;
      const auto [entry, is_new] = known.emplace(member, static_cast<std::uint8_t>(known.size()));
      if (is_new) {
        if (known.size() > 250) too_large("it tells more than 250 kinds of characters apart");
        class_members_.push_back(member);
      }
      ranges.push_back({first, end - 1});
      class_of_range.push_back(entry->second);
      first = end;
    }
    regex_.classes_ = CodePointTable(ranges, class_of_range);

    regex_.end_class_ = static_cast<std::uint8_t>(class_members_.size());
    class_members_.push_back(std::vector<bool>(sets_.size()));
    if (cares_about_last_newline_) {
      regex_.has_last_newline_class_ = true;
      regex_.last_newline_class_ = static_cast<std::uint8_t>(class_members_.size());
      class_members_.push_back(class_members_[regex_.classes_['\n']]);
    }
  }

  void make_states() {
    const auto stride = static_cast<std::uint32_t>(class_members_.size());
    std::map<State, std::uint32_t> known;  // state -> its row
    std::vector<const State*> states;
    std::size_t positions = 0;
    const auto row_of = [&](State state) {
      const auto [entry, is_new] = known.emplace(std::move(state), static_cast<std::uint32_t>(states.size()) * stride);
      if (is_new) {
        positions += entry->first.positions.size();
        if (states.size() >= kMaxStates || positions > kMaxStatePositions)
          too_large("its automaton has too many states");
        states.push_back(&entry->first);
      }
      return entry->second;
    };
    row_of({{}, kElsewhere});  // nothing left: row 0
    for (const Before before : {kTextStart, kAfterNewline, kElsewhere}) {
      regex_.start_rows_[before] = row_of({{start_}, cares_about_start_ ? before : kElsewhere});
    }
    seen_.assign(program_.size(), 0);
    taken_.assign(program_.size(), 0);
    for (std::size_t i = 0; i < states.size(); ++i) {
      for (std::uint32_t c = 0; c < stride; ++c) {
        bool accepts = false;
        State next = advance(*states[i], static_cast<std::uint8_t>(c), accepts);
        regex_.transitions_.push_back(row_of(std::move(next)) << 1 | (accepts ? 1 : 0));
      }
    }
  }

  State advance(const State& state, std::uint8_t next_class, bool& accepts) {
    const std::vector<bool>& member = class_members_[next_class];
    const bool at_end = next_class == regex_.end_class_;
    const bool at_last_newline = regex_.has_last_newline_class_ && next_class == regex_.last_newline_class_;
    State next{{}, cares_about_newlines_ && member[newline_set_] ? kAfterNewline : kElsewhere};
    ++turn_;
    work_ += kWorkPerTransition;
    stack_.assign(state.positions.rbegin(), state.positions.rend());
    while (!stack_.empty()) {
      const std::uint32_t at = stack_.back();
      stack_.pop_back();
      if (seen_[at] == turn_) continue;
      seen_[at] = turn_;
      if (++work_ > kMaxWork) too_large("building its automaton takes too long");
      const Instruction& instruction = program_[at];
      switch (instruction.kind) {
        case Instruction::Kind::character:
          if (member[instruction.set] && taken_[instruction.next] != turn_) {
            taken_[instruction.next] = turn_;
            next.positions.push_back(instruction.next);
          }
          break;
        case Instruction::Kind::split:
          stack_.push_back(instruction.other);
          stack_.push_back(instruction.next);
          break;
        case Instruction::Kind::look_ahead:
          if (at_end ? instruction.at_end
                     : member[instruction.set] || (at_last_newline && instruction.at_last_newline)) {
            stack_.push_back(instruction.next);
          }
          break;
        case Instruction::Kind::text_start:
          if (state.before == kTextStart) stack_.push_back(instruction.next);
          break;
        case Instruction::Kind::line_start:
          // Oniguruma sees no line after a newline that ends the text.
          if (state.before == kTextStart || (state.before == kAfterNewline && !at_end))
            stack_.push_back(instruction.next);
          break;
        case Instruction::Kind::accept:
          accepts = true;  // everything less preferred is out
          stack_.clear();
          break;
      }
    }
    if (next.positions.empty()) next.before = kElsewhere;
    return next;
  }

  Regex& regex_;
  std::vector<Instruction> program_;
  std::uint32_t start_ = 0;
  std::vector<CodePointSet> sets_;
  std::size_t set_ranges_ = 0;
  std::uint32_t newline_set_ = 0;
  bool cares_about_start_ = false;
  bool cares_about_newlines_ = false;
  bool cares_about_last_newline_ = false;
  std::vector<std::vector<bool>> class_members_;  // [class][set]
  std::uint32_t turn_ = 0;                        // counts transitions
  std::vector<std::uint32_t> seen_;               // [instruction] the last transition that came by
  std::vector<std::uint32_t> taken_;
  std::vector<std::uint32_t> stack_;
  std::uint64_t work_ = 0;
};

Regex::Regex(std::string_view pattern, RegexSyntax syntax) : pattern_(pattern) {
  AutomatonBuilder(*this, syntax);
}

std::uint32_t Regex::start_row(std::string_view text, std::size_t position) const {
  if (position == 0) return start_rows_[kTextStart];
  return start_rows_[text[position - 1] == '\n' ? kAfterNewline : kElsewhere];
}

std::optional<std::size_t> Regex::match(std::string_view text) const {
  return RegexScanner(*this, text).match_at(0);
}

std::uint8_t RegexScanner::class_at(std::size_t position, std::size_t& size) const {
  const Utf8Character character = decode_valid_utf8(text_.data() + position);
  size = character.size;
  if (character.code_point == '\n' && regex_->has_last_newline_class_ && position + 1 == text_.size()) {
    return regex_->last_newline_class_;
  }
  return regex_->classes_[character.code_point];
}

std::optional<std::size_t> RegexScanner::match_at(std::size_t position) {
  constexpr std::size_t kQuickBytes = 256;  // most matches are over by then
  std::uint32_t row = regex_->start_row(text_, position);
  std::optional<std::size_t> match_end;
  const std::size_t quick_end = position + kQuickBytes;
  while (position < text_.size()) {
    if (position >= quick_end) return match_slowly(position, row, match_end);
    std::size_t size = 0;
    const std::uint32_t transition = regex_->transition(row, class_at(position, size));
    if (transition & 1) match_end = position;
    row = transition >> 1;
    if (row == 0) return match_end;
    position += size;
  }
  if (regex_->transition(row, regex_->end_class_) & 1) match_end = position;
  return match_end;
}

std::optional<std::size_t> RegexScanner::match_slowly(std::size_t position, std::uint32_t row,
                                                      std::optional<std::size_t> match_end) {
  constexpr std::size_t kMarkBytes = 64;  // hopeless places are looked up and noted once in so many bytes
  visited_.clear();
  const auto give_up = [&] {
    if (hopeless_.size() > kMaxHopeless) hopeless_.clear();
    hopeless_.insert(visited_.begin(), visited_.end());
    return match_end;
  };
  while (position < text_.size()) {
    std::size_t size = 0;
    const std::uint32_t transition = regex_->transition(row, class_at(position, size));
    if (transition & 1) {
      match_end = position;
      visited_.clear();
    }
    row = transition >> 1;
    if (row == 0) return give_up();
    const bool mark = position / kMarkBytes != (position + size) / kMarkBytes;
    position += size;
    if (mark) {
      const std::uint64_t place = static_cast<std::uint64_t>(position) << 24 | row;
      if (hopeless_.contains(place)) return give_up();
      visited_.push_back(place);
    }
  }
  if (regex_->transition(row, regex_->end_class_) & 1) {
    match_end = position;
    visited_.clear();
  }
  return give_up();
}

std::optional<RegexScanner::Match> RegexScanner::next() {
  while (position_ <= text_.size()) {
    const std::optional<std::size_t> end = match_at(position_);
    if (end && !(*end == position_ && last_match_end_ == position_)) {
      const Match match = {position_, *end};
      position_ = *end;
      last_match_end_ = *end;
      return match;
    }
    position_ += position_ < text_.size() ? decode_valid_utf8(text_.data() + position_).size : 1;
  }
  return std::nullopt;
}

}  // namespace sparkx
