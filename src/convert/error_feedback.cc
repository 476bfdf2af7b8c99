#include "convert/error_feedback.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "core/error.h"

namespace sparkx {
namespace {

using kernels::kLanes;

constexpr int kAttempts = 6;  // with ten times the damping each

std::int64_t round_up(std::int64_t n, std::int64_t step) {
  return (n + step - 1) / step * step;
}

// A block of H as LᵀL, in place; false when that cannot be.
bool factor_block(std::vector<double>& a, std::int64_t size) {
  for (std::int64_t j = size - 1; j >= 0; --j) {
    double* row = a.data() + j * size;
    if (!(row[j] > 0) || !std::isfinite(row[j])) return false;
    row[j] = std::sqrt(row[j]);
    for (std::int64_t i = 0; i < j; ++i) row[i] /= row[j];
    for (std::int64_t i = 0; i < j; ++i) {
      double* other = a.data() + i * size;
      for (std::int64_t k = 0; k <= i; ++k) other[k] -= row[i] * row[k];
    }
  }
  return true;
}

}  // namespace

ErrorFeedback::ErrorFeedback(const SymmetricMatrix& products, ThreadPool& threads, const std::function<void()>& poll)
    : columns_(products.size()), order_(static_cast<std::size_t>(products.size())) {
  std::iota(order_.begin(), order_.end(), 0);
  std::stable_sort(order_.begin(), order_.end(),
                   [&](std::int32_t a, std::int32_t b) { return products.at(a, a) > products.at(b, b); });
  double trace = 0;
  for (std::int64_t i = 0; i < columns_; ++i) trace += products.at(i, i);
  if (!std::isfinite(trace)) throw_error(ErrorCode::corrupt, "the inputs of calibration are not finite");
  // Inputs that are all zero say nothing: any damping gives plain rounding.
  const auto mean = static_cast<float>(trace > 0 ? trace / static_cast<double>(columns_) : 1);
  float damping = kDamping * mean;
  for (int attempt = 0; attempt < kAttempts; ++attempt, damping *= 10) {
    if (factor(products, damping, threads, poll)) return;
  }
  throw_error(ErrorCode::corrupt, "the inputs of calibration are not finite");
}

bool ErrorFeedback::factor(const SymmetricMatrix& products, float damping, ThreadPool& threads,
                           const std::function<void()>& poll) {
  SymmetricMatrix left(columns_);  // what is left to explain
  threads.parallel_for(columns_, 16, [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t i = begin; i < end; ++i) {
      for (std::int64_t j = 0; j <= i; ++j) left.set(i, j, products.at(order_[i], order_[j]) + (i == j ? damping : 0));
    }
  });
  const std::int64_t count = (columns_ + kBlock - 1) / kBlock;
  blocks_ = std::vector<Block>(static_cast<std::size_t>(count));
  const std::int64_t stride = round_up(std::max<std::int64_t>(columns_, 1), kLanes);
  AlignedBuffer<float> rows(static_cast<std::size_t>(kBlock * stride));  // of L, the columns before the block
  SymmetricMatrix::Scratch scratch;
  std::vector<double> diagonal;
  for (std::int64_t b = count - 1; b >= 0; --b) {
    poll();
    const std::int64_t first = b * kBlock, size = std::min(kBlock, columns_ - first);
    diagonal.assign(static_cast<std::size_t>(size * size), 0);
    for (std::int64_t i = 0; i < size; ++i) {
      for (std::int64_t j = 0; j <= i; ++j) diagonal[i * size + j] = left.at(first + i, first + j);
    }
    if (!factor_block(diagonal, size)) return false;
    Block& block = blocks_[static_cast<std::size_t>(b)];
    block.size = size;
    block.inside = AlignedBuffer<float>(static_cast<std::size_t>(size * kBlock));
    for (std::int64_t j = 0; j < size; ++j) {
      for (std::int64_t i = 0; i < j; ++i) {
        block.inside[i * kBlock + j] = static_cast<float>(diagonal[j * size + i] / diagonal[j * size + j]);
      }
    }
    if (first == 0) break;
    block.before = AlignedBuffer<float>(static_cast<std::size_t>(round_up(size, kLanes) * first));
    // Solves for the rows of L, some columns at a time.
    threads.parallel_for(first / kLanes, 2, [&](std::int64_t begin, std::int64_t end, int) {
      for (std::int64_t c = begin * kLanes; c < end * kLanes; c += kLanes) {
        for (std::int64_t j = size - 1; j >= 0; --j) {
          double sums[kLanes];
          for (int l = 0; l < kLanes; ++l) sums[l] = left.at(first + j, c + l);
          for (std::int64_t k = j + 1; k < size; ++k) {
            const double factor = diagonal[k * size + j];
            const float* known = rows.data() + k * stride + c;
            for (int l = 0; l < kLanes; ++l) sums[l] -= factor * known[l];
          }
          const double pivot = diagonal[j * size + j];
          float* out = rows.data() + j * stride + c;
          for (int l = 0; l < kLanes; ++l) out[l] = static_cast<float>(sums[l] / pivot);
        }
        for (std::int64_t j = 0; j < size; ++j) {
          const auto pivot = static_cast<float>(diagonal[j * size + j]);
          float* lane = block.before.data() + (j / kLanes * first + c) * kLanes + j % kLanes;
          for (int l = 0; l < kLanes; ++l) lane[l * kLanes] = rows[j * stride + c + l] / pivot;
        }
      }
    });
    left.add_products({rows.data(), stride, size}, first, -1, threads, scratch);
  }
  return true;
}

