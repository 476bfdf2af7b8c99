// sparkx generate: a prompt in, text out as it comes.

#include <fmt/core.h>

#include <chrono>
#include <limits>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "chat_arguments.h"
#include "commands.h"
#include "console.h"
#include "json_text.h"
#include "model_arguments.h"
#include "values.h"

namespace sparkx::cli {
namespace {

constexpr const char* kExamples = R"(Examples:
  sparkx generate -p "53乘以42的结果是多少？"
  sparkx generate -m Spark-X2.5-1.7B -f question.txt -n 512
  git diff | sparkx generate -m DIR --system-prompt "Write a commit message."
  sparkx generate -m DIR -p "Once upon a time" --raw --temp 0.8 --seed 7
  sparkx generate -m DIR -p "Hi" --json --logprobs 3 | jq .text)";

struct GenerateArguments {
  ModelArguments model;
  std::optional<std::string> prompt;
  std::optional<std::string> file;
  std::int64_t max_tokens = -1;
  std::optional<float> temperature;
  std::optional<float> top_p;
  std::optional<std::int64_t> top_k;
  std::optional<float> min_p;
  std::optional<float> repetition_penalty;
  std::optional<std::int64_t> repetition_window;
  std::optional<float> presence_penalty;
  std::optional<float> frequency_penalty;
  std::vector<std::string> logit_bias;
  std::optional<std::string> seed;
  std::vector<std::string> stops;
  bool raw = false;
  std::string system_prompt;
  bool no_thinking = false;
  ChatArguments chat;
  bool hide_thinking = false;
  std::optional<std::int64_t> logprobs;
  bool sampled_logprobs = false;
  bool json = false;
};

std::string check_seed(const std::string& text) {
  return parse_unsigned(text) ? "" : fmt::format("\"{}\" is not a whole number from 0 to 2^64 - 1", text);
}

std::optional<LogitBias> parse_logit_bias(std::string_view text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string_view::npos) return std::nullopt;
  const auto id = parse_whole(text.substr(0, equals));
  const auto bias = parse_float(text.substr(equals + 1));
  if (!id || *id < 0 || *id > std::numeric_limits<TokenId>::max() || !bias) return std::nullopt;
  return LogitBias{static_cast<TokenId>(*id), *bias};
}

std::string check_logit_bias(const std::string& text) {
  return parse_logit_bias(text) ? "" : fmt::format("\"{}\" is not of the form ID=BIAS, such as 42=-1.5", text);
}

