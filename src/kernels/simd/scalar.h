// The layer of the reference table: plain lanes and the smallest tiles, so that every sum is done the plainest way.
#pragma once

#include "kernels/simd/plain_lanes.h"

namespace sparkx::kernels {
namespace {

constexpr int kTokenTile = 1;       // tokens of a register tile of dot
constexpr int kTileVectors = 1;     // accumulators of a register tile
constexpr int kCodeTokens = 1;      // tokens of a register tile of dot_codes
constexpr int kCodeVectors = 1;     // accumulators of that tile
constexpr int kValueRows = 1;       // rows of a tile of attention's sum over values
constexpr int kChannelVectors = 1;  // vectors of channels of that tile

}  // namespace
}  // namespace sparkx::kernels