void ErrorFeedback::choose_codes(const float* weights, std::int64_t rows, const CodeGrid* grids, std::int64_t group,
                                 int highest, std::uint8_t* codes) const {
  const std::int64_t stride = round_up(columns_, kLanes), groups = columns_ / group;
  AlignedBuffer<float> errors(static_cast<std::size_t>(rows * stride));  // in the order of rounding
  AlignedBuffer<float> sums(static_cast<std::size_t>(rows * kBlock));
  const auto dot = kernels::kernel_table().dot[static_cast<int>(kernels::WeightKind::float32)];
  for (std::size_t b = 0; b < blocks_.size(); ++b) {
    const Block& block = blocks_[b];
    const std::int64_t first = static_cast<std::int64_t>(b) * kBlock;
    if (first > 0) {
      const kernels::PanelMatrix before{{.kind = kernels::WeightKind::float32},
                                        block.size,
                                        first,
                                        static_cast<std::size_t>(first * kLanes) * sizeof(float),
                                        std::as_bytes(block.before.span()).data(),
                                        nullptr};
      dot(before, 0, before.panel_count(), {errors.data(), stride, rows}, 0, rows, sums.data(), kBlock);
    }
    for (std::int64_t r = 0; r < rows; ++r) {
      float* made_up = sums.data() + r * kBlock;
      for (std::int64_t a = 0; a < block.size; ++a) {
        const std::int64_t column = order_[static_cast<std::size_t>(first + a)];
        const float weight = weights[r * columns_ + column];
        const CodeGrid grid = grids[r * groups + column / group];
        const float code = nearest_code(weight + made_up[a], grid, highest);
        codes[r * columns_ + column] = static_cast<std::uint8_t>(code);
        const float error = weight - (grid.scale * code + grid.offset);
        errors[r * stride + first + a] = error;
        const float* next = block.inside.data() + a * kBlock;
        for (std::int64_t j = a + 1; j < block.size; ++j) made_up[j] += error * next[j];
      }
    }
  }
}

std::uint64_t ErrorFeedback::bytes(std::int64_t columns) {
  return SymmetricMatrix::bytes(columns);
}

}  // namespace sparkx