void add_options(CLI::App& command, GenerateArguments& a) {
  command.add_option("-p,--prompt", a.prompt, "The prompt")->type_name("TEXT");
  command
      .add_option("-f,--file", a.file, "Read the prompt from a file; without -p and -f it is read from standard input")
      ->type_name("FILE");
  add_model_arguments(command, a.model);
  command
      .add_option("-n,--max-tokens", a.max_tokens,
                  "End after so many tokens; by default, and with -1, when the model ends or the context is full")
      ->transform(whole_number(-1))
      ->type_name("N");

  const char* sampling = "Sampling (defaults: the model's generation_config.json)";
  command.add_option("--temp,--temperature", a.temperature, "Temperature; 0 always takes the most probable token")
      ->transform(number_of(0))
      ->type_name("X")
      ->group(sampling);
  command.add_option("--top-p", a.top_p, "Keep the most probable tokens that have this probability together")
      ->transform(number_within(0, 1))
      ->type_name("X")
      ->group(sampling);
  command.add_option("--top-k", a.top_k, "Keep so many of the most probable tokens; -1 and 0: all")
      ->transform(whole_number(-1))
      ->type_name("N")
      ->group(sampling);
  command.add_option("--min-p", a.min_p, "Keep tokens with at least this share of the largest probability")
      ->transform(number_within(0, 1))
      ->type_name("X")
      ->group(sampling);
  command.add_option("--repetition-penalty", a.repetition_penalty, "Weaken tokens that have occurred; 1: off")
      ->transform(number_above(0))
      ->type_name("X")
      ->group(sampling);
  command.add_option("--repetition-window", a.repetition_window, "… among the last N tokens; 0: all of them")
      ->transform(whole_number(0))
      ->type_name("N")
      ->group(sampling);
  command.add_option("--presence-penalty", a.presence_penalty, "Subtracted from the logits of generated tokens, once")
      ->transform(number())
      ->type_name("X")
      ->group(sampling);
  command.add_option("--frequency-penalty", a.frequency_penalty, "… and for each time they were generated")
      ->transform(number())
      ->type_name("X")
      ->group(sampling);
  command.add_option("--logit-bias", a.logit_bias, "Add BIAS to the logit of token ID; may be given several times")
      ->check(check_logit_bias)
      ->allow_extra_args(false)
      ->type_name("ID=BIAS")
      ->group(sampling);
  command.add_option("--seed", a.seed, "Same seed, same text; by default a random one, which the statistics show")
      ->check(check_seed)
      ->type_name("N")
      ->group(sampling);

  const char* text = "Prompt and text";
  command.add_flag("--raw,--ignore-chat-template", a.raw, "Take the prompt as it is, markers included")->group(text);
  command.add_option("--system-prompt", a.system_prompt, "System message before the prompt")
      ->type_name("TEXT")
      ->group(text);
  command.add_flag("--no-thinking", a.no_thinking, "Ask for the answer without reasoning")->group(text);
  add_chat_arguments(command, a.chat, text);
  command.add_flag("--hide-thinking", a.hide_thinking, "Do not print the reasoning")->group(text);
  command.add_option("--stop", a.stops, "End before this text; may be given several times")
      ->check(not_empty())
      ->allow_extra_args(false)
      ->type_name("TEXT")
      ->group(text);

  const char* output = "Output";
  command.add_flag("--json", a.json, "One JSON object a token, and one at the end")->group(output);
  command.add_option("--logprobs", a.logprobs, "With --json: log-probabilities of the N most probable tokens")
      ->transform(whole_number(0))
      ->type_name("N")
      ->group(output);
  command
      .add_flag("--sampled-logprobs", a.sampled_logprobs,
                "Log-probabilities after temperature and filters, not the model's own")
      ->group(output);
}

void check_combinations(const GenerateArguments& a) {
  if (a.prompt && a.file) throw UsageError{"give the prompt with -p or with -f, not with both"};
  if (!a.prompt && !a.file && input_is_terminal()) {
    throw UsageError{"there is no prompt: give -p TEXT or -f FILE, or pipe it in"};
  }
  if (a.raw && (!a.system_prompt.empty() || a.no_thinking || !a.chat.chat_template.empty() || !a.chat.kwargs.empty() ||
                a.chat.parse_special_content)) {
    throw UsageError{
        "--raw takes the prompt as it is: --system-prompt, --no-thinking, --chat-template, --kwargs and "
        "--parse-special-content need the chat format"};
  }
  if (a.logprobs && !a.json) throw UsageError{"--logprobs are part of the JSON output: give --json, too"};
  if (a.sampled_logprobs && !a.json) {
    throw UsageError{"--sampled-logprobs are part of the JSON output: give --json, too"};
  }
}

// Files and pipes end with a newline that nobody means as part of a message; a raw prompt is taken to the byte.
std::string read_prompt(const GenerateArguments& a) {
  if (a.prompt) return *a.prompt;
  std::string text = a.file ? read_file(*a.file) : read_input();
  if (!a.raw && text.ends_with('\n')) {
    text.pop_back();
    if (text.ends_with('\r')) text.pop_back();
  }
  return text;
}

std::vector<TokenId> encode_prompt(const GenerateArguments& a, const TextTokenizer& tokenizer,
                                   const std::string& prompt, const std::string& tools) {
  if (a.raw) return tokenizer.encode(prompt);
  std::vector<ChatMessage> messages;
  if (!a.system_prompt.empty()) messages.push_back({"system", a.system_prompt});
  messages.push_back({"user", prompt});
  ChatRequest request;
  request.messages = messages_json(messages);
  request.tools = tools;
  if (a.no_thinking) request.enable_thinking = false;
  apply_chat_arguments(a.chat, request);
  return tokenizer.encode_chat(request);
}

std::uint64_t random_seed() {
  std::random_device device;
  return device();  // 32 bits: short enough to type again
}

