// Reads the tokens of a template into its tree, by Jinja's own grammar.
#pragma once

#include <string>

#include "text/jinja/ast.h"

namespace sparkx::jinja {

// `source` is normalized (lexer.h). Throws SyntaxError. The names have no places yet: scope_analysis.h.
Tree parse_tree(std::string source, std::string name);

}  // namespace sparkx::jinja
