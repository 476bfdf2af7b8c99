// Sums of products of columns, XᵀX: what calibration knows about the inputs of a matrix. Only the lower half is kept,
// in tiles, and the work is done by the float kernels, so that the bits depend neither on threads nor on the processor.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/aligned_buffer.h"
#include "core/thread_pool.h"
#include "kernels/kernels.h"

namespace sparkx {

class SymmetricMatrix {
 public:
  // All zero. Throws Error{out_of_memory}.
  explicit SymmetricMatrix(std::int64_t size);

  std::int64_t size() const { return size_; }
  std::uint64_t bytes() const { return bytes(size_); }
  static std::uint64_t bytes(std::int64_t size);

  float at(std::int64_t i, std::int64_t j) const { return i < j ? tiles_[place(j, i)] : tiles_[place(i, j)]; }
  void set(std::int64_t i, std::int64_t j, float value) { tiles_[i < j ? place(j, i) : place(i, j)] = value; }

  // What add_products works with, kept from call to call.
  struct Scratch {
    AlignedBuffer<float> panels;      // [panel][row of x][16]
    AlignedBuffer<float> transposed;  // [column][rows of x]
  };

  // Adds sign · XᵀX to the first `columns` rows and columns, a multiple of 16 unless it is size(). X has at most 1024
  // rows; each sum is taken over them in order (docs/numerics.md rule 1), then added. The caller is in a
  // ScopedFloatEnvironment.
  void add_products(const kernels::Activations& x, std::int64_t columns, float sign, ThreadPool& threads,
                    Scratch& scratch);

 private:
  static constexpr std::int64_t kTile = 96;  // a whole number of panels, and of any kernel's register tiles

  static std::size_t tile_offset(std::int64_t tile_row, std::int64_t tile_column) {
    return static_cast<std::size_t>((tile_row * (tile_row + 1) / 2 + tile_column) * kTile * kTile);
  }
  static std::size_t place(std::int64_t i, std::int64_t j) {  // j <= i, or both in one tile
    return tile_offset(i / kTile, j / kTile) + static_cast<std::size_t>(i % kTile * kTile + j % kTile);
  }

  std::int64_t size_;
  AlignedBuffer<float> tiles_;
};

}  // namespace sparkx
