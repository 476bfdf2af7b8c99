#include "convert/symmetric_matrix.h"

#include <algorithm>
#include <array>

namespace sparkx {
namespace {

using kernels::kLanes;

std::int64_t divide_up(std::int64_t n, std::int64_t by) {
  return (n + by - 1) / by;
}

void make_room(AlignedBuffer<float>& buffer, std::int64_t floats) {
  if (buffer.size() < static_cast<std::size_t>(floats)) buffer = AlignedBuffer<float>(static_cast<std::size_t>(floats));
}

}  // namespace

SymmetricMatrix::SymmetricMatrix(std::int64_t size) : size_(size), tiles_(tile_offset(divide_up(size, kTile), 0)) {}

std::uint64_t SymmetricMatrix::bytes(std::int64_t size) {
  return tile_offset(divide_up(size, kTile), 0) * sizeof(float);
}

void SymmetricMatrix::add_products(const kernels::Activations& x, std::int64_t columns, float sign, ThreadPool& threads,
                                   Scratch& scratch) {
  const std::int64_t rows = x.tokens, stride = divide_up(rows, kLanes) * kLanes, panels = divide_up(columns, kLanes);
  make_room(scratch.panels, panels * rows * kLanes);
  make_room(scratch.transposed, columns * stride);
  // The columns of X are both the rows of a matrix and the tokens that meet it.
  threads.parallel_for(panels, 4, [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t panel = begin; panel < end; ++panel) {
      const std::int64_t first = panel * kLanes, count = std::min<std::int64_t>(kLanes, columns - first);
      for (std::int64_t r = 0; r < rows; ++r) {
        float* lanes = scratch.panels.data() + (panel * rows + r) * kLanes;
        const float* from = x.values + r * x.stride + first;
        std::fill(std::copy_n(from, count, lanes), lanes + kLanes, 0.0f);
        for (std::int64_t c = 0; c < count; ++c) scratch.transposed[(first + c) * stride + r] = from[c];
      }
      for (std::int64_t c = 0; c < count; ++c) {
        std::fill_n(scratch.transposed.data() + (first + c) * stride + rows, stride - rows, 0.0f);
      }
    }
  });
  const kernels::PanelMatrix matrix{{.kind = kernels::WeightKind::float32},
                                    columns,
                                    rows,
                                    static_cast<std::size_t>(rows * kLanes) * sizeof(float),
                                    std::as_bytes(scratch.panels.span()).data(),
                                    nullptr};
  const kernels::Activations tokens{scratch.transposed.data(), stride, columns};
  const auto dot = kernels::kernel_table().dot[static_cast<int>(kernels::WeightKind::float32)];
  const std::int64_t tile_rows = divide_up(columns, kTile);
  threads.parallel_for(tile_rows * (tile_rows + 1) / 2, 1, [&](std::int64_t begin, std::int64_t end, int) {
    std::int64_t i = 0;
    while ((i + 1) * (i + 2) / 2 <= begin) ++i;
    alignas(64) std::array<float, kTile * kTile> sums;
    for (std::int64_t unit = begin, j = begin - i * (i + 1) / 2; unit < end; ++unit) {
      const std::int64_t first = i * kTile, last = std::min(first + kTile, columns);
      const std::int64_t first_panel = j * (kTile / kLanes);
      dot(matrix, first_panel, std::min(first_panel + kTile / kLanes, panels), tokens, first, last, sums.data(), kTile);
      float* tile = tiles_.data() + tile_offset(i, j);
      const std::int64_t width = std::min(kTile, columns - j * kTile);
      for (std::int64_t r = 0; r < last - first; ++r) {
        for (std::int64_t c = 0; c < width; ++c) tile[r * kTile + c] += sign * sums[r * kTile + c];
      }
      if (++j > i) ++i, j = 0;
    }
  });
}

}  // namespace sparkx