GenerationOptions generation_options(const GenerateArguments& a, GenerationOptions options) {
  SamplingOptions& s = options.sampling;
  if (a.max_tokens >= 0) options.max_tokens = a.max_tokens;
  s.temperature = a.temperature.value_or(s.temperature);
  s.top_p = a.top_p.value_or(s.top_p);
  s.top_k = a.top_k.value_or(s.top_k);
  s.min_p = a.min_p.value_or(s.min_p);
  s.repetition_penalty = a.repetition_penalty.value_or(s.repetition_penalty);
  s.repetition_window = a.repetition_window.value_or(s.repetition_window);
  s.presence_penalty = a.presence_penalty.value_or(s.presence_penalty);
  s.frequency_penalty = a.frequency_penalty.value_or(s.frequency_penalty);
  for (const std::string& bias : a.logit_bias) s.logit_bias.push_back(*parse_logit_bias(bias));
  s.seed = a.seed ? *parse_unsigned(*a.seed) : random_seed();
  if (a.json) s.logprobs = a.logprobs.value_or(0);
  if (a.sampled_logprobs) s.logprobs_of = LogprobsOf::choice;
  options.stop_strings = a.stops;
  options.cancel = &interrupted();
  return options;
}

double per_second(std::int64_t tokens, double seconds) {
  return seconds > 0 ? static_cast<double>(tokens) / seconds : 0;
}

enum class Reasoning {
  plain,   // as it was generated, with the marker that ends it
  dimmed,  // for a terminal: the answer on a line of its own instead of behind the marker
  hidden,
};

// What is printed of the generated text.
class Printed {
 public:
  Printed(Reasoning reasoning, bool prompt_ended_in_think)
      : reasoning_(reasoning), parser_("", prompt_ended_in_think) {}

  std::string feed(std::string_view text) {
    return reasoning_ == Reasoning::plain ? std::string(text) : shown(parser_.feed(text));
  }
  std::string finish() { return reasoning_ == Reasoning::plain ? std::string() : shown(parser_.finish()); }

 private:
  // Without tools the parser leaves calls in the content, as they were written.
  std::string shown(const std::vector<MessageEvent>& events) {
    std::string text;
    for (const MessageEvent& event : events) {
      if (event.kind == MessageEvent::Kind::reasoning && reasoning_ == Reasoning::dimmed) {
        text += fmt::format("\x1b[2m{}\x1b[0m", event.text);  // whole each time: whatever comes next is not dimmed
        at_line_start_ = event.text.ends_with('\n');
      } else if (event.kind == MessageEvent::Kind::content) {
        if (!std::exchange(at_line_start_, true) && !event.text.starts_with('\n')) text += '\n';
        text += event.text;
      }
    }
    return text;
  }

  Reasoning reasoning_;
  bool at_line_start_ = true;  // or no reasoning has been shown
  MessageParser parser_;
};

std::string token_line(const GeneratedToken& token, std::string_view text, const TextTokenizer& tokenizer) {
  std::string top;
  for (const TokenLogprob& t : token.top_logprobs) {
    const std::string piece = t.id < tokenizer.vocab_size() ? tokenizer.decode(std::span(&t.id, 1)) : std::string();
    top += fmt::format("{}{{\"id\": {}, \"text\": {}, \"logprob\": {}}}", top.empty() ? "" : ", ", t.id,
                       json_string(piece), json_number(t.logprob));
  }
  return fmt::format("{{\"index\": {}, \"id\": {}, \"text\": {}, \"logprob\": {}, \"top_logprobs\": [{}]}}\n",
                     token.index, token.id, json_string(text), json_number(*token.logprob), top);
}

struct Summary {
  const GenerationResult& result;
  std::uint64_t seed;
  double load_seconds;
  const MessageParser& parser;  // has read all of the text
};

std::string summary_line(const Summary& s, const std::string& text) {
  const GenerationTimings& t = s.result.timings;
  const std::int64_t completion = static_cast<std::int64_t>(s.result.tokens.size());
  return fmt::format(
      "{{\"finish_reason\": {}, \"text\": {}, \"message\": {}, \"prompt_tokens\": {}, \"completion_tokens\": {}, "
      "\"seed\": {}, "
      "\"timings\": {{\"load_seconds\": {}, \"prompt_seconds\": {}, \"generation_seconds\": {}, "
      "\"prompt_tokens_per_second\": {}, \"generation_tokens_per_second\": {}}}}}\n",
      json_string(finish_reason_name(s.result.finish_reason)), json_string(text), s.parser.message(),
      s.result.prompt_tokens, completion, s.seed, json_number(s.load_seconds), json_number(t.prompt_seconds),
      json_number(t.generation_seconds), json_number(per_second(s.result.prompt_tokens, t.prompt_seconds)),
      json_number(per_second(completion, t.generation_seconds)));
}

