// Tile sizes for 32 registers of 16 lanes. Both the native and the emulated 512-bit layer take them from here, so that
// the same instantiations are tested on machines without AVX-512.
#pragma once

namespace sparkx::kernels {
namespace {

constexpr int kTokenTile = 8;       // tokens of a register tile of dot
constexpr int kTileVectors = 24;    // accumulators of a register tile
constexpr int kCodeTokens = 12;     // tokens of a register tile of dot_codes
constexpr int kCodeVectors = 12;    // accumulators of that tile: each needs a register of integers beside it
constexpr int kValueRows = 6;       // rows of a tile of attention's sum over values
constexpr int kChannelVectors = 4;  // vectors of channels of that tile

}  // namespace
}  // namespace sparkx::kernels
