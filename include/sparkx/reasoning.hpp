// Tells the reasoning of a generated text from the answer, while it comes in (docs/model.md, Chat format).
#pragma once

#include <string>
#include <string_view>

namespace sparkx {

// Reasoning is the text up to the first </think> when the prompt ended in <think> or the text begins with <think>;
// without a </think> all of it is reasoning. The markers belong to neither part; nothing else is changed.
class ReasoningSplitter {
 public:
  struct Parts {
    std::string reasoning;
    std::string answer;
  };

  explicit ReasoningSplitter(bool prompt_ended_in_think)
      : state_(prompt_ended_in_think ? State::inside : State::start) {}

  // The next piece of text, in any cut. Only what may be the beginning of a marker is held back.
  Parts feed(std::string_view text);

  // The text has ended: what was held back.
  Parts finish();

 private:
  enum class State { start, inside, behind };
  State state_;
  std::string held_;
};

}  // namespace sparkx
