#include "core/version.h"

// Written by cmake/write_version.cmake. Only this file includes it, so that a new commit compiles one file.
#include "sparkx_version.inc"

namespace sparkx {

Version version() {
  return {SPARKX_VERSION, SPARKX_COMMIT, SPARKX_COMPILER};
}

}  // namespace sparkx