void print_statistics(const Summary& s) {
  const GenerationTimings& t = s.result.timings;
  const std::int64_t completion = static_cast<std::int64_t>(s.result.tokens.size());
  print_line(fmt::format("load: {:.2f} s", s.load_seconds));
  print_line(fmt::format("prompt: {} tokens, {:.1f} tokens/s", s.result.prompt_tokens,
                         per_second(s.result.prompt_tokens, t.prompt_seconds)));
  print_line(fmt::format("generation: {} tokens, {:.1f} tokens/s, {}", completion,
                         per_second(completion, t.generation_seconds), finish_reason_name(s.result.finish_reason)));
  print_line(fmt::format("seed: {}", s.seed));
  if (const std::size_t bytes = s.parser.ignored_bytes()) {
    print_line(fmt::format("ignored inside tool calls: {} bytes", bytes));
  }
  print_line(fmt::format("peak memory: {:.1f} MiB", static_cast<double>(peak_memory_bytes()) / 1048576.0));
}

int generate(const GenerateArguments& a) {
  check_combinations(a);
  const std::string prompt = read_prompt(a);
  const std::string tools = read_tools(a.chat.tools);
  std::vector<TokenId> tokens;
  ModelOptions model_options;
  model_options.on_tokenizer = [&](const TextTokenizer& tokenizer) {
    tokens = encode_prompt(a, tokenizer, prompt, tools);
  };
  const auto start = std::chrono::steady_clock::now();
  LanguageModel model = load_model(a.model, model_options);
  const double load_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const TextTokenizer& tokenizer = model.tokenizer();
  const bool prompt_ended_in_think = !tokens.empty() && tokenizer.find("<think>") == tokens.back();

  GenerationOptions options = generation_options(a, model.generation_defaults());
  const Reasoning reasoning = a.hide_thinking                  ? Reasoning::hidden
                              : !a.json && output_has_colour() ? Reasoning::dimmed
                                                               : Reasoning::plain;
  Printed printed(reasoning, prompt_ended_in_think);
  ProgressBar bar("prompt");
  options.on_prompt = [&](std::int64_t done, std::int64_t total) {
    bar.update(static_cast<std::uint64_t>(done), static_cast<std::uint64_t>(total));
    if (done == total) bar.clear();
  };
  std::string shown;         // all that was printed
  std::size_t streamed = 0;  // bytes of the generated text that came with tokens
  options.on_token = [&](const GeneratedToken& token) {
    streamed += token.text.size();
    const std::string text = printed.feed(token.text);
    shown += text;
    write_output(a.json ? token_line(token, text, tokenizer) : text);
    return true;
  };

  Sequence sequence = model.create_sequence();
  const GenerationResult result = model.generate(sequence, tokens, options);
  bar.clear();
  // Cancelled: text that was held back; and what may have become the marker at the end of the reasoning.
  const std::string rest = printed.feed(std::string_view(result.text).substr(streamed)) + printed.finish();
  shown += rest;
  MessageParser parser(tools, prompt_ended_in_think);
  parser.feed(result.text);
  parser.finish();
  const Summary summary{result, options.sampling.seed, load_seconds, parser};
  write_output(a.json ? summary_line(summary, shown) : rest + "\n");
  const bool cancelled = result.finish_reason == FinishReason::cancelled;
  if (a.model.verbose || cancelled) print_statistics(summary);
  return cancelled ? interrupted_status() : kDone;
}

}  // namespace

void add_generate(CLI::App& app, Run& run) {
  CLI::App* command = app.add_subcommand("generate", "Generate text from a prompt");
  command->footer(kExamples);
  const auto arguments = std::make_shared<GenerateArguments>();
  add_options(*command, *arguments);
  command->callback([&run, arguments] { run = [arguments] { return generate(*arguments); }; });
}

}  // namespace sparkx::cli
