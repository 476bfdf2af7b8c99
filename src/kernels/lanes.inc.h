// Vectors of which only the first lanes may be in use.
#pragma once

#include "kernels/kernels.h"

namespace sparkx::kernels {
namespace {

// load_first and store_first without their cost where all 16 lanes are in use.
inline F32x16 load_lanes(const float* p, int count) {
  return count == kLanes ? load(p) : load_first(p, count);
}
inline void store_lanes(float* p, F32x16 a, int count) {
  if (count == kLanes) {
    store(p, a);
  } else {
    store_first(p, a, count);
  }
}

}  // namespace
}  // namespace sparkx::kernels
