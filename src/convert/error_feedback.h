// Rounding the weights of a row one after another, each making up for what rounding has cost the row before (GPTQ: E.
// Frantar et al., 2022). What a row's errors e cost is e·H·eᵀ, H being the sums of products of its inputs; with H =
// LᵀL, L lower triangular, that is the sum over columns j of (Σ_{i <= j} L[j][i]·e[i])². Columns are rounded in order:
// each term is made small by the target weight[j] + Σ_{i < j} L[j][i]·e[i] / L[j][j], and no inverse is needed. The
// columns with the largest inputs come first, when there are most others left to make up for them.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "convert/code_grid.h"
#include "convert/symmetric_matrix.h"
#include "core/aligned_buffer.h"
#include "core/thread_pool.h"

namespace sparkx {

// Part of the mean of H's diagonal that is added to all of it: what the text does not show may matter, too.
inline constexpr float kDamping = 0.01f;

class ErrorFeedback {
 public:
  // `poll` is called now and then, and may throw. The caller is in a ScopedFloatEnvironment. Throws Error{corrupt}
  // where the products are not finite.
  ErrorFeedback(const SymmetricMatrix& products, ThreadPool& threads, const std::function<void()>& poll);

  std::int64_t columns() const { return columns_; }

  // The codes, at most `highest`, of `rows` rows of weights, [rows][columns], which share a grid in each `group`
  // columns: grids [rows][columns / group]. A grid of scale 0 has code 0. From any number of threads, in a
  // ScopedFloatEnvironment.
  void choose_codes(const float* weights, std::int64_t rows, const CodeGrid* grids, std::int64_t group, int highest,
                    std::uint8_t* codes) const;

  // What this takes, and while it is made another half of it.
  static std::uint64_t bytes(std::int64_t columns);

 private:
  static constexpr std::int64_t kBlock = 128;  // columns that are rounded one by one before the others hear of it

  // L of a stretch of columns, rows divided by what they have on the diagonal.
  struct Block {
    std::int64_t size;            // columns
    AlignedBuffer<float> before;  // panels of the rows, with the columns before the block
    AlignedBuffer<float> inside;  // [i][j]: how the error of column i adds to the target of column j > i
  };

  bool factor(const SymmetricMatrix& products, float damping, ThreadPool& threads, const std::function<void()>& poll);

  std::int64_t columns_;
  std::vector<std::int32_t> order_;  // in which columns are rounded
  std::vector<Block> blocks_;
};

}  // namespace sparkx
