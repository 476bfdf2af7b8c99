// The parsed form of a regular expression, between core/regex.h's reader and its automaton.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "core/regex.h"
#include "core/unicode.h"

namespace sparkx::regex_syntax {

struct Node {
  enum class Kind {
    empty,
    set,         // one character of `set`
    sequence,    // children in turn
    choice,      // the first child that leads to a match
    repeat,      // child[0] from `least` to `most` times, as many as possible unless `lazy`
    look_ahead,  // the next character is in `set`, or the text ends and `at_end`, or (`at_last_newline`) only a newline
                 // is left
    text_start,
    line_start,
  };
  Kind kind = Kind::empty;
  CodePointSet set = {};
  bool at_end = false;
  bool at_last_newline = false;
  int least = 0;
  int most = 0;  // kUnbounded: no limit
  bool lazy = false;
  std::vector<Node> children = {};

  static constexpr int kUnbounded = -1;
};

// Throws as Regex::Regex does.
Node parse(std::string_view pattern, RegexSyntax syntax);

}  // namespace sparkx::regex_syntax
