// What a conversion knows about the inputs of the matrices that it quantizes (docs/convert.md, Calibrating): from a
// text, over which the model is run when the first matrix of a batch is due, or from an importance matrix of llama.cpp.
// Memory is bounded: the statistics of a batch of inputs are there at a time, and the model only while they are taken.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "convert/error_feedback.h"
#include "convert/input_statistics.h"
#include "core/progress.h"
#include "core/thread_pool.h"
#include "formats/checkpoint.h"
#include "formats/importance_matrix.h"

namespace sparkx {

// How to quantize the rows of one matrix.
struct ColumnWeights {
  // Of each column: the mean square of its input, with kDamping of their mean added. Positive.
  std::vector<float> importance;
  std::unique_ptr<ErrorFeedback> feedback;  // null without a text

  // The codes, at most `highest`, of whole rows of values that share a grid in each `group` columns: with the feedback
  // where there is one, else the nearest. From any number of threads, in a ScopedFloatEnvironment.
  std::vector<std::uint8_t> codes(std::span<const float> values, std::span<const CodeGrid> grids, std::int64_t group,
                                  int highest) const;
};

// The input that a matrix reads; absent for an embedding. One that is the head, too, has to be near its own values as
// well: for those that make the best logits the built-in model is farther away than for plain rounding.
std::optional<LinearInputPlace> input_of(std::string_view tensor);

class Calibration {
 public:
  // `file` is a text or an importance matrix, told by its first bytes. Throws Error{not_found}, Error{io}, what
  // read_importance_matrix throws and, for a text, Error{corrupt} where it is not UTF-8, Error{invalid_argument} where
  // it is of too few tokens, and what reading the tokenizer throws.
  Calibration(const std::filesystem::path& file, const Checkpoint& checkpoint);

  // Says that a matrix is to be quantized by it. False where the file knows nothing about it. Throws Error{corrupt} for
  // an entry of an importance matrix that does not have its columns.
  bool want(const TensorInfo& tensor);
  bool is_wanted() const { return !wanted_.empty(); }

  // Times that the model is run over the text.
  std::int64_t passes() const;
  // For a person: "text.txt, 12345 tokens, in 2 passes".
  std::string description() const;

  // Must be called, in the order of want(), before the rows of a matrix are made; by one thread, in a
  // ScopedFloatEnvironment. Adds passes() · `pass_units` to the progress in all.
  void prepare(const TensorInfo& tensor, ThreadPool& threads, Progress& progress, std::uint64_t pass_units);

  // Gives back what prepare() keeps: for the end of a conversion, so that another begins anew.
  void release();

  // Of the matrix that was prepared last.
  const ColumnWeights& weights() const { return weights_; }

 private:
  const std::vector<float>* importance_of(const TensorInfo& tensor) const;
  // How many of the inputs from `first` on are taken together.
  std::size_t batch_size(std::size_t first) const;

  const Checkpoint& checkpoint_;
  std::string file_;
  std::optional<ImportanceMatrix> matrix_;
  CalibrationText text_;
  std::vector<WantedInput> wanted_;  // each once
  std::map<LinearInputPlace, InputStatistics> batch_;
  std::optional<LinearInputPlace> prepared_;  // what weights_ are of
  ColumnWeights weights_;
};

}  // namespace sparkx
