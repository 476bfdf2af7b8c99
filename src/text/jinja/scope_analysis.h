// Finds out which variable each name means, as Jinja's compiler does: what a scope stores is its own variable, which
// begins as the outer one or the context's; everything else is looked up outwards, at last in the context.
#pragma once

#include "text/jinja/ast.h"

namespace sparkx::jinja {

// Fills the places, scopes and natives of the tree. Throws SyntaxError: an unknown filter or test, an assignment to
// `loop`, a `break` outside a loop, a block defined twice.
void analyze_scopes(Tree& tree);

}  // namespace sparkx::jinja
