// What the linear modules of a model read while it runs over a text: for each input the sums of squares of its columns,
// and where they are wanted the sums of products of any two.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "convert/symmetric_matrix.h"
#include "core/progress.h"
#include "core/thread_pool.h"
#include "formats/checkpoint.h"
#include "model/input_observer.h"
#include "sparkx/types.hpp"

namespace sparkx {

struct InputStatistics {
  std::vector<double> squares;                // of each column
  std::unique_ptr<SymmetricMatrix> products;  // null where not wanted
};

// An input, and whether products are wanted.
struct WantedInput {
  LinearInputPlace place;
  std::int64_t columns;
  bool products;

  std::uint64_t bytes() const {
    return static_cast<std::uint64_t>(columns) * sizeof(double) + (products ? SymmetricMatrix::bytes(columns) : 0);
  }
};

// The tokens that the model is run over, in windows that begin anew.
struct CalibrationText {
  std::vector<TokenId> tokens;
  std::int64_t window = 0;
};

// Runs the model, with float32 activations and cache, over the text. The sums are taken in the order of the tokens:
// they depend neither on the threads nor on what else is wanted. `progress` grows by `units` in all. Throws what
// load_model and its steps throw, Error{cancelled}, and Error{corrupt} where an input is not finite.
std::map<LinearInputPlace, InputStatistics> collect_statistics(const Checkpoint& checkpoint,
                                                               const CalibrationText& text,
                                                               std::span<const WantedInput> wanted, ThreadPool& threads,
                                                               Progress& progress, std::uint64_t units);

}  // namespace sparkx
