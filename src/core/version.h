// Which sparkx this is: the project's version, the commit it was built from and the compiler that built it.
#pragma once

namespace sparkx {

struct Version {
  const char* version;  // "0.1.0"
  const char*
      commit;  // twelve hexadecimal digits, "-dirty" behind them when files differed; "unknown" outside a checkout
  const char* compiler;  // "GCC 12.2.0", "Clang 14.0.6"
};

Version version();

}  // namespace sparkx
