// Answers several questions at once with the built-in model: the lower half of the interface, for programs that
// schedule by themselves. One step computes the next token of every sequence; each gets the same bits as alone.
//
// usage: batch QUESTION...
#include <sparkx/sparkx.hpp>

#include <algorithm>
#include <iostream>
#include <string>
#include <vector>

namespace {

constexpr std::size_t kMaxTokens = 400;

struct Conversation {
  sparkx::Sequence sequence;
  sparkx::Sampler sampler;
  std::size_t prompt_length;
  std::vector<sparkx::TokenId> next;  // what the next step appends: first the prompt, then one token
  std::vector<sparkx::TokenId> answer;
  bool finished = false;
};

void answer_all(sparkx::LanguageModel& model, std::vector<Conversation>& conversations) {
  const std::vector<sparkx::TokenId> stop_tokens = model.generation_defaults().stop_tokens;
  for (;;) {
    std::vector<Conversation*> running;
    std::vector<sparkx::BatchItem> items;
    for (Conversation& c : conversations) {
      if (c.finished) continue;
      running.push_back(&c);
      items.push_back({&c.sequence, c.next});
    }
    if (running.empty()) return;

    const auto outputs = model.step(items);
    for (std::size_t i = 0; i < running.size(); ++i) {
      Conversation& c = *running[i];
      if (outputs[i].error) throw sparkx::Error(*outputs[i].error, outputs[i].message);
      const sparkx::TokenId token = c.sampler.sample(outputs[i].logits, c.sequence.tokens(), c.prompt_length).id;
      c.finished = std::find(stop_tokens.begin(), stop_tokens.end(), token) != stop_tokens.end();
      if (!c.finished) c.answer.push_back(token);
      if (c.answer.size() == kMaxTokens) c.finished = true;
      c.next = {token};
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    sparkx::LanguageModel model = sparkx::LanguageModel::builtin();
    const sparkx::SamplingOptions sampling = model.generation_defaults().sampling;
    std::vector<Conversation> conversations;
    for (int i = 1; i < argc; ++i) {
      std::vector<sparkx::TokenId> prompt = model.tokenizer().encode_chat({sparkx::messages_json({{.content = argv[i]}})});
      const std::size_t length = prompt.size();
      conversations.push_back(
          {model.create_sequence(), sparkx::Sampler(sampling, model.info().vocab_size), length, std::move(prompt), {}});
    }
    answer_all(model, conversations);
    for (const Conversation& c : conversations) {
      std::cout << model.tokenizer().decode(c.answer, /*skip_special_tokens=*/true) << '\n';
    }
    return 0;
  } catch (const sparkx::Error& error) {
    std::cerr << "batch: " << error.what() << '\n';
    return 1;
  }
}
