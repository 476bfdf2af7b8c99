#include "core/regex_syntax.h"

#include <algorithm>
#include <optional>
#include <string>

#include "core/error.h"

namespace sparkx::regex_syntax {
namespace {

constexpr int kMaxDepth = 100;
constexpr int kMaxRepeat = 1000;
constexpr std::size_t kMaxPatternBytes = 1 << 16;

bool is_ascii_letter(char32_t c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

bool may_match_nothing(const Node& node) {
  switch (node.kind) {
    case Node::Kind::set:
      return false;
    case Node::Kind::sequence:
      return std::all_of(node.children.begin(), node.children.end(), may_match_nothing);
    case Node::Kind::choice:
      return std::any_of(node.children.begin(), node.children.end(), may_match_nothing);
    case Node::Kind::repeat:
      return node.least == 0 || may_match_nothing(node.children[0]);
    default:
      return true;
  }
}

class Parser {
 public:
  Parser(std::string_view pattern, RegexSyntax syntax) : pattern_(pattern), syntax_(syntax) {}

  Node parse() {
    if (pattern_.size() > kMaxPatternBytes) fail(0, "a pattern of more than 65536 bytes");
    if (!is_valid_utf8(pattern_)) invalid(0, "the pattern is not valid UTF-8");
    Node node = alternatives(0);
    if (!at_end()) invalid(position_, "\")\" without \"(\"");
    return node;
  }

 private:
  // Messages count characters from 1, as editors do.
  std::string place(std::size_t position) const {
    std::size_t column = 1;
    for (std::size_t i = 0; i < std::min(position, pattern_.size()); ++i) {
      column += (static_cast<unsigned char>(pattern_[i]) & 0xC0) != 0x80;
    }
    return fmt::format("regular expression \"{}\", character {}", replace_invalid_utf8(pattern_.substr(0, 300)),
                       column);
  }
  [[noreturn]] void fail(std::size_t position, std::string_view construct) const {
    throw_error(ErrorCode::unsupported, "{}: {} is not supported", place(position), construct);
  }
  [[noreturn]] void invalid(std::size_t position, std::string_view problem) const {
    throw_error(ErrorCode::invalid_argument, "{}: {}", place(position), problem);
  }

  bool at_end() const { return position_ >= pattern_.size(); }
  char peek(std::size_t ahead = 0) const {
    return position_ + ahead < pattern_.size() ? pattern_[position_ + ahead] : '\0';
  }
  bool looking_at(std::string_view text) const { return pattern_.substr(position_).starts_with(text); }
  bool accept(std::string_view text) {
    if (!looking_at(text)) return false;
    position_ += text.size();
    return true;
  }
  char32_t take_character() {
    const Utf8Character character = decode_utf8(pattern_.substr(position_));
    position_ += character.size;
    return character.code_point;
  }

  Node alternatives(int depth) {
    if (depth > kMaxDepth) fail(position_, "nesting deeper than 100 groups");
    Node choice{.kind = Node::Kind::choice};
    choice.children.push_back(sequence(depth));
    while (accept("|")) choice.children.push_back(sequence(depth));
    return choice.children.size() == 1 ? std::move(choice.children[0]) : choice;
  }

  Node sequence(int depth) {
    Node sequence{.kind = Node::Kind::sequence};
    previous_folded_literal_ = 0;
    while (!at_end() && peek() != '|' && peek() != ')') sequence.children.push_back(quantified(depth));
    previous_folded_literal_ = 0;
    if (sequence.children.empty()) return Node{};
    return sequence.children.size() == 1 ? std::move(sequence.children[0]) : sequence;
  }

  Node quantified(int depth) {
    const std::size_t begin = position_;
    Node body = atom(depth);
    const std::size_t at = position_;
    Node repeat{.kind = Node::Kind::repeat};
    bool exact = false;
    if (accept("*")) {
      repeat.most = Node::kUnbounded;
    } else if (accept("+")) {
      repeat.least = 1;
      repeat.most = Node::kUnbounded;
    } else if (accept("?")) {
      repeat.most = 1;
    } else if (peek() == '{') {
      exact = braces(repeat);
    } else {
      return body;
    }
    if (peek() == '?') {
      if (exact && syntax_ == RegexSyntax::oniguruma) fail(at, "\"{n}?\"");
      ++position_;
      repeat.lazy = true;
    } else if (peek() == '+') {
      fail(at, fmt::format("the possessive quantifier \"{}\"", pattern_.substr(at, position_ + 1 - at)));
    }
    if (peek() == '*' || peek() == '+' || peek() == '?' || peek() == '{')
      fail(position_, "a quantifier after a quantifier");
    if (body.kind == Node::Kind::look_ahead || body.kind == Node::Kind::text_start ||
        body.kind == Node::Kind::line_start) {
      fail(begin, "a quantifier on an assertion");
    }
    if (repeat.most != 1 && repeat.most != 0 && may_match_nothing(body)) {
      fail(begin, "repeating an expression that may match nothing");
    }
    repeat.children.push_back(std::move(body));
    return repeat;
  }

  // Reads {n}, {n,}, {,m} or {n,m}. True when it is {n}.
  bool braces(Node& repeat) {
    const std::size_t begin = position_++;
    const std::optional<int> least = number(begin);
    const bool comma = accept(",");
    const std::optional<int> most = comma ? number(begin) : least;
    if ((!least && !most) || !accept("}")) fail(begin, "\"{\" that begins no quantifier (write \"\\{\")");
    repeat.least = least.value_or(0);
    repeat.most = most.value_or(Node::kUnbounded);
    if (repeat.most != Node::kUnbounded && repeat.most < repeat.least)
      fail(begin, "a quantifier whose bounds are reversed");
    return !comma;
  }

  std::optional<int> number(std::size_t begin) {
    if (peek() < '0' || peek() > '9') return std::nullopt;
    int value = 0;
    while (peek() >= '0' && peek() <= '9') {
      value = value * 10 + (pattern_[position_++] - '0');
      if (value > kMaxRepeat) fail(begin, "a quantifier bound above 1000");
    }
    return value;
  }

  Node atom(int depth) {
    const std::size_t begin = position_;
    const char c = peek();
    if (c != '(' && c != '[' && c != '\\' && c != '.' && c != '^' && c != '$') {
      if (c == '*' || c == '+' || c == '?') invalid(begin, "a quantifier without anything to repeat");
      if (c == '{') fail(begin, "\"{\" that begins no quantifier (write \"\\{\")");
      return literal(take_character(), begin);
    }
    if (c == '(') return group(depth);
    previous_folded_literal_ = 0;
    if (c == '[') return Node{.kind = Node::Kind::set, .set = character_class()};
    if (c == '\\') return escape();
    ++position_;
    if (c == '.') return Node{.kind = Node::Kind::set, .set = CodePointSet{{'\n', '\n'}}.complement()};
    if (c == '^') {
      return Node{.kind = syntax_ == RegexSyntax::python ? Node::Kind::text_start : Node::Kind::line_start};
    }
    if (syntax_ == RegexSyntax::python)
      return Node{.kind = Node::Kind::look_ahead, .at_end = true, .at_last_newline = true};
    return Node{.kind = Node::Kind::look_ahead, .set = {{'\n', '\n'}}, .at_end = true};
  }

  Node literal(char32_t c, std::size_t begin) {
    if (!ignore_case_) return Node{.kind = Node::Kind::set, .set = {{c, c}}};
    // Letter pairs that one character folds to (ß, ﬀ, ﬁ, ﬂ, ﬆ): the engine would accept that character for the pair.
    constexpr std::string_view kPairs[] = {"ss", "ff", "fi", "fl", "st"};
    const char32_t lower = c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c;
    for (const std::string_view pair : kPairs) {
      if (previous_folded_literal_ == static_cast<char32_t>(pair[0]) && lower == static_cast<char32_t>(pair[1])) {
        fail(begin, fmt::format("\"{}\" under (?i)", pair));
      }
    }
    previous_folded_literal_ = lower;
    return Node{.kind = Node::Kind::set, .set = fold(CodePointSet{{c, c}}, begin)};
  }

  // Adds what differs from the set only by case.
  CodePointSet fold(CodePointSet set, std::size_t begin) const {
    if (!set.empty() && set.ranges().back().last >= 0x80) fail(begin, "a character beyond ASCII under (?i)");
    const CodePointSet plain = set;
    for (char32_t c = 'a'; c <= 'z'; ++c) {
      const char32_t upper = c - 'a' + 'A';
      if (!plain.contains(c) && !plain.contains(upper)) continue;
      set.add(c, c);
      set.add(upper, upper);
      if (c == 'k') set.add(0x212A, 0x212A);  // KELVIN SIGN
      if (c == 's') set.add(0x017F, 0x017F);  // LATIN SMALL LETTER LONG S
    }
    return set;
  }

  Node group(int depth) {
    const std::size_t begin = position_++;
    if (accept("?=")) return look_ahead(begin, depth, false);
    if (accept("?!")) return look_ahead(begin, depth, true);
    const bool outer_ignore_case = ignore_case_;
    if (accept("?i:")) {
      if (syntax_ == RegexSyntax::python) fail(begin, "\"(?i:\"");
      ignore_case_ = true;
    } else if (!accept("?:") && peek() == '?') {
      const bool look_behind = looking_at("?<=") || looking_at("?<!");
      const bool named = !look_behind && (looking_at("?<") || looking_at("?P"));
      fail(begin, look_behind        ? "lookbehind"
                  : named            ? "a named group"
                  : looking_at("?>") ? "an atomic group"
                                     : fmt::format("\"(?{}\"", pattern_.substr(position_ + 1, 1)));
    }
    Node node = alternatives(depth + 1);
    if (!accept(")")) invalid(begin, "\"(\" without \")\"");
    ignore_case_ = outer_ignore_case;
    previous_folded_literal_ = 0;
    return node;
  }

  Node look_ahead(std::size_t begin, int depth, bool negative) {
    Node inner = alternatives(depth + 1);
    if (!accept(")")) invalid(begin, "\"(\" without \")\"");
    const std::vector<Node> single = {inner};
    Node node{.kind = Node::Kind::look_ahead};
    for (const Node& choice : inner.kind == Node::Kind::choice ? inner.children : single) {
      const bool one_character = choice.kind == Node::Kind::set;
      const bool plain_end = choice.kind == Node::Kind::look_ahead && !choice.at_last_newline;
      if (!one_character && !plain_end) fail(begin, "lookahead of anything but one character");
      node.set.add(choice.set);
      node.at_end = node.at_end || choice.at_end;
    }
    if (negative) {
      node.set = node.set.complement();
      node.at_end = !node.at_end;
    }
    return node;
  }

  Node escape() {
    const std::size_t begin = position_;
    if (looking_at("\\A")) {
      position_ += 2;
      return Node{.kind = Node::Kind::text_start};
    }
    if (looking_at(syntax_ == RegexSyntax::python ? "\\Z" : "\\z")) {
      position_ += 2;
      return Node{.kind = Node::Kind::look_ahead, .at_end = true};
    }
    bool is_class = false;
    CodePointSet set = escaped_set(is_class);
    if (ignore_case_ && !is_class) return literal(set.ranges()[0].first, begin);
    if (ignore_case_) fail(begin, "a class escape under (?i)");
    return Node{.kind = Node::Kind::set, .set = std::move(set)};
  }

  // What the escape at the current position stands for, inside or outside a class: a single character unless
  // `is_class`.
  CodePointSet escaped_set(bool& is_class) {
    const std::size_t begin = position_++;
    if (at_end()) invalid(begin, "\"\\\" at the end");
    const char32_t c = take_character();
    const auto one = [](char32_t character) { return CodePointSet{{character, character}}; };
    is_class = true;
    switch (c) {
      case 's':
        return space();
      case 'S':
        return space().complement();
      case 'd':
        return *general_category_set("Nd");
      case 'D':
        return general_category_set("Nd")->complement();
      case 'w':
        return word();
      case 'W':
        return word().complement();
      case 'p':
      case 'P':
        return property(begin, c == 'P');
    }
    is_class = false;
    switch (c) {
      case 'n':
        return one('\n');
      case 'r':
        return one('\r');
      case 't':
        return one('\t');
      case 'f':
        return one('\f');
      case 'v':
        return one('\v');
      case 'a':
        return one('\a');
      case 'x':
        return one(hexadecimal_escape(begin));
      case 'u':
        return one(digits(begin, 4, 4));
    }
    if (c == 'e' && syntax_ == RegexSyntax::oniguruma) return one(0x1B);
    if (is_ascii_letter(c) || (c >= '0' && c <= '9') || c >= 0x80) {
      fail(begin, fmt::format("\"{}\"", pattern_.substr(begin, position_ - begin)));
    }
    return one(c);
  }

  CodePointSet space() const {
    CodePointSet set = white_space_set();
    if (syntax_ == RegexSyntax::python) set.add(0x1C, 0x1F);
    return set;
  }

  CodePointSet word() const {
    if (syntax_ == RegexSyntax::oniguruma) return word_set();
    CodePointSet set = *general_category_set("L");
    set.add(*general_category_set("N"));
    set.add('_', '_');
    return set;
  }

  CodePointSet property(std::size_t begin, bool negative) {
    const std::size_t close = pattern_.find('}', position_);
    if (syntax_ == RegexSyntax::python || peek() != '{' || close == std::string_view::npos) {
      fail(begin, fmt::format("\"{}\" without a property in braces", pattern_.substr(begin, 2)));
    }
    std::string_view name = pattern_.substr(position_ + 1, close - position_ - 1);
    position_ = close + 1;
    if (name.starts_with('^')) {
      negative = !negative;
      name.remove_prefix(1);
    }
    const std::optional<CodePointSet> set = general_category_set(name);
    if (!set) fail(begin, fmt::format("the property \"{}\" (general categories only)", name));
    return negative ? set->complement() : *set;
  }

  char32_t hexadecimal_escape(std::size_t begin) {
    if (syntax_ == RegexSyntax::oniguruma && accept("{")) {
      const char32_t value = digits(begin, 1, 8);
      if (!accept("}")) fail(begin, "this form of \"\\x{\"");
      return value;
    }
    const char32_t value = digits(begin, 2, 2);
    // For Oniguruma that is a byte of a UTF-8 sequence, not a code point.
    if (syntax_ == RegexSyntax::oniguruma && value >= 0x80) fail(begin, "\"\\x\" with a byte beyond ASCII");
    return value;
  }

  char32_t digits(std::size_t begin, int least, int most) {
    std::uint64_t value = 0;
    int count = 0;
    for (; count < most; ++count) {
      const char c = peek();
      const bool decimal = c >= '0' && c <= '9';
      const char lower = static_cast<char>(c | 0x20);
      if (!decimal && !(lower >= 'a' && lower <= 'f')) break;
      value = value * 16 + static_cast<std::uint64_t>(decimal ? c - '0' : lower - 'a' + 10);
      ++position_;
    }
    if (count < least) invalid(begin, "too few hexadecimal digits");
    if (value > kLastCodePoint || (value >= 0xD800 && value < 0xE000))
      invalid(begin, "an escape that is no code point");
    return static_cast<char32_t>(value);
  }

  CodePointSet character_class() {
    const std::size_t begin = position_++;
    const bool negative = accept("^");
    std::vector<CodePointRange> ranges;
    for (bool first = true; first || peek() != ']'; first = false) {
      if (at_end()) invalid(begin, "\"[\" without \"]\"");
      const std::size_t item_begin = position_;
      bool is_class = false;
      const CodePointSet item = class_item(is_class);
      const bool range = peek() == '-' && peek(1) != ']' && peek(1) != '\0';
      if (!range) {
        ranges.insert(ranges.end(), item.ranges().begin(), item.ranges().end());
        continue;
      }
      ++position_;
      bool end_is_class = false;
      const CodePointSet end = class_item(end_is_class);
      if (is_class || end_is_class) fail(item_begin, "a range with a class at its end");
      const CodePointRange both = {item.ranges()[0].first, end.ranges()[0].first};
      if (both.last < both.first) invalid(item_begin, "a range whose ends are reversed");
      ranges.push_back(both);
    }
    ++position_;
    CodePointSet set{std::span<const CodePointRange>(ranges)};
    if (ignore_case_) set = fold(std::move(set), begin);
    return negative ? set.complement() : set;
  }

  CodePointSet class_item(bool& is_class) {
    if (peek() == '\\') return escaped_set(is_class);
    if (syntax_ == RegexSyntax::oniguruma) {
      if (peek() == '[') fail(position_, looking_at("[:") ? "a POSIX class" : "a class inside a class (write \"\\[\")");
      if (looking_at("&&")) fail(position_, "the intersection \"&&\"");
    }
    const char32_t c = take_character();
    return CodePointSet{{c, c}};
  }

  std::string_view pattern_;
  RegexSyntax syntax_;
  std::size_t position_ = 0;
  bool ignore_case_ = false;
  char32_t previous_folded_literal_ = 0;  // under (?i), the literal just before, else 0
};

}  // namespace

Node parse(std::string_view pattern, RegexSyntax syntax) {
  return Parser(pattern, syntax).parse();
}

}  // namespace sparkx::regex_syntax
