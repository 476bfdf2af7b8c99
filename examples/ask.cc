// Asks a model one question and prints what it says, as it says it.
//
// usage: ask QUESTION [MODEL]      MODEL: a checkpoint folder; without it the built-in model
#include <sparkx/sparkx.hpp>

#include <iostream>

int main(int argc, char** argv) {
  if (argc < 2 || argc > 3) {
    std::cerr << "usage: ask QUESTION [MODEL]\n";
    return 2;
  }
  try {
    sparkx::LanguageModel model = argc == 3 ? sparkx::LanguageModel::load(argv[2]) : sparkx::LanguageModel::builtin();

    // The model's own suggestions for sampling, and where it ends; everything can be changed.
    sparkx::GenerationOptions options = model.generation_defaults();
    options.on_token = [](const sparkx::GeneratedToken& token) {
      std::cout << token.text << std::flush;
      return static_cast<bool>(std::cout);  // false ends the generation
    };

    sparkx::Sequence sequence = model.create_sequence();
    model.generate(sequence, model.tokenizer().encode_chat({sparkx::messages_json({{.content = argv[1]}})}), options);
    std::cout << '\n';
    return 0;
  } catch (const sparkx::Error& error) {
    std::cerr << "ask: " << error.what() << '\n';
    return 1;
  }
}
