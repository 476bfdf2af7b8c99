// What a render may use. A template is a program from somewhere else: steps, memory, output and nesting are bounded,
// and every loop and every allocation of the interpreter is charged here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>

namespace sparkx::jinja {

// The depth keeps a render inside 2 MiB of stack.
struct Limits {
  std::uint64_t steps = 200'000'000;      // evaluated nodes, loop rounds, 64 bytes of text work
  std::size_t memory_bytes = 1u << 30;    // alive at one time
  std::size_t output_bytes = 256u << 20;  // of the rendered text
  int depth = 2500;                       // nested evaluations: expressions, statements, macro calls, nested values
  std::size_t integer_bits = 1u << 18;    // of one integer
};

// The kinds of failure that Jinja and Python know, as far as somebody can tell them apart.
enum class Fault {
  syntax_error,
  type_error,
  value_error,
  key_error,
  undefined_error,
  runtime_error,
  security_error,
  overflow_error,
  zero_division,
  recursion_error,
  template_error,  // raise_exception
  unsupported,     // a part of Python or Jinja that this interpreter leaves out, by name
  limit,
};

const char* fault_name(Fault fault);  // "TypeError", ...

// Thrown inside the interpreter; Template::render adds the place and throws TemplateError.
struct Failure {
  Fault fault;
  std::string message;
};

class Budget {
 public:
  explicit Budget(const Limits& limits) : limits_(limits), steps_left_(limits.steps) {}

  const Limits& limits() const { return limits_; }

  void step() {
    if (steps_left_ == 0) out_of_steps();
    --steps_left_;
  }
  void work(std::size_t bytes) {
    const std::uint64_t steps = bytes / 64;
    if (steps > steps_left_) out_of_steps();
    steps_left_ -= steps;
  }
  // Throws when `bytes` more than what is alive now would be too much.
  void require(std::size_t bytes) const {
    if (bytes > limits_.memory_bytes || alive_ > limits_.memory_bytes - bytes) out_of_memory();
  }
  void take(std::size_t bytes) {
    require(bytes);
    alive_ += bytes;
  }
  void give_back(std::size_t bytes) { alive_ -= bytes; }

  // One level of nesting, for a scope.
  class Level {
   public:
    explicit Level(Budget& budget) : budget_(budget) {
      if (++budget_.depth_ > budget_.limits_.depth) {
        --budget_.depth_;
        budget_.too_deep();
      }
    }
    ~Level() { --budget_.depth_; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;

   private:
    Budget& budget_;
  };

 private:
  [[noreturn]] void out_of_steps() const;
  [[noreturn]] void out_of_memory() const;
  [[noreturn]] void too_deep() const;

  Limits limits_;
  std::uint64_t steps_left_;
  std::size_t alive_ = 0;
  int depth_ = 0;
};

}  // namespace sparkx::jinja
