// The narrow interface between the engine and whatever computes the model: create, step, truncate and free sequences;
// logits come out. Nothing here speaks of CPUs, blocks or threads, so that another backend can stand in its place.
//
// A Model is used by one thread at a time. Several models may live in one process.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>

#include "sparkx/types.hpp"

namespace sparkx {

using SequenceId = std::int64_t;

// Tokens to append to one sequence. A sequence appears at most once in a step.
struct StepItem {
  SequenceId sequence;
  std::span<const TokenId> tokens;  // at least one, each in [0, vocab_size)
  LogitsWanted logits = LogitsWanted::last;
};

// What a step has to do at the least: bytes to read of the weights, once for each pass over them, and of the keys and
// values that its tokens see, and multiplications with addition.
struct StepWork {
  double bytes = 0;
  double multiply_adds = 0;
};

class Model {
 public:
  virtual ~Model() = default;

  virtual const ModelInfo& info() const = 0;

  // Throws Error{out_of_memory} when there is no room for another sequence.
  virtual SequenceId create_sequence() = 0;
  virtual void free_sequence(SequenceId sequence) = 0;
  virtual std::int64_t length(SequenceId sequence) const = 0;

  // Appends each item's tokens to its sequence. Any mix of sequences and lengths gives each sequence the bits that it
  // gets alone (docs/numerics.md). Throws Error{invalid_argument} only for an unknown or repeated sequence; what goes
  // wrong for one sequence (context full, no cache blocks left, a token outside the vocabulary) is said in its output.
  // The outputs are in the order of the items.
  virtual std::span<const StepOutput> step(std::span<const StepItem> items) = 0;

  // From now on a step may end early when `*cancel` becomes true, which a signal handler may do: then what is not done
  // is Error{cancelled} in the outputs, and a sequence may have got some of its tokens (length() says how many).
  // nullptr: steps are finished again. A backend that cannot leave a step does nothing.
  virtual void cancel_steps_on(const std::atomic<bool>* cancel) { static_cast<void>(cancel); }

  // Shortens a sequence to at most `length` positions and returns what it could keep: less than asked when keys that
  // the sliding window needs are gone; the caller then steps the missing tokens again.
  virtual std::int64_t truncate(SequenceId sequence, std::int64_t length) = 0;

  // For measurements.

  // A sequence that already has `length` positions, their keys and values made up without computing. Throws
  // Error{invalid_argument} for a length outside the context, Error{out_of_memory}.
  virtual SequenceId create_synthetic_sequence(std::int64_t length) = 0;
  // Of a step that these items would make now.
  virtual StepWork work(std::span<const StepItem> items) const = 0;
  // Bytes a second that can be read from memory with the threads and the kind of memory that steps use; 0 where there
  // is not enough of it to measure.
  virtual double read_bandwidth() = 0;
};

}  // namespace sparkx
