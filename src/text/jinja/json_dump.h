// json.dumps, as transformers' tojson calls it.
#pragma once

#include "text/jinja/value.h"

namespace sparkx::jinja {

class Interpreter;

struct DumpOptions {
  bool ensure_ascii = false;
  bool sort_keys = false;
  bool multiline = false;
  Text indent;  // of one level
  Text item_separator;
  Text key_separator;
};

// Texts keep their origins; brackets, quotes, separators, numbers and words count as data.
Text dump_json(Interpreter& interpreter, const Value& value, const DumpOptions& options);

}  // namespace sparkx::jinja
