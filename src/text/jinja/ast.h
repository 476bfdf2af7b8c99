// The tree of a template: what the parser reads, the scope analysis completes and the interpreter walks. It is never
// changed by a render, so renders on several threads share it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "text/jinja/value.h"

namespace sparkx::jinja {

using ExprPtr = std::unique_ptr<Expr>;
using StmtPtr = std::unique_ptr<Stmt>;
using Block = std::vector<StmtPtr>;

enum class ExprKind : std::uint8_t {
  none,
  boolean,
  integer,  // text: digits, perhaps with 0x, 0o, 0b
  floating,
  string,
  name,
  space_attribute,  // ns.x as a target of set
  tuple,
  list,
  dict,    // items: key, value, key, value, ...
  negate,  // items[0]
  positive,
  logical_not,
  add,  // items[0], items[1]
  subtract,
  multiply,
  divide,
  floor_divide,
  modulo,
  power,
  logical_and,
  logical_or,
  concat,       // items
  compare,      // items[0] op[0] items[1] op[1] items[2] ...
  conditional,  // items: test, then, else or null
  attribute,    // items[0] . text
  subscript,    // items[0] [ items[1] ]
  slice,        // items: start, stop, step, each perhaps null; only inside subscript
  call,         // items[0] is called
  filter,       // items[0] (null: the text of a filter block) goes through `text`
  test,         // items[0] is `text`
};

enum class Comparison : std::uint8_t { equal, not_equal, less, less_equal, greater, greater_equal, in, not_in };

// Where a name lives: so many scopes outwards, in that slot.
struct Place {
  int scope = 0;
  int slot = 0;
};

struct Expr {
  ExprKind kind = ExprKind::none;
  bool truth = false;       // boolean
  int height = 0;           // of the chain of operators, filters, calls... below
  std::uint32_t begin = 0;  // its stretch of the source
  std::uint32_t end = 0;
  double number = 0;  // floating
  std::string text;   // name, attribute, filter, test, string, integer
  std::vector<ExprPtr> items;
  std::vector<Comparison> comparisons;
  // call, filter, test
  std::vector<ExprPtr> positional;
  std::vector<std::pair<std::string, ExprPtr>> named;
  ExprPtr more_positional;  // *args
  ExprPtr more_named;       // **kwargs
  // from the scope analysis
  Place place;              // name, space_attribute
  int constant = -1;        // string, integer: its number among the template's constants
  Native native = nullptr;  // filter, test
};

// What a variable of a scope begins with.
struct Load {
  enum class From : std::uint8_t { parameter, context, outer, nothing };
  From from = From::nothing;
  int slot = 0;
  Place outer = {};
  std::string name = {};
};

struct Scope {
  int slots = 0;
  std::vector<Load> loads;
};

enum class StmtKind : std::uint8_t {
  data,    // text
  output,  // exprs
  loop,
  condition,  // branches
  macro,
  call_block,  // a macro without a name, and expr, the call that gets it
  generation,  // a macro without a name, called at once
  filter_block,
  set,
  set_block,
  with,
  autoescape,
  block,
  break_loop,
  continue_loop,
  load_template,  // extends, include, import: there is nothing to load
};

struct Stmt {
  StmtKind kind = StmtKind::data;
  std::uint32_t begin = 0;
  std::uint32_t end = 0;
  std::string text;              // data; the name of a macro or block
  std::vector<ExprPtr> exprs;    // output; with: the values; macro: the defaults of the last parameters
  std::vector<ExprPtr> targets;  // loop, set: one; with; macro: the parameters
  ExprPtr expr;                  // loop: what is gone through; set: the value; filter; call
  ExprPtr test;                  // loop
  ExprPtr test_target;           // loop: the target again, in the scope of the test
  std::vector<std::pair<ExprPtr, Block>> branches;  // condition: if, elif
  Block body;
  Block else_body;
  bool recursive = false;
  bool uses_loop = false;  // loop: the body mentions `loop`
  bool scoped = false;     // block
  bool required = false;
  bool top_level = false;           // set, macro: the variable is the template's
  bool catches_positional = false;  // macro
  bool catches_named = false;
  bool uses_caller = false;
  Scope scope;
  Scope test_scope;
  Scope else_scope;
  // slots in `scope`
  int loop_slot = -1;
  int caller_slot = -1;
  int positional_slot = -1;
  int named_slot = -1;
  int self_slot = -1;  // block
  int super_slot = -1;
  Place place;  // macro: its own variable
  // block: the scoped variables to hand over
  std::vector<std::pair<std::string, Place>> locals;
};

struct Tree {
  std::string source;  // line ends as \n, the last one gone
  std::string name;
  Block body;
  Scope scope;
  int self_slot = -1;
  std::vector<const Stmt*> blocks;
  int constants = 0;
};

}  // namespace sparkx::jinja
